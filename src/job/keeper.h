/*
 * The keeper: the one extra thread. It calls the work it was given when its time has come, until
 * the work is done or it is told to stop. It knows nothing of locks.
 */
#ifndef REDISLOCK_JOB_KEEPER_H
#define REDISLOCK_JOB_KEEPER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

struct keeper_work {
    /* One turn; returns when the next is due (clock_boot_ms), or CLOCK_NEVER when there is none. */
    int64_t (*turn)(void *context);
    void *context;
};

struct keeper {
    bool running;
    int stop_fd;
    int timer;
    pthread_t thread;
    struct keeper_work work;
};

#define KEEPER_NONE ((struct keeper){.running = false})

/* Starts the thread, whose first turn is at once. false with errno. */
bool keeper_start(struct keeper *keeper, const struct keeper_work *work);

/* Waits for a turn under way, and for the thread's end. Safe if it never started. */
void keeper_stop(struct keeper *keeper);

#endif
