/*
 * Signals as people write them. Pure.
 */
#ifndef REDISLOCK_CLI_SIGNAL_NAME_H
#define REDISLOCK_CLI_SIGNAL_NAME_H

#include <stdbool.h>

/*
 * Parses TERM, SIGTERM, sigterm, RTMIN+2, RTMAX-1 or a number from 1 to 64 into `*number`.
 * On false `*number` is untouched.
 */
bool signal_parse(const char *text, int *number);

#endif
