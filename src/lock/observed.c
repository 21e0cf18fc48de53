/*
 * Owns the reading of what STATUS replies. Pure; what a hostile server sends is cut or left out.
 */
#include "lock/observed.h"

#include <string.h>

#include "base/text.h"

static void read_holder(struct observed *observed, const struct reply *value,
                        const struct reply *left)
{
    if (value->kind != REPLY_STRING || observed->holder_count == OBSERVE_HOLDERS_MAX)
        return;
    struct observed_holder *to = &observed->holders[observed->holder_count++];
    size_t kept = value->length < HOLDER_VALUE_MAX ? value->length : HOLDER_VALUE_MAX;
    holder_parse(value->bytes, value->length, &to->holder);
    memcpy(to->value, value->bytes, kept);
    to->value[kept] = '\0';
    to->value_length = value->length;
    to->left_ms = -1;
    (void)reply_number(left, &to->left_ms);
    to->age_ms = -1;
    if (to->holder.kind != HOLDER_FOREIGN)
        to->age_ms =
            observed->now_ms > to->holder.start_ms ? observed->now_ms - to->holder.start_ms : 0;
}

/* MODE:EAR:TOKEN:TAIL; the tail is that of a value. */
static void read_waiter(struct observed *observed, const struct reply *ticket)
{
    char storage[HOLDER_VALUE_MAX + 1];
    struct text value = TEXT_OVER(storage);
    if (ticket->kind != REPLY_STRING || observed->waiter_count == OBSERVE_WAITERS_MAX)
        return;
    const char *ear = strchr(ticket->bytes, ':');
    const char *token = ear != NULL ? strchr(ear + 1, ':') : NULL;
    const char *tail = token != NULL ? strchr(token + 1, ':') : NULL;
    if (tail == NULL)
        return;
    holder_add_head(&value, "");
    value.length -= 2; /* colon, no token, colon: here comes the token with both of its own */
    text_add_bytes(&value, token, (size_t)(tail - token));
    text_add(&value, ":0:granted:0");
    text_add(&value, tail);
    struct observed_waiter *to = &observed->waiters[observed->waiter_count];
    holder_parse(value.at, value.length, &to->who);
    if (to->who.kind == HOLDER_FOREIGN)
        return;
    to->mode = ticket->bytes[0] == 'x'   ? LOCK_MODE_EXCLUSIVE
               : ticket->bytes[0] == 's' ? LOCK_MODE_SHARED
                                         : LOCK_MODE_SLOTS;
    observed->waiter_count++;
}

static void read_field(struct observed *observed, const struct reply *field,
                       const struct reply *value)
{
    const struct {
        const char *name;
        int64_t *to;
    } numbers[] = {
        {"fence", &observed->fence},
        {"slots", &observed->slots},
        {"runs", &observed->runs},
        {"skips", &observed->skips},
        {"losses", &observed->losses},
        {"last_start", &observed->run_start_ms},
        {"last_ms", &observed->run_duration_ms},
        {"last_status", &observed->run_status},
    };
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        if (reply_is(field, numbers[i].name))
            (void)reply_number(value, numbers[i].to);
    if (reply_is(field, "last_host") && value->kind == REPLY_STRING) {
        struct text host = TEXT_OVER(observed->run_host);
        text_add_bytes(&host, value->bytes, value->length);
        observed->has_run = true;
    }
}

bool observed_read(struct observed *observed, const struct reply *reply)
{
    memset(observed, 0, offsetof(struct observed, holders)); /* they are a quarter of a megabyte */
    observed->slots = 1;
    observed->run_status = -1;
    if (reply->count != 5 || !reply_number(&reply->items[0], &observed->now_ms) ||
        !reply_number(&reply->items[3], &observed->waiting))
        return false;
    const struct reply *holders = &reply->items[1];
    const struct reply *waiters = &reply->items[2];
    const struct reply *state = &reply->items[4];
    for (size_t i = 0; i + 1 < holders->count; i += 2)
        read_holder(observed, &holders->items[i], &holders->items[i + 1]);
    for (size_t i = 0; i < waiters->count; i++)
        read_waiter(observed, &waiters->items[i]);
    for (size_t i = 0; i + 1 < state->count; i += 2)
        read_field(observed, &state->items[i], &state->items[i + 1]);
    return true;
}
