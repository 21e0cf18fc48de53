/*
 * The command line: src/cli/arguments.c and what config.c makes of NAME, COMMAND, -c, -h and -V.
 */
#include "cli/arguments.h"

#include "check.h"
#include "config_fixture.h"

static void test_grammar(void)
{
    CHECK_INT(takes(WORDS("-t30", RUN), NO_WORDS, "")->ttl_ms, 30000, "-t30");
    CHECK_INT(takes(WORDS("-t", "30", RUN), NO_WORDS, "")->ttl_ms, 30000, "-t 30");
    CHECK_INT(takes(WORDS("--ttl=30", RUN), NO_WORDS, "")->ttl_ms, 30000, "--ttl=30");
    CHECK_INT(takes(WORDS("--ttl", "30", RUN), NO_WORDS, "")->ttl_ms, 30000, "--ttl 30");
    CHECK_INT(takes(WORDS("--tt=30", RUN), NO_WORDS, "")->ttl_ms, 30000, "--tt=30");
    CHECK_INT(takes(WORDS("-t1", "-t2", RUN), NO_WORDS, "")->ttl_ms, 2000,
              "the last of two counts");

    const struct config *c = takes(WORDS("-nqvt30", "--", RUN), NO_WORDS, "");

    CHECK(c->quiet && c->verbose && c->ttl_ms == 30000, "-nqvt30 --");
    CHECK_STRING(c->name, "job", "-- ends the options");
    c = takes(WORDS("-qvE", "3", RUN), NO_WORDS, "");
    CHECK(c->quiet && c->verbose && c->conflict_status == 3, "-qvE 3");
    c = takes(WORDS("--", "-x", "true"), NO_WORDS, "");
    CHECK_STRING(c->name, "-x", "-- -x: a NAME that looks like an option");
    c = takes(WORDS("-", "true"), NO_WORDS, "");
    CHECK_STRING(c->name, "-", "a lone - is a NAME");

    refuses(WORDS("-z", RUN), NO_WORDS, "", STATUS_USAGE, "unknown option '-z'" TRY_HELP);
    refuses(WORDS("-qz", RUN), NO_WORDS, "", STATUS_USAGE, "unknown option '-z'" TRY_HELP);
    refuses(WORDS("--sloths=2", RUN), NO_WORDS, "", STATUS_USAGE,
            "unknown option '--sloths'" TRY_HELP);
    refuses(WORDS("--password=hunter2", RUN), NO_WORDS, "", STATUS_USAGE,
            "unknown option '--password'" TRY_HELP);
    refuses(WORDS("--on=x", RUN), NO_WORDS, "", STATUS_USAGE,
            "option '--on' is ambiguous: --on-error or --on-lost" TRY_HELP);
    refuses(WORDS("--quiet=1", RUN), NO_WORDS, "", STATUS_USAGE, "--quiet takes no value" TRY_HELP);
    refuses(WORDS("--ttl"), NO_WORDS, "", STATUS_USAGE, "--ttl needs a value (DUR)" TRY_HELP);
    refuses(WORDS("-qt"), NO_WORDS, "", STATUS_USAGE, "--ttl needs a value (DUR)" TRY_HELP);
    refuses(WORDS("-t", "-1", RUN), NO_WORDS, "", STATUS_USAGE, "--ttl: '-1' is not a duration");
    refuses(WORDS("-t", "x", "-t", "5", RUN), NO_WORDS, "", STATUS_USAGE, "--ttl: 'x' is not");
}

static void check_command(const struct config *c, const char *const *expected, const char *what)
{
    size_t i = 0;

    CHECK_STRING(c->name, "job", "%s: NAME", what);
    for (; expected[i] != NULL && c->command[i] != NULL; i++)
        CHECK_STRING(c->command[i], expected[i], "%s: word %zu", what, i);
    CHECK(expected[i] == NULL && c->command[i] == NULL, "%s: no more and no fewer words", what);
}

static void test_operands(void)
{
    check_command(takes(WORDS("job", "cmd", "-t", "5", "--", "-v", "--help"), NO_WORDS, ""),
                  WORDS("cmd", "-t", "5", "--", "-v", "--help"), "NAME COMMAND untouched");
    check_command(takes(WORDS("job", "--", "cmd", "-c"), NO_WORDS, ""), WORDS("cmd", "-c"),
                  "NAME -- COMMAND");
    check_command(takes(WORDS("job", "--", "-c"), NO_WORDS, ""), WORDS("-c"), "NAME -- -c");
    check_command(takes(WORDS("job", "--", "-c", "x", "y"), NO_WORDS, ""), WORDS("-c", "x", "y"),
                  "NAME -- -c x y");
    check_command(takes(WORDS("job", "--", "--", "x"), NO_WORDS, ""), WORDS("--", "x"),
                  "NAME -- -- x");
    check_command(takes(WORDS("--", "job", "--", "x"), NO_WORDS, ""), WORDS("x"), "-- NAME -- x");
    check_command(takes(WORDS("job", "-n", "x"), NO_WORDS, ""), WORDS("-n", "x"),
                  "options end at NAME");
    check_command(takes(WORDS("job", ""), NO_WORDS, ""), WORDS(""),
                  "an empty COMMAND is left to exec");
    check_command(takes(WORDS("job", "-c", "a | b"), NO_WORDS, ""), WORDS("/bin/sh", "-c", "a | b"),
                  "NAME -c LINE");
    check_command(takes(WORDS("job", "--command", "a"), NO_WORDS, ""), WORDS("/bin/sh", "-c", "a"),
                  "NAME --command LINE");
    check_command(takes(WORDS("job", "--command=a"), NO_WORDS, ""), WORDS("/bin/sh", "-c", "a"),
                  "NAME --command=LINE");
    check_command(takes(WORDS("-c", "a", "job"), NO_WORDS, ""), WORDS("/bin/sh", "-c", "a"),
                  "-c LINE NAME");
    check_command(takes(WORDS("-qca", "job", "--"), NO_WORDS, ""), WORDS("/bin/sh", "-c", "a"),
                  "-qcLINE NAME --");
    check_command(takes(WORDS("job", "-c", ""), NO_WORDS, ""), WORDS("/bin/sh", "-c", ""),
                  "NAME -c ''");
    check_command(takes(WORDS("job", "-c", "-x"), NO_WORDS, ""), WORDS("/bin/sh", "-c", "--", "-x"),
                  "a LINE that looks like an option");
    check_command(takes(WORDS("job", "-c", "+x"), NO_WORDS, ""), WORDS("/bin/sh", "-c", "--", "+x"),
                  "so does +x");

    refuses(NO_WORDS, NO_WORDS, "", STATUS_USAGE, "NAME and COMMAND are missing" TRY_HELP);
    refuses(WORDS("-q"), NO_WORDS, "", STATUS_USAGE, "NAME and COMMAND are missing" TRY_HELP);
    refuses(WORDS("-c", "a"), NO_WORDS, "", STATUS_USAGE, "NAME is missing" TRY_HELP);
    refuses(WORDS("job"), NO_WORDS, "", STATUS_USAGE, "COMMAND is missing" TRY_HELP);
    refuses(WORDS("job", "--"), NO_WORDS, "", STATUS_USAGE, "COMMAND is missing" TRY_HELP);
    refuses(WORDS("job", "-c"), NO_WORDS, "", STATUS_USAGE, "needs a value (LINE)" TRY_HELP);
    refuses(WORDS("job", "-c", "a", "b"), NO_WORDS, "", STATUS_USAGE, "takes one LINE");
    refuses(WORDS("-c", "a", "job", "b"), NO_WORDS, "", STATUS_USAGE,
            "--command and a COMMAND exclude each other" TRY_HELP);
    refuses(WORDS("-c", "a", "job", "-c", "b"), NO_WORDS, "", STATUS_USAGE, "exclude each other");
    refuses(WORDS("-c", "a", "job", "--", "b"), NO_WORDS, "", STATUS_USAGE, "exclude each other");
}

static void test_name(void)
{
    char name[CONFIG_NAME_MAX + 2];

    memset(name, 'n', sizeof name);
    name[CONFIG_NAME_MAX + 1] = '\0';
    refuses(WORDS(name, "true"), NO_WORDS, "", STATUS_USAGE, "NAME is longer than 512 bytes");
    CHECK(strlen(loaded.message) < 200, "a long NAME is not printed");
    name[CONFIG_NAME_MAX] = '\0';
    CHECK_STRING(takes(WORDS(name, "true"), NO_WORDS, "")->name, name, "a NAME of 512 bytes");
    refuses(WORDS("", "true"), NO_WORDS, "", STATUS_USAGE, "NAME is empty");
    CHECK_STRING(takes(WORDS("{a} \n\x1b\xc3\xa9%", "true"), NO_WORDS, "")->name,
                 "{a} \n\x1b\xc3\xa9%", "a NAME of any bytes");
    refuses(WORDS("-t0", "ni\ngh\x1btly", "true"), NO_WORDS, "", STATUS_USAGE,
            "redislock: ni\\x0agh\\x1btly: --ttl: '0' ");
}

static void test_words(void)
{
    load_raw(WORDS("-h"), NO_WORDS);
    CHECK(loaded.status == STATUS_OK && loaded.config.mode == MODE_HELP, "-h alone");
    load_raw(WORDS("--help", "--unknown"), WORDS("REDISLOCK_TTL=x", "REDISLOCK_CONFIG=/nowhere"));
    CHECK(loaded.status == STATUS_OK && loaded.config.mode == MODE_HELP, "--help acts at once");
    load_raw(WORDS("-qV", "-x"), NO_WORDS);
    CHECK(loaded.status == STATUS_OK && loaded.config.mode == MODE_VERSION, "-qV, bundled");
    load_raw(WORDS("--unknown", "-h"), NO_WORDS);
    CHECK_INT(loaded.status, STATUS_USAGE, "an unknown option before -h");
    CHECK_INT(takes(WORDS("job", "cmd", "-h"), NO_WORDS, "")->mode, MODE_RUN, "-h behind NAME");
    CHECK_INT(takes(WORDS(RUN),
                    WORDS("REDISLOCK_HELP=1", "REDISLOCK_VERSION=1", "REDISLOCK_COMMAND=x"), "")
                  ->mode,
              MODE_RUN, "words are not read from the environment");
    CHECK_STRING(loaded.config.command[0], "true", "nor is a command");
}

int main(void)
{
    fixture_begin();
    test_grammar();
    test_operands();
    test_name();
    test_words();
    fixture_end();
    return check_done();
}
