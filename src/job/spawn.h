/*
 * Starting the child: as the caller of redislock would have started it.
 */
#ifndef REDISLOCK_JOB_SPAWN_H
#define REDISLOCK_JOB_SPAWN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "job/signals.h"

struct spawn_request {
    char *const *argv;        /* NULL-terminated; argv[0] is looked up in PATH */
    char *const *environment; /* NULL-terminated, complete */
    const struct signals *signals;
    pid_t self;           /* this process */
    bool own_group;       /* a process group of its own, with the child as its leader */
    int64_t not_after_ms; /* on clock_boot_ms, when nothing may begin any more; or CLOCK_NEVER */
};

enum spawn_result {
    SPAWN_OK,
    SPAWN_NOT_FOUND,      /* errno ENOENT from exec */
    SPAWN_NOT_EXECUTABLE, /* any other errno from exec */
    SPAWN_NO_PROCESS,     /* the system has no process for us */
    SPAWN_TOO_LATE        /* the process was there after `not_after_ms`, and has begun nothing */
};

/*
 * Starts the child and returns once it runs the command: with the caller's signal mask and
 * dispositions, none of our descriptors (all are close-on-exec), and SIGKILL as its parent-death
 * signal, so that it does not outlive us unguarded. `*pid` is set on SPAWN_OK, errno otherwise.
 * Must be called from the main thread: the death signal follows the thread that forked.
 */
enum spawn_result spawn_child(const struct spawn_request *request, pid_t *pid);

#endif
