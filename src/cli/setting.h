/*
 * A setting: one option, given once, by one source. What the command line, the environment and the
 * file all come down to before setting.c gives it a meaning.
 */
#ifndef REDISLOCK_CLI_SETTING_H
#define REDISLOCK_CLI_SETTING_H

#include "base/status.h"
#include "base/text.h"
#include "cli/config.h"
#include "cli/options.h"

struct setting {
    const struct option_row *row;
    const char *value; /* NULL: a flag's bare word on the command line */
    char *erasable;    /* `value` where its bytes may be overwritten: argv, the file's buffer */
    struct config_origin from;
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
 * Prints the one line that refuses two options (or one, given twice) that do not go together: `why`, and
 * of each where it is from, as setting_add_origin. `given` has the origin of each option. Returns as
 * setting_refuse; the command line counts where it gave one of them.
 */
enum exit_status setting_refuse_pair(const struct config_origin *given, enum option_id one,
                                     enum option_id other, const char *why);

/*
 * Adds where an option was set that does not fit another one, "; REDISLOCK_TTL is set in FILE:LINE" or
 * "… in the environment": who gave the other one may not know. Nothing for the command line and defaults.
 */
void setting_add_origin(struct text *text, enum option_id id, const struct config_origin *from);

#endif
