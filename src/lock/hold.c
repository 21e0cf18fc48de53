/*
 * Owns how a lock is kept and given up. Promises that another holder's value is never touched, and
 * that bad news is believed only from a server that takes writes. May not print.
 */
#include <string.h>

#include "base/clock.h"
#include "lock/inside.h"
#include "lock/pause.h"

static const int64_t state_kept_ms = INT64_C(90) * 24 * 60 * 60 * 1000;

/* Runs an attempt to keep the lock, within the lease's own limit. */
static enum lock_result keep_once(struct lock *lock, const struct script_call *call)
{
    const struct reply *reply = NULL;
    struct deadline deadline = {clock_boot_ms() + lock->settings.lease.attempt_ms, -1};
    enum server_error error = script_run(lock->client, call, &reply, &deadline);
    enum lock_result result = inside_verdict(lock, error, reply);
    if (result == LOCK_OK)
        lock->confirmed_ms = client_sent_ms(lock->client);
    return result;
}

static enum lock_result extend_once(struct lock *lock, const struct text *probe)
{
    bool exclusive = inside_is_exclusive(lock);
    struct script_arguments arguments = {.count = 0};
    arguments_add(&arguments, &lock->value);
    arguments_add_number(&arguments, inside_expiry(lock));
    const struct script_call call = {exclusive ? &SCRIPT_EXTEND : &SCRIPT_EXTEND_PLACE,
                                     1,
                                     arguments.count,
                                     &lock->keys.all[exclusive ? KEYS_LOCK : KEYS_HOLDERS],
                                     arguments.at,
                                     probe, false};
    return keep_once(lock, &call);
}

enum lock_result lock_extend(struct lock *lock)
{
    enum lock_result result = extend_once(lock, NULL);
    /* bad news counts only from a server that takes writes, so it is asked for a second time */
    if (result == LOCK_GONE || result == LOCK_TAKEN)
        result = extend_once(lock, &lock->keys.all[KEYS_PROBE]);
    return result;
}

enum lock_result lock_restore(struct lock *lock)
{
    if (!inside_is_exclusive(lock))
        return LOCK_GONE;
    const struct text keys[3] = {lock->keys.all[KEYS_LOCK], lock->keys.all[KEYS_STATE],
                                 lock->keys.all[KEYS_TOMBSTONE]};
    struct script_arguments arguments = {.count = 0};
    arguments_add(&arguments, &lock->value);
    arguments_add_number(&arguments, inside_expiry(lock));
    arguments_add_number(&arguments, lock->fence);
    arguments_add_number(&arguments, state_kept_ms);
    const struct script_call call = {&SCRIPT_RESTORE, 3, arguments.count, keys, arguments.at,
                                     &lock->keys.all[KEYS_PROBE], false};
    enum lock_result result = keep_once(lock, &call);
    if (result != LOCK_OK)
        inside_note_outcome(lock);
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
    struct script_arguments arguments = {.count = 0};
    int64_t left = hold_left(lock, record);

    if (left > 0) {
        struct holder holder;
        holder_parse(lock->value.at, lock->value.length, &holder);
        holder_add_residue(&residue, &holder);
    }
    if (record != NULL)
        holder_this_host(host);
    arguments_add(&arguments, &lock->value);
    arguments_add(&arguments, &lock->mode);
    arguments_add_number(&arguments, left);
    arguments_add(&arguments, &residue);
    arguments_add_number(&arguments, clock_wall_ms());
    arguments_add_word(&arguments, host);
    arguments_add_number(&arguments, record != NULL ? record->start_ms : 0);
    arguments_add_number(&arguments, record != NULL ? record->duration_ms : 0);
    arguments_add_number(&arguments, record != NULL ? record->status : 0);
    arguments_add_word(&arguments, again ? "again" : "");
    const struct script_call call = {&SCRIPT_RELEASE, KEYS_LEASES + 1, arguments.count,
                                     lock->keys.all,  arguments.at,    NULL, false};
    const struct reply *reply = NULL;
    enum server_error error = script_run(lock->client, &call, &reply, deadline);
    return inside_verdict(lock, error, reply);
}

enum lock_result lock_release(struct lock *lock, const struct lock_run_record *record,
                              int64_t until_ms)
{
    struct pause pause = PAUSE_START;
    struct deadline deadline = {until_ms, -1};
    deadline = deadline_sooner(deadline,
                               lease_valid_until(&lock->settings.lease, lock->confirmed_ms));
    bool maybe_released = false;
    enum lock_result result;
    for (;;) {
        struct deadline attempt = deadline_sooner(deadline, clock_boot_ms() + INSIDE_ATTEMPT_MS);
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
        inside_cancel(lock, false);
    return result;
}
