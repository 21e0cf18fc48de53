/*
 * Owns how a lock is kept and given up. Promises that another holder's value is never touched, and
 * that bad news is believed only from a server that takes writes. May not print.
 */
#include <string.h>

#include "base/clock.h"
#include "lock/inside.h"
#include "lock/pause.h"
#include "lock/quorum.h"

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
    const struct script_call call = {.script = exclusive ? &SCRIPT_EXTEND : &SCRIPT_EXTEND_PLACE,
                                     .key_count = 1,
                                     .argument_count = arguments.count,
                                     .keys = &lock->keys.all[exclusive ? KEYS_LOCK : KEYS_HOLDERS],
                                     .arguments = arguments.at,
                                     .probe = probe};
    return keep_once(lock, &call);
}

enum lock_result lock_extend(struct lock *lock)
{
    if (lock->quorum != NULL) {
        enum lock_result agreed = quorum_extend(lock->quorum);
        lock->confirmed_ms = quorum_confirmed_ms(lock->quorum);
        return agreed;
    }
    enum lock_result result = extend_once(lock, NULL);
    /* bad news counts only from a server that takes writes, so it is asked for a second time */
    if (result == LOCK_GONE || result == LOCK_TAKEN)
        result = extend_once(lock, &lock->keys.all[KEYS_PROBE]);
    return result;
}

enum lock_result lock_restore(struct lock *lock)
{
    if (!inside_is_exclusive(lock) || lock->quorum != NULL)
        return LOCK_GONE; /* a quorum's members do this by themselves, within an extension */
    const struct text keys[3] = {lock->keys.all[KEYS_LOCK], lock->keys.all[KEYS_STATE],
                                 lock->keys.all[KEYS_TOMBSTONE]};
    struct script_arguments arguments = {.count = 0};
    arguments_add(&arguments, &lock->value);
    arguments_add_number(&arguments, inside_expiry(lock));
    arguments_add_number(&arguments, lock->fence);
    arguments_add_number(&arguments, state_kept_ms);
    const struct script_call call = {.script = &SCRIPT_RESTORE,
                                     .key_count = 3,
                                     .argument_count = arguments.count,
                                     .keys = keys,
                                     .arguments = arguments.at,
                                     .probe = &lock->keys.all[KEYS_PROBE]};
    enum lock_result result = keep_once(lock, &call);
    if (result != LOCK_OK)
        inside_note_outcome(lock);
    return result;
}

bool lock_adopt(struct lock *lock, const char *value)
{
    struct holder holder;
    holder_parse(value, strlen(value), &holder);
    if (holder.kind != HOLDER_HELD && holder.kind != HOLDER_SHARED && holder.kind != HOLDER_SLOT)
        return false;
    lock->settings.mode = holder.kind == HOLDER_HELD     ? LOCK_MODE_EXCLUSIVE
                          : holder.kind == HOLDER_SHARED ? LOCK_MODE_SHARED
                                                         : LOCK_MODE_SLOTS;
    lock->mode = TEXT_OVER(lock->mode_storage);
    text_add(&lock->mode, holder.kind == HOLDER_HELD ? "x" : "s"); /* a place, whatever N is */
    lock->value = TEXT_OVER(lock->value_storage);
    text_add(&lock->value, value);
    lock->fence = holder.fence;
    lock->slot = holder.slot;
    lock->confirmed_ms = clock_boot_ms();
    lock->acquired_ms = lock->confirmed_ms;
    return true;
}

void lock_forget(struct lock *lock)
{
    if (lock->quorum != NULL) {
        quorum_forget(lock->quorum);
        return;
    }
    const char *const words[] = {"DEL", lock->keys.all[KEYS_STATE].at, NULL};
    const struct reply *reply;
    struct deadline deadline = {clock_boot_ms() + INSIDE_ATTEMPT_MS, -1};
    (void)client_ask(lock->client, words, &reply, &deadline); /* else it expires */
}

const char *lock_value(const struct lock *lock)
{
    return lock->value.at;
}

enum lock_result lock_check(struct lock *lock, int64_t fence, const struct deadline *deadline)
{
    if (lock->quorum != NULL)
        return quorum_check(lock->quorum, fence, deadline);
    const struct text keys[2] = {lock->keys.all[KEYS_LOCK], lock->keys.all[KEYS_HOLDERS]};
    struct script_arguments arguments = {.count = 0};
    arguments_add(&arguments, &lock->value);
    arguments_add_number(&arguments, fence);
    arguments_add_number(&arguments, clock_wall_ms());
    /* the probe: a stale replica's word is worth nothing here either */
    const struct script_call call = {.script = &SCRIPT_CHECK,
                                     .key_count = 2,
                                     .argument_count = arguments.count,
                                     .keys = keys,
                                     .arguments = arguments.at,
                                     .probe = &lock->keys.all[KEYS_PROBE]};
    struct pause pause = PAUSE_START;
    enum lock_result result;
    client_tries_until(lock->client, deadline);
    do {
        const struct reply *reply = NULL;
        struct deadline attempt = deadline_sooner(*deadline, clock_boot_ms() + INSIDE_ATTEMPT_MS);
        enum server_error error = script_run(lock->client, &call, &reply, &attempt);
        result = inside_verdict(lock, error, reply);
    } while (result == LOCK_UNAVAILABLE && pause_wait(&pause, deadline) == DEADLINE_READY);
    return result;
}

static enum lock_result release_once(struct lock *lock, const struct lock_run_record *record,
                                     bool again, const struct deadline *deadline)
{
    char residue_storage[HOLDER_VALUE_MAX + 1];
    struct holder us;
    struct text residue = TEXT_OVER(residue_storage);
    struct script_arguments arguments = {.count = 0};
    int64_t hold = record != NULL ? lock->settings.min_hold_ms : 0;

    holder_parse(lock->value.at, lock->value.length, &us);
    arguments_add(&arguments, &lock->value);
    arguments_add(&arguments, &lock->mode);
    arguments_add_word(&arguments, record != NULL ? us.host : "");
    arguments_add_number(&arguments, record != NULL ? record->start_ms : clock_wall_ms());
    arguments_add_number(&arguments, record != NULL ? record->duration_ms : 0);
    arguments_add_number(&arguments, record != NULL ? record->status : 0);
    if (again || hold > 0)
        arguments_add_word(&arguments, again ? "again" : "");
    if (hold > 0) {
        holder_add_residue(&residue, &us);
        arguments_add_number(&arguments, hold);
        arguments_add(&arguments, &residue);
    }
    const struct script_call call = {.script = &SCRIPT_RELEASE,
                                     .key_count = KEYS_LEASES + 1,
                                     .argument_count = arguments.count,
                                     .keys = lock->keys.all,
                                     .arguments = arguments.at,
                                     .may_be_late = true};
    const struct reply *reply = NULL;
    enum server_error error = script_run(lock->client, &call, &reply, deadline);
    return inside_verdict(lock, error, reply);
}

enum lock_result lock_release(struct lock *lock, const struct lock_run_record *record,
                              int64_t until_ms)
{
    if (lock->quorum != NULL)
        return quorum_release(lock->quorum, record, until_ms);
    struct pause pause = PAUSE_START;
    struct deadline deadline = {until_ms, -1};
    deadline =
        deadline_sooner(deadline, lease_valid_until(&lock->settings.lease, lock->confirmed_ms));
    bool maybe_released = false;
    enum lock_result result;
    client_tries_until(lock->client, &deadline);
    for (;;) {
        struct deadline attempt = deadline_sooner(deadline, clock_boot_ms() + INSIDE_ATTEMPT_MS);
        result = release_once(lock, record,
                              maybe_released || (record != NULL && record->only_if_held), &attempt);
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
