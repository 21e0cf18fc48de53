/*
 * The two clocks: one that only runs forward and counts suspended time, one that people read.
 */
#ifndef REDISLOCK_BASE_CLOCK_H
#define REDISLOCK_BASE_CLOCK_H

#include <stdint.h>

/*
 * Milliseconds since boot, time in suspend included (CLOCK_BOOTTIME). Every deadline of the program
 * is on this clock: Redis's keys go on expiring while this machine sleeps, and CLOCK_MONOTONIC
 * would not notice.
 */
int64_t clock_boot_ms(void);

/* Milliseconds since the epoch: for people and records only, never for a deadline. */
int64_t clock_wall_ms(void);

/* A close-on-exec timerfd on CLOCK_BOOTTIME, not armed. -1 with errno on failure. */
int clock_timer_open(void);

/*
 * Arms `timer` to become readable at `at_ms` (on clock_boot_ms; a time that has passed makes it
 * readable at once), or disarms it with `at_ms` == CLOCK_NEVER. Arming again forgets an expiry that
 * nobody has read: so whoever re-arms in time is all that keeps a deadline from striking.
 */
#define CLOCK_NEVER INT64_MAX
void clock_timer_set(int timer, int64_t at_ms);

/* Milliseconds from now until `at_ms` as poll(2) takes them: 0 if past, -1 for CLOCK_NEVER. */
int clock_poll_timeout(int64_t at_ms);

#endif
