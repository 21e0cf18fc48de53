/*
 * Owns the examination: first whether the server can be asked at all, then what it is, then the
 * proof: a real acquisition, extension, wait and release on a scratch name of its own.
 */
#include "command/doctor.h"

#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "command/examine.h"
#include "command/output.h"
#include "command/report.h"
#include "command/taking.h"
#include "lock/lock.h"
#include "lock/observe.h"

#define WAIT_MS 200

struct trial {
    struct examination *examination;
    struct lock_settings settings;
    bool polls;       /* a waiter could not listen */
    const char *what; /* is tried: "an exclusive lock" */
};

static int status_of(const struct config *config, enum lock_result result)
{
    switch (result) {
    case LOCK_DENIED:
    case LOCK_UNTRUSTED:
        return STATUS_DENIED;
    case LOCK_NONSENSE:
    case LOCK_NOT_A_LOCK:
        return STATUS_NONSENSE;
    case LOCK_BAD_DATABASE:
    case LOCK_DUPLICATE_SERVER:
        return report_servers_status(config);
    case LOCK_OK:
    case LOCK_HELD:
    case LOCK_OTHER_SLOTS:
    case LOCK_GONE:
    case LOCK_TAKEN:
    case LOCK_INTERRUPTED:
    case LOCK_UNAVAILABLE:
    case LOCK_TOO_FEW_REPLICAS:
    case LOCK_OS:
    default:
        return STATUS_UNAVAILABLE;
    }
}

/* The step of a trial that did not go as it must. */
static bool passed(const struct trial *trial, const struct lock *lock, const char *step,
                   enum lock_result result, enum lock_result wanted)
{
    if (result == wanted)
        return true;
    char storage[64];
    struct text what = TEXT_OVER(storage);
    text_addf(&what, "cannot %s %s", step, trial->what);
    examine_refusal(trial->examination, status_of(trial->examination->config, result), what.at,
                    lock_why(lock));
    return false;
}

static struct deadline in_time(const struct trial *trial)
{
    return (struct deadline){clock_boot_ms() + trial->examination->config->connect_timeout_ms, -1};
}

static void note_polling(void *context, const struct lock_blocker *blocker, bool polls)
{
    struct trial *trial = context;
    (void)blocker;
    trial->polls = polls;
}

/* A second lock on the same name must be refused, and can wait. */
static void try_waiting(struct trial *trial)
{
    struct lock *other = lock_open(&trial->settings);
    if (other == NULL)
        return;
    const struct lock_waiting waiting = {note_polling, trial, false};
    struct deadline deadline = in_time(trial);
    struct deadline short_wait = {clock_boot_ms() + WAIT_MS, -1};
    if (passed(trial, other, "refuse", lock_acquire(other, false, &deadline), LOCK_HELD) &&
        passed(
            trial, other, "wait for",
            lock_wait(other, &waiting, trial->examination->config->connect_timeout_ms, &short_wait),
            LOCK_HELD)) {
        if (trial->polls)
            examine_warning("waiting works by polling only: allow +multi +exec +subscribe "
                            "+unsubscribe +publish +pubsub and the channels %s*",
                            trial->settings.prefix);
        else
            examine_ok("waiting in line works, by pub/sub");
    }
    lock_close(other);
}

static void try_lock(struct trial *trial, struct lock *lock)
{
    struct deadline deadline = in_time(trial);
    if (!passed(trial, lock, "acquire", lock_acquire(lock, false, &deadline), LOCK_OK)) {
        lock_forget(lock); /* a script that was refused half-way has not undone the first half */
        return;
    }
    bool good = passed(trial, lock, "extend", lock_extend(lock), LOCK_OK);
    if (good && trial->settings.mode == LOCK_MODE_EXCLUSIVE && trial->settings.server_count == 1)
        try_waiting(trial);
    good = passed(trial, lock, "release",
                  lock_release(lock, NULL,
                               clock_boot_ms() + trial->examination->config->connect_timeout_ms),
                  LOCK_OK) &&
           good;
    if (good)
        examine_ok("%s can be acquired, extended and released", trial->what);
    lock_forget(lock);
}

static void try_mode(struct examination *examination, const struct taking_servers *servers,
                     const char *name, enum lock_mode mode, const char *what)
{
    const struct config *config = examination->config;
    if (examination->lease == NULL)
        return;
    struct trial trial = {.examination = examination,
                          .settings = taking_settings(config, examination->lease, servers),
                          .what = what};
    trial.settings.pid = getpid();
    trial.settings.name = name;
    trial.settings.mode = mode;
    trial.settings.command = "redislock --doctor";
    trial.settings.min_hold_ms = 0;
    struct lock *lock = lock_open(&trial.settings);
    if (lock != NULL)
        try_lock(&trial, lock);
    lock_close(lock);
}

/* A name that no job has. */
static void make_scratch_name(struct text *name)
{
    char token[TOKEN_LENGTH + 1];
    token_make(token);
    text_add(name, "redislock-doctor-");
    text_add(name, token);
}

static void examine_one(struct examination *examination, const struct client_settings *server)
{
    const struct taking_servers alone = {1, {*server}};
    char storage[TOKEN_LENGTH + 32];
    struct text name = TEXT_OVER(storage);
    examination->url = server->url;
    examination->time_refused = false;
    examination->client = client_open(server);
    make_scratch_name(&name);
    if (examination->client == NULL) {
        examine_failure(examination, STATUS_OS, "out of memory");
    } else if (examine_connection(examination)) {
        examine_server(examination);
        try_mode(examination, &alone, name.at, LOCK_MODE_EXCLUSIVE, "an exclusive lock");
        if (!examination->time_refused)
            try_mode(examination, &alone, name.at, LOCK_MODE_SHARED, "a shared lock");
    }
    client_close(examination->client);
}

/* Several servers: are they enough, and do they make one lock? */
static void examine_quorum(struct examination *examination, const struct taking_servers *servers)
{
    char storage[TOKEN_LENGTH + 32];
    struct text name = TEXT_OVER(storage);
    int majority = servers->count / 2 + 1;
    int status = examination->status;
    if (servers->count % 2 == 0)
        examine_warning("%d servers bear no more failures than %d: name an odd number",
                        servers->count, servers->count - 1);
    else
        examine_ok("%d servers: %d may fail, %d must agree", servers->count,
                   servers->count - majority, majority);
    if (examination->lease == NULL)
        return;
    make_scratch_name(&name);
    examination->status = STATUS_OK;
    try_mode(examination, servers, name.at, LOCK_MODE_EXCLUSIVE, "an exclusive lock on a majority");
    if (examination->status == STATUS_OK && status != STATUS_OK)
        examine_warning("a majority works without the servers that failed above: mend them "
                        "before another fails");
}

/* What would end every job before it asks a server. */
static void examine_lease(struct examination *examination, struct lease *lease)
{
    const struct config *config = examination->config;
    int64_t least;
    if (lease_make(config->ttl_ms, config->kill_after_ms, lease, &least)) {
        examination->lease = lease;
        return;
    }
    char storage[512];
    struct text origin = TEXT_OVER(storage);
    taking_add_lease_origin(&origin, config);
    examine_failure(examination, taking_lease_status(config),
                    "--ttl is too short: give it at least %lldms; no lock is tried%s",
                    (long long)least, origin.at);
}

int command_doctor(const struct config *config)
{
    struct taking_servers servers;
    struct lease lease;
    struct examination examination = {.config = config};
    taking_name_servers(&servers, config);
    if (config->servers_from.source == SOURCE_DEFAULT)
        examine_warning("no server is named, so each host asks one of its own: give --url, "
                        "REDISLOCK_URL, or a line in " REDISLOCK_CONFIG_FILE);
    examine_lease(&examination, &lease);
    for (int i = 0; i < servers.count; i++) {
        char shown[URL_SHOWN_MAX];
        url_show(servers.at[i].url, shown, sizeof(shown));
        if (servers.count > 1)
            (void)printf("server    %s\n", shown);
        examine_one(&examination, &servers.at[i]);
    }
    if (servers.count > 1)
        examine_quorum(&examination, &servers);
    if (output_finish() != STATUS_OK)
        return STATUS_OS;
    return examination.status;
}
