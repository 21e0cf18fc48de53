/*
 * --help and --version.
 */
#ifndef REDISLOCK_COMMAND_HELP_H
#define REDISLOCK_COMMAND_HELP_H

#include "cli/config.h"

int command_help(const struct config *config);
int command_version(const struct config *config);

#endif
