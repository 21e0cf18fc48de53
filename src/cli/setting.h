/*
 * A setting: one option, given once, by one source. What the command line, the environment and the
 * file all come down to before setting.c gives it a meaning.
 */
#ifndef REDISLOCK_CLI_SETTING_H
#define REDISLOCK_CLI_SETTING_H

#include "base/status.h"
#include "cli/config.h"
#include "cli/options.h"

struct setting {
    const struct option_row *row;
    const char *value; /* NULL: a flag's bare word on the command line */
    char *erasable;    /* `value` where its bytes may be overwritten: argv, the file's buffer */
    enum config_source source;
    const char *file; /* SOURCE_FILE: its path and the line */
    int line;
};

/* What a source's reader has found. */
enum setting_next {
    NEXT_SETTING,
    NEXT_END,
    NEXT_BAD /* its one line is printed */
};

/*
 * Stores the value in its field of `*config`, over what an earlier setting stored there.
 * STATUS_OK, or STATUS_USAGE, STATUS_CONFIG, STATUS_OS after one line that names option, value and
 * source; the field is then as it was.
 */
enum exit_status setting_store(struct config *config, const struct setting *setting);

/*
 * Prints the one line that refuses a setting: where it came from (--ttl, REDISLOCK_TTL,
 * /etc/redislock.conf:3: REDISLOCK_TTL), `shown` in quotes unless it is NULL, and `why`.
 * Returns what a bad value of this source exits with, STATUS_USAGE or STATUS_CONFIG.
 */
enum exit_status setting_refuse(const struct setting *setting, const char *shown, const char *why);

/*
 * Prints the one line that refuses two options (or one, given twice) that do not go together: `why`,
 * and of those that the environment or the file has set, where: who gave the other one on the command
 * line may not know. `given_by` is the source of each option. Returns as setting_refuse; the command
 * line counts where it gave one of them.
 */
enum exit_status setting_refuse_pair(const enum config_source *given_by, enum option_id one,
                                     enum option_id other, const char *why);

#endif
