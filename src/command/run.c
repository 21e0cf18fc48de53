/*
 * Owns the story of a run: acquire → spawn → supervise (the keeper extends beside it) → child dead →
 * keeper joined → release → exit status. Promises that on every path out of it the lock is released
 * or expires by itself, and that the child's own status is what comes out.
 */
#include "command/run.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/event.h"
#include "base/log.h"
#include "base/text.h"
#include "base/token.h"
#include "base/token.h"
#include "cli/duration.h"
#include "command/child_environment.h"
#include "command/keep.h"
#include "command/report.h"
#include "command/waiting.h"
#include "job/descendants.h"
#include "job/signals.h"
#include "job/spawn.h"
#include "job/supervisor.h"
#include "lock/lease.h"
#include "lock/lock.h"

#define RELEASE_MS 5000

extern char **environ;

struct run {
    const struct config *config;
    struct signals signals;
    struct lease lease;
    struct lock *lock;
    bool locked; /* false: --on-error run */
    struct keep keep;
};

static void tell(const struct run *run, const char *what, const char *key, int64_t number)
{
    struct event event;
    event_begin(&event, run->config->status_fd, what, run->config->name);
    if (key != NULL)
        event_int(&event, key, number);
    event_send(&event);
}

static bool is_setting(enum config_source source)
{
    return source == SOURCE_FILE || source == SOURCE_ENVIRONMENT;
}

/* The lease must leave time to extend twice before the child would have to stop. */
static int check_lease(struct run *run)
{
    const struct config *config = run->config;
    int64_t least;
    if (lease_make(config->ttl_ms, config->kill_after_ms, &run->lease, &least))
        return STATUS_OK;
    char storage[64];
    struct text shown = TEXT_OVER(storage);
    text_add_int(&shown, least);
    log_error("--ttl is too short for %s: at least %sms is needed, so that a failed extension can "
              "be tried again before the command must be stopped",
              config->kill_after_ms >= 0 ? "this --kill-after" : "its grace", shown.at);
    bool by_setting = is_setting(config->ttl_source) || is_setting(config->kill_after_source);
    return by_setting ? STATUS_CONFIG : STATUS_USAGE;
}

/* 128 + N for a signal that came before the child ran; `otherwise` when none did after all. */
static int interrupted(const struct run *run, int otherwise)
{
    int signal = signals_fatal(&run->signals);
    if (signal == 0)
        return otherwise;
    log_info("stopped by signal %d before the command ran", signal);
    return STATUS_SIGNAL + signal;
}

/* STATUS_OK, or the status to exit with because of a signal. */
static int wait_jitter(const struct run *run)
{
    int64_t most = run->config->jitter_ms;
    if (most <= 0)
        return STATUS_OK;
    uint32_t bound = most < UINT32_MAX ? (uint32_t)most + 1 : UINT32_MAX;
    int64_t until = clock_boot_ms() + token_random_below(bound);
    for (;;) {
        struct deadline deadline = {until, run->signals.fd};
        if (deadline_wait(-1, 0, &deadline) == DEADLINE_PASSED)
            return STATUS_OK;
        int status = interrupted(run, STATUS_OK);
        if (status != STATUS_OK)
            return status;
    }
}

static int64_t wait_until(const struct config *config, int64_t now)
{
    return config->wait_ms == DURATION_INFINITE ? CLOCK_NEVER : now + config->wait_ms;
}

/* Takes the lock, or waits for it as long as --wait allows. */
static enum lock_result acquire(struct run *run, int64_t until)
{
    const struct config *config = run->config;
    struct deadline connect = {clock_boot_ms() + config->connect_timeout_ms, run->signals.fd};
    enum lock_result result = lock_acquire(run->lock, config->wait_ms == 0, &connect);
    if (result != LOCK_HELD || config->wait_ms == 0)
        return result;

    struct waiting waiting;
    struct deadline wait = {until, run->signals.fd};
    waiting_init(&waiting, config);
    const struct lock_waiting shown = waiting_for_lock(&waiting);
    result = lock_wait(run->lock, &shown, config->connect_timeout_ms, &wait);
    waiting_end(&waiting);
    return result;
}

static void tell_reason(const struct run *run, const char *what, const char *reason, int signal)
{
    struct event event;
    event_begin(&event, run->config->status_fd, what, run->config->name);
    event_string(&event, "reason", reason);
    if (signal != 0)
        event_int(&event, "signal", signal);
    event_send(&event);
}

static void stopping(void *context, enum supervisor_reason reason, int signal)
{
    const struct run *run = context;
    static const char *const words[] = {"ended", "expired", "lost", "max-runtime"};
    const char *loss = keep_loss(&run->keep);
    char storage[768];
    struct text text = TEXT_OVER(storage);

    if (reason == SUPERVISOR_LOST)
        text_addf(&text, "lost the lock: %s", loss != NULL ? loss : "unknown");
    else if (reason == SUPERVISOR_EXPIRED)
        text_add(&text, "the lock could not be extended in time and may be lost");
    else
        text_add(&text, "the command has run for its --max-runtime");
    if (signal == 0) {
        text_add(&text, "; the command runs on all the same (--on-lost warn)");
    } else {
        text_add(&text, "; stopping the command with ");
        report_add_signal(&text, signal);
    }
    log_warning("%s", text.at);

    if (reason != SUPERVISOR_RUNTIME)
        tell_reason(run, "lost", words[reason], 0);
    if (signal != 0)
        tell_reason(run, "stopping", words[reason], signal);
}

static int start_keeper(void *context, int stop_timer, int kill_timer)
{
    struct run *run = context;
    int fd = keep_start(&run->keep, stop_timer, kill_timer);
    if (fd < 0)
        log_error("cannot start the thread that extends the lock: %s", strerror(errno));
    return fd;
}

static struct supervisor_plan plan_for(struct run *run, const struct child_environment *environment)
{
    const struct config *config = run->config;
    int64_t confirmed = run->locked ? lock_confirmed_ms(run->lock) : 0;
    struct supervisor_plan plan = {
        .own_group = !config->foreground,
        .signals = &run->signals,
        .started_ms = clock_boot_ms(),
        .max_runtime_ms = config->max_runtime_ms,
        .stop_signal = config->stop_signal,
        .grace_ms = run->lease.grace_ms,
        .wait_descendants = config->wait_descendants,
        .marker = environment->marker,
        .lease = {.extend_at_ms = CLOCK_NEVER,
                  .stop_at_ms = CLOCK_NEVER,
                  .kill_at_ms = CLOCK_NEVER,
                  .kills = config->on_lost == ON_LOST_KILL,
                  .start_keeper = start_keeper,
                  .stopping = stopping,
                  .context = run},
    };
    if (run->locked) {
        plan.lease.extend_at_ms = lease_extend_at(&run->lease, confirmed);
        plan.lease.stop_at_ms = lease_stop_at(&run->lease, confirmed);
        plan.lease.kill_at_ms = lease_kill_at(&run->lease, confirmed);
    }
    return plan;
}

static int status_of(int wait_status)
{
    if (WIFSIGNALED(wait_status))
        return STATUS_SIGNAL + WTERMSIG(wait_status);
    return WEXITSTATUS(wait_status);
}

static void release(struct run *run, const struct lock_run_record *record, bool lost)
{
    if (!run->locked)
        return;
    run->locked = false;
    enum lock_result result = lock_release(run->lock, record, clock_boot_ms() + RELEASE_MS);
    if (result == LOCK_OK) {
        log_info("released the lock");
        tell(run, "released", "fence", lock_fence(run->lock));
    } else if (lost) {
        log_info("the lock was not released: it was lost before");
    } else if (result == LOCK_TAKEN) {
        char storage[512];
        struct text text = TEXT_OVER(storage);
        report_add_blocker(&text, lock_blocker(run->lock));
        log_warning("the lock was lost while the command ran: it is now %s", text.at);
    } else if (result == LOCK_GONE) {
        log_warning("the lock was lost while the command ran: its key had vanished at the end");
    } else {
        log_warning("cannot release the lock: %s; it expires by itself", lock_why(run->lock));
    }
}

/* The status that a finished job gives. */
static int finished(struct run *run, const struct supervisor_plan *plan,
                    const struct supervisor_outcome *outcome)
{
    int status = status_of(outcome->wait_status);
    int64_t duration = outcome->ended_ms - plan->started_ms;
    struct lock_run_record record = {clock_wall_ms() - duration, duration, status};
    struct event event;
    event_begin(&event, run->config->status_fd, "exited", run->config->name);
    event_int(&event, WIFSIGNALED(outcome->wait_status) ? "signal" : "status",
              WIFSIGNALED(outcome->wait_status) ? WTERMSIG(outcome->wait_status) : status);
    event_int(&event, "duration_ms", duration);
    event_send(&event);

    if (run->config->verbose) {
        char storage[512];
        struct text names = TEXT_OVER(storage);
        if (supervisor_left_running(plan, &names) > 0)
            log_info("the command has left running: %s", names.at);
    }
    bool lost = outcome->reason == SUPERVISOR_LOST || outcome->reason == SUPERVISOR_EXPIRED;
    release(run, &record, lost || keep_loss(&run->keep) != NULL);
    if (lost)
        return STATUS_LOST;
    return outcome->reason == SUPERVISOR_RUNTIME ? STATUS_TIMEOUT : status;
}

static int not_started(const struct run *run, enum spawn_result result)
{
    const char *command = run->config->command[0];
    switch (result) {
    case SPAWN_NOT_FOUND:
        log_error("cannot run '%s': %s", command, strerror(errno));
        return STATUS_NOT_FOUND;
    case SPAWN_NOT_EXECUTABLE:
        log_error("cannot run '%s': %s", command, strerror(errno));
        return STATUS_NOT_EXECUTABLE;
    case SPAWN_OK:
    case SPAWN_NO_PROCESS:
    default:
        log_error("cannot start a process for '%s': %s", command, strerror(errno));
        return STATUS_OS;
    }
}

static int run_child(struct run *run, const struct child_environment *environment)
{
    const struct spawn_request request = {run->config->command, environment->entries,
                                          &run->signals, !run->config->foreground};
    struct supervisor_plan plan = plan_for(run, environment);
    int status = interrupted(run, STATUS_OK); /* the last moment at which a signal is ours alone */
    if (status == STATUS_OK) {
        enum spawn_result result = spawn_child(&request, &plan.child);
        if (result != SPAWN_OK)
            status = not_started(run, result);
    }
    if (status != STATUS_OK) {
        release(run, NULL, false);
        return status;
    }
    tell(run, "started", "pid", plan.child);
    struct supervisor_outcome outcome;
    supervise(&plan, &outcome);
    keep_stop(&run->keep);
    return finished(run, &plan, &outcome);
}

/* The number that the child sees: with --slots 1, a plain lock underneath, there is one as well. */
static int slot_of(const struct run *run)
{
    return run->config->slots == 1 ? 1 : lock_slot(run->lock);
}

static enum lock_mode mode_of(const struct config *config)
{
    if (config->shared)
        return LOCK_MODE_SHARED;
    return config->slots > 1 ? LOCK_MODE_SLOTS : LOCK_MODE_EXCLUSIVE;
}

static int run_job(struct run *run)
{
    struct child_environment environment;
    const char *key = run->locked ? lock_key(run->lock) : NULL;
    descendants_adopt();
    keep_init(&run->keep, run->config, &run->lease, run->lock);
    if (!child_environment_make(&environment, environ, run->config->name, key,
                                run->locked ? lock_fence(run->lock) : 0,
                                run->locked ? slot_of(run) : 0) ||
        !signals_before_child(&run->signals)) {
        log_error("cannot prepare the command: %s", strerror(errno));
        release(run, NULL, false);
        return STATUS_OS;
    }
    int status = run_child(run, &environment);
    child_environment_free(&environment);
    return status;
}

/* What --on-error makes of a server that cannot be reached. */
static int run_unavailable(struct run *run)
{
    tell(run, "unavailable", NULL, 0);
    switch (run->config->on_error) {
    case ON_ERROR_SKIP:
        log_warning("%s; skipping this run (--on-error skip)", lock_why(run->lock));
        return STATUS_OK;
    case ON_ERROR_RUN:
        log_warning("%s; running WITHOUT A LOCK (--on-error run)", lock_why(run->lock));
        return run_job(run);
    case ON_ERROR_FAIL:
    default:
        return report_not_acquired(run->config, run->lock, LOCK_UNAVAILABLE, 0);
    }
}

/* Acquires and runs. An acquisition that has aged before the child could start is done again. */
static int acquire_and_run(struct run *run)
{
    int64_t began = clock_boot_ms();
    int64_t until = wait_until(run->config, began);
    for (;;) {
        enum lock_result result = acquire(run, until);
        if (result == LOCK_INTERRUPTED) {
            int status = interrupted(run, STATUS_OK);
            if (status != STATUS_OK)
                return status;
            continue;
        }
        if (result == LOCK_UNAVAILABLE)
            return run_unavailable(run);
        if (result != LOCK_OK)
            return report_not_acquired(run->config, run->lock, result,
                                       run->config->wait_ms > 0 ? clock_boot_ms() - began : 0);
        run->locked = true;
        if (clock_boot_ms() < lease_stop_at(&run->lease, lock_confirmed_ms(run->lock)))
            break;
        release(run, NULL, false);
    }
    struct event event;
    event_begin(&event, run->config->status_fd, "acquired", run->config->name);
    event_string(&event, "key", lock_key(run->lock));
    event_int(&event, "fence", lock_fence(run->lock));
    if (slot_of(run) > 0)
        event_int(&event, "slot", slot_of(run));
    event_send(&event);
    log_info("acquired the lock, fence %lld", (long long)lock_fence(run->lock));
    return run_job(run);
}

static int open_lock(struct run *run)
{
    const struct config *config = run->config;
    const struct lock_settings settings = {
        .name = config->name,
        .prefix = config->prefix,
        .command = config->command[0],
        .lease = run->lease,
        .min_hold_ms = config->min_hold_ms,
        .mode = mode_of(config),
        .slots = config->slots,
        .server = {&config->servers[0], config->user, &config->password, config->password_file},
    };
    run->lock = lock_open(&settings);
    if (run->lock != NULL)
        return STATUS_OK;
    log_error("cannot make a token: no memory, or no randomness");
    return STATUS_OS;
}

int command_run(const struct config *config)
{
    struct run run = {.config = config};
    int status = check_lease(&run);
    if (status != STATUS_OK)
        return status;
    if (config->status_fd > STDERR_FILENO)
        (void)fcntl(config->status_fd, F_SETFD, FD_CLOEXEC); /* not the child's */
    if (!signals_open(&run.signals)) {
        log_error("cannot watch for signals: %s", strerror(errno));
        return STATUS_OS;
    }
    status = wait_jitter(&run);
    if (status == STATUS_OK)
        status = open_lock(&run);
    if (status == STATUS_OK)
        status = acquire_and_run(&run);
    tell(&run, "ended", "status", status);
    lock_close(run.lock);
    return status;
}
