/*
 * Who has called us: the script whose life --attach is to follow.
 */
#ifndef REDISLOCK_COMMAND_CALLER_H
#define REDISLOCK_COMMAND_CALLER_H

#include <sys/types.h>

/*
 * The calling script. Not always our parent: in `f=$(redislock --attach job 2>&1)` that may be a
 * subshell which ends as soon as we do; the script is then the one who reads what it prints.
 * 0: there is none, because our parent has only inherited us.
 */
pid_t caller_script(void);

#endif
