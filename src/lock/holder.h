/*
 * Who holds a lock: what we write into the lock's value, and what we read out of anybody's.
 *
 * The value is one line without blanks, its fields percent-encoded and joined by colons:
 *
 *     redislock1:TOKEN:FENCE:KIND:START:TTL:HOST:BOOT:PID:USER:COMMAND
 *
 * KIND is a word, with the number of the slot behind it where there is one. FENCE, KIND and START (milliseconds since the epoch, server's clock) are put in by the script
 * that sets the value, the rest comes from here as a head and a tail. A value of any other form
 * belongs to another program: held, holder unknown.
 */
#ifndef REDISLOCK_LOCK_HOLDER_H
#define REDISLOCK_LOCK_HOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/text.h"
#include "base/token.h"

#define HOLDER_VALUE_MAX 1024 /* bytes of a value of ours; more is foreign */
#define HOLDER_FIELD_MAX 255
#define HOLDER_SLOTS_MAX 64 /* of -S */

enum holder_kind {
    HOLDER_FOREIGN, /* not our value */
    HOLDER_HELD,    /* exclusively */
    HOLDER_SHARED,
    HOLDER_SLOT,    /* one of N places: `slot` */
    HOLDER_GRANTED, /* handed to a waiter that has yet to claim it */
    HOLDER_RESIDUE  /* nobody runs; a minimum hold has not passed */
};

struct holder {
    enum holder_kind kind;
    int slot;                     /* 1..N of a slot, granted or a residue too; else 0 */
    char token[TOKEN_LENGTH + 1]; /* "" for a residue */
    int64_t fence;
    int64_t start_ms; /* since the epoch, server's clock */
    int64_t ttl_ms;
    int64_t pid;
    char host[HOLDER_FIELD_MAX + 1];
    char boot[HOLDER_FIELD_MAX + 1];
    char user[HOLDER_FIELD_MAX + 1];
    char command[HOLDER_FIELD_MAX + 1];
};

/* Reads a value; anything that is not exactly of our form is HOLDER_FOREIGN, the rest empty. */
void holder_parse(const char *value, size_t length, struct holder *holder);

/* Adds "redislock1:TOKEN:". */
void holder_add_head(struct text *text, const char *token);

/* Adds "TTL:HOST:BOOT:PID:USER:COMMAND" for a process of this host and user. */
void holder_add_tail(struct text *text, int64_t ttl_ms, pid_t pid, const char *command);

/* Adds `value` with another fence. */
void holder_add_with_fence(struct text *text, const struct text *value, int64_t fence);

/* Adds the value that stays behind for the rest of a minimum hold: `holder` without its token. */
void holder_add_residue(struct text *text, const struct holder *holder);

#endif
