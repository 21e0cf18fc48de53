/*
 * The guard: a small process that ends the job when redislock no longer can.
 *
 * It notices redislock's death by the end of a pipe, and its freezing (SIGSTOP, ^Z, a stalled
 * machine) by the lease's kill timer, which redislock pushes on with every extension and which both
 * share. It keeps nothing of the caller's: no descriptor, no terminal, no directory.
 */
#ifndef REDISLOCK_JOB_GUARD_H
#define REDISLOCK_JOB_GUARD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct guard {
    pid_t pid; /* 0: none */
    int pipe;  /* held open by redislock; its end is the sign */
};

#define GUARD_NONE ((struct guard){0, -1})

struct guard_plan {
    pid_t child;
    bool own_group;     /* the child leads a group of its own; else it is in the caller's */
    bool child_gone;    /* reaped: the number of its group may have come to be another's */
    int kill_timer;     /* readable when everything must be dead; -1: not to be enforced */
    int64_t since_ms;   /* as in struct descendants */
    const char *marker; /* "NAME=value" in the environment of the job's processes only */
};

/* Starts the guard. false with errno, `*guard` untouched: the job then runs without a new one. */
bool guard_start(struct guard *guard, const struct guard_plan *plan);

/* Ends and reaps it. Call before the caller exits, or the guard takes it for a death. */
void guard_end(struct guard *guard);

#endif
