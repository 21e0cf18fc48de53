/*
 * The lock in single steps, for scripts that keep a token between them.
 */
#ifndef REDISLOCK_COMMAND_TOKENS_H
#define REDISLOCK_COMMAND_TOKENS_H

#include "cli/config.h"

/* --acquire: takes the lock and prints its token. Nothing extends it. */
int command_acquire(const struct config *config);

/* --extend: 0, or 79 when the token does not hold the lock any more. */
int command_extend(const struct config *config);

/* --release: 0, or 79 when the token did not hold the lock any more. */
int command_release(const struct config *config);

/* --check: 0, or 79; without a token it asks for the run whose child the caller is. */
int command_check(const struct config *config);

#endif
