/*
 * Messages for people, on stderr: one line, one write, `redislock: NAME: text`.
 *
 * The only mutable globals of the program live behind this header: the logger's settings. Lines
 * may come from the keeper thread too; the settings do not change once it runs. errno is left as
 * it was. Control bytes in the text are escaped. Nothing here ever prints a secret, because no
 * caller passes one.
 */
#ifndef REDISLOCK_BASE_LOG_H
#define REDISLOCK_BASE_LOG_H

#include <stdbool.h>

enum log_format { LOG_FORMAT_TEXT, LOG_FORMAT_JSON };

struct log_settings {
    const char *name;       /* of the lock, printed in front; NULL: none */
    enum log_format format; /* JSON: {"time":…,"level":…,"name":…,"message":…} */
    bool verbose;           /* print log_info lines as well */
};

void log_setup(const struct log_settings *settings);

void log_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_warning(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_notice(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_info(const char *format, ...) __attribute__((format(printf, 1, 2))); /* with -v only */

/*
 * Shows `message` in the terminal's current line, in place of what was shown there before; cut to
 * the terminal's width. NULL takes it away. Only for a stderr that is a terminal.
 */
void log_status(const char *message);

#endif
