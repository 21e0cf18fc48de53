/*
 * Pauses between attempts: growing, and never the same on two hosts.
 */
#ifndef REDISLOCK_LOCK_PAUSE_H
#define REDISLOCK_LOCK_PAUSE_H

#include <stdint.h>

#include "base/deadline.h"

struct pause {
    int64_t next_ms;
};

#define PAUSE_START  ((struct pause){50})
#define PAUSE_MAX_MS 1000

/*
 * Waits for the next pause, give or take a fifth, and doubles it up to PAUSE_MAX_MS.
 * DEADLINE_READY: the pause is over, try again. PASSED, WOKEN: as in deadline.h.
 */
enum deadline_result pause_wait(struct pause *pause, const struct deadline *deadline);

/* `ms`, give or take a fifth at random. */
int64_t pause_jitter(int64_t ms);

#endif
