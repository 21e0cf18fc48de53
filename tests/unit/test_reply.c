/*
 * src/redis/reply.c: which replies are numbers, and which numbers are believed.
 */
#include "redis/reply.h"

#include "check.h"

static struct reply integer(int64_t number)
{
    return (struct reply){.kind = REPLY_INTEGER, .integer = number};
}

static struct reply string(const char *bytes)
{
    return (struct reply){.kind = REPLY_STRING, .bytes = bytes, .length = strlen(bytes)};
}

static void takes(struct reply reply, int64_t expected, const char *what)
{
    int64_t number = 4711;
    CHECK(reply_number(&reply, &number), "%s is a number", what);
    CHECK_INT(number, expected, "%s is what it says", what);
}

static void refuses(struct reply reply, const char *what)
{
    int64_t number = 4711;
    CHECK(!reply_number(&reply, &number), "%s is no number", what);
    CHECK_INT(number, 4711, "%s leaves the number alone", what);
}

/* Sums of a few must not overflow, whatever a server says. */
static void test_limits(void)
{
    takes(integer(REPLY_NUMBER_MAX), INT64_C(9007199254740992), "the largest integer");
    takes(integer(-REPLY_NUMBER_MAX), INT64_C(-9007199254740992), "the smallest integer");
    takes(string("9007199254740992"), INT64_C(9007199254740992), "the largest in digits");
    refuses(integer(REPLY_NUMBER_MAX + 1), "an integer above it");
    refuses(integer(INT64_MAX), "the last integer of all");
    refuses(integer(INT64_MIN), "the first integer of all");
    refuses(string("9007199254740993"), "one more in digits");
    refuses(string("9223372036854775807"), "the last in digits");
    refuses(string("99999999999999999999"), "more than fits");
    refuses(string("-99999999999999999999"), "less than fits");
}

static void test_forms(void)
{
    takes(integer(0), 0, "0");
    takes(string("42"), 42, "42 in digits");
    takes(string("-1"), -1, "-1 in digits");
    refuses(string(""), "the empty string");
    refuses(string("x"), "a letter");
    refuses(string("42x"), "a number with a letter behind");
    refuses((struct reply){.kind = REPLY_STRING, .bytes = "42\0x", .length = 4},
            "a number with a NUL behind");
    refuses((struct reply){.kind = REPLY_STATUS, .bytes = "42", .length = 2}, "a status");
    refuses((struct reply){.kind = REPLY_NIL}, "nil");
    refuses((struct reply){.kind = REPLY_ARRAY}, "an array");
}

/* A string and an integer of a reply do not lend each other their fields. */
static void test_reader(void)
{
    static const char bytes[] = "*2\r\n:7\r\n$1\r\n8\r\n";
    struct reply_reader *reader = reply_reader_open();
    const struct reply *reply = NULL;
    CHECK(reader != NULL && reply_reader_feed(reader, bytes, sizeof(bytes) - 1), "it takes bytes");
    CHECK_INT(reply_reader_next(reader, &reply), REPLY_READER_DONE, "a whole reply");
    CHECK_INT(reply->count, 2, "with both items");
    takes(reply->items[0], 7, "the integer");
    takes(reply->items[1], 8, "the string");
    reply_reader_close(reader);
}

int main(void)
{
    test_limits();
    test_forms();
    test_reader();
    return check_done();
}
