/*
 * Owns the life of a lock, and the reading of what servers say about it. Promises that no attempt of
 * unknown outcome is left standing. May not print.
 */
#include "lock/lock.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "lock/inside.h"
#include "lock/quorum.h"

#define TOMBSTONE_MS 120000 /* longer than a command can be on its way */
#define CANCEL_MS    1000

void arguments_add(struct script_arguments *arguments, const struct text *text)
{
    arguments->at[arguments->count++] = *text;
}

void arguments_add_word(struct script_arguments *arguments, const char *word)
{
    /* nothing is ever added to a borrowed text, so the cast takes no right away */
    struct text text = {.at = (char *)(uintptr_t)word, .length = strlen(word)};
    arguments_add(arguments, &text);
}

void arguments_add_number(struct script_arguments *arguments, int64_t number)
{
    struct text text = text_over(arguments->digits[arguments->count], ARGUMENT_DIGITS);
    text_add_int(&text, number);
    arguments_add(arguments, &text);
}

static void make_mode(struct lock *lock)
{
    lock->mode = TEXT_OVER(lock->mode_storage);
    switch (lock->settings.mode) {
    case LOCK_MODE_SHARED:
        text_add(&lock->mode, "s");
        break;
    case LOCK_MODE_SLOTS:
        text_add_int(&lock->mode, lock->settings.slots);
        break;
    case LOCK_MODE_EXCLUSIVE:
    default:
        text_add(&lock->mode, "x");
        break;
    }
}

/* Makes a token, and what is named after it. */
static void take_token(struct lock *lock)
{
    token_make(lock->token);
    keys_make(&lock->keys, (char *)(lock + 1), lock->settings.prefix, lock->settings.name,
              lock->token);
    lock->head = TEXT_OVER(lock->head_storage);
    holder_add_head(&lock->head, lock->token);
}

struct lock *lock_open(const struct lock_settings *settings)
{
    bool on_several = settings->server_count > 1;
    struct lock *lock =
        calloc(1, sizeof(*lock) + keys_storage_size(settings->prefix, settings->name));
    if (lock == NULL)
        return NULL;
    lock->settings = *settings;
    lock->cancel_ms = CANCEL_MS;
    if (on_several)
        lock->quorum = quorum_open(settings);
    else
        lock->client = client_open(&settings->server);
    if (lock->quorum == NULL && lock->client == NULL) {
        lock_close(lock);
        return NULL;
    }
    take_token(lock);
    if (on_several)
        return lock;
    make_mode(lock);
    lock->tail = TEXT_OVER(lock->tail_storage);
    lock->value = TEXT_OVER(lock->value_storage);
    holder_add_tail(&lock->tail, settings->lease.ttl_ms, settings->pid, settings->command);
    return lock;
}

void lock_close(struct lock *lock)
{
    if (lock == NULL)
        return;
    quorum_close(lock->quorum);
    client_close(lock->client);
    free(lock);
}

enum lock_result inside_of_error(enum server_error error)
{
    switch (error) {
    case SERVER_OK:
        return LOCK_OK;
    case SERVER_INTERRUPTED:
        return LOCK_INTERRUPTED;
    case SERVER_DENIED:
        return LOCK_DENIED;
    case SERVER_UNTRUSTED:
        return LOCK_UNTRUSTED;
    case SERVER_BAD_DATABASE:
        return LOCK_BAD_DATABASE;
    case SERVER_NOT_A_LOCK:
        return LOCK_NOT_A_LOCK;
    case SERVER_NONSENSE:
        return LOCK_NONSENSE;
    case SERVER_OS:
        return LOCK_OS;
    case SERVER_UNREACHABLE:
    case SERVER_LATE:
    case SERVER_BUSY:
    case SERVER_READONLY:
    case SERVER_WRITES_REFUSED:
    case SERVER_NO_SCRIPT:
    case SERVER_REDIRECTED:
    default:
        return LOCK_UNAVAILABLE;
    }
}

bool inside_is(const struct reply *reply, const char *word)
{
    return reply->count > 0 && reply_is(&reply->items[0], word);
}

bool inside_is_exclusive(const struct lock *lock)
{
    return lock->settings.mode == LOCK_MODE_EXCLUSIVE;
}

void inside_note_outcome(struct lock *lock)
{
    lock->loose_ends = lock->loose_ends || client_outcome_unknown(lock->client);
}

int64_t inside_expiry(const struct lock *lock)
{
    int64_t hold = lock->settings.min_hold_ms;
    if (lock->acquired_ms != 0)
        hold -= clock_boot_ms() - lock->acquired_ms;
    return hold > lock->settings.lease.ttl_ms ? hold : lock->settings.lease.ttl_ms;
}

/* A well-formed reply that means nothing to us. */
enum lock_result inside_nonsense(struct lock *lock)
{
    (void)client_nonsense(lock->client, "gives a script's reply that makes no sense");
    return LOCK_NONSENSE;
}

int64_t inside_number_at(const struct reply *reply, size_t index, int64_t otherwise)
{
    int64_t number = otherwise;
    if (index < reply->count)
        (void)reply_number(&reply->items[index], &number);
    return number;
}

/* {"HELD" or "TAKEN", value, ms left, server time, how many hold, how many are ahead, ticket} */
void inside_note_blocker(struct lock *lock, const struct reply *reply)
{
    struct lock_blocker *blocker = &lock->blocker;
    struct holder before = blocker->holder;
    *blocker = (struct lock_blocker){.age_ms = -1, .left_ms = -1};
    if (reply->count < 2 || reply->items[1].kind != REPLY_STRING)
        return;
    if (reply->items[1].length > 0)
        holder_parse(reply->items[1].bytes, reply->items[1].length, &blocker->holder);
    else
        blocker->holder = before; /* lost by the server, but still holding as far as we know */
    int64_t now_ms = inside_number_at(reply, 3, -1);
    blocker->left_ms = inside_number_at(reply, 2, -1);
    blocker->holders = inside_number_at(reply, 4, 1);
    int64_t ahead = inside_number_at(reply, 5, 0);
    blocker->ahead = ahead > 0 ? ahead : 0;
    if (reply->items[1].length > 0) {
        bool held = blocker->holder.kind == HOLDER_HELD;
        lock->known_fence = blocker->holder.fence;
        lock->known_ttl_ms = held ? blocker->holder.ttl_ms : 0;
        lock->known_until_ms = held ? clock_boot_ms() + blocker->left_ms : 0;
    }
    if (now_ms < 0 || blocker->holder.kind == HOLDER_FOREIGN)
        return;
    blocker->age_ms = now_ms > blocker->holder.start_ms ? now_ms - blocker->holder.start_ms : 0;
}

enum lock_result inside_verdict(struct lock *lock, enum server_error error,
                                const struct reply *reply)
{
    if (error != SERVER_OK)
        return inside_of_error(error);
    if (inside_is(reply, "OK"))
        return LOCK_OK;
    if (inside_is(reply, "GONE"))
        return LOCK_GONE;
    if (!inside_is(reply, "TAKEN"))
        return inside_nonsense(lock);
    inside_note_blocker(lock, reply);
    return LOCK_TAKEN;
}

/* What the quorum agreed on, as if one server had said it. */
static enum lock_result accept_quorum(struct lock *lock, enum lock_result result)
{
    if (result == LOCK_OK) {
        lock->fence = quorum_fence(lock->quorum);
        lock->confirmed_ms = quorum_confirmed_ms(lock->quorum);
        lock->acquired_ms = lock->confirmed_ms;
    }
    return result;
}

enum lock_result inside_wait_for_quorum(struct lock *lock, const struct lock_waiting *waiting,
                                        int64_t connect_ms, const struct deadline *deadline)
{
    return accept_quorum(lock, quorum_wait(lock->quorum, waiting, connect_ms, deadline));
}

enum lock_result lock_acquire(struct lock *lock, bool count_skip, const struct deadline *deadline)
{
    if (lock->quorum != NULL)
        return accept_quorum(lock, quorum_acquire(lock->quorum, count_skip, deadline));
    enum lock_result result =
        inside_acquire(lock, count_skip ? ACQUIRE_SKIP : ACQUIRE_TRY, deadline);
    if (result != LOCK_OK && lock->loose_ends)
        inside_cancel(lock, false);
    return result;
}

void inside_cancel(struct lock *lock, bool skipped)
{
    char ticket_storage[HOLDER_VALUE_MAX + 64];
    struct text ticket = TEXT_OVER(ticket_storage);
    struct text why = TEXT_OVER(lock->why_before);
    text_add(&why, client_why(lock->client));
    text_add_bytes(&ticket, lock->mode.at, lock->mode.length);
    text_add(&ticket, lock->polls ? ":p:" : ":l:");
    text_add(&ticket, lock->token);
    text_add_char(&ticket, ':');
    text_add_bytes(&ticket, lock->tail.at, lock->tail.length);

    struct script_arguments arguments = {.count = 0};
    arguments_add(&arguments, &lock->head);
    arguments_add(&arguments, &ticket);
    arguments_add_number(&arguments, clock_wall_ms());
    arguments_add_number(&arguments, lock->loose_ends ? TOMBSTONE_MS : 0);
    arguments_add_word(&arguments, skipped ? "skip" : "");
    const struct script_call call = {.script = &SCRIPT_CANCEL,
                                     .key_count = KEYS_TOMBSTONE + 1,
                                     .argument_count = arguments.count,
                                     .keys = lock->keys.all,
                                     .arguments = arguments.at,
                                     .by_text = true,
                                     .may_be_late = true};
    const struct reply *reply;
    struct deadline deadline = {clock_boot_ms() + lock->cancel_ms, -1};
    /* whatever the answer: where it did not arrive, the lock's own expiry ends it */
    (void)script_run(lock->client, &call, &reply, &deadline);
    lock->loose_ends = false;
    lock->in_line = false;
    lock->ticket = 0;
    lock->known_until_ms = 0;
    take_token(lock); /* the old one is dead: a run that waits on needs another */
}

int64_t lock_fence(const struct lock *lock)
{
    return lock->fence;
}

int lock_slot(const struct lock *lock)
{
    return lock->slot;
}

int64_t lock_confirmed_ms(const struct lock *lock)
{
    return lock->confirmed_ms;
}

const char *lock_key(const struct lock *lock)
{
    return lock->keys.all[KEYS_LOCK].at;
}

const struct lock_blocker *lock_blocker(const struct lock *lock)
{
    return lock->quorum != NULL ? quorum_blocker(lock->quorum) : &lock->blocker;
}

const char *lock_remark(const struct lock *lock)
{
    return lock->quorum != NULL ? quorum_remark(lock->quorum) : NULL;
}

const char *lock_why(const struct lock *lock)
{
    if (lock->quorum != NULL)
        return quorum_why(lock->quorum);
    return lock->why_before[0] != '\0' ? lock->why_before : client_why(lock->client);
}
