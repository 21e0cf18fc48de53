/*
 * --attach: the lock for the life of a calling script.
 */
#ifndef REDISLOCK_COMMAND_ATTACH_H
#define REDISLOCK_COMMAND_ATTACH_H

#include "cli/config.h"

/* Takes the lock, leaves a keeper behind, and returns the status for the script. */
int command_attach(const struct config *config);

#endif
