/*
 * Owns the wording. Every line says what, where and why, and where it is known what to do.
 */
#include "command/report.h"

#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/event.h"
#include "base/log.h"
#include "cli/setting.h"

#define DAY_MS (INT64_C(24) * 60 * 60 * 1000)

/* The local time of a moment that lies `age_ms` back; with the date where that is not today's. */
static void add_since(struct text *text, int64_t age_ms)
{
    time_t then = (time_t)((clock_wall_ms() - age_ms) / 1000);
    struct tm local;
    char shown[64];
    if (localtime_r(&then, &local) == NULL)
        return;
    size_t length = age_ms < DAY_MS ? strftime(shown, sizeof(shown), "%H:%M:%S", &local)
                                    : strftime(shown, sizeof(shown), "%Y-%m-%d %H:%M:%S", &local);
    if (length == 0)
        return;
    text_add(text, " since ");
    text_add(text, shown);
    text_add(text, ", ");
    text_add_duration(text, age_ms);
    text_add(text, " ago");
}

void report_add_blocker(struct text *text, const struct lock_blocker *blocker)
{
    const struct holder *holder = &blocker->holder;
    switch (holder->kind) {
    case HOLDER_FOREIGN:
        text_add(text, "held by another program (its value is not redislock's)");
        return;
    case HOLDER_RESIDUE:
        text_addf(text, "still held for its minimum hold after the run of %s (pid %lld, %s)",
                  holder->host, (long long)holder->pid, holder->user);
        break;
    case HOLDER_GRANTED:
        text_addf(text, "just handed to %s (pid %lld, %s), who was waiting", holder->host,
                  (long long)holder->pid, holder->user);
        break;
    case HOLDER_SHARED:
        text_addf(text, "shared by %s (pid %lld, %s)", holder->host, (long long)holder->pid,
                  holder->user);
        break;
    case HOLDER_HELD:
    case HOLDER_SLOT:
    default:
        text_addf(text, "held by %s (pid %lld, %s)", holder->host, (long long)holder->pid,
                  holder->user);
        break;
    }
    if (blocker->age_ms >= 0)
        add_since(text, blocker->age_ms);
    if (blocker->holders > 1)
        text_addf(text, ", and %lld more", (long long)blocker->holders - 1);
}

void report_add_signal(struct text *text, int signal)
{
    const char *name = sigabbrev_np(signal);
    text_add(text, name != NULL ? "SIG" : "signal ");
    if (name != NULL)
        text_add(text, name);
    else
        text_add_int(text, signal);
}

static void tell_held_event(const struct config *config, const struct lock_blocker *blocker)
{
    struct event event;
    event_begin(&event, config->status_fd, "held", config->name);
    if (blocker->holder.kind != HOLDER_FOREIGN) {
        event_string(&event, "host", blocker->holder.host);
        event_int(&event, "pid", blocker->holder.pid);
        event_string(&event, "user", blocker->holder.user);
        event_string(&event, "command", blocker->holder.command);
        event_int(&event, "fence", blocker->holder.fence);
        if (blocker->age_ms >= 0)
            event_int(&event, "age_ms", blocker->age_ms);
    }
    if (blocker->left_ms >= 0)
        event_int(&event, "left_ms", blocker->left_ms);
    event_send(&event);
}

static int held(const struct config *config, const struct lock *lock, int64_t waited_ms)
{
    const struct lock_blocker *blocker = lock_blocker(lock);
    tell_held_event(config, blocker);
    /* a holder of unknown age may be an old one: it is not hushed */
    bool young = blocker->age_ms >= 0 && blocker->age_ms < config->quiet_for_ms;
    if (config->quiet || young)
        return config->conflict_status;
    char storage[1024];
    struct text text = TEXT_OVER(storage);
    report_add_blocker(&text, blocker);
    if (waited_ms > 0) {
        text_add(&text, "; gave up after waiting ");
        text_add_duration(&text, waited_ms);
    }
    log_notice("%s", text.at);
    return config->conflict_status;
}

static int other_slots(const struct config *config, int64_t in_use)
{
    int wanted = config->slots > 0 ? config->slots : 1;
    log_error("the lock is in use with %lld slot%s, not %d; give every run the same --slots",
              (long long)in_use, in_use == 1 ? "" : "s", wanted);
    return STATUS_CONFIG;
}

int report_servers_status(const struct config *config)
{
    return config->servers_from.source == SOURCE_COMMAND_LINE ? STATUS_USAGE : STATUS_CONFIG;
}

/* Addresses that were in order until a server had its say. */
static int refuse_servers(const struct config *config, const char *why, const char *advice)
{
    char storage[512];
    struct text origin = TEXT_OVER(storage);
    setting_add_origin(&origin, OPTION_URL, &config->servers_from);
    log_error("%s; %s%s", why, advice, origin.at);
    return report_servers_status(config);
}

/* A login that is missing is another thing than one that is refused. */
static const char *login_advice(const struct config *config, const char *why)
{
    if (strstr(why, "NOAUTH") == NULL)
        return "check --user, --password-file and the server's ACL";
    if (config->servers[0].scheme == URL_SENTINEL)
        return "give --password-file, or --sentinel-password-file for the sentinels";
    return "give --password-file, and --user for an ACL user";
}

int report_failure(const struct config *config, const char *why, enum lock_result result)
{
    switch (result) {
    case LOCK_DENIED:
        log_error("%s; %s", why, login_advice(config, why));
        return STATUS_DENIED;
    case LOCK_DUPLICATE_SERVER:
        return refuse_servers(config, why, "a quorum needs independent servers");
    case LOCK_UNTRUSTED:
        log_error("%s; check --cacert, --cert, --key and --sni", why);
        return STATUS_DENIED;
    case LOCK_TOO_FEW_REPLICAS:
        log_error("%s", why);
        return STATUS_UNAVAILABLE;
    case LOCK_NOT_A_LOCK:
        log_error("%s; it belongs to something else", why);
        return STATUS_NONSENSE;
    case LOCK_NONSENSE:
        log_error("%s; is this a Redis server?", why);
        return STATUS_NONSENSE;
    case LOCK_BAD_DATABASE:
        return refuse_servers(config, why, "check the database in the URL");
    case LOCK_OS:
        log_error("%s", why);
        return STATUS_OS;
    case LOCK_UNAVAILABLE:
        log_error("%s; no working Redis%s", why,
                  config->servers_from.source == SOURCE_DEFAULT
                      ? " (no server was named by --url, REDISLOCK_URL or the configuration file)"
                      : "");
        return STATUS_UNAVAILABLE;
    case LOCK_OK:
    case LOCK_HELD:
    case LOCK_OTHER_SLOTS:
    case LOCK_GONE:
    case LOCK_TAKEN:
    case LOCK_INTERRUPTED:
    default:
        log_error("unexpected result %d", (int)result);
        return STATUS_BUG;
    }
}

int report_not_acquired(const struct config *config, const struct lock *lock,
                        enum lock_result result, int64_t waited_ms)
{
    if (result == LOCK_HELD)
        return held(config, lock, waited_ms);
    if (result == LOCK_OTHER_SLOTS)
        return other_slots(config, lock_blocker(lock)->slots);
    if (result == LOCK_NOT_A_LOCK) {
        log_error("%s; the key '%s' belongs to something else", lock_why(lock), lock_key(lock));
        return STATUS_NONSENSE;
    }
    return report_failure(config, lock_why(lock), result);
}
