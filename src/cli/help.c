/*
 * Owns --help and --version: all that redislock itself writes to stdout. The options come from the
 * table; lines are at most 80 columns wide.
 */
#include "cli/config.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/options.h"

#define COLUMNS     80
#define HELP_COLUMN 26

static const char *const group_titles[GROUP_COUNT] = {
    [GROUP_SERVER] = "The server",   [GROUP_LOCK] = "The lock",
    [GROUP_COMMAND] = "The command", [GROUP_MESSAGES] = "Messages",
    [GROUP_SCRIPTS] = "For scripts", [GROUP_OPERATORS] = "For operators",
    [GROUP_OTHER] = "Other options",
};

static const char introduction[] =
    "Usage: redislock [OPTION]... NAME [--] COMMAND [ARG]...\n"
    "       redislock [OPTION]... NAME -c 'SHELL LINE'\n"
    "       redislock --attach[=PID] NAME\n"
    "       redislock --acquire|--extend|--release|--check NAME [TOKEN]\n"
    "       redislock --status NAME... | --list [GLOB] | --unlock NAME | --doctor\n"
    "\n"
    "Run COMMAND while holding the lock NAME in Redis, so that of many hosts that\n"
    "fire the same job one does the work.\n"
    "\n"
    "DUR is a number with ms, s (default), m, h or d: 90, 1.5h, 500ms.\n";

static const char closing[] =
    "\n"
    "Exit status: the command's own, 128+N if signal N ended it, and\n"
    "  64   bad command line\n"
    "  69   no working Redis\n"
    "  70   a bug\n"
    "  71   the operating system refused\n"
    "  75   the lock is held, or the wait is over (-E changes it)\n"
    "  76   a reply without sense, or the key is not a lock\n"
    "  77   authentication or permission refused\n"
    "  78   bad value in the environment or a file\n"
    "  79   the lock was lost and the command stopped for it\n"
    "  124  --max-runtime was reached\n"
    "  126  COMMAND cannot be executed\n"
    "  127  COMMAND was not found\n"
    "\n"
    "The options for the server, the lock, the command (but for -c) and messages can\n"
    "be set as REDISLOCK_<OPTION>, such as REDISLOCK_CONNECT_TIMEOUT=5s, in the\n"
    "environment or as a line in " REDISLOCK_CONFIG_FILE "; so can --config in the\n"
    "environment. Flags take 1, 0, yes or no there.\n"
    "REDIS_URL and REDISCLI_AUTH are read where nothing else says it.\n"
    "\n"
    "Examples:\n"
    "  redislock nightly-report -- ./report.sh\n"
    "  redislock -w 5m -t 30s deploy ./deploy.sh\n"
    "  redislock --min-hold 1m backup -c 'pg_dump shop | gzip > /backup/shop.gz'\n"
    "\n"
    "Full documentation: man redislock\n";

static void add_spaces(struct text *out, size_t count)
{
    while (count-- > 0)
        text_add_char(out, ' ');
}

/* Stands for a blank at which a line is not broken. */
#define STICKY '\t'

static void add_word(struct text *out, const char *word, size_t length)
{
    for (size_t i = 0; i < length; i++)
        text_add_char(out, word[i] == STICKY ? ' ' : word[i]);
}

/* Adds `words` from the help column on, broken between words. */
static void add_wrapped(struct text *out, const char *words)
{
    size_t column = HELP_COLUMN;

    while (*words != '\0') {
        size_t length = strcspn(words, " ");
        bool first = column == HELP_COLUMN;

        if (!first && column + 1 + length > COLUMNS) {
            text_add_char(out, '\n');
            add_spaces(out, HELP_COLUMN);
            column = HELP_COLUMN;
        } else if (!first) {
            text_add_char(out, ' ');
            column++;
        }
        add_word(out, words, length);
        column += length;
        words += length + (words[length] == ' ' ? 1 : 0);
    }
    text_add_char(out, '\n');
}

static void add_option(struct text *out, const struct option_row *row)
{
    char words_storage[256];
    struct text words = TEXT_OVER(words_storage);
    size_t start = out->length;

    if (row->letter != '\0')
        text_addf(out, "  -%c, --%s", row->letter, row->name);
    else
        text_addf(out, "      --%s", row->name);
    if (row->flags & VALUE_OPTIONAL)
        text_addf(out, "[=%s]", row->metavar);
    else if (option_takes_value(row))
        text_addf(out, " %s", row->metavar);

    size_t width = out->length - start;

    if (width + 2 > HELP_COLUMN) {
        text_add_char(out, '\n');
        width = 0;
    }
    add_spaces(out, HELP_COLUMN - width);
    text_add(&words, row->help);
    if (row->default_value[0] != '\0')
        text_addf(&words, " (default%c%s)", STICKY, row->default_value);
    add_wrapped(out, words.at);
}

static void add_options(struct text *out)
{
    int group = -1;

    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const struct option_row *row = &option_rows[i];

        if (row->group != group) {
            group = row->group;
            text_addf(out, "\n%s:\n", group_titles[group]);
        }
        add_option(out, row);
    }
}

/* One write; more only where the other end takes it in pieces. */
static enum exit_status write_out(const struct text *out)
{
    const char *at = out->at;
    size_t left = out->length;

    if (out->cut) {
        log_error("a text for stdout does not fit its storage");
        return STATUS_BUG;
    }
    while (left > 0) {
        ssize_t written = write(STDOUT_FILENO, at, left);

        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0) {
            log_error("cannot write to stdout: %s", strerror(errno));
            return STATUS_OS;
        }
        at += written;
        left -= (size_t)written;
    }
    return STATUS_OK;
}

enum exit_status config_print_help(void)
{
    char storage[8192];
    struct text out = TEXT_OVER(storage);

    text_add(&out, introduction);
    add_options(&out);
    text_add(&out, closing);
    return write_out(&out);
}

enum exit_status config_print_version(void)
{
    char storage[128];
    struct text out = TEXT_OVER(storage);

    text_add(&out, "redislock " REDISLOCK_VERSION "\n");
    return write_out(&out);
}
