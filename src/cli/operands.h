/*
 * The words behind the options.
 */
#ifndef REDISLOCK_CLI_OPERANDS_H
#define REDISLOCK_CLI_OPERANDS_H

#include "cli/config.h"

#define OPERANDS_TRY_HELP "; try 'redislock --help'"

struct operands {
    char *shell_line; /* of -c before NAME; NULL: not given */
};

/*
 * Reads `rest` (NULL-terminated) as `config->mode` takes it. STATUS_OK, STATUS_USAGE or STATUS_OS;
 * a refusal has printed its line.
 */
enum exit_status operands_take(struct operands *operands, struct config *config, char **rest);

/*
 * Refuses a word that belongs to one way of use (--json, --watch, --force, --print) in another, where
 * it would do nothing. `given` has the origin of each option. As above.
 */
enum exit_status operands_check_words(const struct config_origin *given, enum config_mode mode);

#endif
