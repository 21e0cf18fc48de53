/*
 * How long something may take, and what ends it early: handed down to everything that waits.
 */
#ifndef REDISLOCK_BASE_DEADLINE_H
#define REDISLOCK_BASE_DEADLINE_H

#include <stdint.h>

struct deadline {
    int64_t at_ms; /* on clock_boot_ms; CLOCK_NEVER: no limit */
    int wake_fd;   /* readable: stop waiting (a signal has come); -1: nothing ends it early */
};

enum deadline_result {
    DEADLINE_READY,  /* the descriptor is ready, or has failed: the next call on it tells */
    DEADLINE_PASSED, /* it is at_ms */
    DEADLINE_WOKEN   /* wake_fd is readable */
};

/* The same wake_fd, but no later than `at_ms`. */
struct deadline deadline_sooner(struct deadline deadline, int64_t at_ms);

/*
 * Waits until `fd` has one of poll(2)'s `events`. `fd` -1 just waits. Being woken wins over being
 * ready, so that a stream of replies cannot hide a signal.
 */
enum deadline_result deadline_wait(int fd, short events, const struct deadline *deadline);

#endif
