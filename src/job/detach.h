/*
 * A process that stays behind when we return to our caller, and is in nobody's way there.
 */
#ifndef REDISLOCK_JOB_DETACH_H
#define REDISLOCK_JOB_DETACH_H

#include <sys/types.h>

/*
 * Forks; the child gets a session of its own, / for its directory, /dev/null for stdin, stdout and
 * stderr, and keeps no descriptor that was inherited, except `kept` (-1: none). What is
 * close-on-exec is ours and stays open. It ends with the status that body(context) returns.
 *
 * The caller's answer: the child's pid, or -1 with errno.
 */
pid_t detach_spawn(int (*body)(void *context), void *context, int kept);

#endif
