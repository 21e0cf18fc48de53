/*
 * The main job: run a command while the lock is held.
 */
#ifndef REDISLOCK_COMMAND_RUN_H
#define REDISLOCK_COMMAND_RUN_H

#include "cli/config.h"

/* Returns the exit status of redislock: the child's own, or one of base/status.h. */
int command_run(const struct config *config);

#endif
