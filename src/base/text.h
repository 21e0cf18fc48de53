/*
 * Small strings in storage of the caller's: no allocation, never an overflow.
 *
 * A text that would not fit is cut and remembers it (`cut`); what is there is always
 * NUL-terminated. Used for keys, messages and events, whose lengths have known bounds.
 */
#ifndef REDISLOCK_BASE_TEXT_H
#define REDISLOCK_BASE_TEXT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct text {
    char *at;        /* storage of the caller's, at least 1 byte */
    size_t length;   /* without the NUL */
    size_t capacity; /* with the NUL */
    bool cut;        /* something did not fit */
};

/* An empty text over a char array. */
#define TEXT_OVER(array) text_over((array), sizeof(array))
struct text text_over(char *storage, size_t capacity);

void text_add(struct text *text, const char *string);
void text_add_bytes(struct text *text, const char *bytes, size_t length);
void text_add_char(struct text *text, char c);
void text_add_int(struct text *text, int64_t number);
void text_addf(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void text_addv(struct text *text, const char *format, va_list arguments)
    __attribute__((format(printf, 2, 0)));

/*
 * Adds `bytes` fit for a terminal or a log: control characters (C0, DEL, C1, those that turn the
 * direction of text, break lines or are not seen), backslashes and bytes that are not valid UTF-8
 * become \xNN.
 */
void text_add_visible(struct text *text, const char *bytes, size_t length);

/*
 * Adds `bytes` as the inside of a JSON string; bytes that are not valid UTF-8 become U+FFFD, and the
 * same control characters \uNNNN.
 */
void text_add_json(struct text *text, const char *bytes, size_t length);

/*
 * What follows `word` where `string` begins with it, else NULL. ASCII letters of either case are the
 * same; unlike strncasecmp(3) no locale is asked, whose tables a plain start need not load.
 */
const char *text_after(const char *string, const char *word);

/* The value of a hexadecimal digit as our own encodings write it (0-9, A-F); -1 for anything else. */
int text_hex_value(char c);

/* Adds milliseconds since the epoch as 2026-01-31T02:00:00.123Z. */
void text_add_timestamp(struct text *text, int64_t wall_ms);

/* Adds a duration the way people read it: 850ms, 12s, 3m12s, 2h05m, 4d03h. Negative counts as 0. */
void text_add_duration(struct text *text, int64_t duration_ms);

#endif
