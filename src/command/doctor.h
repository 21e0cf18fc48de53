/*
 * --doctor: is this server, with this user, fit to keep locks?
 */
#ifndef REDISLOCK_COMMAND_DOCTOR_H
#define REDISLOCK_COMMAND_DOCTOR_H

#include "cli/config.h"

/*
 * Prints a line per finding: ok, warning or failure, what was found and what to do about it.
 * 0 if there is no failure; otherwise the status of the first (64, 69, 71, 76, 77 or 78).
 */
int command_doctor(const struct config *config);

#endif
