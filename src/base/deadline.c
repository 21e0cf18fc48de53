/*
 * Owns waiting with a limit. Promises to come back at the deadline whatever the descriptor does.
 */
#include "base/deadline.h"

#include <poll.h>

#include "base/clock.h"

struct deadline deadline_sooner(struct deadline deadline, int64_t at_ms)
{
    if (at_ms < deadline.at_ms)
        deadline.at_ms = at_ms;
    return deadline;
}

enum deadline_result deadline_wait(int fd, short events, const struct deadline *deadline)
{
    for (;;) {
        struct pollfd waits[2] = {{deadline->wake_fd, POLLIN, 0}, {fd, events, 0}};
        int ready = poll(waits, 2, clock_poll_timeout(deadline->at_ms)); /* -1: ignored by poll */
        if (ready > 0 && waits[0].revents != 0)
            return DEADLINE_WOKEN;
        if (ready > 0)
            return DEADLINE_READY;
        /* poll's own clock may run ahead of ours by a rounding, and EINTR proves nothing */
        if (deadline->at_ms != CLOCK_NEVER && clock_boot_ms() >= deadline->at_ms)
            return DEADLINE_PASSED;
    }
}
