/*
 * Owns the keeper process. It holds nothing of the script's: no stdio, no terminal, no directory. It
 * watches the script through a pidfd that was opened before anything could go wrong, extends the
 * lock from the keeper thread, and releases it when the script has ended, however it ended. It
 * cannot wait for the script's children: what a script leaves behind runs unguarded.
 */
#include "command/attach.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/event.h"
#include "base/log.h"
#include "base/text.h"
#include "command/caller.h"
#include "command/keep.h"
#include "command/output.h"
#include "command/taking.h"
#include "job/detach.h"

#define LOST_GRACE_MS 1000 /* as a command gets after a definite loss */

struct attach {
    const struct config *config;
    struct taking taking;
    struct keep keep;
    pid_t script;
    int script_fd; /* pidfd */
    int stop_timer;
    int kill_timer;
    int runtime_timer; /* --max-runtime; -1: none */
    int lost_fd;
    int ready[2];   /* a pipe: the keeper tells through it when it keeps */
    bool stopped;   /* the script has been told to stop */
    bool told_lost; /* an event has told of a loss */
    int64_t started_wall_ms;
    int64_t started_ms;
};

/* The process that was named on the command line. */
static int open_named(struct attach *attach)
{
    struct pollfd alive = {-1, POLLIN, 0};
    attach->script = attach->config->attach_pid;
    attach->script_fd = alive.fd = (int)syscall(SYS_pidfd_open, attach->script, 0);
    if (alive.fd < 0) {
        log_error("cannot watch process %d: %s", (int)attach->script, strerror(errno));
        /* a number that is no process: none at all, or only a thread of one */
        return errno == ESRCH || errno == EINVAL || errno == ENOENT ? STATUS_USAGE : STATUS_OS;
    }
    if (poll(&alive, 1, 0) == 1) {
        log_error("process %d has ended", (int)attach->script);
        return STATUS_USAGE;
    }
    if (syscall(SYS_pidfd_send_signal, alive.fd, 0, NULL, 0) != 0) {
        log_error("could not stop process %d if the lock were lost: %s", (int)attach->script,
                  strerror(errno));
        return STATUS_OS;
    }
    return STATUS_OK;
}

static int open_caller(struct attach *attach)
{
    attach->script = caller_script();
    if (attach->script == 0) {
        log_error("no script has called this; name one with --attach=PID");
        return STATUS_USAGE;
    }
    attach->script_fd = (int)syscall(SYS_pidfd_open, attach->script, 0);
    if (attach->script_fd < 0) {
        log_error("cannot watch process %d: %s", (int)attach->script, strerror(errno));
        return STATUS_OS;
    }
    /* the caller cannot have been replaced by another of its number while we descend from it */
    if (caller_script() != attach->script) {
        log_error("the calling script has ended");
        return STATUS_OS;
    }
    return STATUS_OK;
}

/* The script's own name, for those who ask who holds the lock. */
static void read_script_name(pid_t script, char *name, size_t size)
{
    char path_storage[64];
    struct text path = TEXT_OVER(path_storage);
    text_addf(&path, "/proc/%d/comm", (int)script);
    int fd = open(path.at, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, name, size - 1) : -1;
    if (fd >= 0)
        close(fd);
    name[got > 0 ? got : 0] = '\0';
    name[strcspn(name, "\n")] = '\0';
}

static bool is_readable(int fd)
{
    struct pollfd one = {fd, POLLIN, 0};
    return fd >= 0 && poll(&one, 1, 0) == 1 && one.revents != 0;
}

static void tell_reason(const struct attach *attach, const char *what, const char *reason)
{
    struct event event;
    event_begin(&event, attach->config->status_fd, what, attach->config->name);
    event_string(&event, "reason", reason);
    event_send(&event);
}

static void signal_script(const struct attach *attach, int signal)
{
    syscall(SYS_pidfd_send_signal, attach->script_fd, signal, NULL, 0);
}

/* Once; KILL follows only where --kill-after asks for it, since a script is not our child. */
static void stop_script(struct attach *attach, const char *reason)
{
    const struct config *config = attach->config;
    bool by_runtime = strcmp(reason, "max-runtime") == 0;
    int64_t kill_after = config->kill_after_ms;
    if (attach->stopped || (attach->told_lost && !by_runtime))
        return;
    if (!by_runtime)
        tell_reason(attach, "lost", reason);
    attach->told_lost = attach->told_lost || !by_runtime;
    if (!by_runtime && config->on_lost == ON_LOST_WARN)
        return;
    attach->stopped = true;
    tell_reason(attach, "stopping", reason);
    signal_script(attach, config->stop_signal);
    if (kill_after < 0) {
        clock_timer_set(attach->kill_timer, CLOCK_NEVER);
        return;
    }
    if (strcmp(reason, "lost") == 0 && kill_after > LOST_GRACE_MS)
        kill_after = LOST_GRACE_MS; /* somebody else may be at work already */
    /* from here on the timer is ours alone: an extension must not push it on */
    int timer = clock_timer_open();
    clock_timer_set(timer, clock_boot_ms() + kill_after);
    attach->kill_timer = timer;
}

/* Until the script has ended. */
static void watch(struct attach *attach)
{
    bool lost_told = false;
    bool late_told = false;
    for (;;) {
        struct pollfd watched[] = {
            {attach->script_fd, POLLIN, 0},
            {lost_told ? -1 : attach->lost_fd, POLLIN, 0},
            {late_told ? -1 : attach->stop_timer, POLLIN, 0},
            {attach->runtime_timer, POLLIN, 0},
            {attach->stopped ? attach->kill_timer : -1, POLLIN, 0},
        };
        if (poll(watched, sizeof(watched) / sizeof(watched[0]), -1) < 0)
            continue;
        if (watched[0].revents != 0)
            return;
        if (watched[1].revents != 0) {
            lost_told = true;
            stop_script(attach, "lost");
        }
        if (watched[2].revents != 0) {
            late_told = true;
            stop_script(attach, "expired");
        }
        if (watched[3].revents != 0) {
            attach->runtime_timer = -1;
            stop_script(attach, "max-runtime");
        }
        if (watched[4].revents != 0) {
            attach->kill_timer = -1;
            signal_script(attach, SIGKILL);
        }
    }
}

static void release(struct attach *attach)
{
    int64_t duration = clock_boot_ms() - attach->started_ms;
    /* how the script ended is its parent's to know: status -1 */
    struct lock_run_record record = {attach->started_wall_ms, duration, -1, false};
    struct event event;
    event_begin(&event, attach->config->status_fd, "exited", attach->config->name);
    event_int(&event, "duration_ms", duration);
    event_send(&event);
    taking_release(&attach->taking, &record, keep_loss(&attach->keep) != NULL);
}

static bool prepare(struct attach *attach)
{
    const struct lease *lease = &attach->taking.lease;
    int64_t confirmed = lock_confirmed_ms(attach->taking.lock);
    attach->stop_timer = clock_timer_open();
    attach->kill_timer = clock_timer_open();
    attach->runtime_timer = attach->config->max_runtime_ms > 0 ? clock_timer_open() : -1;
    if (attach->stop_timer < 0 || attach->kill_timer < 0 ||
        (attach->config->max_runtime_ms > 0 && attach->runtime_timer < 0))
        return false;
    clock_timer_set(attach->stop_timer, lease_stop_at(lease, confirmed));
    if (attach->runtime_timer >= 0)
        clock_timer_set(attach->runtime_timer, attach->started_ms + attach->config->max_runtime_ms);
    keep_init(&attach->keep, attach->config, lease, attach->taking.lock);
    return true;
}

/* In the keeper, which closes its end of the pipe once the lock is kept; a byte before: it is not. */
static int keep_until_end(void *context)
{
    struct attach *attach = context;
    close(attach->ready[0]);
    attach->lost_fd = keep_start(&attach->keep, attach->stop_timer, attach->kill_timer);
    const char failed = (char)(attach->lost_fd < 0);
    if (failed)
        (void)!write(attach->ready[1], &failed, 1);
    close(attach->ready[1]);
    if (failed)
        return STATUS_OS;
    watch(attach);
    keep_stop(&attach->keep);
    release(attach);
    return STATUS_OK;
}

/* The keeper as a process of its own, that nobody has to wait for; it keeps --status-fd. */
static int start_keeper(struct attach *attach)
{
    const int *ends = attach->ready;
    if (!prepare(attach) || pipe2(attach->ready, O_CLOEXEC) != 0) {
        log_error("cannot prepare the keeper: %s", strerror(errno));
        return STATUS_OS;
    }
    pid_t keeper = detach_spawn(keep_until_end, attach, attach->config->status_fd);
    int error = errno;
    close(ends[1]);
    char failed = 0;
    bool kept = keeper > 0 && read(ends[0], &failed, 1) == 0;
    close(ends[0]);
    if (kept)
        return STATUS_OK;
    log_error("cannot start the keeper: %s", keeper < 0 ? strerror(error) : "it has failed");
    return STATUS_OS;
}

static int print_fence(const struct attach *attach)
{
    char digits[24];
    struct text fence = TEXT_OVER(digits);
    text_add_int(&fence, lock_fence(attach->taking.lock));
    return (int)output_line(fence.at);
}

static int attach_locked(struct attach *attach)
{
    int status = STATUS_OK;
    attach->started_ms = clock_boot_ms();
    attach->started_wall_ms = clock_wall_ms();
    if (attach->config->print == PRINT_FENCE)
        status = print_fence(attach);
    if (status == STATUS_OK && is_readable(attach->script_fd)) {
        log_error("process %d has ended meanwhile", (int)attach->script);
        status = STATUS_OS;
    }
    if (status == STATUS_OK)
        status = start_keeper(attach);
    if (status != STATUS_OK)
        taking_release(&attach->taking, NULL, false);
    return status;
}

int command_attach(const struct config *config)
{
    struct attach attach = {.config = config, .script_fd = -1, .lost_fd = -1};
    char name[64] = "";
    bool skip = false;
    int status = config->attach_pid > 0 ? open_named(&attach) : open_caller(&attach);
    if (status != STATUS_OK)
        return status;
    read_script_name(attach.script, name, sizeof(name));
    status = taking_open(&attach.taking, config, attach.script, name);
    if (status == STATUS_OK)
        status = taking_acquire(&attach.taking, &skip);
    if (status == STATUS_OK && attach.taking.locked)
        status = attach_locked(&attach);
    taking_close(&attach.taking);
    return status;
}
