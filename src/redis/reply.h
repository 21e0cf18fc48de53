/*
 * A server's reply as the rooms above see it, and the reader that makes it from bytes.
 *
 * hiredis does the parsing; the nodes are ours, in memory that is bounded: a hostile server can
 * make a reply fail, but not make us allocate without limit.
 */
#ifndef REDISLOCK_REDIS_REPLY_H
#define REDISLOCK_REDIS_REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum reply_kind {
    REPLY_NIL,
    REPLY_STATUS, /* +OK */
    REPLY_ERROR,  /* -ERR … */
    REPLY_INTEGER,
    REPLY_STRING,
    REPLY_ARRAY
};

struct reply {
    enum reply_kind kind;
    int64_t integer;     /* INTEGER */
    const char *bytes;   /* STATUS, ERROR, STRING: NUL-terminated, may hold NULs of its own */
    size_t length;       /* of bytes */
    struct reply *items; /* ARRAY: count of them */
    size_t count;
};

/* Whether `reply` is a string or status with exactly these characters. */
bool reply_is(const struct reply *reply, const char *text);

/*
 * The number in an INTEGER or in a STRING of digits. false: neither, or beyond REPLY_NUMBER_MAX;
 * `*number` untouched.
 */
#define REPLY_NUMBER_MAX                                                                           \
    (INT64_C(1) << 53) /* scripts count no further; sums of a few never overflow */
bool reply_number(const struct reply *reply, int64_t *number);

struct reply_reader;

/* NULL: no memory. */
struct reply_reader *reply_reader_open(void);
void reply_reader_close(struct reply_reader *reader);

/* Frees every reply handed out so far. */
void reply_reader_reset(struct reply_reader *reader);

/* Takes bytes as they come. false: more than a reply may have; the stream is unusable. */
bool reply_reader_feed(struct reply_reader *reader, const char *bytes, size_t length);

enum reply_reader_result { REPLY_READER_DONE, REPLY_READER_MORE, REPLY_READER_BROKEN };

/*
 * The next whole reply. DONE: `*reply` lives until reply_reader_reset. MORE: feed again.
 * BROKEN: the bytes are no RESP2, or the reply is too large; the stream is unusable.
 */
enum reply_reader_result reply_reader_next(struct reply_reader *reader, const struct reply **reply);

#endif
