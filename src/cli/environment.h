/*
 * What the environment says about redislock, found in one pass.
 */
#ifndef REDISLOCK_CLI_ENVIRONMENT_H
#define REDISLOCK_CLI_ENVIRONMENT_H

#include "cli/options.h"

struct environment {
    const char *values[OPTION_COUNT]; /* of REDISLOCK_<OPTION>; NULL: not there */
    const char *redis_url; /* REDIS_URL, REDISCLI_AUTH, CREDENTIALS_DIRECTORY: the same */
    const char *rediscli_auth;
    const char *credentials_directory;
};

/*
 * Fills `*found` with pointers into `variables` (NAME=VALUE, NULL-terminated). Of a name that
 * stands there twice the first counts, as with getenv. Unknown names are ignored: REDISLOCK_NAME
 * and others are what a redislock further up gave its command.
 */
void environment_read(char **variables, struct environment *found);

#endif
