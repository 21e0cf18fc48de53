/*
 * src/cli/options.c and help.c: the table is sound, every way to a row finds it, and --help shows
 * every row within 80 columns.
 */
#include "cli/options.h"

#include <ctype.h>
#include <stdlib.h>
#include <unistd.h>

#include "check.h"
#include "cli/config.h"

static void test_row(const struct option_row *row)
{
    char variable[OPTION_VARIABLE_MAX];
    const struct option_row *first;
    const struct option_row *other;

    CHECK(row->name[0] != '\0' && row->help[0] != '\0', "row %d has a name and a help",
          (int)option_id(row));
    CHECK(memchr(row->name, '\0', sizeof row->name) != NULL &&
              memchr(row->metavar, '\0', sizeof row->metavar) != NULL &&
              memchr(row->default_value, '\0', sizeof row->default_value) != NULL &&
              memchr(row->help, '\0', sizeof row->help) != NULL,
          "--%s: its texts end inside their arrays", row->name);
    CHECK(option_by_name(row->name, strlen(row->name), &first, &other) == row, "--%s finds its row",
          row->name);
    if (row->letter != '\0')
        CHECK(option_by_letter(row->letter) == row, "-%c finds its row", row->letter);

    option_variable(row, variable);
    CHECK(option_by_variable(variable, strlen(variable)) == row, "%s finds its row", variable);
    for (const char *c = variable; *c != '\0'; c++) {
        if (!isupper((unsigned char)*c) && *c != '_')
            CHECK(false, "%s is made of capitals and underscores", variable);
    }
}

static void test_names(void)
{
    static const char *const child_variables[] = {
        "REDISLOCK_NAME", "REDISLOCK_LOCK_KEY", "REDISLOCK_FENCE", "REDISLOCK_SLOT",
        "REDISLOCK_",     "REDISLOCK",          "REDISLOCK_TT",    "REDISLOCK_TTLS",
        "redislock_ttl",  "REDISLOCK_ttl",      "XREDISLOCK_TTL"};

    for (size_t i = 0; i < sizeof child_variables / sizeof child_variables[0]; i++)
        CHECK(option_by_variable(child_variables[i], strlen(child_variables[i])) == NULL,
              "%s is no option's variable", child_variables[i]);
    CHECK(option_by_letter('\0') == NULL, "a row without a letter has none");
    CHECK(option_by_letter('?') == NULL, "-? is no option");
}

static void abbreviates(const char *part, const char *expected)
{
    const struct option_row *first;
    const struct option_row *other;
    const struct option_row *row = option_by_name(part, strlen(part), &first, &other);

    CHECK_STRING(row != NULL ? row->name : NULL, expected, "--%s stands for %s", part,
                 expected != NULL ? expected : "nothing");
}

static void test_abbreviations(void)
{
    abbreviates("tt", "ttl");
    abbreviates("wait", "wait"); /* in full, though wait-descendants begins so */
    abbreviates("wait-d", "wait-descendants");
    abbreviates("wait-", NULL); /* or wait-replicas */
    abbreviates("quiet", "quiet");
    abbreviates("conn", "connect-timeout");
    abbreviates("on-l", "on-lost");
    abbreviates("on-", NULL);
    abbreviates("con", NULL);
    abbreviates("ttlx", NULL);
    abbreviates("", NULL);
    abbreviates("password", NULL); /* what follows would be a password, not a file */
    abbreviates("password-file", "password-file");
    abbreviates("a-name-that-is-longer-than-any-row-can-be", NULL);
}

/* --help through the real descriptor 1. */
static char *printed_help(void)
{
    static char text[16384];
    FILE *file = tmpfile();
    int saved = dup(STDOUT_FILENO);

    if (file == NULL || saved < 0)
        abort();
    fflush(stdout);
    dup2(fileno(file), STDOUT_FILENO);

    enum exit_status status = config_print_help();

    dup2(saved, STDOUT_FILENO);
    close(saved);
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    CHECK_INT(status, STATUS_OK, "--help is printed");
    return text;
}

static void test_help(void)
{
    char *help = printed_help();
    size_t widest = 0;

    for (const struct option_row *row = option_rows; row < option_rows + OPTION_COUNT; row++) {
        char label[64];

        if (row->flags & VALUE_OPTIONAL)
            snprintf(label, sizeof label, "--%.27s[=%.15s]", row->name, row->metavar);
        else
            snprintf(label, sizeof label, "--%.27s%s%.15s", row->name,
                     option_takes_value(row) ? " " : "", row->metavar);
        CHECK_CONTAINS(help, label, "--help shows %s", label);
        if (row->default_value[0] == '\0')
            continue;
        snprintf(label, sizeof label, "(default %.23s)", row->default_value);
        CHECK_CONTAINS(help, label, "--help shows %s's %s", row->name, label);
    }
    for (const char *line = help; *line != '\0';) {
        size_t width = strcspn(line, "\n");

        widest = width > widest ? width : widest;
        line += width + (line[width] == '\n' ? 1 : 0);
    }
    CHECK(widest <= 80, "--help is %zu columns wide", widest);
    CHECK(strstr(help, " \n") == NULL && strchr(help, '\t') == NULL, "without stray blanks");
    CHECK_CONTAINS(help, "man redislock", "--help names the man page");
}

int main(void)
{
    for (size_t i = 0; i < OPTION_COUNT; i++)
        test_row(&option_rows[i]);
    test_names();
    test_abbreviations();
    test_help();
    return check_done();
}
