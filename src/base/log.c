/*
 * Owns the logger's settings and the only place where stderr is written. Promises one write(2) per
 * line, so that lines of several processes on one pipe stay whole, and an untouched errno.
 */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/text.h"

#define LINE_MAX_BYTES 4096

enum level { LEVEL_ERROR, LEVEL_WARNING, LEVEL_NOTICE, LEVEL_INFO };

static struct log_settings settings; /* set once by log_setup, before any thread exists */

void log_setup(const struct log_settings *wanted)
{
    settings = *wanted;
}

/* The journal reads <N> in front of a line as its priority; JOURNAL_STREAM names our stderr then. */
static bool stderr_is_journal(void)
{
    const char *stream = getenv("JOURNAL_STREAM");
    struct stat status;
    if (stream == NULL || fstat(STDERR_FILENO, &status) != 0)
        return false;
    char *end;
    unsigned long long device = strtoull(stream, &end, 10);
    if (*end != ':')
        return false;
    unsigned long long inode = strtoull(end + 1, &end, 10);
    return *end == '\0' && device == status.st_dev && inode == status.st_ino;
}

static void add_text_line(struct text *line, enum level level, const char *message)
{
    static const char *const priority[] = {"<3>", "<4>", "<5>", "<6>"}; /* of syslog(3) */
    if (stderr_is_journal())
        text_add(line, priority[level]);
    text_add(line, "redislock: ");
    if (settings.name != NULL) {
        text_add_visible(line, settings.name, strlen(settings.name));
        text_add(line, ": ");
    }
    text_add_visible(line, message, strlen(message));
}

static void add_json_line(struct text *line, enum level level, const char *message)
{
    static const char *const name[] = {"error", "warning", "notice", "info"};
    text_add(line, "{\"time\":\"");
    text_add_timestamp(line, clock_wall_ms());
    text_addf(line, "\",\"level\":\"%s\"", name[level]);
    if (settings.name != NULL) {
        text_add(line, ",\"name\":\"");
        text_add_json(line, settings.name, strlen(settings.name));
        text_add(line, "\"");
    }
    text_add(line, ",\"message\":\"");
    line->capacity -= strlen("\"}"); /* the end must not be cut with the message */
    text_add_json(line, message, strlen(message));
    line->capacity += strlen("\"}");
    line->cut = false;
    text_add(line, "\"}");
}

__attribute__((format(printf, 2, 0))) static void say(enum level level, const char *format,
                                                      va_list arguments)
{
    int saved = errno;
    char message_storage[LINE_MAX_BYTES / 4]; /* escaping may make four of one */
    char line_storage[LINE_MAX_BYTES];
    struct text message = TEXT_OVER(message_storage);
    struct text line = TEXT_OVER(line_storage);
    line.capacity--; /* keeps a place for the newline */

    text_addv(&message, format, arguments);
    if (settings.format == LOG_FORMAT_JSON)
        add_json_line(&line, level, message.at);
    else
        add_text_line(&line, level, message.at);
    line.capacity++;
    text_add_char(&line, '\n');
    descriptor_write_line(STDERR_FILENO, line.at, line.length);
    errno = saved;
}

/* How many columns the terminal has; a line that wraps could not be taken back. */
static size_t terminal_width(void)
{
    struct winsize size;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
        return 80;
    return size.ws_col;
}

void log_status(const char *message)
{
    int saved = errno;
    char shown_storage[LINE_MAX_BYTES / 2];
    char line_storage[LINE_MAX_BYTES];
    struct text line = TEXT_OVER(line_storage);
    text_add(&line, "\r\033[K");
    if (message != NULL) {
        struct text shown = TEXT_OVER(shown_storage);
        add_text_line(&shown, LEVEL_NOTICE, message);
        size_t width = terminal_width();
        text_add_bytes(&line, shown.at, shown.length < width ? shown.length : width - 1);
    }
    descriptor_write_line(STDERR_FILENO, line.at, line.length);
    errno = saved;
}

void log_error(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say(LEVEL_ERROR, format, arguments);
    va_end(arguments);
}

void log_warning(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say(LEVEL_WARNING, format, arguments);
    va_end(arguments);
}

void log_notice(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say(LEVEL_NOTICE, format, arguments);
    va_end(arguments);
}

void log_info(const char *format, ...)
{
    if (!settings.verbose)
        return;
    va_list arguments;
    va_start(arguments, format);
    say(LEVEL_INFO, format, arguments);
    va_end(arguments);
}
