/*
 * The password that config->password holds, and where it is looked for.
 */
#ifndef REDISLOCK_CLI_CREDENTIALS_H
#define REDISLOCK_CLI_CREDENTIALS_H

#include "cli/config.h"
#include "cli/environment.h"
#include "cli/setting.h"

/*
 * Reads --password-file (as `*given` asked; its row is NULL when nobody did). Without one, and
 * where a server's URL has no password: redislock-password in CREDENTIALS_DIRECTORY if it exists,
 * else REDISCLI_AUTH if it is not empty.
 *
 * Sets config->password and config->password_file. STATUS_OK, or another after one line.
 */
enum exit_status credentials_load(struct config *config, const struct setting *given,
                                  const struct environment *environment);

#endif
