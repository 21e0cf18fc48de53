/*
 * The configuration file: lines REDISLOCK_<OPTION>=value, as in a systemd EnvironmentFile.
 *
 * Blanks at the ends of a line and around the = do not count, matching single or double quotes
 * around the value are dropped, nothing is escaped or expanded. Empty lines and lines that begin
 * with # are skipped.
 */
#ifndef REDISLOCK_CLI_CONFIG_FILE_H
#define REDISLOCK_CLI_CONFIG_FILE_H

#include <stdbool.h>

#include "cli/setting.h"

#define CONFIG_FILE_MAX (64 * 1024)

struct config_file {
    const char *path;
    char *text; /* owned by whoever opened the file; settings point into it; NULL: no file */
    char *next; /* the next line, or NULL at the end */
    int line;
};

/*
 * Reads the file at `path`. A missing file is empty, unless it was asked for (`must_exist`).
 * STATUS_OK, or STATUS_CONFIG or STATUS_OS after one line; then there is nothing to free. Otherwise
 * `file->text` is to be freed once no setting is needed any more.
 */
enum exit_status config_file_open(struct config_file *file, const char *path, bool must_exist);

/* The next setting. NEXT_BAD (no =, unknown name, open quote) means STATUS_CONFIG. */
enum setting_next config_file_next(struct config_file *file, struct setting *setting);

#endif
