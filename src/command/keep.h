/*
 * Keeping a lock while something runs under it: what the keeper thread does at each turn.
 *
 * Hands the lock over: between keep_start and keep_stop only the keeper touches it. Main learns of a
 * loss by a descriptor, and of an extension by nothing at all: the keeper pushes the lease's timers.
 */
#ifndef REDISLOCK_COMMAND_KEEP_H
#define REDISLOCK_COMMAND_KEEP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "cli/config.h"
#include "job/keeper.h"
#include "lock/lease.h"
#include "lock/lock.h"

struct keep {
    const struct config *config;
    const struct lease *lease;
    struct lock *lock;
    struct keeper keeper;
    int stop_timer; /* pushed to the lease's stop and kill times */
    int kill_timer;
    int lost_fd;      /* readable after a definite loss */
    bool failing;     /* the last turn could not extend */
    bool told;        /* that it will not be in time */
    int64_t retry_ms; /* the next pause while failing */
    atomic_bool lost; /* set after `loss` is complete */
    char loss[512];   /* why, in words */
};

/* Prepares; starts nothing. */
void keep_init(struct keep *keep, const struct config *config, const struct lease *lease,
               struct lock *lock);

/*
 * Starts the keeper, whose first extension is at once. Returns the descriptor that tells of a loss.
 * -1 with errno: there is no keeper.
 */
int keep_start(struct keep *keep, int stop_timer, int kill_timer);

/* Waits for an extension under way and ends the keeper; the lock is the caller's again. */
void keep_stop(struct keep *keep);

/* Why the lock was lost; NULL: it was not, as far as is known. */
const char *keep_loss(const struct keep *keep);

#endif
