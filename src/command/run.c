/*
 * Owns the story of a run: acquire → spawn → supervise (the keeper extends beside it) → child dead →
 * keeper joined → release → exit status. Promises that on every path out of it the lock is released
 * or expires by itself, and that the child's own status is what comes out.
 */
#include "command/run.h"

#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/event.h"
#include "base/log.h"
#include "base/text.h"
#include "command/child_environment.h"
#include "command/keep.h"
#include "command/report.h"
#include "command/taking.h"
#include "job/descendants.h"
#include "job/signals.h"
#include "job/spawn.h"
#include "job/supervisor.h"
#include "lock/lock.h"

struct run {
    const struct config *config;
    struct taking taking;
    struct keep keep;
    bool loss_told;
    bool aged; /* the lease was over before the command could begin */
};

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
    struct run *run = context;
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

    if (reason != SUPERVISOR_RUNTIME) {
        run->loss_told = true;
        tell_reason(run, "lost", words[reason], 0);
    }
    if (signal != 0)
        tell_reason(run, "stopping", words[reason], signal);
}

/* A loss that the keeper met when the command had just ended: there was nothing left to stop. */
static void tell_late_loss(struct run *run)
{
    const char *loss = keep_loss(&run->keep);
    if (loss == NULL || run->loss_told)
        return;
    run->loss_told = true;
    log_warning("the lock was lost while the command ran: %s", loss);
    tell_reason(run, "lost", "lost", 0);
}

static int start_keeper(void *context, int stop_timer, int kill_timer)
{
    struct run *run = context;
    int fd = keep_start(&run->keep, stop_timer, kill_timer);
    if (fd < 0 && !run->keep.told) {
        log_warning("cannot start the thread that extends the lock: %s; trying again",
                    strerror(errno));
        run->keep.told = true; /* its first extension will tell the end of it */
    }
    return fd;
}

static struct supervisor_plan plan_for(struct run *run, const struct child_environment *environment)
{
    const struct config *config = run->config;
    int64_t confirmed = run->taking.locked ? lock_confirmed_ms(run->taking.lock) : 0;
    struct supervisor_plan plan = {
        .self = run->taking.pid,
        .own_group = !config->foreground,
        .signals = &run->taking.signals,
        .started_ms = clock_boot_ms(),
        .max_runtime_ms = config->max_runtime_ms,
        .stop_signal = config->stop_signal,
        .grace_ms = run->taking.lease.grace_ms,
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
    if (run->taking.locked) {
        plan.lease.extend_at_ms = lease_extend_at(&run->taking.lease, confirmed);
        plan.lease.stop_at_ms = lease_stop_at(&run->taking.lease, confirmed);
        plan.lease.kill_at_ms = lease_kill_at(&run->taking.lease, confirmed);
    }
    return plan;
}

static int status_of(int wait_status)
{
    if (WIFSIGNALED(wait_status))
        return STATUS_SIGNAL + WTERMSIG(wait_status);
    return WEXITSTATUS(wait_status);
}

/* The status that a finished job gives. */
static int finished(struct run *run, const struct supervisor_plan *plan,
                    const struct supervisor_outcome *outcome)
{
    int status = status_of(outcome->wait_status);
    int64_t duration = outcome->ended_ms - plan->started_ms;
    struct lock_run_record record = {clock_wall_ms() - duration, duration, status, false};
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
    tell_late_loss(run);
    taking_release(&run->taking, &record, run->loss_told);
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
    case SPAWN_TOO_LATE:
        log_warning("the lease was over before '%s' could be started; taking the lock again",
                    command);
        return STATUS_LOST;
    case SPAWN_OK:
    case SPAWN_NO_PROCESS:
    default:
        log_error("cannot start a process for '%s': %s", command, strerror(errno));
        return STATUS_OS;
    }
}

/* Starts it, with all that its supervision cannot do without: after this nothing may be refused. */
static int start_child(struct run *run, const struct child_environment *environment,
                       struct supervisor_plan *plan)
{
    const struct spawn_request request = {.argv = run->config->command,
                                          .environment = environment->entries,
                                          .signals = &run->taking.signals,
                                          .self = run->taking.pid,
                                          .own_group = plan->own_group,
                                          .not_after_ms = plan->lease.stop_at_ms};
    plan->timer = clock_timer_open();
    if (plan->timer < 0) {
        log_error("cannot make a timer for '%s': %s", run->config->command[0], strerror(errno));
        return STATUS_OS;
    }
    int status =
        taking_interrupted(&run->taking); /* the last moment at which a signal is ours alone */
    if (status == STATUS_OK) {
        enum spawn_result result = spawn_child(&request, &plan->child);
        run->aged = result == SPAWN_TOO_LATE;
        if (result != SPAWN_OK)
            status = not_started(run, result);
    }
    if (status != STATUS_OK)
        close(plan->timer);
    return status;
}

static int run_child(struct run *run, const struct child_environment *environment)
{
    struct supervisor_plan plan = plan_for(run, environment);
    int status = start_child(run, environment, &plan);
    if (status != STATUS_OK) {
        taking_release(&run->taking, NULL, run->aged);
        return status;
    }
    taking_tell(&run->taking, "started", "pid", plan.child);
    struct supervisor_outcome outcome;
    supervise(&plan, &outcome);
    keep_stop(&run->keep);
    status = finished(run, &plan, &outcome);
    close(plan.timer); /* last: whoever is next has waited long enough */
    return status;
}

static int run_job(struct run *run)
{
    struct child_environment environment;
    const char *key = run->taking.locked ? lock_key(run->taking.lock) : NULL;
    descendants_adopt();
    keep_init(&run->keep, run->config, &run->taking.lease, run->taking.lock);
    if (!child_environment_make(&environment, environ, run->config->name, key,
                                run->taking.locked ? lock_fence(run->taking.lock) : 0,
                                run->taking.locked ? taking_slot(&run->taking) : 0) ||
        !signals_before_child(&run->taking.signals)) {
        log_error("cannot prepare the command: %s", strerror(errno));
        taking_release(&run->taking, NULL, false);
        return STATUS_OS;
    }
    int status = run_child(run, &environment);
    child_environment_free(&environment);
    return status;
}

/* A lease that was over before the command could begin is no run: the lock is taken once more. */
static int take_and_run(struct run *run, bool *skip)
{
    int status;
    do {
        run->aged = false;
        status = taking_acquire(&run->taking, skip);
        if (status == STATUS_OK)
            status = run_job(run);
    } while (run->aged);
    return status;
}

int command_run(const struct config *config)
{
    struct run run = {.config = config};
    bool skip = false;
    int status = taking_open(&run.taking, config, getpid(), config->command[0]);
    if (status == STATUS_OK)
        status = take_and_run(&run, &skip);
    if (skip)
        status = STATUS_OK;
    taking_tell(&run.taking, "ended", "status", status);
    taking_close(&run.taking);
    return status;
}
