/*
 * src/cli/duration.c: what is a duration, exactly how long, and what is not.
 */
#include "cli/duration.h"

#include "check.h"

#define NOT_A_DURATION "is not a duration such as 90s, 1.5h or 500ms"
#define NOT_WHOLE      "is not a whole number of milliseconds"
#define TOO_LONG       "is longer than 3650d"

static void accepts(const char *text, int64_t expected_ms)
{
    int64_t ms = -1;
    const char *why = NULL;
    bool good = duration_parse(text, &ms, &why);

    CHECK(good && why == NULL, "'%s' is a duration", text);
    CHECK_INT(ms, expected_ms, "'%s' in milliseconds", text);
}

static void refuses(const char *text, const char *expected_why)
{
    int64_t ms = 4711;
    const char *why = NULL;

    CHECK(!duration_parse(text, &ms, &why), "'%s' is refused", text);
    CHECK_STRING(why, expected_why, "'%s' says why", text);
    CHECK_INT(ms, 4711, "'%s' leaves the output alone", text);
}

static void test_units(void)
{
    accepts("90", 90000);
    accepts("0", 0);
    accepts("0s", 0);
    accepts("500ms", 500);
    accepts("1s", 1000);
    accepts("2m", 120000);
    accepts("3h", 10800000);
    accepts("1d", 86400000);
    accepts("007", 7000);
}

static void test_decimals(void)
{
    accepts("1.5", 1500);
    accepts("0.5s", 500);
    accepts(".5", 500);
    accepts("5.", 5000);
    accepts("1.0ms", 1);
    accepts("0.001", 1);
    accepts("1.5h", 5400000);
    accepts("0.1d", 8640000);
    accepts("0.0000003125d", 27); /* ten decimals, the most that can come out whole */
    accepts("0.50000000000000000000000000000000000000s", 500);
}

static void test_limits(void)
{
    accepts("3650d", DURATION_MAX_MS);
    accepts("315360000", DURATION_MAX_MS);
    accepts("315360000000ms", DURATION_MAX_MS);
    refuses("3650.1d", TOO_LONG);
    refuses("3651d", TOO_LONG);
    refuses("315360000001ms", TOO_LONG);
    refuses("9223372036854775807", TOO_LONG);
    refuses("9223372036854775808", TOO_LONG);
    refuses("9223372036854775808ms", TOO_LONG);
    refuses("18446744073709551617", TOO_LONG);
    refuses("100000000000000000000", TOO_LONG);
    refuses("99999999999999999999999999999999999999999999d", TOO_LONG);
}

static void test_not_whole(void)
{
    refuses("0.0004", NOT_WHOLE);
    refuses("1.5ms", NOT_WHOLE);
    refuses("0.00001m", NOT_WHOLE);
    refuses("0.3333333333333333333333333333333333333333333d", NOT_WHOLE);
    refuses("0.00000000001d", NOT_WHOLE);
    refuses("0.12345678901234567d", NOT_WHOLE);
    refuses("0.99999999999999999999", NOT_WHOLE);
}

static void test_junk(void)
{
    static const char *const junk[] = {
        "",     " ",   "-1",   "+1",  "1e3", "1e20",       "5 m", " 5",   "5 ",   "5\n",  ".",
        ".s",   "s",   "ms",   "m5",  "5x",  "5S",         "5M",  "5sec", "5ss",  "5m5s", "1..5",
        "1.5.", "1,5", "0x10", "inf", "nan", "5\xc2\xb5s", "--",  "1.-5", "1_000"};

    for (size_t i = 0; i < sizeof junk / sizeof junk[0]; i++)
        refuses(junk[i], NOT_A_DURATION);
}

int main(void)
{
    test_units();
    test_decimals();
    test_limits();
    test_not_whole();
    test_junk();
    return check_done();
}
