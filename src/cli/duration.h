/*
 * Durations as people write them: a decimal number and a unit. Pure functions.
 */
#ifndef REDISLOCK_CLI_DURATION_H
#define REDISLOCK_CLI_DURATION_H

#include <stdbool.h>
#include <stdint.h>

#define DURATION_INFINITE INT64_MAX

/* The longest duration accepted: 3650 days. Leaves room for sums of several in an int64_t. */
#define DURATION_MAX_MS (INT64_C(3650) * 24 * 60 * 60 * 1000)

/*
 * Parses DIGITS[.DIGITS][ms|s|m|h|d] (seconds without a unit) into whole milliseconds.
 *
 * Exact: a value that is not a whole number of milliseconds (0.0004, 1.5ms) is refused, and so are
 * a sign, an exponent, blanks, an empty text, trailing junk and more than DURATION_MAX_MS.
 * On false `*duration_ms` is untouched and `*why` is a static text such as
 * "is not a duration such as 90s, 1.5h or 500ms".
 */
bool duration_parse(const char *text, int64_t *duration_ms, const char **why);

#endif
