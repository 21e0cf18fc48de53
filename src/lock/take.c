/*
 * Owns how a lock is taken on one server: which attempt counts, when it is made again, and what is
 * still uncertain. May not print.
 */
#include <string.h>

#include "base/clock.h"
#include "lock/inside.h"
#include "lock/pause.h"

#define WAIT_ANSWER_MS 500  /* past the time that WAIT itself may take */
#define POLL_LEASE_MS  5000 /* a polling waiter counts so long after it last asked */

/* Takes over the value that the server set for us. */
static enum lock_result accept_value(struct lock *lock, const struct reply *reply)
{
    struct holder holder;
    if (reply->count < 2 || reply->items[1].kind != REPLY_STRING)
        return inside_nonsense(lock);
    const struct reply *value = &reply->items[1];
    holder_parse(value->bytes, value->length, &holder);
    if (holder.kind == HOLDER_FOREIGN || strcmp(holder.token, lock->token) != 0)
        return inside_nonsense(lock);
    lock->value = TEXT_OVER(lock->value_storage);
    text_add_bytes(&lock->value, value->bytes, value->length);
    lock->fence = holder.fence;
    lock->slot = holder.slot;
    lock->confirmed_ms = client_sent_ms(lock->client);
    lock->acquired_ms = lock->confirmed_ms;
    lock->in_line = false;
    return LOCK_OK;
}

static void acquire_arguments(const struct lock *lock, enum acquire_want want,
                              struct script_arguments *arguments)
{
    static const char *const words[] = {"try", "skip", "wait", "wait"};
    bool again = lock->loose_ends || lock->in_line;
    bool waits = want == ACQUIRE_WAIT || want == ACQUIRE_CLAIM;
    arguments->count = 0;
    arguments_add(arguments, &lock->head);
    arguments_add(arguments, &lock->tail);
    arguments_add_number(arguments, inside_expiry(lock));
    arguments_add_number(arguments, clock_wall_ms());
    arguments_add(arguments, &lock->mode);
    arguments_add_word(arguments, words[want]);
    if (!waits && !again)
        return; /* most runs: what the server need not take in costs neither side */
    arguments_add_word(arguments, lock->polls ? "p" : "l");
    if (lock->ticket != 0)
        arguments_add_number(arguments, lock->ticket);
    else
        arguments_add_word(arguments, "");
    arguments_add_number(arguments, POLL_LEASE_MS);
    arguments_add_word(arguments, again ? "again" : "");
    int64_t known_left = lock->known_until_ms - clock_boot_ms();
    bool knows = waits && known_left > 0;
    arguments_add_number(arguments, knows ? lock->known_fence : 0);
    arguments_add_number(arguments, knows ? known_left : 0);
}

static enum lock_result read_acquired(struct lock *lock, const struct reply *reply)
{
    if (inside_is(reply, "OK"))
        return accept_value(lock, reply);
    if (inside_is(reply, "HELD") && reply->count >= 7 && reply->items[1].kind == REPLY_STRING) {
        inside_note_blocker(lock, reply);
        lock->ticket = inside_number_at(reply, 6, 0);
        return LOCK_HELD;
    }
    if (inside_is(reply, "SLOTS")) {
        lock->blocker = (struct lock_blocker){.slots = inside_number_at(reply, 1, 0)};
        return LOCK_OTHER_SLOTS;
    }
    return inside_nonsense(lock);
}

enum lock_result inside_acquire_once(struct lock *lock, enum acquire_want want,
                                     const struct deadline *deadline)
{
    struct script_arguments arguments;
    acquire_arguments(lock, want, &arguments);
    /* a refusal that writes nothing is checked by a probe; the others fail on a read-only server */
    const struct text *probe = want == ACQUIRE_TRY ? &lock->keys.all[KEYS_PROBE] : NULL;
    const struct script_call call = {.script = &SCRIPT_ACQUIRE,
                                     .key_count = KEYS_TOMBSTONE + 1,
                                     .argument_count = arguments.count,
                                     .keys = lock->keys.all,
                                     .arguments = arguments.at,
                                     .probe = probe};
    const struct reply *reply;
    bool listens = want == ACQUIRE_WAIT && !lock->polls;
    lock->why_before[0] = '\0';
    lock->in_line = lock->in_line || want == ACQUIRE_WAIT || want == ACQUIRE_CLAIM;
    enum server_error error =
        listens
            ? script_run_and_subscribe(lock->client, &call, &lock->keys.channel, &reply, deadline)
            : script_run(lock->client, &call, &reply, deadline);
    const struct url *url = lock->settings.server.url;
    lock->read_only = error == SERVER_READONLY && url->place_count == 0;
    if (error != SERVER_OK) {
        inside_note_outcome(lock);
        /* with a full memory no transaction is taken, but a script that keeps our place is */
        lock->polls = lock->polls || (listens && error == SERVER_WRITES_REFUSED);
        return inside_of_error(error);
    }
    return read_acquired(lock, reply);
}

enum lock_result inside_raise_fence(struct lock *lock, int64_t fence,
                                    const struct deadline *deadline)
{
    char storage[HOLDER_VALUE_MAX + 1];
    struct text raised = TEXT_OVER(storage);
    const struct text keys[3] = {lock->keys.all[KEYS_LOCK], lock->keys.all[KEYS_STATE],
                                 lock->keys.all[KEYS_HOLDERS]};
    struct script_arguments arguments = {.count = 0};
    holder_add_with_fence(&raised, &lock->value, fence);
    arguments_add(&arguments, &lock->value);
    arguments_add(&arguments, &raised);
    arguments_add_number(&arguments, fence);
    arguments_add_number(&arguments, inside_expiry(lock));
    const struct script_call call = {.script = &SCRIPT_FENCE,
                                     .key_count = 3,
                                     .argument_count = arguments.count,
                                     .keys = keys,
                                     .arguments = arguments.at};
    const struct reply *reply = NULL;
    enum server_error error = script_run(lock->client, &call, &reply, deadline);
    enum lock_result result = inside_verdict(lock, error, reply);
    if (result == LOCK_OK) {
        lock->value = TEXT_OVER(lock->value_storage);
        text_add_bytes(&lock->value, raised.at, raised.length);
        lock->fence = fence;
    }
    return result;
}

/*
 * Gives back what was just acquired. Where the answer is lost, the RELEASE may still arrive: it would
 * take the lock from us once we had it again under the same token, so there is a new one.
 */
static void give_back(struct lock *lock)
{
    enum lock_result result = lock_release(lock, NULL, clock_boot_ms() + INSIDE_ATTEMPT_MS);
    lock->acquired_ms = 0;
    if (result != LOCK_OK && result != LOCK_GONE && result != LOCK_TAKEN) {
        lock->loose_ends = true;
        inside_cancel(lock, false);
    }
}

/*
 * Waits for --wait-replicas on the connection of the acquisition, as WAIT needs it. It narrows the
 * window in which a failover loses the lock; it does not close it.
 */
static enum lock_result wait_for_replicas(struct lock *lock, const struct deadline *deadline)
{
    char count_digits[ARGUMENT_DIGITS];
    char ms_digits[ARGUMENT_DIGITS];
    struct text count = TEXT_OVER(count_digits);
    struct text ms = TEXT_OVER(ms_digits);
    int wanted = lock->settings.wait_replicas;
    if (wanted == 0)
        return LOCK_OK;
    text_add_int(&count, wanted);
    text_add_int(&ms, lock->settings.lease.attempt_ms);
    /* the server answers when its time is over: that answer is waited for as well */
    struct deadline answer = {clock_boot_ms() + lock->settings.lease.attempt_ms + WAIT_ANSWER_MS,
                              deadline->wake_fd};
    const char *const words[] = {"WAIT", count.at, ms.at, NULL};
    const struct reply *reply;
    enum server_error error = client_ask(lock->client, words, &reply, &answer);
    if (error == SERVER_OK && reply->kind == REPLY_INTEGER && reply->integer >= wanted)
        return LOCK_OK;
    char before[512];
    struct text why = TEXT_OVER(before);
    enum lock_result result = LOCK_TOO_FEW_REPLICAS;
    if (error == SERVER_OK && reply->kind == REPLY_INTEGER) {
        text_addf(&why, "%s: %lld of %d replicas acknowledged the lock in time",
                  client_address(lock->client), (long long)reply->integer, wanted);
    } else {
        if (error == SERVER_OK)
            error = reply->kind == REPLY_ERROR
                        ? client_refused(lock->client, reply)
                        : client_nonsense(lock->client, "answers WAIT with no number");
        result = inside_of_error(error);
        text_addf(&why, "%s (waiting for replicas)", client_why(lock->client));
    }
    give_back(lock);
    struct text told = TEXT_OVER(lock->why_before);
    text_add(&told, why.at);
    return result;
}

/* An acquisition that was confirmed too late for the child to be given any time. */
static bool too_late(const struct lock *lock)
{
    return clock_boot_ms() >= lease_stop_at(&lock->settings.lease, lock->confirmed_ms);
}

enum lock_result inside_acquire(struct lock *lock, enum acquire_want want,
                                const struct deadline *deadline)
{
    struct pause pause = PAUSE_START;
    client_tries_until(lock->client, deadline);
    for (;;) {
        struct deadline attempt = deadline_sooner(*deadline, clock_boot_ms() + INSIDE_ATTEMPT_MS);
        enum lock_result result = inside_acquire_once(lock, want, &attempt);
        if (result == LOCK_OK)
            result = wait_for_replicas(lock, deadline);
        if (result == LOCK_OK && too_late(lock)) {
            give_back(lock);
        } else if (result != LOCK_UNAVAILABLE) {
            return result;
        }
        switch (pause_wait(&pause, deadline)) {
        case DEADLINE_WOKEN:
            return LOCK_INTERRUPTED;
        case DEADLINE_PASSED:
            return LOCK_UNAVAILABLE;
        case DEADLINE_READY:
        default:
            break;
        }
    }
}
