/*
 * The processes that a command has left behind: found through /proc, signalled exactly.
 *
 * redislock is a subreaper, so whatever the command forks, also twice and with setsid, stays a
 * descendant of ours and can be found. Children that redislock had before (inherited over exec)
 * are not the command's and are left alone.
 */
#ifndef REDISLOCK_JOB_DESCENDANTS_H
#define REDISLOCK_JOB_DESCENDANTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/text.h"

struct descendants {
    pid_t root;       /* whose descendants */
    pid_t except;     /* a child of root that does not count (the guard), with its own; 0: none */
    int64_t since_ms; /* clock_boot_ms when the command was started: older children do not count */
    pid_t child; /* the command: of children that started in its very tick, the ones before it */
};

/* Adopts orphans from now on. */
void descendants_adopt(void);

/*
 * Sends `signal` to every living descendant outside process group `except_group` (0: to all), and
 * returns how many living descendants there are, inside or outside. `signal` 0 only counts.
 * -1: /proc cannot be read, or no memory.
 *
 * One pass can miss a process whose parent is just dying: before relying on 0, look twice.
 */
int descendants_signal(const struct descendants *who, int signal, pid_t except_group);

/*
 * Whether this process has no child at all: what is left to ask where /proc cannot be read. A
 * descendant whose parents have died is a child, since it was adopted.
 */
bool descendants_have_ended(void);

/* As descendants_signal with 0, and adds "sleep (4711), …" to `names`. */
int descendants_name(const struct descendants *who, struct text *names);

/*
 * Sends SIGKILL to every living process of group `group` that has `marker` ("NAME=value") in its
 * environment, and returns how many there were: for a guard that outlived the root, where the group
 * is shared with strangers, or could be theirs by now.
 */
int descendants_kill_marked(pid_t group, const char *marker);

#endif
