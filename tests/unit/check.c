/*
 * Owns the count of checks and what a unit test prints. Linked into every one of them.
 */
#include "check.h"

#include <stdarg.h>

static struct {
    int count;
    int failed;
} check_state;

/* One line, whatever the text: `#` would begin a TAP directive. */
static void check_print(const char *text)
{
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;

        if (c == '#' || c == '\\' || c < ' ' || c >= 0x7f)
            printf("\\x%02x", c);
        else
            putchar(c);
    }
}

__attribute__((format(printf, 4, 0))) static bool
check_result(bool good, const char *file, int line, const char *format, va_list arguments)
{
    char name[512];

    vsnprintf(name, sizeof name, format, arguments);
    check_state.count++;
    printf("%sok %d - ", good ? "" : "not ", check_state.count);
    check_print(name);
    putchar('\n');
    if (!good) {
        check_state.failed++;
        printf("# at %s:%d\n", file, line);
    }
    return good;
}

bool check_that(bool good, const char *file, int line, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    check_result(good, file, line, format, arguments);
    va_end(arguments);
    return good;
}

bool check_int(int64_t actual, int64_t expected, const char *file, int line, const char *format,
               ...)
{
    bool good = actual == expected;
    va_list arguments;

    va_start(arguments, format);
    if (!check_result(good, file, line, format, arguments))
        printf("# expected %" PRId64 ", got %" PRId64 "\n", expected, actual);
    va_end(arguments);
    return good;
}

void check_note(const char *label, const char *text)
{
    printf("# %s: ", label);
    check_print(text != NULL ? text : "(NULL)");
    putchar('\n');
}

bool check_string(const char *actual, const char *expected, const char *file, int line,
                  const char *format, ...)
{
    bool good =
        actual == NULL || expected == NULL ? actual == expected : strcmp(actual, expected) == 0;
    va_list arguments;

    va_start(arguments, format);
    if (!check_result(good, file, line, format, arguments)) {
        check_note("expected", expected);
        check_note("got", actual);
    }
    va_end(arguments);
    return good;
}

bool check_contains(const char *text, const char *part, const char *file, int line,
                    const char *format, ...)
{
    bool good = strstr(text, part) != NULL;
    va_list arguments;

    va_start(arguments, format);
    if (!check_result(good, file, line, format, arguments)) {
        check_note("expected in it", part);
        check_note("got", text);
    }
    va_end(arguments);
    return good;
}

/* Prints the plan; the exit status of the program. */
int check_done(void)
{
    printf("1..%d\n", check_state.count);
    return check_state.failed == 0 ? 0 : 1;
}
