/*
 * The supervisor: one poll loop from the child's start to its end, and to the end of everything it
 * left behind where that matters.
 *
 * It knows the lease only as times and descriptors. Before the keeper runs it keeps the lease's
 * deadlines by itself; then through two timers that the keeper pushes on with every extension, so
 * that a keeper which hangs is noticed because nobody pushes them.
 */
#ifndef REDISLOCK_JOB_SUPERVISOR_H
#define REDISLOCK_JOB_SUPERVISOR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/text.h"
#include "job/signals.h"

enum supervisor_reason {
    SUPERVISOR_ENDED,   /* the child ended by itself, or by a signal that was forwarded */
    SUPERVISOR_EXPIRED, /* stopped: the lease was not extended in time */
    SUPERVISOR_LOST,    /* stopped: the keeper says that the lock is gone */
    SUPERVISOR_RUNTIME  /* stopped: --max-runtime */
};

/* What the keeper's room gives when it starts, and is told. */
struct supervisor_lease {
    int64_t extend_at_ms; /* when `start_keeper` is due; CLOCK_NEVER: there is no lock */
    int64_t stop_at_ms;   /* until then the child may run */
    int64_t kill_at_ms;   /* by then nothing of it may run */
    bool kills;           /* false: --on-lost warn, deadlines are only told */
    /*
     * Starts what extends, which from now on pushes both timers on. Returns a descriptor that
     * becomes readable on a definite loss, or -1: nothing extends, the deadlines stand, and it is
     * called again a little later.
     */
    int (*start_keeper)(void *context, int stop_timer, int kill_timer);
    /* Told once: the child is being stopped (or would be, where the lease does not kill). */
    void (*stopping)(void *context, enum supervisor_reason reason, int signal);
    void *context;
};

struct supervisor_plan {
    pid_t self; /* this process */
    pid_t child;
    bool own_group; /* else the child is in ours, with the terminal */
    const struct signals *signals;
    int timer; /* of clock_timer_open, the caller's: without it no deadline could be kept */
    int64_t started_ms;     /* clock_boot_ms just before the child was started */
    int64_t max_runtime_ms; /* 0: no limit */
    int stop_signal;
    int64_t grace_ms; /* between the stop signal and KILL */
    bool wait_descendants;
    const char *marker; /* as in struct guard_plan */
    struct supervisor_lease lease;
};

struct supervisor_outcome {
    enum supervisor_reason reason;
    int wait_status;  /* the child's, as waitpid(2) gives it */
    int64_t ended_ms; /* clock_boot_ms of the child's end */
};

/*
 * Supervises until the child has been reaped and, after a stop by us or with wait_descendants, none
 * of its descendants lives. Cannot fail: what the system refuses (a guard, a timer of the lease) is
 * told as a warning and asked for again, and the job is stopped where it could not be kept safe.
 */
void supervise(const struct supervisor_plan *plan, struct supervisor_outcome *outcome);

/* How many descendants of the child still live; adds "sleep (4711), …" to `names`. */
int supervisor_left_running(const struct supervisor_plan *plan, struct text *names);

#endif
