/*
 * Owns the choice of clocks. Promises: no time in this program comes from anywhere else.
 */
#include "base/clock.h"

#include <limits.h>
#include <sys/timerfd.h>
#include <time.h>

static int64_t read_ms(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now); /* cannot fail for clocks that Linux has had since 2.6.39 */
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int64_t clock_boot_ms(void)
{
    return read_ms(CLOCK_BOOTTIME);
}

int64_t clock_wall_ms(void)
{
    return read_ms(CLOCK_REALTIME);
}

int clock_timer_open(void)
{
    return timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
}

void clock_timer_set(int timer, int64_t at_ms)
{
    struct itimerspec when = {{0, 0}, {0, 0}};
    if (at_ms != CLOCK_NEVER) {
        int64_t at = at_ms > 0 ? at_ms : 1; /* all zeros would disarm */
        when.it_value.tv_sec = at / 1000;
        when.it_value.tv_nsec = (at % 1000) * 1000000;
    }
    timerfd_settime(timer, TFD_TIMER_ABSTIME, &when, NULL);
}

int clock_poll_timeout(int64_t at_ms)
{
    if (at_ms == CLOCK_NEVER)
        return -1;
    int64_t left = at_ms - clock_boot_ms();
    if (left <= 0)
        return 0;
    return left > INT_MAX ? INT_MAX : (int)left;
}
