/*
 * Owns the guard's process. The guard shares nothing with redislock but a pipe and a timer, and
 * calls only what is safe in the child of a process with threads.
 */
#include "job/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "job/descendants.h"

#define SWEEPS     50 /* passes over what is left of a job, SWEEP_MS apart */
#define SWEEP_MS   10
#define PIPE_SLOT  0 /* where the guard keeps its two descriptors */
#define TIMER_SLOT 1

/*
 * Leaves only the two descriptors that matter, at fixed places. Both come from above the standard
 * three, which signals.c fills first: no copies are needed, for which there may be no room.
 */
static void keep_only(int pipe_end, int timer)
{
    dup2(pipe_end, PIPE_SLOT);
    close(TIMER_SLOT);
    if (timer >= 0)
        dup2(timer, TIMER_SLOT);
    if (syscall(SYS_close_range, TIMER_SLOT + 1, ~0U, 0) == 0)
        return;
    for (int fd = TIMER_SLOT + 1; fd < (int)sysconf(_SC_OPEN_MAX); fd++)
        close(fd);
}

/* redislock is dead: of its descendants the group can still be told, or those who have the marker. */
static void kill_group(const struct guard_plan *plan, pid_t caller_group)
{
    if (plan->own_group && !plan->child_gone) {
        kill(-plan->child, SIGKILL);
        return;
    }
    pid_t group = plan->own_group ? plan->child : caller_group;
    for (int sweep = 0; sweep < SWEEPS && descendants_kill_marked(group, plan->marker) > 0; sweep++)
        poll(NULL, 0, SWEEP_MS);
}

/* redislock is frozen but there: its descendants can still be found. */
static void kill_descendants(const struct guard_plan *plan, pid_t redislock)
{
    struct descendants job = {redislock, getpid(), plan->since_ms, plan->child};
    int quiet = 0; /* passes in a row that found nothing */
    if (plan->own_group && !plan->child_gone)
        kill(-plan->child, SIGKILL);
    for (int sweep = 0; sweep < SWEEPS && quiet < 2; sweep++) {
        quiet = descendants_signal(&job, SIGKILL, 0) == 0 ? quiet + 1 : 0;
        if (quiet < 2)
            poll(NULL, 0, SWEEP_MS);
    }
}

static _Noreturn void guard_main(const struct guard_plan *plan, int pipe_end, pid_t redislock)
{
    pid_t caller_group = getpgrp();
    setsid(); /* no signal of the terminal, or to the group, reaches the guard */
    (void)!chdir("/");
    prctl(PR_SET_NAME, "redislock-guard");
    keep_only(pipe_end, plan->kill_timer);
    struct pollfd watched[2] = {{PIPE_SLOT, POLLIN, 0},
                                {plan->kill_timer >= 0 ? TIMER_SLOT : -1, POLLIN, 0}};
    for (;;) {
        if (poll(watched, 2, -1) < 0)
            continue;
        if (watched[0].revents != 0) {
            kill_group(plan, caller_group);
            _exit(0);
        }
        if (watched[1].revents != 0) {
            kill_descendants(plan, redislock);
            watched[1].fd = -1; /* done; redislock's death is still of interest */
        }
    }
}

bool guard_start(struct guard *guard, const struct guard_plan *plan)
{
    int ends[2];
    pid_t redislock = getpid();
    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[1]);
        guard_main(plan, ends[0], redislock);
    }
    descriptor_close(ends[0]);
    if (pid < 0) {
        descriptor_close(ends[1]);
        return false;
    }
    *guard = (struct guard){pid, ends[1]};
    return true;
}

void guard_end(struct guard *guard)
{
    if (guard->pid > 0) {
        kill(guard->pid, SIGKILL); /* ours and not yet reaped: the number cannot be another's */
        while (waitpid(guard->pid, NULL, 0) < 0 && errno == EINTR)
            continue;
    }
    descriptor_close(guard->pipe);
    *guard = GUARD_NONE;
}
