/*
 * Owns the counting of votes. Promises: the configured N counts, never the reachable ones; no vote is
 * left standing after a round without a majority; a minority that fails is invisible but for its own
 * time-out.
 */
#include "lock/quorum.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/token.h"
#include "lock/inside.h"
#include "lock/pause.h"

#define ROUNDS_MAX      3   /* that split votes are taken */
#define ATTEMPT_MAX_MS  250 /* of one exchange; a member that must connect gets it twice */
#define ATTEMPT_DIVISOR 20  /* or that part of the TTL */
#define STACK_BYTES     ((size_t)256 * 1024)

struct quorum;

struct member {
    struct quorum *quorum;
    struct lock *lock;
    enum lock_result result; /* of the last question */
    bool rejoined;           /* in this round: does not count */
    pthread_t thread;
    bool threaded;
};

/* One question to all members; what it needs besides the member. */
struct question {
    void (*ask)(struct member *member, const struct question *question);
    struct deadline deadline;
    bool count_skip;
    int64_t number; /* a fence, or a time */
    const struct lock_run_record *record;
};

struct quorum {
    int count;
    int majority;
    int64_t attempt_ms;
    struct lease lease;
    int64_t fence;
    int64_t confirmed_ms;
    int spokesman; /* the member whose refusal or reason is told */
    const struct question *question;
    char why[512];
    struct member members[];
};

struct quorum *quorum_open(const struct lock_settings *settings)
{
    int count = settings->server_count;
    struct quorum *quorum = calloc(1, sizeof(*quorum) + (size_t)count * sizeof(struct member));
    if (quorum == NULL)
        return NULL;
    quorum->count = count;
    quorum->majority = count / 2 + 1;
    quorum->lease = settings->lease;
    quorum->attempt_ms = settings->lease.ttl_ms / ATTEMPT_DIVISOR;
    if (quorum->attempt_ms > ATTEMPT_MAX_MS)
        quorum->attempt_ms = ATTEMPT_MAX_MS;
    for (int i = 0; i < count; i++) {
        struct lock_settings own = *settings;
        own.server_count = 1;
        own.server = settings->servers[i];
        quorum->members[i].quorum = quorum;
        quorum->members[i].lock = lock_open(&own);
        if (quorum->members[i].lock == NULL) {
            quorum_close(quorum);
            return NULL;
        }
    }
    return quorum;
}

void quorum_close(struct quorum *quorum)
{
    if (quorum == NULL)
        return;
    for (int i = 0; i < quorum->count; i++)
        lock_close(quorum->members[i].lock);
    free(quorum);
}

/* --- Asking all ------------------------------------------------------------------------------ */

static void *ask_one(void *argument)
{
    struct member *member = argument;
    member->quorum->question->ask(member, member->quorum->question);
    return NULL;
}

/* Every member in parallel; the last one in this thread. Without a thread one is asked in turn. */
static void ask_all(struct quorum *quorum, const struct question *question)
{
    pthread_attr_t attributes;
    quorum->question = question;
    bool can_start = pthread_attr_init(&attributes) == 0;
    if (can_start)
        pthread_attr_setstacksize(&attributes, STACK_BYTES);
    for (int i = 0; i < quorum->count; i++) {
        struct member *member = &quorum->members[i];
        member->threaded = can_start && i + 1 < quorum->count &&
                           pthread_create(&member->thread, &attributes, ask_one, member) == 0;
        if (!member->threaded)
            ask_one(member);
    }
    for (int i = 0; i < quorum->count; i++)
        if (quorum->members[i].threaded)
            pthread_join(quorum->members[i].thread, NULL);
    if (can_start)
        pthread_attr_destroy(&attributes);
}

static int count_of(const struct quorum *quorum, enum lock_result result)
{
    int count = 0;
    for (int i = 0; i < quorum->count; i++)
        count += quorum->members[i].result == result && !quorum->members[i].rejoined;
    return count;
}

/* How long one member may take. */
static struct deadline attempt(const struct quorum *quorum, const struct deadline *deadline)
{
    return deadline_sooner(*deadline, clock_boot_ms() + 2 * quorum->attempt_ms);
}

/* --- Acquiring ------------------------------------------------------------------------------- */

static void ask_acquire(struct member *member, const struct question *question)
{
    member->result = inside_acquire_once(
        member->lock, question->count_skip ? ACQUIRE_SKIP : ACQUIRE_TRY, &question->deadline);
}

static void ask_cancel(struct member *member, const struct question *question)
{
    (void)question;
    /* a refusal and a server that was never reached leave nothing to take back */
    if (member->result == LOCK_OK || member->lock->loose_ends)
        inside_cancel(member->lock, false);
}

static void ask_raise_fence(struct member *member, const struct question *question)
{
    if (member->result == LOCK_OK)
        member->result = inside_raise_fence(member->lock, question->number, &question->deadline);
}

/* Two members that refuse each other's token are one server. */
static bool is_duplicate(const struct quorum *quorum, int *which)
{
    for (int i = 0; i < quorum->count; i++) {
        const struct member *refused = &quorum->members[i];
        if (refused->result != LOCK_HELD)
            continue;
        for (int j = 0; j < quorum->count; j++) {
            if (j != i && strcmp(refused->lock->blocker.holder.token,
                                 quorum->members[j].lock->token) == 0) {
                *which = i;
                return true;
            }
        }
    }
    return false;
}

/* The largest fence that a member of the majority gave, and the earliest moment of its votes. */
static void collect_votes(struct quorum *quorum)
{
    quorum->fence = 0;
    quorum->confirmed_ms = INT64_MAX;
    for (int i = 0; i < quorum->count; i++) {
        const struct lock *lock = quorum->members[i].lock;
        if (quorum->members[i].result != LOCK_OK || quorum->members[i].rejoined)
            continue;
        if (lock->fence > quorum->fence)
            quorum->fence = lock->fence;
        if (lock->confirmed_ms < quorum->confirmed_ms)
            quorum->confirmed_ms = lock->confirmed_ms;
    }
}

/* A majority has granted: its fences are made one, on a majority again. */
static enum lock_result confirm(struct quorum *quorum, const struct deadline *deadline)
{
    collect_votes(quorum);
    const struct question raise = {.ask = ask_raise_fence,
                                   .deadline = attempt(quorum, deadline),
                                   .number = quorum->fence};
    ask_all(quorum, &raise);
    bool in_time = clock_boot_ms() < lease_stop_at(&quorum->lease, quorum->confirmed_ms);
    return count_of(quorum, LOCK_OK) >= quorum->majority && in_time ? LOCK_OK : LOCK_UNAVAILABLE;
}

/* The member that speaks for those with `result`; -1: there is none. */
static int member_with(const struct quorum *quorum, enum lock_result result)
{
    for (int i = 0; i < quorum->count; i++)
        if (quorum->members[i].result == result)
            return i;
    return -1;
}

/* What a round without a majority comes to. */
static enum lock_result judge(struct quorum *quorum)
{
    static const enum lock_result fatal[] = {LOCK_OTHER_SLOTS, LOCK_DENIED,       LOCK_UNTRUSTED,
                                             LOCK_NOT_A_LOCK,  LOCK_BAD_DATABASE, LOCK_NONSENSE,
                                             LOCK_OS};
    int answered = count_of(quorum, LOCK_OK) + count_of(quorum, LOCK_HELD);
    if (member_with(quorum, LOCK_INTERRUPTED) >= 0)
        return LOCK_INTERRUPTED;
    if (answered >= quorum->majority) {
        int refused = member_with(quorum, LOCK_HELD);
        quorum->spokesman = refused >= 0 ? refused : 0;
        return refused >= 0 ? LOCK_HELD : LOCK_UNAVAILABLE;
    }
    for (size_t i = 0; i < sizeof(fatal) / sizeof(fatal[0]); i++) {
        quorum->spokesman = member_with(quorum, fatal[i]);
        if (quorum->spokesman >= 0)
            return fatal[i];
    }
    int silent = member_with(quorum, LOCK_UNAVAILABLE);
    quorum->spokesman = silent >= 0 ? silent : 0;
    struct text why = TEXT_OVER(quorum->why);
    text_addf(&why, "%d of %d servers answered, %d are needed; %s", answered, quorum->count,
              quorum->majority, lock_why(quorum->members[quorum->spokesman].lock));
    return LOCK_UNAVAILABLE;
}

static enum lock_result one_round(struct quorum *quorum, bool count_skip,
                                  const struct deadline *deadline)
{
    const struct question acquire = {
        .ask = ask_acquire, .deadline = attempt(quorum, deadline), .count_skip = count_skip};
    quorum->why[0] = '\0';
    ask_all(quorum, &acquire);
    int which;
    enum lock_result result;
    if (is_duplicate(quorum, &which)) {
        result = LOCK_DUPLICATE_SERVER;
        quorum->spokesman = which;
    } else if (count_of(quorum, LOCK_OK) >= quorum->majority) {
        result = confirm(quorum, deadline);
    } else {
        result = judge(quorum);
    }
    if (result == LOCK_OK)
        return result;
    const struct question cancel = {.ask = ask_cancel};
    ask_all(quorum, &cancel);
    return result;
}

enum lock_result quorum_acquire(struct quorum *quorum, bool count_skip, bool patient,
                                const struct lock_waiting *waiting, const struct deadline *deadline)
{
    for (int round = 1;; round++) {
        enum lock_result result = one_round(quorum, count_skip && round == 1, deadline);
        bool refused = result == LOCK_HELD;
        if (!refused && result != LOCK_UNAVAILABLE)
            return result;
        /* a majority that refuses is an answer; votes that were split are asked for again */
        bool split = count_of(quorum, LOCK_HELD) < quorum->majority;
        if (refused && !patient && (!split || round >= ROUNDS_MAX))
            return result;
        if (refused && waiting != NULL)
            waiting->tell(waiting->context, quorum_blocker(quorum), true);
        /* one to three rounds, so that contenders who split the votes do not meet again */
        int64_t pause = quorum->attempt_ms + token_random_below((uint32_t)(2 * quorum->attempt_ms) + 1);
        struct deadline wait = deadline_sooner(*deadline, clock_boot_ms() + pause);
        if (deadline_wait(-1, 0, &wait) == DEADLINE_WOKEN)
            return LOCK_INTERRUPTED;
        if (clock_boot_ms() >= deadline->at_ms)
            return result;
    }
}

/* --- Keeping --------------------------------------------------------------------------------- */

/* A member that was away when we acquired; it counts from the next round on. */
static void join_late(struct member *member)
{
    struct deadline deadline = {clock_boot_ms() + 2 * member->quorum->attempt_ms, -1};
    member->result = inside_acquire_once(member->lock, ACQUIRE_TRY, &deadline);
    if (member->result != LOCK_OK)
        return;
    (void)inside_raise_fence(member->lock, member->quorum->fence, &deadline);
    member->rejoined = true;
}

static void ask_extend(struct member *member, const struct question *question)
{
    (void)question;
    member->rejoined = false;
    if (member->lock->value.length == 0) {
        join_late(member);
        return;
    }
    member->result = lock_extend(member->lock);
    if (member->result == LOCK_GONE && lock_restore(member->lock) == LOCK_OK) {
        member->rejoined = true;
        member->result = LOCK_OK;
    }
}

enum lock_result quorum_extend(struct quorum *quorum)
{
    const struct question extend = {.ask = ask_extend};
    ask_all(quorum, &extend);
    if (count_of(quorum, LOCK_OK) >= quorum->majority) {
        int64_t fence = quorum->fence;
        collect_votes(quorum);
        quorum->fence = fence;
        return LOCK_OK;
    }
    int taken = count_of(quorum, LOCK_TAKEN);
    int lost = taken + count_of(quorum, LOCK_GONE) + count_of(quorum, LOCK_NOT_A_LOCK);
    if (lost <= quorum->count - quorum->majority) {
        int silent = member_with(quorum, LOCK_UNAVAILABLE);
        quorum->spokesman = silent >= 0 ? silent : 0;
        return LOCK_UNAVAILABLE;
    }
    quorum->spokesman = member_with(quorum, taken > 0 ? LOCK_TAKEN : LOCK_GONE);
    return taken > 0 ? LOCK_TAKEN : LOCK_GONE;
}

static void ask_release(struct member *member, const struct question *question)
{
    if (member->lock->value.length == 0 && !member->lock->loose_ends)
        return;
    member->result = lock_release(member->lock, question->record, question->number);
}

enum lock_result quorum_release(struct quorum *quorum, const struct lock_run_record *record,
                                int64_t until_ms)
{
    const struct question release = {.ask = ask_release, .record = record, .number = until_ms};
    for (int i = 0; i < quorum->count; i++)
        quorum->members[i].result = LOCK_UNAVAILABLE;
    ask_all(quorum, &release);
    int released = member_with(quorum, LOCK_OK);
    if (released >= 0)
        return LOCK_OK;
    enum lock_result result = count_of(quorum, LOCK_TAKEN) > 0  ? LOCK_TAKEN
                              : count_of(quorum, LOCK_GONE) > 0 ? LOCK_GONE
                                                                : LOCK_UNAVAILABLE;
    int which = member_with(quorum, result);
    quorum->spokesman = which >= 0 ? which : 0;
    return result;
}

static void ask_check(struct member *member, const struct question *question)
{
    member->result = lock_check(member->lock, question->number, &question->deadline);
}

enum lock_result quorum_check(struct quorum *quorum, int64_t fence, const struct deadline *deadline)
{
    const struct question check = {
        .ask = ask_check, .deadline = attempt(quorum, deadline), .number = fence};
    ask_all(quorum, &check);
    if (count_of(quorum, LOCK_OK) >= quorum->majority)
        return LOCK_OK;
    int silent = count_of(quorum, LOCK_UNAVAILABLE);
    if (silent > quorum->count - quorum->majority)
        return LOCK_UNAVAILABLE;
    int which = member_with(quorum, LOCK_TAKEN);
    quorum->spokesman = which >= 0 ? which : 0;
    return which >= 0 ? LOCK_TAKEN : LOCK_GONE;
}

static void ask_forget(struct member *member, const struct question *question)
{
    (void)question;
    lock_forget(member->lock);
}

void quorum_forget(struct quorum *quorum)
{
    const struct question forget = {.ask = ask_forget};
    ask_all(quorum, &forget);
}

int64_t quorum_fence(const struct quorum *quorum)
{
    return quorum->fence;
}

int64_t quorum_confirmed_ms(const struct quorum *quorum)
{
    return quorum->confirmed_ms;
}

const char *quorum_why(const struct quorum *quorum)
{
    return quorum->why[0] != '\0' ? quorum->why : lock_why(quorum->members[quorum->spokesman].lock);
}

const struct lock_blocker *quorum_blocker(const struct quorum *quorum)
{
    return lock_blocker(quorum->members[quorum->spokesman].lock);
}
