/*
 * What operators do: look at locks, and take one away from its holder.
 */
#ifndef REDISLOCK_COMMAND_OPERATE_H
#define REDISLOCK_COMMAND_OPERATE_H

#include "cli/config.h"

/* --status NAME...: 0 when all are free, the conflict status when any is held. */
int command_status(const struct config *config);

/* --list [GLOB]: 0. */
int command_list(const struct config *config);

/* --unlock NAME: 0, also when there was nothing to remove. */
int command_unlock(const struct config *config);

#endif
