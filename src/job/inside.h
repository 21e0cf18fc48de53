/*
 * What the supervisor's two files share; nobody else includes it. supervisor.c owns the loop, settle.c
 * the timers and the guard of a job that lasts.
 */
#ifndef REDISLOCK_JOB_INSIDE_H
#define REDISLOCK_JOB_INSIDE_H

#include <stdbool.h>
#include <stdint.h>

#include "job/descendants.h"
#include "job/guard.h"
#include "job/supervisor.h"

struct supervisor {
    const struct supervisor_plan *plan;
    struct supervisor_outcome *outcome;
    struct descendants job;
    struct guard guard;
    bool settled;       /* lease timers and guard exist */
    bool refusal_told;  /* that there were no timers */
    bool guard_missing; /* it could not be started; to be tried again */
    bool child_gone;
    bool child_stopped; /* in a group of its own, where no shell continues it; or it was */
    bool stopping;
    bool killing;
    bool told_to_stop; /* TSTP was forwarded */
    bool stop_told;    /* the stop timer has struck; the keeper may go on pushing it */
    int quiet_sweeps;  /* in a row that found no descendant */
    int stop_timer;    /* of the lease, once settled */
    int kill_timer;
    int lost_fd;
    int64_t settle_at;
    int64_t keeper_at;
    int64_t stop_at; /* of the lease, until settled */
    int64_t runtime_at;
    int64_t kill_at;
    int64_t sweep_at;
};

/* Whether the job has a lease whose end is also its own. */
bool inside_lease_kills(const struct supervisor *s);

/* Whether the lease's kill time has passed, whoever was there to notice. */
bool inside_is_overdue(const struct supervisor *s);

/* Whether redislock waits for what the child leaves behind. */
bool inside_drains(const struct supervisor *s);

/*
 * Makes the lease's timers, which take the place of `stop_at`, and starts the guard. Once; where the
 * system gives no timers the loop goes on keeping `stop_at`, and `settled` stays false: to be tried again.
 * Later it starts the guard that could not be started then, or whose successor could not.
 */
void inside_settle(struct supervisor *s);

/* Starts a guard in place of the one before, where there is one. */
void inside_start_guard(struct supervisor *s);

/* The guard has ended (`reaped`) or was stopped: starts another where one is needed still. */
void inside_guard_failed(struct supervisor *s, bool reaped);

#endif
