/*
 * Owns the life of a lock: which script runs when, what its answer means, and what is still
 * uncertain. Promises that no attempt of unknown outcome is left standing, and that another
 * holder's value is never touched. May not print.
 */
#include "lock/lock.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "lock/keys.h"
#include "lock/pause.h"

#define STATE_KEPT_MS     (INT64_C(90) * 24 * 60 * 60 * 1000)
#define TOMBSTONE_MS      120000 /* longer than a command can be on its way */
#define ATTEMPT_MS        2000   /* of acquiring and releasing: connecting included */
#define CANCEL_MS         1000
#define ARGUMENTS_MAX     9
#define NUMBER_DIGITS_MAX 24

struct lock {
    struct lock_settings settings;
    struct client *client;
    struct keys keys;
    int64_t acquired_ms;
    int64_t confirmed_ms;
    int64_t fence;
    bool loose_ends; /* an ACQUIRE or RESTORE went out that may still arrive */
    struct lock_blocker blocker;
    struct text head; /* "redislock1:TOKEN:" */
    struct text tail;
    struct text value; /* the whole value, once acquired */
    char token[TOKEN_LENGTH + 1];
    char head_storage[TOKEN_LENGTH + 32];
    char tail_storage[HOLDER_VALUE_MAX];
    char value_storage[HOLDER_VALUE_MAX + 1];
};

/* The arguments of a script call, numbers spelled out. */
struct arguments {
    int count;
    struct text at[ARGUMENTS_MAX];
    char digits[ARGUMENTS_MAX][NUMBER_DIGITS_MAX];
};

static void add_argument(struct arguments *arguments, const struct text *text)
{
    arguments->at[arguments->count++] = *text;
}

static void add_number(struct arguments *arguments, int64_t number)
{
    char *digits = arguments->digits[arguments->count];
    struct text text = text_over(digits, NUMBER_DIGITS_MAX);
    text_add_int(&text, number);
    add_argument(arguments, &text);
}

/* A text that borrows `word`; nothing is ever added to it. */
static void add_word(struct arguments *arguments, const char *word)
{
    struct text text = {.at = (char *)(uintptr_t)word, .length = strlen(word)};
    add_argument(arguments, &text);
}

/* Makes a token, and what is named after it. */
static bool take_token(struct lock *lock)
{
    if (!token_make(lock->token))
        return false;
    keys_make(&lock->keys, lock->settings.prefix, lock->settings.name, lock->token);
    lock->head = TEXT_OVER(lock->head_storage);
    holder_add_head(&lock->head, lock->token);
    return true;
}

struct lock *lock_open(const struct lock_settings *settings)
{
    struct lock *lock = calloc(1, sizeof(*lock));
    if (lock == NULL)
        return NULL;
    lock->settings = *settings;
    lock->client = client_open(&settings->server);
    if (lock->client == NULL || !take_token(lock)) {
        lock_close(lock);
        return NULL;
    }
    lock->tail = TEXT_OVER(lock->tail_storage);
    lock->value = TEXT_OVER(lock->value_storage);
    holder_add_tail(&lock->tail, settings->lease.ttl_ms, settings->command);
    return lock;
}

void lock_close(struct lock *lock)
{
    if (lock == NULL)
        return;
    client_close(lock->client);
    free(lock);
}

static enum lock_result of_server_error(enum server_error error)
{
    switch (error) {
    case SERVER_OK:
        return LOCK_OK;
    case SERVER_INTERRUPTED:
        return LOCK_INTERRUPTED;
    case SERVER_DENIED:
        return LOCK_DENIED;
    case SERVER_BAD_DATABASE:
        return LOCK_BAD_DATABASE;
    case SERVER_NOT_A_LOCK:
        return LOCK_NOT_A_LOCK;
    case SERVER_NONSENSE:
        return LOCK_NONSENSE;
    case SERVER_OS:
        return LOCK_OS;
    case SERVER_UNREACHABLE:
    case SERVER_BUSY:
    case SERVER_READONLY:
    case SERVER_WRITES_REFUSED:
    case SERVER_NO_SCRIPT:
    default:
        return LOCK_UNAVAILABLE;
    }
}

/* What the expiry must be so that neither the lease nor the minimum hold ends early. */
static int64_t expiry_ms(const struct lock *lock)
{
    int64_t hold = lock->settings.min_hold_ms;
    if (lock->acquired_ms != 0)
        hold -= clock_boot_ms() - lock->acquired_ms;
    return hold > lock->settings.lease.ttl_ms ? hold : lock->settings.lease.ttl_ms;
}

static bool item_is(const struct reply *reply, const char *word)
{
    return reply->count > 0 && reply_is(&reply->items[0], word);
}

static void note_blocker(struct lock *lock, const struct reply *reply)
{
    struct lock_blocker *blocker = &lock->blocker;
    *blocker = (struct lock_blocker){.age_ms = -1, .left_ms = -1};
    if (reply->count < 2 || reply->items[1].kind != REPLY_STRING)
        return;
    holder_parse(reply->items[1].bytes, reply->items[1].length, &blocker->holder);
    int64_t now_ms;
    if (reply->count < 4 || !reply_number(&reply->items[2], &blocker->left_ms) ||
        !reply_number(&reply->items[3], &now_ms) || blocker->holder.kind == HOLDER_FOREIGN)
        return;
    blocker->age_ms = now_ms > blocker->holder.start_ms ? now_ms - blocker->holder.start_ms : 0;
}

/* Takes over the value that the server set for us. */
static enum lock_result accept_value(struct lock *lock, const struct reply *reply)
{
    struct holder holder;
    if (reply->count < 2 || reply->items[1].kind != REPLY_STRING)
        return LOCK_NONSENSE;
    const struct reply *value = &reply->items[1];
    holder_parse(value->bytes, value->length, &holder);
    if (holder.kind == HOLDER_FOREIGN || strcmp(holder.token, lock->token) != 0)
        return LOCK_NONSENSE;
    lock->value = TEXT_OVER(lock->value_storage);
    text_add_bytes(&lock->value, value->bytes, value->length);
    lock->fence = holder.fence;
    lock->confirmed_ms = client_sent_ms(lock->client);
    lock->acquired_ms = lock->confirmed_ms;
    return LOCK_OK;
}

static enum server_error run(struct lock *lock, const struct script *script, const struct text *keys,
                             int key_count, const struct arguments *arguments,
                             const struct text *probe, const struct reply **reply,
                             const struct deadline *deadline)
{
    struct client_script call = {script, key_count, arguments->count, keys, arguments->at, probe};
    return client_run(lock->client, &call, reply, deadline);
}

static enum lock_result acquire_once(struct lock *lock, bool count_skip,
                                     const struct deadline *deadline)
{
    struct text keys[3] = {lock->keys.lock, lock->keys.state, lock->keys.tombstone};
    struct arguments arguments = {.count = 0};
    add_argument(&arguments, &lock->head);
    add_argument(&arguments, &lock->tail);
    add_number(&arguments, expiry_ms(lock));
    add_number(&arguments, clock_wall_ms());
    add_number(&arguments, STATE_KEPT_MS);
    add_word(&arguments, count_skip ? "skip" : "");

    const struct reply *reply;
    enum server_error error = run(lock, &SCRIPT_ACQUIRE, keys, 3, &arguments,
                                  count_skip ? NULL : &lock->keys.probe, &reply, deadline);
    if (error != SERVER_OK) {
        lock->loose_ends = lock->loose_ends || client_outcome_unknown(lock->client);
        return of_server_error(error);
    }
    if (item_is(reply, "OK"))
        return accept_value(lock, reply);
    if (item_is(reply, "HELD")) {
        note_blocker(lock, reply);
        return LOCK_HELD;
    }
    return LOCK_NONSENSE;
}

/* An acquisition that was confirmed too late for the child to be given any time. */
static bool too_late(const struct lock *lock)
{
    return clock_boot_ms() >= lease_stop_at(&lock->settings.lease, lock->confirmed_ms);
}

enum lock_result lock_acquire(struct lock *lock, bool count_skip, const struct deadline *deadline)
{
    struct pause pause = PAUSE_START;
    enum lock_result result;
    for (;;) {
        struct deadline attempt = deadline_sooner(*deadline, clock_boot_ms() + ATTEMPT_MS);
        result = acquire_once(lock, count_skip, &attempt);
        if (result == LOCK_OK && too_late(lock)) {
            (void)lock_release(lock, NULL, clock_boot_ms() + ATTEMPT_MS);
            lock->acquired_ms = 0;
        } else if (result != LOCK_UNAVAILABLE) {
            break;
        }
        enum deadline_result waited = pause_wait(&pause, deadline);
        if (waited == DEADLINE_WOKEN)
            result = LOCK_INTERRUPTED;
        if (waited != DEADLINE_READY)
            break;
    }
    if (result != LOCK_OK && lock->loose_ends)
        lock_cancel(lock);
    return result;
}

void lock_cancel(struct lock *lock)
{
    struct text keys[2] = {lock->keys.lock, lock->keys.tombstone};
    struct arguments arguments = {.count = 0};
    add_argument(&arguments, &lock->head);
    add_number(&arguments, TOMBSTONE_MS);
    const struct reply *reply;
    struct deadline deadline = {clock_boot_ms() + CANCEL_MS, -1};
    /* whatever the answer: where it did not arrive, the lock's own expiry ends it */
    (void)run(lock, &SCRIPT_CANCEL, keys, 2, &arguments, NULL, &reply, &deadline);
    lock->loose_ends = false;
    (void)take_token(lock); /* the old one is dead: a run that waits on needs another */
}

/* The common part of extend, restore and release: OK, GONE or TAKEN. */
static enum lock_result verdict_of(struct lock *lock, enum server_error error,
                                   const struct reply *reply)
{
    if (error != SERVER_OK)
        return of_server_error(error);
    if (item_is(reply, "OK"))
        return LOCK_OK;
    if (item_is(reply, "GONE"))
        return LOCK_GONE;
    if (!item_is(reply, "TAKEN"))
        return LOCK_NONSENSE;
    note_blocker(lock, reply);
    return LOCK_TAKEN;
}

static enum lock_result extend_once(struct lock *lock, const struct text *probe)
{
    struct arguments arguments = {.count = 0};
    add_argument(&arguments, &lock->value);
    add_number(&arguments, expiry_ms(lock));
    const struct reply *reply = NULL;
    struct deadline deadline = {clock_boot_ms() + lock->settings.lease.attempt_ms, -1};
    enum server_error error = run(lock, &SCRIPT_EXTEND, &lock->keys.lock, 1, &arguments, probe,
                                  &reply, &deadline);
    enum lock_result result = verdict_of(lock, error, reply);
    if (result == LOCK_OK)
        lock->confirmed_ms = client_sent_ms(lock->client);
    return result;
}

enum lock_result lock_extend(struct lock *lock)
{
    enum lock_result result = extend_once(lock, NULL);
    /* bad news counts only from a server that takes writes, so it is asked for a second time */
    if (result == LOCK_GONE || result == LOCK_TAKEN)
        result = extend_once(lock, &lock->keys.probe);
    return result;
}

enum lock_result lock_restore(struct lock *lock)
{
    struct text keys[3] = {lock->keys.lock, lock->keys.state, lock->keys.tombstone};
    struct arguments arguments = {.count = 0};
    add_argument(&arguments, &lock->value);
    add_number(&arguments, expiry_ms(lock));
    add_number(&arguments, lock->fence);
    add_number(&arguments, STATE_KEPT_MS);
    const struct reply *reply = NULL;
    struct deadline deadline = {clock_boot_ms() + lock->settings.lease.attempt_ms, -1};
    enum server_error error = run(lock, &SCRIPT_RESTORE, keys, 3, &arguments, &lock->keys.probe,
                                  &reply, &deadline);
    if (error != SERVER_OK)
        lock->loose_ends = lock->loose_ends || client_outcome_unknown(lock->client);
    enum lock_result result = verdict_of(lock, error, reply);
    if (result == LOCK_OK)
        lock->confirmed_ms = client_sent_ms(lock->client);
    return result;
}

static int64_t hold_left(const struct lock *lock, const struct lock_run_record *record)
{
    int64_t left = lock->settings.min_hold_ms - (clock_boot_ms() - lock->acquired_ms);
    return record != NULL && left > 0 ? left : 0;
}

static enum lock_result release_once(struct lock *lock, const struct lock_run_record *record,
                                     bool again, const struct deadline *deadline)
{
    char residue_storage[HOLDER_VALUE_MAX + 1];
    char host[HOLDER_FIELD_MAX + 1] = "";
    struct text residue = TEXT_OVER(residue_storage);
    struct text keys[2] = {lock->keys.lock, lock->keys.state};
    struct arguments arguments = {.count = 0};
    int64_t left = hold_left(lock, record);

    if (left > 0) {
        struct holder holder;
        holder_parse(lock->value.at, lock->value.length, &holder);
        holder_add_residue(&residue, &holder);
    }
    if (record != NULL)
        holder_this_host(host);
    add_argument(&arguments, &lock->value);
    add_number(&arguments, left);
    add_argument(&arguments, &residue);
    add_number(&arguments, STATE_KEPT_MS);
    add_word(&arguments, host);
    add_number(&arguments, record != NULL ? record->start_ms : 0);
    add_number(&arguments, record != NULL ? record->duration_ms : 0);
    add_number(&arguments, record != NULL ? record->status : 0);
    add_word(&arguments, again ? "again" : "");
    const struct reply *reply = NULL;
    enum server_error error = run(lock, &SCRIPT_RELEASE, keys, 2, &arguments, NULL, &reply, deadline);
    return verdict_of(lock, error, reply);
}

enum lock_result lock_release(struct lock *lock, const struct lock_run_record *record,
                              int64_t until_ms)
{
    struct pause pause = PAUSE_START;
    struct deadline deadline = {until_ms, -1};
    deadline = deadline_sooner(
        deadline, lease_valid_until(&lock->settings.lease, lock->confirmed_ms));
    bool maybe_released = false;
    enum lock_result result;
    for (;;) {
        struct deadline attempt = deadline_sooner(deadline, clock_boot_ms() + ATTEMPT_MS);
        result = release_once(lock, record, maybe_released, &attempt);
        if (result != LOCK_UNAVAILABLE)
            break;
        maybe_released = maybe_released || client_outcome_unknown(lock->client);
        if (pause_wait(&pause, &deadline) != DEADLINE_READY)
            break;
    }
    /* gone after an attempt whose answer was lost: that attempt did it */
    if (maybe_released && (result == LOCK_GONE || result == LOCK_TAKEN))
        result = LOCK_OK;
    if (lock->loose_ends)
        lock_cancel(lock);
    return result;
}

int64_t lock_fence(const struct lock *lock)
{
    return lock->fence;
}

int64_t lock_acquired_ms(const struct lock *lock)
{
    return lock->acquired_ms;
}

int64_t lock_confirmed_ms(const struct lock *lock)
{
    return lock->confirmed_ms;
}

const char *lock_key(const struct lock *lock)
{
    return lock->keys.lock.at;
}

const struct lock_blocker *lock_blocker(const struct lock *lock)
{
    return &lock->blocker;
}

const char *lock_why(const struct lock *lock)
{
    return client_why(lock->client);
}
