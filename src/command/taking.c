/*
 * Owns the way to a lock and back. Promises that whoever gets STATUS_OK with `locked` has a lock
 * whose lease has not aged, and that every other way out has told why.
 */
#include "command/taking.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/event.h"
#include "base/log.h"
#include "base/text.h"
#include "base/token.h"
#include "cli/duration.h"
#include "cli/setting.h"
#include "command/report.h"
#include "command/waiting.h"

#define RELEASE_MS 5000

void taking_tell(const struct taking *taking, const char *what, const char *key, int64_t number)
{
    struct event event;
    event_begin(&event, taking->config->status_fd, what, taking->config->name);
    if (key != NULL)
        event_int(&event, key, number);
    event_send(&event);
}

static bool is_setting(enum config_source source)
{
    return source == SOURCE_FILE || source == SOURCE_ENVIRONMENT;
}

int taking_lease_status(const struct config *config)
{
    bool by_setting =
        is_setting(config->ttl_from.source) || is_setting(config->kill_after_from.source);
    return by_setting ? STATUS_CONFIG : STATUS_USAGE;
}

void taking_add_lease_origin(struct text *text, const struct config *config)
{
    setting_add_origin(text, OPTION_TTL, &config->ttl_from);
    setting_add_origin(text, OPTION_KILL_AFTER, &config->kill_after_from);
}

/* The lease must leave time to extend twice before the child would have to stop. */
static int check_lease(struct taking *taking)
{
    const struct config *config = taking->config;
    int64_t least;
    if (lease_make(config->ttl_ms, config->kill_after_ms, &taking->lease, &least))
        return STATUS_OK;
    char storage[512];
    struct text origin = TEXT_OVER(storage);
    taking_add_lease_origin(&origin, config);
    log_error("--ttl is too short for %s: at least %lldms is needed, so that a failed extension "
              "can be tried again before the command must be stopped%s",
              config->kill_after_ms >= 0 ? "this --kill-after" : "its grace", (long long)least,
              origin.at);
    return taking_lease_status(config);
}

int taking_interrupted(const struct taking *taking)
{
    int signal = signals_fatal(&taking->signals);
    if (signal == 0)
        return STATUS_OK;
    log_info("stopped by signal %d before the command ran", signal);
    return STATUS_SIGNAL + signal;
}

/* STATUS_OK, or the status to exit with because of a signal. */
static int wait_jitter(const struct taking *taking)
{
    int64_t most = taking->config->jitter_ms;
    if (most <= 0)
        return STATUS_OK;
    uint32_t bound = most < UINT32_MAX ? (uint32_t)most + 1 : UINT32_MAX;
    int64_t until = clock_boot_ms() + token_random_below(bound);
    for (;;) {
        struct deadline deadline = {until, taking->signals.fd};
        if (deadline_wait(-1, 0, &deadline) == DEADLINE_PASSED)
            return STATUS_OK;
        int status = taking_interrupted(taking);
        if (status != STATUS_OK)
            return status;
    }
}

static int64_t wait_until(const struct config *config, int64_t now)
{
    return config->wait_ms == DURATION_INFINITE ? CLOCK_NEVER : now + config->wait_ms;
}

/* Takes the lock, or waits for it as long as --wait allows. */
static enum lock_result acquire(struct taking *taking, int64_t until)
{
    const struct config *config = taking->config;
    struct deadline connect = {clock_boot_ms() + config->connect_timeout_ms, taking->signals.fd};
    enum lock_result result = lock_acquire(taking->lock, config->wait_ms == 0, &connect);
    if (result != LOCK_HELD || config->wait_ms == 0)
        return result;

    struct waiting waiting;
    struct deadline wait = {until, taking->signals.fd};
    waiting_init(&waiting, config);
    signals_before_waiting(&taking->signals);
    const struct lock_waiting shown = waiting_for_lock(&waiting);
    result = lock_wait(taking->lock, &shown, config->connect_timeout_ms, &wait);
    waiting_end(&waiting);
    return result;
}

void taking_release(struct taking *taking, const struct lock_run_record *record, bool lost)
{
    if (!taking->locked)
        return;
    taking->locked = false;
    bool over =
        clock_boot_ms() >= lease_valid_until(&taking->lease, lock_confirmed_ms(taking->lock));
    enum lock_result result = lock_release(taking->lock, record, clock_boot_ms() + RELEASE_MS);
    if (result == LOCK_OK) {
        log_info("released the lock");
        taking_tell(taking, "released", "fence", lock_fence(taking->lock));
    } else if (lost) {
        log_info("the lock was not released: it was lost before");
    } else if (result == LOCK_TAKEN) {
        char storage[512];
        struct text text = TEXT_OVER(storage);
        report_add_blocker(&text, lock_blocker(taking->lock));
        log_warning("the lock was lost while the command ran: it is now %s", text.at);
    } else if (result == LOCK_GONE) {
        log_warning("the lock was lost while the command ran: its key had vanished at the end");
    } else if (over) {
        log_warning(
            "the lock may have been lost while the command ran: its lease was over at the end");
    } else {
        log_warning("cannot release the lock: %s; it expires by itself", lock_why(taking->lock));
    }
}

int taking_slot(const struct taking *taking)
{
    return taking->config->slots == 1 ? 1 : lock_slot(taking->lock);
}

static enum lock_mode mode_of(const struct config *config)
{
    if (config->shared)
        return LOCK_MODE_SHARED;
    return config->slots > 1 ? LOCK_MODE_SLOTS : LOCK_MODE_EXCLUSIVE;
}

/* What --on-error makes of a server that cannot be reached. */
static int unavailable(struct taking *taking, bool *skip)
{
    const char *why = lock_why(taking->lock);
    taking_tell(taking, "unavailable", NULL, 0);
    switch (taking->config->on_error) {
    case ON_ERROR_SKIP:
        log_warning("%s; skipping this run (--on-error skip)", why);
        *skip = true;
        return STATUS_UNAVAILABLE;
    case ON_ERROR_RUN:
        log_warning("%s; running WITHOUT A LOCK (--on-error run)", why);
        return STATUS_OK;
    case ON_ERROR_FAIL:
    default:
        return report_not_acquired(taking->config, taking->lock, LOCK_UNAVAILABLE, 0);
    }
}

static void tell_acquired(const struct taking *taking)
{
    struct event event;
    event_begin(&event, taking->config->status_fd, "acquired", taking->config->name);
    event_string(&event, "key", lock_key(taking->lock));
    event_int(&event, "fence", lock_fence(taking->lock));
    if (taking_slot(taking) > 0)
        event_int(&event, "slot", taking_slot(taking));
    event_send(&event);
    if (lock_remark(taking->lock) != NULL)
        log_warning("%s", lock_remark(taking->lock));
    log_info("acquired the lock, fence %lld", (long long)lock_fence(taking->lock));
}

int taking_acquire(struct taking *taking, bool *skip)
{
    const struct config *config = taking->config;
    int status = wait_jitter(taking);
    if (status != STATUS_OK)
        return status;
    int64_t began = clock_boot_ms();
    int64_t until = wait_until(config, began);
    for (;;) {
        enum lock_result result = acquire(taking, until);
        if (result == LOCK_INTERRUPTED) {
            status = taking_interrupted(taking);
            if (status != STATUS_OK)
                return status;
            continue;
        }
        if (result == LOCK_UNAVAILABLE)
            return unavailable(taking, skip);
        if (result != LOCK_OK) {
            int64_t waited = config->wait_ms > 0 ? clock_boot_ms() - began : 0;
            status = report_not_acquired(config, taking->lock, result, waited);
            *skip = status == STATUS_OK; /* -E 0 */
            return *skip ? STATUS_HELD : status;
        }
        taking->locked = true;
        if (clock_boot_ms() < lease_stop_at(&taking->lease, lock_confirmed_ms(taking->lock)))
            break;
        taking_release(taking, NULL, false);
    }
    tell_acquired(taking);
    return STATUS_OK;
}

void taking_name_servers(struct taking_servers *servers, const struct config *config)
{
    servers->count = (int)config->server_count;
    for (int i = 0; i < servers->count; i++)
        servers->at[i] = (struct client_settings){
            .url = &config->servers[i],
            .user = config->user,
            .password = &config->password,
            .tls = &config->tls,
            .sentinel_user = config->sentinel_user,
            .sentinel_password = &config->sentinel_password,
            .password_file = config->password_file,
        };
}

struct lock_settings taking_settings(const struct config *config, const struct lease *lease,
                                     const struct taking_servers *servers)
{
    return (struct lock_settings){
        .name = config->name,
        .prefix = config->prefix,
        .command = "redislock",
        .lease = *lease,
        .min_hold_ms = config->min_hold_ms,
        .mode = mode_of(config),
        .slots = config->slots,
        .server_count = servers->count,
        .server = servers->at[0],
        .servers = servers->at,
        .no_restore = !config->restore,
        .wait_replicas = config->wait_replicas,
    };
}

static int open_lock(struct taking *taking, const char *command)
{
    taking_name_servers(&taking->servers, taking->config);
    struct lock_settings settings =
        taking_settings(taking->config, &taking->lease, &taking->servers);
    settings.pid = taking->pid;
    settings.command = command;
    taking->lock = lock_open(&settings);
    if (taking->lock != NULL)
        return STATUS_OK;
    log_error("out of memory");
    return STATUS_OS;
}

int taking_open(struct taking *taking, const struct config *config, pid_t pid, const char *command)
{
    *taking = (struct taking){.config = config, .pid = pid};
    int status = check_lease(taking);
    if (status != STATUS_OK)
        return status;
    if (!signals_open(&taking->signals)) {
        log_error("cannot watch for signals: %s", strerror(errno));
        return STATUS_OS;
    }
    if (config->server_count % 2 == 0)
        log_warning("%zu servers bear no more failures than %zu; name an odd number",
                    config->server_count, config->server_count - 1);
    return open_lock(taking, command);
}

void taking_close(struct taking *taking)
{
    lock_close(taking->lock);
    taking->lock = NULL;
}
