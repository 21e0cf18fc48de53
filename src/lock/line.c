/*
 * Owns the waiting. A waiter stands in the server's queue and listens on a channel of its own; it is
 * called when the lock was granted to it ("go"), or when it should look after somebody ("watch MS").
 * A call is only a hint and may be lost: every waiter also looks by its own clock, the first in line
 * when the holder's expiry has passed, the others a little later for each place. So a call costs
 * nothing when it comes and time when it does not, and never decides who holds the lock.
 * May not print.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "lock/inside.h"
#include "lock/pause.h"

#define LOOK_AFTER_MS   50    /* past the expiry that is waited for: the server's clock decides */
#define LOOK_PLACE_MS   200   /* later for each place: those ahead may have died or left unseen */
#define LOOK_FOREIGN_MS 1000  /* nobody calls when another program lets go */
#define LOOK_LIVELY_MS  2000  /* somebody watches the line on a terminal */
#define LOOK_LATEST_MS  60000 /* holders change unseen, and the next one's expiry may be sooner */
#define POLL_FIRST_MS   100   /* without pub/sub: the first in line, and the others */
#define POLL_OTHERS_MS  1000

/* When to look by our own clock, after the line was seen as `blocker` says. */
static int64_t look_at(const struct lock *lock, const struct lock_waiting *waiting)
{
    const struct lock_blocker *blocker = &lock->blocker;
    int64_t in_ms = LOOK_LATEST_MS;
    if (blocker->left_ms >= 0 && blocker->left_ms < LOOK_LATEST_MS)
        in_ms = blocker->left_ms + LOOK_AFTER_MS;
    in_ms += blocker->ahead * LOOK_PLACE_MS;
    if (lock->polls)
        in_ms = pause_jitter(blocker->ahead == 0 ? POLL_FIRST_MS : POLL_OTHERS_MS);
    if (blocker->holder.kind == HOLDER_FOREIGN && blocker->ahead == 0 && in_ms > LOOK_FOREIGN_MS)
        in_ms = LOOK_FOREIGN_MS;
    if (waiting->lively && in_ms > LOOK_LIVELY_MS)
        in_ms = LOOK_LIVELY_MS;
    return clock_boot_ms() + in_ms;
}

static bool message_is(const struct reply *message, const char *word)
{
    return message->kind == REPLY_STRING && message->length >= strlen(word) &&
           memcmp(message->bytes, word, strlen(word)) == 0;
}

/* "watch MS": we are the first now, and the one before us has MS to show that it lives. */
static int64_t watch_until(const struct reply *message)
{
    const char *digits = message->bytes + strlen("watch ");
    long long ms = strtoll(digits, NULL, 10);
    if (ms < 0 || ms > LOOK_LATEST_MS)
        ms = ms < 0 ? 0 : LOOK_LATEST_MS;
    return clock_boot_ms() + ms + LOOK_AFTER_MS;
}

enum woken { WOKEN_LOOK, WOKEN_GO, WOKEN_SIGNAL, WOKEN_LATE };

/* Sleeps until there is a reason to ask the server again. */
static enum woken sleep_in_line(struct lock *lock, int64_t look_ms, const struct deadline *deadline)
{
    for (;;) {
        struct deadline until = deadline_sooner(*deadline, look_ms);
        const struct reply *message = NULL;
        enum client_heard heard = CLIENT_HEARD_NOTHING;
        if (!lock->polls)
            heard = client_listen(lock->client, &message, &until);
        else if (deadline_wait(-1, 0, &until) == DEADLINE_WOKEN)
            heard = CLIENT_HEARD_SIGNAL;

        switch (heard) {
        case CLIENT_HEARD_MESSAGE:
            if (!message_is(message, "watch "))
                return clock_boot_ms() >= deadline->at_ms ? WOKEN_LATE : WOKEN_GO;
            look_ms = watch_until(message);
            lock->blocker.ahead = 0;
            break;
        case CLIENT_HEARD_SIGNAL:
            return WOKEN_SIGNAL;
        case CLIENT_HEARD_BROKEN:
            /* until now the holder may have gone on extending its lease */
            lock->known_until_ms = clock_boot_ms() + lock->known_ttl_ms;
            return WOKEN_LOOK;
        case CLIENT_HEARD_NOTHING:
        default:
            return clock_boot_ms() >= deadline->at_ms ? WOKEN_LATE : WOKEN_LOOK;
        }
    }
}

/* Gets in line, or back into it, or takes what was granted. */
static enum lock_result ask(struct lock *lock, enum acquire_want want, int64_t connect_ms,
                            const struct deadline *deadline)
{
    struct deadline connect = deadline_sooner(*deadline, clock_boot_ms() + connect_ms);
    enum lock_result result = inside_acquire(lock, want, &connect);
    if (result == LOCK_DENIED && !lock->polls) {
        lock->polls = true; /* perhaps only pub/sub is forbidden here */
        result = inside_acquire(lock, want, &connect);
    }
    /* the wait has ended before the server came back: it is the wait that failed */
    if (result == LOCK_UNAVAILABLE && connect.at_ms == deadline->at_ms)
        result = LOCK_HELD;
    return result;
}

static enum lock_result wait_in_line(struct lock *lock, const struct lock_waiting *waiting,
                                     int64_t connect_ms, const struct deadline *deadline)
{
    enum acquire_want want = ACQUIRE_WAIT;
    for (;;) {
        enum lock_result result = ask(lock, want, connect_ms, deadline);
        if (result != LOCK_HELD || clock_boot_ms() >= deadline->at_ms)
            return result;
        if (want ==
            ACQUIRE_CLAIM) { /* we came too late for the grant: back into line, and listen */
            want = ACQUIRE_WAIT;
            continue;
        }
        waiting->tell(waiting->context, &lock->blocker, lock->polls);
        switch (sleep_in_line(lock, look_at(lock, waiting), deadline)) {
        case WOKEN_SIGNAL:
            return LOCK_INTERRUPTED;
        case WOKEN_LATE:
            return LOCK_HELD;
        case WOKEN_GO:
            want = ACQUIRE_CLAIM;
            break;
        case WOKEN_LOOK:
        default:
            break;
        }
    }
}

enum lock_result lock_wait(struct lock *lock, const struct lock_waiting *waiting,
                           int64_t connect_ms, const struct deadline *deadline)
{
    if (lock->quorum != NULL)
        return inside_wait_for_quorum(lock, waiting, connect_ms, deadline);
    enum lock_result result = wait_in_line(lock, waiting, connect_ms, deadline);
    if (result != LOCK_OK && (lock->in_line || lock->loose_ends))
        inside_cancel(lock, result == LOCK_HELD);
    return result;
}
