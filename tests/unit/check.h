/*
 * A unit test is a program: it calls CHECK… for every single thing that must hold, ends with
 * `return check_done();`, and so prints TAP: `ok N - name` or `not ok N - name`, the plan last.
 * What was expected and what came stands in `#` lines below a failure.
 */
#ifndef REDISLOCK_TESTS_UNIT_CHECK_H
#define REDISLOCK_TESTS_UNIT_CHECK_H

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* CHECK(condition, "name with %s", …) */
#define CHECK(condition, ...) check_that((condition), __FILE__, __LINE__, __VA_ARGS__)
/* CHECK_INT(actual, expected, "name", …): whole numbers, bools, enums */
#define CHECK_INT(actual, expected, ...)                                                           \
    check_int((int64_t)(actual), (int64_t)(expected), __FILE__, __LINE__, __VA_ARGS__)
/* CHECK_STRING(actual, expected, "name", …): NULL is allowed, and equal to NULL alone */
#define CHECK_STRING(actual, expected, ...)                                                        \
    check_string((actual), (expected), __FILE__, __LINE__, __VA_ARGS__)
/* CHECK_CONTAINS(text, part, "name", …) */
#define CHECK_CONTAINS(text, part, ...)                                                            \
    check_contains((text), (part), __FILE__, __LINE__, __VA_ARGS__)

/* Each returns whether it held. */
bool check_that(bool good, const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
bool check_int(int64_t actual, int64_t expected, const char *file, int line, const char *format,
               ...) __attribute__((format(printf, 5, 6)));
bool check_string(const char *actual, const char *expected, const char *file, int line,
                  const char *format, ...) __attribute__((format(printf, 5, 6)));
bool check_contains(const char *text, const char *part, const char *file, int line,
                    const char *format, ...) __attribute__((format(printf, 5, 6)));

/* One more `#` line: `label: text`, with NULL as (NULL). */
void check_note(const char *label, const char *text);

/* Prints the plan; returns the exit status of the program. */
int check_done(void);

#endif
