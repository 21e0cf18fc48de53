/*
 * Owns the loop. The story of a job: running → (stopping → killing) → drained. What each event does
 * depends on where the job is; nothing goes back.
 *
 *                    running            stopping              killing
 *   signal           forward            forward               forward
 *   child ends       done, or drain     drain                 drain
 *   keeper: lost     TERM, stopping     -                     -
 *   stop timer       TERM, stopping     -                     -
 *   --max-runtime    TERM, stopping     -                     -
 *   kill time        KILL, killing      KILL, killing         -
 *
 * Draining: the child is reaped, its descendants are not all dead yet.
 */
#include "job/supervisor.h"

#include <errno.h>
#include <poll.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/log.h"
#include "job/descendants.h"
#include "job/guard.h"
#include "job/inside.h"

#define GUARD_AFTER_MS                                                                             \
    500 /* a job that ends sooner pays for no guard; at most a sixth of the lease */
#define LOST_GRACE_MS 1000
#define SWEEP_MS      10
#define AGAIN_MS      100 /* after the system had no keeper for us */

static int64_t sooner(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* To the child's group, or in a shared group to the child and its descendants, one by one. */
static void signal_group(struct supervisor *s, int signal)
{
    s->job.except = s->guard.pid;
    if (!s->plan->own_group || s->child_gone)
        descendants_signal(&s->job, signal, 0);
    else
        kill(-s->plan->child, signal);
}

/* Those that left the group get it too: they are stopped with the rest. */
static void signal_everything(struct supervisor *s, int signal)
{
    pid_t group = s->plan->own_group && !s->child_gone ? s->plan->child : 0;
    s->job.except = s->guard.pid;
    if (group != 0)
        kill(-group, signal);
    descendants_signal(&s->job, signal, group);
}

static void begin_stop(struct supervisor *s, enum supervisor_reason reason, int signal,
                       int64_t kill_at)
{
    s->stopping = true;
    s->outcome->reason = reason;
    s->kill_at = kill_at;
    s->sweep_at = clock_boot_ms() + SWEEP_MS;
    s->plan->lease.stopping(s->plan->lease.context, reason, signal);
    signal_everything(s, signal);
    signal_everything(s, SIGCONT); /* a stopped process takes no other signal */
}

static void begin_kill(struct supervisor *s)
{
    s->killing = true;
    s->kill_at = CLOCK_NEVER;
    s->sweep_at = clock_boot_ms() + SWEEP_MS;
    signal_everything(s, SIGKILL);
}

/* The lease's stop time has passed without an extension. */
static void lease_ran_out(struct supervisor *s)
{
    const struct supervisor_lease *lease = &s->plan->lease;
    s->stop_at = CLOCK_NEVER;
    s->stop_told = true; /* not rescinded by a later success */
    if (s->stopping)
        return;
    if (!lease->kills) {
        lease->stopping(lease->context, SUPERVISOR_EXPIRED, 0);
        return;
    }
    /* the grace ends at the lease's kill time, also if an extension should succeed meanwhile */
    begin_stop(s, SUPERVISOR_EXPIRED, s->plan->stop_signal, clock_boot_ms() + s->plan->grace_ms);
}

static void lock_lost(struct supervisor *s)
{
    const struct supervisor_lease *lease = &s->plan->lease;
    s->lost_fd = -1; /* told once */
    if (s->stopping)
        return;
    if (!lease->kills) {
        s->stop_told = true; /* that it will not be extended any more is no news */
        lease->stopping(lease->context, SUPERVISOR_LOST, 0);
        return;
    }
    begin_stop(s, SUPERVISOR_LOST, s->plan->stop_signal,
               clock_boot_ms() + sooner(s->plan->grace_ms, LOST_GRACE_MS));
}

static void ran_too_long(struct supervisor *s)
{
    s->runtime_at = CLOCK_NEVER;
    if (!s->stopping)
        begin_stop(s, SUPERVISOR_RUNTIME, s->plan->stop_signal,
                   clock_boot_ms() + s->plan->grace_ms);
}

static void start_keeper(struct supervisor *s)
{
    const struct supervisor_lease *lease = &s->plan->lease;
    inside_settle(s);
    s->keeper_at = CLOCK_NEVER;
    if (s->settled)
        s->lost_fd = lease->start_keeper(lease->context, s->stop_timer, s->kill_timer);
    if (s->lost_fd < 0 && !s->stopping) /* what the system refuses now it may give in time */
        s->keeper_at = clock_boot_ms() + AGAIN_MS;
}

static void sweep(struct supervisor *s)
{
    s->job.except = s->guard.pid;
    int living = descendants_signal(&s->job, s->killing ? SIGKILL : 0, 0);
    if (living < 0 && s->child_gone) {
        guard_end(&s->guard); /* a child too; and perhaps its descriptor is what /proc needs */
        living = descendants_have_ended() ? 0 : living;
    }
    s->quiet_sweeps = living == 0 ? s->quiet_sweeps + 1 : 0;
    /* waiting for descendants that nobody stops is driven by SIGCHLD, not by a clock */
    bool by_clock = s->killing || (s->stopping && s->child_gone);
    s->sweep_at = by_clock || s->quiet_sweeps == 1 ? clock_boot_ms() + SWEEP_MS : CLOCK_NEVER;
}

/* A terminal's ^Z, or SIGTTIN: the caller's shell must see us stopped, as it would see the child. */
static void stop_with_child(struct supervisor *s)
{
    s->told_to_stop = false;
    inside_settle(s); /* the guard ends a job that stays stopped longer than its lease */
    kill(s->plan->self, SIGSTOP);
    if (!inside_is_overdue(s))
        signal_group(s, SIGCONT); /* where only we were continued; a second CONT does no harm */
}

/* In a group of its own it stays so until it is told to end: no shell knows of it. */
static void child_stopped(struct supervisor *s, int signal)
{
    s->child_stopped = true;
    if (signal == SIGTTIN || signal == SIGTTOU)
        log_warning("the command has stopped, because it wants the terminal; it has that with "
                    "--foreground");
}

static void child_ended(struct supervisor *s, int status)
{
    s->child_gone = true;
    s->outcome->wait_status = status;
    s->outcome->ended_ms = clock_boot_ms();
    s->sweep_at = s->outcome->ended_ms;
    if (s->guard.pid > 0 && inside_drains(s))
        inside_start_guard(s); /* one that knows that the group has lost its name */
    if (s->stopping || !WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
        return;
    /* while we were frozen, the guard did what we would have done */
    if (inside_is_overdue(s)) {
        s->plan->lease.stopping(s->plan->lease.context, SUPERVISOR_EXPIRED, SIGKILL);
        s->outcome->reason = SUPERVISOR_EXPIRED;
        s->stopping = true;
        s->killing = true;
    }
}

static bool is_done(const struct supervisor *s)
{
    if (!s->child_gone)
        return false;
    return !inside_drains(s) || s->quiet_sweeps >= 2;
}

/* The next child that has changed; 0 or less: none. Its signal comes once, so no try may be lost. */
static pid_t next_child(int *status)
{
    pid_t pid;
    do
        pid = waitpid(-1, status, WNOHANG | WUNTRACED);
    while (pid < 0 && errno == EINTR);
    return pid;
}

static void reap(struct supervisor *s)
{
    int status;
    pid_t pid;
    while (!is_done(s) && (pid = next_child(&status)) > 0) {
        if (pid == s->plan->child && WIFSTOPPED(status)) {
            if (!s->plan->own_group || s->told_to_stop)
                stop_with_child(s);
            else
                child_stopped(s, WSTOPSIG(status));
        } else if (pid == s->plan->child)
            child_ended(s, status);
        else if (pid == s->guard.pid)
            inside_guard_failed(s, !WIFSTOPPED(status));
        else if (s->child_gone)
            s->sweep_at = clock_boot_ms(); /* an orphan ended: was it the last? */
    }
}

/*
 * In a shared group the terminal has sent it to the child as well; but of a hangup (HUP, then CONT)
 * it tells the leader of the session alone, and that may be us: `ssh -t HOST redislock ...`.
 */
static bool child_has_it(const struct supervisor *s, const struct signalfd_siginfo *info)
{
    bool hangup = info->ssi_signo == SIGHUP || info->ssi_signo == SIGCONT;
    if (s->plan->own_group || info->ssi_code != SI_KERNEL)
        return false;
    return !hangup || getsid(0) != s->plan->self;
}

/* What asks it to end has gone out, but a stopped process takes no other signal. */
static void continue_stopped(struct supervisor *s)
{
    reap(s); /* that it has stopped may not have been told yet: lower signals are told first */
    if (!s->child_stopped || s->child_gone || inside_is_overdue(s))
        return;
    s->child_stopped = false;
    signal_group(s, SIGCONT);
}

static void forward(struct supervisor *s, const struct signalfd_siginfo *info)
{
    if (child_has_it(s, info))
        return;
    if (info->ssi_signo == SIGTSTP)
        s->told_to_stop = true; /* and we stop when the child has */
    if (info->ssi_signo == SIGCONT && inside_is_overdue(s))
        return; /* nothing may run any more */
    log_info("forwarding signal %d to the command", (int)info->ssi_signo);
    signal_group(s, (int)info->ssi_signo);
    if (signals_is_fatal((int)info->ssi_signo))
        continue_stopped(s);
}

static void take_signals(struct supervisor *s)
{
    struct signalfd_siginfo info;
    while (!is_done(s) && signals_next(s->plan->signals, &info)) {
        if (info.ssi_signo == SIGCHLD)
            reap(s);
        else
            forward(s, &info);
    }
}

static void take_times(struct supervisor *s)
{
    int64_t now = clock_boot_ms();
    if (now >= s->stop_at)
        lease_ran_out(s);
    if (now >= s->runtime_at)
        ran_too_long(s);
    if (now >= s->kill_at)
        begin_kill(s);
    if ((s->child_gone || s->killing) && now >= s->sweep_at)
        sweep(s);
    if (now >= s->settle_at)
        inside_settle(s);
    if (now >= s->keeper_at)
        start_keeper(s);
}

static void arm(struct supervisor *s)
{
    int64_t next = sooner(sooner(s->settle_at, s->keeper_at), sooner(s->stop_at, s->runtime_at));
    next = sooner(next, s->kill_at);
    if (s->child_gone || s->killing)
        next = sooner(next, s->sweep_at);
    clock_timer_set(s->plan->timer, next);
}

static void wait_for_events(struct supervisor *s)
{
    /* once KILL has gone out, the kill timer has nothing to add */
    int kill_timer = inside_lease_kills(s) && !s->killing ? s->kill_timer : -1;
    struct pollfd watched[5] = {{s->plan->signals->fd, POLLIN, 0},
                                {s->plan->timer, POLLIN, 0},
                                {s->lost_fd, POLLIN, 0},
                                {s->stop_told ? -1 : s->stop_timer, POLLIN, 0},
                                {kill_timer, POLLIN, 0}};
    if (poll(watched, 5, -1) < 0)
        return;
    if (watched[0].revents != 0)
        take_signals(s); /* first: a child that has ended is not to be stopped any more */
    if (is_done(s))
        return;
    if (watched[2].revents != 0)
        lock_lost(s);
    if (watched[3].revents != 0)
        lease_ran_out(s);
    if (watched[4].revents != 0 && !s->killing)
        begin_kill(s);
    take_times(s);
}

static void begin(struct supervisor *s)
{
    const struct supervisor_plan *plan = s->plan;
    int64_t guard_after = GUARD_AFTER_MS;
    if (plan->lease.extend_at_ms != CLOCK_NEVER)
        guard_after = sooner(guard_after, (plan->lease.extend_at_ms - plan->started_ms) / 2);
    s->settle_at = plan->started_ms + (guard_after > 0 ? guard_after : 0);
    s->keeper_at = plan->lease.extend_at_ms;
    s->stop_at = plan->lease.stop_at_ms;
    s->kill_at = CLOCK_NEVER;
    s->sweep_at = CLOCK_NEVER;
    s->runtime_at =
        plan->max_runtime_ms > 0 ? plan->started_ms + plan->max_runtime_ms : CLOCK_NEVER;
}

void supervise(const struct supervisor_plan *plan, struct supervisor_outcome *outcome)
{
    struct supervisor s = {.plan = plan,
                           .outcome = outcome,
                           .job = {plan->self, 0, plan->started_ms, plan->child},
                           .guard = GUARD_NONE,
                           .stop_timer = -1,
                           .kill_timer = -1,
                           .lost_fd = -1};
    *outcome = (struct supervisor_outcome){.reason = SUPERVISOR_ENDED};
    begin(&s);
    while (!is_done(&s)) {
        arm(&s);
        wait_for_events(&s);
    }
    guard_end(&s.guard);
}

int supervisor_left_running(const struct supervisor_plan *plan, struct text *names)
{
    const struct descendants job = {plan->self, 0, plan->started_ms, plan->child};
    return descendants_name(&job, names);
}
