/*
 * Owns what makes a job safe that lasts: the lease's deadlines as timers, and the guard that shares one
 * of them. A job that ends within its first half second has neither, and needs neither.
 */
#include "job/inside.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/log.h"

#define AGAIN_MS 500 /* after the system had no process for us */

bool inside_lease_kills(const struct supervisor *s)
{
    return s->plan->lease.kills && s->plan->lease.extend_at_ms != CLOCK_NEVER;
}

bool inside_is_overdue(const struct supervisor *s)
{
    return s->kill_timer >= 0 && inside_lease_kills(s) &&
           poll(&(struct pollfd){s->kill_timer, POLLIN, 0}, 1, 0) == 1;
}

bool inside_drains(const struct supervisor *s)
{
    return s->stopping || s->plan->wait_descendants;
}

void inside_start_guard(struct supervisor *s)
{
    const struct guard_plan plan = {.child = s->plan->child,
                                    .own_group = s->plan->own_group,
                                    .child_gone = s->child_gone,
                                    .kill_timer = inside_lease_kills(s) ? s->kill_timer : -1,
                                    .since_ms = s->job.since_ms,
                                    .marker = s->plan->marker};
    struct guard guard;
    if (!guard_start(&guard, &plan)) {
        if (!s->guard_missing)
            log_warning(
                "cannot start the guard: %s; a killed redislock could leave processes behind",
                strerror(errno));
        s->guard_missing = true;
        s->settle_at = clock_boot_ms() + AGAIN_MS;
        return;
    }
    if (s->guard_missing)
        log_notice("the guard has been started");
    s->guard_missing = false;
    guard_end(&s->guard);
    s->guard = guard;
}

void inside_guard_failed(struct supervisor *s, bool reaped)
{
    if (reaped)
        s->guard.pid = 0; /* the number may come to be another's */
    if (s->child_gone && !inside_drains(s))
        return;
    log_info("the guard was %s; starting another", reaped ? "killed" : "stopped");
    inside_start_guard(s);
}

static bool make_timers(struct supervisor *s)
{
    s->stop_timer = clock_timer_open();
    s->kill_timer = s->stop_timer >= 0 ? clock_timer_open() : -1;
    if (s->kill_timer < 0) {
        descriptor_close(s->stop_timer);
        s->stop_timer = -1;
    }
    return s->kill_timer >= 0;
}

void inside_settle(struct supervisor *s)
{
    const struct supervisor_lease *lease = &s->plan->lease;
    s->settle_at = CLOCK_NEVER;
    if (s->settled && s->guard_missing && (!s->child_gone || inside_drains(s)))
        inside_start_guard(s);
    if (s->settled)
        return;
    if (lease->extend_at_ms != CLOCK_NEVER) {
        if (!make_timers(s)) {
            if (!s->refusal_told)
                log_warning("cannot make timers for the lease: %s; trying again", strerror(errno));
            s->refusal_told = true;
            return; /* the loop goes on keeping stop_at; without timers nothing will extend */
        }
        clock_timer_set(s->stop_timer, lease->stop_at_ms);
        clock_timer_set(s->kill_timer, lease->kill_at_ms);
        s->stop_at = CLOCK_NEVER;
    }
    s->settled = true;
    inside_start_guard(s);
}
