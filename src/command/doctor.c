/*
 * Owns the examination: first whether the server can be asked at all, then what it is, then the
 * proof: a real acquisition, extension, wait and release on a scratch name of its own.
 */
#include "command/doctor.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "command/examine.h"
#include "command/output.h"
#include "command/taking.h"
#include "lock/lock.h"
#include "lock/observe.h"

#define WAIT_MS 200

struct trial {
    struct examination *examination;
    struct lock_settings settings;
    bool polls; /* a waiter could not listen */
};

static int status_of(enum lock_result result)
{
    switch (result) {
    case LOCK_DENIED:
        return STATUS_DENIED;
    case LOCK_NONSENSE:
    case LOCK_NOT_A_LOCK:
        return STATUS_NONSENSE;
    case LOCK_BAD_DATABASE:
        return STATUS_CONFIG;
    case LOCK_OK:
    case LOCK_HELD:
    case LOCK_OTHER_SLOTS:
    case LOCK_GONE:
    case LOCK_TAKEN:
    case LOCK_INTERRUPTED:
    case LOCK_UNAVAILABLE:
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
    examine_failure(trial->examination, status_of(result), "cannot %s a lock: %s", step,
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
        passed(trial, other, "wait for",
               lock_wait(other, &waiting, trial->examination->config->connect_timeout_ms,
                         &short_wait),
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

static void try_lock(struct trial *trial, struct lock *lock, const char *what)
{
    struct deadline deadline = in_time(trial);
    if (!passed(trial, lock, "acquire", lock_acquire(lock, false, &deadline), LOCK_OK)) {
        lock_forget(lock); /* a script that was refused half-way has not undone the first half */
        return;
    }
    bool good = passed(trial, lock, "extend", lock_extend(lock), LOCK_OK);
    if (good && trial->settings.mode == LOCK_MODE_EXCLUSIVE)
        try_waiting(trial);
    good = passed(trial, lock, "release",
                  lock_release(lock, NULL, clock_boot_ms() +
                                               trial->examination->config->connect_timeout_ms),
                  LOCK_OK) && good;
    if (good)
        examine_ok("%s lock can be acquired, extended and released", what);
    lock_forget(lock);
}

static void try_mode(struct examination *examination, const char *name, enum lock_mode mode,
                     const char *what)
{
    struct lease lease;
    int64_t least;
    const struct config *config = examination->config;
    if (!lease_make(config->ttl_ms, config->kill_after_ms, &lease, &least)) {
        examine_failure(examination, STATUS_CONFIG, "--ttl is too short: at least %lldms is needed",
                        (long long)least);
        return;
    }
    struct trial trial = {examination, taking_settings(config, &lease), false};
    trial.settings.name = name;
    trial.settings.mode = mode;
    trial.settings.command = "redislock --doctor";
    trial.settings.min_hold_ms = 0;
    struct lock *lock = lock_open(&trial.settings);
    if (lock != NULL)
        try_lock(&trial, lock, what);
    lock_close(lock);
}

static void examine_all(struct examination *examination)
{
    char token[TOKEN_LENGTH + 1];
    char storage[TOKEN_LENGTH + 32];
    struct text name = TEXT_OVER(storage);
    if (!examine_connection(examination) || !token_make(token))
        return;
    examine_server(examination);
    text_add(&name, "redislock-doctor-");
    text_add(&name, token);
    try_mode(examination, name.at, LOCK_MODE_EXCLUSIVE, "an exclusive");
    if (!examination->time_refused)
        try_mode(examination, name.at, LOCK_MODE_SHARED, "a shared");
}

int command_doctor(const struct config *config)
{
    const struct client_settings server = {&config->servers[0], config->user, &config->password,
                                           config->password_file};
    struct examination examination = {.config = config, .client = client_open(&server)};
    if (examination.client == NULL) {
        log_error("out of memory");
        return STATUS_OS;
    }
    examine_all(&examination);
    client_close(examination.client);
    if (output_finish() != STATUS_OK)
        return STATUS_OS;
    return examination.status;
}
