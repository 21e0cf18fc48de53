/*
 * src/base/text.c: adding, cutting, and what is escaped on the way to a terminal or into JSON.
 */
#include "base/text.h"

#include "check.h"

static void test_adding(void)
{
    char storage[64];
    struct text text = TEXT_OVER(storage);

    CHECK_STRING(text.at, "", "a new text is empty");
    text_add(&text, "lock:");
    text_add_bytes(&text, "nightly-report", 7);
    text_add_char(&text, '/');
    text_add_int(&text, 42);
    text_addf(&text, " %s %d", "of", 7);
    CHECK_STRING(text.at, "lock:nightly/42 of 7", "parts stand one behind the other");
    CHECK_INT(text.length, 20, "the length is that of the string");
    CHECK(!text.cut, "nothing was cut");
}

static void test_int(int64_t number, const char *expected)
{
    char storage[32];
    struct text text = TEXT_OVER(storage);

    text_add_int(&text, number);
    CHECK_STRING(text.at, expected, "%s as text", expected);
}

static void test_ints(void)
{
    test_int(0, "0");
    test_int(7, "7");
    test_int(-1, "-1");
    test_int(INT64_C(1755868800000000), "1755868800000000");
    test_int(INT64_MAX, "9223372036854775807");
    test_int(INT64_MIN, "-9223372036854775808");
}

/* Around a storage of 8 bytes stands a guard that must stay. */
struct guarded {
    char storage[8];
    char guard[8];
};

static struct text guarded_text(struct guarded *guarded)
{
    memset(guarded, '~', sizeof *guarded);
    return TEXT_OVER(guarded->storage);
}

static void check_guard(const struct guarded *guarded, const char *what)
{
    CHECK(memcmp(guarded->guard, "~~~~~~~~", 8) == 0, "%s: nothing is written past the end", what);
}

static void test_cut(void)
{
    struct guarded guarded;
    struct text text = guarded_text(&guarded);

    text_add(&text, "1234567");
    CHECK(!text.cut, "what fits exactly is not cut");
    text_add(&text, "");
    CHECK(!text.cut, "an empty addition to a full text is not a cut");
    text_add_char(&text, '8');
    CHECK(text.cut, "one byte more is");
    CHECK_STRING(text.at, "1234567", "and is not there");
    check_guard(&guarded, "text_add");

    text = guarded_text(&guarded);
    text_add_bytes(&text, "123456789", 9);
    CHECK_STRING(text.at, "1234567", "a long addition is cut at the end");
    CHECK(text.cut, "and remembered");
    check_guard(&guarded, "text_add_bytes");

    text = guarded_text(&guarded);
    text_add(&text, "abc");
    text_addf(&text, "%d", 123456);
    CHECK_STRING(text.at, "abc1234", "so is a formatted one");
    CHECK_INT(text.length, 7, "with its true length");
    CHECK(text.cut, "and remembered too");
    check_guard(&guarded, "text_addf");

    text = guarded_text(&guarded);
    text_addf(&text, "%s", "1234567");
    CHECK(!text.cut, "a formatted text that fits exactly is not cut");

    text = guarded_text(&guarded);
    text_add_visible(&text, "12345\n7", 7);
    CHECK_STRING(text.at, "12345",
                 "an escape is never torn apart, and what follows does not close up");
    CHECK(text.cut, "a missing escape is a cut");
    check_guard(&guarded, "text_add_visible");

    text = guarded_text(&guarded);
    text_add_json(&text, "123456\xc3\xa9", 8);
    CHECK_STRING(text.at, "123456", "nor is a character");
    CHECK(text.cut, "a missing character is a cut");
    check_guard(&guarded, "text_add_json");
}

static void test_one_byte(void)
{
    char storage[1];
    struct text text = TEXT_OVER(storage);

    text_add(&text, "a");
    text_addf(&text, "b");
    text_add_visible(&text, "c", 1);
    CHECK_STRING(text.at, "", "a storage of one byte holds the NUL");
    CHECK(text.cut, "and nothing else");
}

static void visible(const char *bytes, size_t length, const char *expected, const char *what)
{
    char storage[128];
    struct text text = TEXT_OVER(storage);

    text_add_visible(&text, bytes, length);
    CHECK_STRING(text.at, expected, "visible: %s", what);
}

#define VISIBLE(literal, expected, what) visible(literal, sizeof(literal) - 1, expected, what)

static void test_visible(void)
{
    VISIBLE("", "", "nothing");
    VISIBLE("nightly report", "nightly report", "plain text stays");
    VISIBLE("a\nb\tc\r", "a\\x0ab\\x09c\\x0d", "C0");
    VISIBLE("\x1b[31m", "\\x1b[31m", "an escape sequence");
    VISIBLE("a\0b", "a\\x00b", "NUL");
    VISIBLE("\x7f", "\\x7f", "DEL");
    VISIBLE("a\\b", "a\\x5cb", "a backslash, so that escapes cannot be forged");
    VISIBLE("\xc2\x9b"
            "31m",
            "\\xc2\\x9b31m", "C1 (CSI) as UTF-8");
    VISIBLE("\xe2\x80\xae"
            "gol",
            "\\xe2\\x80\\xaegol", "what turns the direction");
    VISIBLE("\xe2\x80\xa8\xe2\x81\xa6\xd8\x9c", "\\xe2\\x80\\xa8\\xe2\\x81\\xa6\\xd8\\x9c",
            "a line separator, an isolate, a mark");
    VISIBLE("\xef\xbb\xbf\xe2\x80\x8b", "\\xef\\xbb\\xbf\\xe2\\x80\\x8b", "what nobody sees");
    VISIBLE("\xe2\x80\x8d\xe2\x80\x90", "\xe2\x80\x8d\xe2\x80\x90", "a joiner and a hyphen stay");
    VISIBLE("\xc2\x80\xc2\x9f", "\\xc2\\x80\\xc2\\x9f", "the ends of C1");
    VISIBLE("\xc2\xa0", "\xc2\xa0", "the first character behind C1 stays");
    VISIBLE("\x9b", "\\x9b", "C1 as a lone byte");
    VISIBLE("Z\xc3\xbcrich \xe2\x82\xac \xf0\x9f\x94\x92",
            "Z\xc3\xbcrich \xe2\x82\xac \xf0\x9f\x94\x92",
            "UTF-8 of two, three and four bytes stays");
    VISIBLE("\xc3", "\\xc3", "a lead byte at the end");
    VISIBLE("\xc3(", "\\xc3(", "a lead byte without its follower");
    VISIBLE("\xe2\x82", "\\xe2\\x82", "two of three bytes");
    VISIBLE("\xf0\x9f\x94!", "\\xf0\\x9f\\x94!", "three of four bytes");
    VISIBLE("\xa9", "\\xa9", "a follower alone");
    VISIBLE("\xc0\xaf", "\\xc0\\xaf", "overlong, two bytes");
    VISIBLE("\xc1\xbf", "\\xc1\\xbf", "overlong, two bytes, the last");
    VISIBLE("\xe0\x80\xaf", "\\xe0\\x80\\xaf", "overlong, three bytes");
    VISIBLE("\xe0\x9f\xbf", "\\xe0\\x9f\\xbf", "overlong, three bytes, the last");
    VISIBLE("\xe0\xa0\x80", "\xe0\xa0\x80", "the first of three bytes stays");
    VISIBLE("\xf0\x8f\xbf\xbf", "\\xf0\\x8f\\xbf\\xbf", "overlong, four bytes");
    VISIBLE("\xf0\x90\x80\x80", "\xf0\x90\x80\x80", "the first of four bytes stays");
    VISIBLE("\xed\x9f\xbf", "\xed\x9f\xbf", "the last before the surrogates stays");
    VISIBLE("\xed\xa0\x80", "\\xed\\xa0\\x80", "the first surrogate");
    VISIBLE("\xed\xbf\xbf", "\\xed\\xbf\\xbf", "the last surrogate");
    VISIBLE("\xf4\x8f\xbf\xbf", "\xf4\x8f\xbf\xbf", "U+10FFFF stays");
    VISIBLE("\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80", "above U+10FFFF");
    VISIBLE("\xf5\x80\x80\x80\xff", "\\xf5\\x80\\x80\\x80\\xff", "bytes that UTF-8 does not have");
}

static void json(const char *bytes, size_t length, const char *expected, const char *what)
{
    char storage[128];
    struct text text = TEXT_OVER(storage);

    text_add_json(&text, bytes, length);
    CHECK_STRING(text.at, expected, "JSON: %s", what);
}

#define JSON(literal, expected, what) json(literal, sizeof(literal) - 1, expected, what)
#define REPLACED                      "\xef\xbf\xbd"

static void test_json(void)
{
    JSON("nightly", "nightly", "plain text stays");
    JSON("a\"b\\c/", "a\\\"b\\\\c/", "quote and backslash");
    JSON("\b\f\n\r\t", "\\b\\f\\n\\r\\t", "controls with a letter");
    JSON("\x01\x1f", "\\u0001\\u001f", "controls without");
    JSON("a\0b", "a\\u0000b", "NUL");
    JSON("\x7f\xc2\x9b", "\\u007f\\u009b", "DEL and C1");
    JSON("\xe2\x80\xae\xef\xbb\xbf", "\\u202e\\ufeff", "what turns the direction, or is not seen");
    JSON("\xc3\xa9\xf0\x9f\x94\x92", "\xc3\xa9\xf0\x9f\x94\x92", "UTF-8 stays");
    JSON("a\xff"
         "b",
         "a" REPLACED "b", "a bad byte is replaced");
    JSON("\xc0\xaf", REPLACED REPLACED, "overlong");
    JSON("\xed\xa0\x80", REPLACED REPLACED REPLACED, "a surrogate");
    JSON("\xe2\x82", REPLACED REPLACED, "a torn character");
}

static void timestamp(int64_t ms, const char *expected)
{
    char storage[64];
    struct text text = TEXT_OVER(storage);

    text_add_timestamp(&text, ms);
    CHECK_STRING(text.at, expected, "timestamp %s", expected);
}

static void test_timestamp(void)
{
    timestamp(0, "1970-01-01T00:00:00.000Z");
    timestamp(-1, "1970-01-01T00:00:00.000Z");
    timestamp(INT64_C(951782399999), "2000-02-28T23:59:59.999Z");
    timestamp(INT64_C(951782400000), "2000-02-29T00:00:00.000Z");
    timestamp(INT64_C(951868800000), "2000-03-01T00:00:00.000Z");
    timestamp(INT64_C(1709164800007), "2024-02-29T00:00:00.007Z");
    timestamp(INT64_C(1735689599050), "2024-12-31T23:59:59.050Z");
    timestamp(INT64_C(1769824800123), "2026-01-31T02:00:00.123Z");
    timestamp(INT64_C(4107542400000), "2100-03-01T00:00:00.000Z");
    timestamp(INT64_C(253402300799999), "9999-12-31T23:59:59.999Z");
}

static void duration(int64_t ms, const char *expected)
{
    char storage[64];
    struct text text = TEXT_OVER(storage);

    text_add_duration(&text, ms);
    CHECK_STRING(text.at, expected, "%" PRId64 " ms is %s", ms, expected);
}

static void test_duration(void)
{
    duration(-5, "0s");
    duration(0, "0s");
    duration(1, "1ms");
    duration(850, "850ms");
    duration(999, "999ms");
    duration(1000, "1s");
    duration(12999, "12s");
    duration(59999, "59s");
    duration(60000, "1m00s");
    duration(192000, "3m12s");
    duration(3599999, "59m59s");
    duration(3600000, "1h00m");
    duration(7500000, "2h05m");
    duration(86399999, "23h59m");
    duration(86400000, "1d00h");
    duration(INT64_C(356400000), "4d03h");
    duration(INT64_MAX, "106751991167d07h");
}

int main(void)
{
    test_adding();
    test_ints();
    test_cut();
    test_one_byte();
    test_visible();
    test_json();
    test_timestamp();
    test_duration();
    return check_done();
}
