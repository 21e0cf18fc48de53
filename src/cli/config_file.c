/*
 * Owns the grammar of the configuration file. Reads only; cuts its own buffer into strings.
 * Promises that no message shows a value.
 */
#include "cli/config_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/text.h"
#include "cli/read_file.h"

/* what some editors put in front of UTF-8 */
#define BYTE_ORDER_MARK "\xef\xbb\xbf"

static enum exit_status refuse_file(const char *path, const char *why)
{
    log_error("%s: cannot be used as a configuration file: %s", path, why);
    return STATUS_CONFIG;
}

/* Reads `path` into `buffer`, CONFIG_FILE_MAX + 1 bytes and a NUL. -1: refused, with its line. */
static ssize_t read_text(const char *path, bool must_exist, char *buffer)
{
    ssize_t length = read_file(path, buffer, CONFIG_FILE_MAX + 1);

    if (length < 0 && !must_exist && errno == ENOENT)
        return 0;
    if (length < 0) {
        refuse_file(path, strerror(errno));
        return -1;
    }
    if (length > CONFIG_FILE_MAX) {
        refuse_file(path, "it is larger than 64 KiB");
        return -1;
    }
    if (memchr(buffer, '\0', (size_t)length) != NULL) {
        refuse_file(path, "it holds a NUL byte");
        return -1;
    }
    return length;
}

/* Memory only for a file that is there: a start without one pays for a single failed access. */
static bool is_missing(const char *path)
{
    return access(path, F_OK) != 0 && errno == ENOENT;
}

enum exit_status config_file_open(struct config_file *file, const char *path, bool must_exist)
{
    *file = (struct config_file){.path = path};
    if (!must_exist && is_missing(path))
        return STATUS_OK;

    char *text = malloc(CONFIG_FILE_MAX + 2);

    if (text == NULL) {
        log_error("%s: out of memory", path);
        return STATUS_OS;
    }

    ssize_t length = read_text(path, must_exist, text);

    if (length < 0) {
        free(text);
        return STATUS_CONFIG;
    }
    text[length] = '\0';
    file->text = text;
    file->next = text_after(text, BYTE_ORDER_MARK) != NULL ? text + strlen(BYTE_ORDER_MARK) : text;
    return STATUS_OK;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* Cuts the blanks off both ends of `text`, in place. */
static char *trim(char *text)
{
    size_t length = strlen(text);

    while (length > 0 && is_blank(text[length - 1]))
        text[--length] = '\0';
    while (is_blank(*text))
        text++;
    return text;
}

/* Takes the next line off the buffer; NULL at its end. */
static char *take_line(struct config_file *file)
{
    char *line = file->next;

    if (line == NULL || *line == '\0')
        return NULL;

    char *end = strchr(line, '\n');

    if (end != NULL)
        *end = '\0';
    file->next = end != NULL ? end + 1 : NULL;
    file->line++;
    return trim(line);
}

/* Drops matching quotes around `value`, in place; NULL where an opening one has no end. */
static char *unquote(char *value)
{
    char quote = value[0];
    size_t length = strlen(value);

    if (quote != '"' && quote != '\'')
        return value;
    if (length < 2 || value[length - 1] != quote)
        return NULL;
    value[length - 1] = '\0';
    return value + 1;
}

static enum setting_next refuse_line(const struct config_file *file, const char *what)
{
    log_error("%s:%d: %s", file->path, file->line, what);
    return NEXT_BAD;
}

static enum setting_next refuse_name(const struct config_file *file, const char *name,
                                     const char *what)
{
    log_error("%s:%d: '%.60s' %s", file->path, file->line, name, what);
    return NEXT_BAD;
}

static enum setting_next parse_line(const struct config_file *file, char *line,
                                    struct setting *setting)
{
    char *equals = strchr(line, '=');

    if (equals == NULL)
        return refuse_line(file, "is not a line of the form REDISLOCK_<OPTION>=value");
    *equals = '\0';

    const char *name = trim(line);
    const struct option_row *row = option_by_variable(name, strlen(name));

    if (row == NULL)
        return refuse_name(file, name, "is not a setting");
    if (row->flags & NOT_FROM_FILE)
        return refuse_name(file, name, "cannot be set in a file");

    char *value = unquote(trim(equals + 1));

    if (value == NULL)
        return refuse_name(file, name, "has an opening quote without a closing one at the end");
    *setting = (struct setting){.row = row,
                                .value = value,
                                .erasable = value,
                                .from = {SOURCE_FILE, file->path, file->line}};
    return NEXT_SETTING;
}

enum setting_next config_file_next(struct config_file *file, struct setting *setting)
{
    char *line = take_line(file);

    while (line != NULL && (*line == '\0' || *line == '#'))
        line = take_line(file);
    return line != NULL ? parse_line(file, line, setting) : NEXT_END;
}
