/*
 * Owns the grammar of durations: DIGITS[.DIGITS][ms|s|m|h|d].
 *
 * Promises: exact to the millisecond by integer arithmetic; no floating point, no locale, no
 * rounding. Pure: touches nothing but `*duration_ms` on success and `*why` on failure.
 */
#include "cli/duration.h"

#include <stddef.h>
#include <string.h>

static const char not_a_duration[] = "is not a duration such as 90s, 1.5h or 500ms";
static const char not_whole[] = "is not a whole number of milliseconds";
static const char too_long[] = "is longer than 3650d";

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Milliseconds in one `unit`; 0 for a text that is no unit. */
static int64_t unit_ms(const char *unit)
{
    static const struct {
        char name[3];
        int64_t ms;
    } units[] = {{"", 1000},
                 {"ms", 1},
                 {"s", 1000},
                 {"m", 60 * 1000},
                 {"h", 60 * 60 * 1000},
                 {"d", 24 * 60 * 60 * 1000}};

    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(unit, units[i].name) == 0)
            return units[i].ms;
    }
    return 0;
}

/* How many of `text`'s first bytes are digits. */
static size_t count_digits(const char *text)
{
    size_t count = 0;

    while (is_digit(text[count]))
        count++;
    return count;
}

/* The number in `count` digits, or `limit` when it is larger. */
static int64_t read_number(const char *digits, size_t count, int64_t limit)
{
    int64_t number = 0;

    for (size_t i = 0; i < count; i++) {
        number = number * 10 + (digits[i] - '0');
        if (number > limit)
            return limit;
    }
    return number;
}

/*
 * The milliseconds of 0.DIGITS units; false when they are not whole.
 *
 * The largest unit, a day, is 2^10 * 3^3 * 5^5 ms: more than ten decimals cannot come out whole, and
 * with ten of them the product stays below 2^63.
 */
static bool fraction_ms(const char *digits, size_t count, int64_t unit, int64_t *ms)
{
    int64_t divisor = 1;

    while (count > 0 && digits[count - 1] == '0')
        count--;
    if (count > 10)
        return false;
    for (size_t i = 0; i < count; i++)
        divisor *= 10;

    int64_t product = read_number(digits, count, divisor) * unit;

    *ms = product / divisor;
    return product % divisor == 0;
}

bool duration_parse(const char *text, int64_t *duration_ms, const char **why)
{
    size_t whole_digits = count_digits(text);
    bool has_point = text[whole_digits] == '.';
    const char *decimals = text + whole_digits + (has_point ? 1 : 0);
    size_t decimal_count = has_point ? count_digits(decimals) : 0;
    int64_t unit = unit_ms(decimals + decimal_count);

    if (whole_digits + decimal_count == 0 || unit == 0) {
        *why = not_a_duration;
        return false;
    }

    int64_t part = 0;

    if (!fraction_ms(decimals, decimal_count, unit, &part)) {
        *why = not_whole;
        return false;
    }

    /* One more than the longest: larger numbers stop there, far from any overflow. */
    int64_t limit = DURATION_MAX_MS / unit + 1;
    int64_t total = read_number(text, whole_digits, limit) * unit + part;

    if (total > DURATION_MAX_MS) {
        *why = too_long;
        return false;
    }
    *duration_ms = total;
    return true;
}
