/*
 * Owns the meaning of values: text in, a checked field of struct config out. One small function
 * per kind of value, and the one message that all of them share.
 *
 * Promises that a refused value leaves its field as it was, and that no message shows a password.
 */
#include "cli/setting.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/text.h"
#include "cli/duration.h"
#include "cli/server_list.h"
#include "cli/signal_name.h"
#include "cli/url.h"

#define PREFIX_MAX 128

static void add_origin(struct text *text, const struct setting *setting)
{
    char variable[OPTION_VARIABLE_MAX];

    if (setting->from.source == SOURCE_COMMAND_LINE) {
        text_add(text, "--");
        text_add(text, setting->row->name);
        return;
    }
    if (setting->from.source == SOURCE_FALLBACK) { /* the only one that comes as a setting */
        text_add(text, "REDIS_URL");
        return;
    }
    if (setting->from.source == SOURCE_FILE) {
        text_add(text, setting->from.file);
        text_add_char(text, ':');
        text_add_int(text, setting->from.line);
        text_add(text, ": ");
    }
    option_variable(setting->row, variable);
    text_add(text, variable);
}

enum exit_status setting_refuse(const struct setting *setting, const char *shown, const char *why)
{
    char storage[512];
    struct text origin = TEXT_OVER(storage);

    add_origin(&origin, setting);
    if (shown != NULL)
        log_error("%s: '%.200s' %s", origin.at, shown, why);
    else
        log_error("%s: %s", origin.at, why);
    return setting->from.source == SOURCE_COMMAND_LINE ? STATUS_USAGE : STATUS_CONFIG;
}

void setting_add_origin(struct text *text, enum option_id id, const struct config_origin *from)
{
    char variable[OPTION_VARIABLE_MAX];

    option_variable(&option_rows[id], variable);
    if (from->source == SOURCE_FILE)
        text_addf(text, "; %s is set in %s:%d", variable, from->file, from->line);
    else if (from->source == SOURCE_ENVIRONMENT || from->source == SOURCE_FALLBACK)
        text_addf(text, "; %s is set in the environment",
                  from->source == SOURCE_FALLBACK ? "REDIS_URL" : variable);
}

enum exit_status setting_refuse_pair(const struct config_origin *given, enum option_id one,
                                     enum option_id other, const char *why)
{
    char storage[512];
    struct text message = TEXT_OVER(storage);
    bool by_command_line =
        given[one].source == SOURCE_COMMAND_LINE || given[other].source == SOURCE_COMMAND_LINE;

    text_add(&message, why);
    setting_add_origin(&message, one, &given[one]);
    if (other != one)
        setting_add_origin(&message, other, &given[other]);
    log_error("%s", message.at);
    return by_command_line ? STATUS_USAGE : STATUS_CONFIG;
}

/* The field of a row; its type follows from the row's kind. */
static void *field_of(struct config *config, const struct option_row *row)
{
    return (char *)config + row->offset;
}

static bool fail(const char **why, const char *text)
{
    *why = text;
    return false;
}

/* A flag's word: bare on the command line, else 1, yes, 0 or no. */
static bool read_flag(const char *value, bool *on, const char **why)
{
    if (value == NULL || strcmp(value, "1") == 0 || strcmp(value, "yes") == 0)
        *on = true;
    else if (strcmp(value, "0") == 0 || strcmp(value, "no") == 0)
        *on = false;
    else
        return fail(why, "is not 1, 0, yes or no");
    return true;
}

static bool store_flag(bool *field, const char *value, bool inverted, const char **why)
{
    bool on;

    if (!read_flag(value, &on, why))
        return false;
    *field = on != inverted;
    return true;
}

/* A flag that is off says nothing about the field, which belongs to another option. */
static bool store_no_wait(int64_t *field, const char *value, const char **why)
{
    bool on;

    if (!read_flag(value, &on, why))
        return false;
    if (on)
        *field = 0;
    return true;
}

static bool store_no_flag(bool *field, const char *value, const char **why)
{
    bool on;

    if (!read_flag(value, &on, why))
        return false;
    if (on)
        *field = false;
    return true;
}

static bool store_duration(int64_t *field, const struct option_row *row, const char *value,
                           const char **why)
{
    int64_t parsed;

    if (row->kind == KIND_WAIT && strcmp(value, "inf") == 0) {
        *field = DURATION_INFINITE;
        return true;
    }
    if (!duration_parse(value, &parsed, why))
        return false;
    if (parsed < row->least)
        return fail(why, "is too short: it must be longer than 0");
    *field = parsed;
    return true;
}

/* Decimal digits alone; -1 for anything else or more than `most`. */
static int32_t read_decimal(const char *value, int32_t most)
{
    int64_t number = 0;

    for (const char *c = value; *c != '\0'; c++) {
        if (*c < '0' || *c > '9')
            return -1;
        number = number * 10 + (*c - '0');
        if (number > most)
            return -1;
    }
    return value[0] != '\0' ? (int32_t)number : -1;
}

static bool store_number(int *field, const struct option_row *row, const char *value,
                         struct text *detail, const char **why)
{
    int32_t number = read_decimal(value, row->most);

    if (number < row->least) {
        text_addf(detail, "is not a number from %d to %d", (int)row->least, (int)row->most);
        return fail(why, detail->at);
    }
    *field = number;
    return true;
}

/* The words stand in the metavar, kill|warn, in the order of the enum's constants. */
static bool store_choice(void *field, const struct option_row *row, const char *value,
                         struct text *detail, const char **why)
{
    size_t length = strlen(value);
    const char *word = row->metavar;

    for (int position = 0;; position++) {
        size_t word_length = (size_t)(strchrnul(word, '|') - word);

        if (length == word_length && memcmp(word, value, length) == 0) {
            memcpy(field, &position, sizeof position);
            return true;
        }
        if (word[word_length] == '\0')
            break;
        word += word_length + 1;
    }
    text_addf(detail, "is not one of %s", row->metavar);
    return fail(why, detail->at);
}

static bool store_signal(int *field, const char *value, const char **why)
{
    int number;

    if (!signal_parse(value, &number))
        return fail(why, "is not a signal such as TERM, SIGINT or 15");
    if (number == SIGSTOP)
        return fail(why, "is a signal that stops a command without ending it");
    *field = number;
    return true;
}

static bool store_descriptor(int *field, const char *value, const char **why)
{
    int32_t fd = read_decimal(value, INT32_MAX);
    int flags = fd >= 0 ? fcntl(fd, F_GETFL) : -1;

    if (fd < 0)
        return fail(why, "is not the number of a descriptor");
    if (flags < 0)
        return fail(why, "is not an open descriptor");
    if ((flags & O_ACCMODE) == O_RDONLY)
        return fail(why, "is a descriptor that cannot be written");
    *field = fd;
    return true;
}

static bool store_prefix(const char **field, const char *value, const char **why)
{
    if (strlen(value) > PREFIX_MAX)
        return fail(why, "is longer than 128 bytes");
    for (const char *c = value; *c != '\0'; c++) {
        if ((unsigned char)*c <= ' ' || strchr("{}\x7f", *c) != NULL)
            return fail(why, "holds a brace, a blank or a control byte");
    }
    *field = value;
    return true;
}

static bool store_path(const char **field, const char *value, const char **why)
{
    if (value[0] == '\0')
        return fail(why, "is not the path of a file");
    *field = value;
    return true;
}

/* A file or folder that is read later, but whose absence should be known now. */
static bool store_readable(const char **field, const char *value, struct text *detail,
                           const char **why)
{
    if (access(value, R_OK) != 0) {
        text_add(detail, "cannot be read: ");
        text_add(detail, strerror(errno));
        return fail(why, detail->at);
    }
    *field = value;
    return true;
}

static bool store_host(const char **field, const char *value, const char **why)
{
    if (value[0] == '\0' || strlen(value) > URL_HOST_MAX || strpbrk(value, " \t/:@") != NULL)
        return fail(why, "is not the name of a host");
    *field = value;
    return true;
}

/* A colon would be curl's habit of USER:PASSWORD: refused unseen. */
static enum exit_status store_user(const char **field, const struct setting *setting)
{
    if (strchr(setting->value, ':') != NULL)
        return setting_refuse(
            setting, NULL, "takes a user without a colon; the password comes by --password-file");
    if (setting->value[0] == '\0' || strlen(setting->value) > URL_USER_MAX)
        return setting_refuse(setting, setting->value, "is not a user of 1 to 255 bytes");
    *field = setting->value;
    return STATUS_OK;
}

/* The kinds whose value may be shown as it is. */
static bool store_plain(void *field, const struct option_row *row, const char *value,
                        struct text *detail, const char **why)
{
    switch ((enum option_kind)row->kind) {
    case KIND_FLAG:
    case KIND_FLAG_OFF:
        return store_flag(field, value, row->kind == KIND_FLAG_OFF, why);
    case KIND_NO_WAIT:
        return store_no_wait(field, value, why);
    case KIND_NO_FLAG:
        return store_no_flag(field, value, why);
    case KIND_DURATION:
    case KIND_WAIT:
        return store_duration(field, row, value, why);
    case KIND_NUMBER:
        return store_number(field, row, value, detail, why);
    case KIND_CHOICE:
        return store_choice(field, row, value, detail, why);
    case KIND_SIGNAL:
        return store_signal(field, value, why);
    case KIND_DESCRIPTOR:
        return store_descriptor(field, value, why);
    case KIND_PREFIX:
        return store_prefix(field, value, why);
    case KIND_FILE:
        return store_readable(field, value, detail, why);
    case KIND_HOST:
        return store_host(field, value, why);
    case KIND_PASSWORD_FILE:
        return store_path(field, value, why);
    case KIND_WORD:
    case KIND_USER:
    case KIND_URL:
        break;
    }
    return true;
}

enum exit_status setting_store(struct config *config, const struct setting *setting)
{
    const struct option_row *row = setting->row;
    char storage[128];
    struct text detail = TEXT_OVER(storage);
    const char *why = NULL;

    if (row->kind == KIND_URL)
        return server_list_store(config, setting);
    if (row->kind == KIND_USER)
        return store_user(field_of(config, row), setting);
    if (!store_plain(field_of(config, row), row, setting->value, &detail, &why))
        return setting_refuse(setting, setting->value, why);
    return STATUS_OK;
}
