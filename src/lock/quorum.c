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
    bool restores; /* a member that lost the lock takes it up again */
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
    quorum->restores = !settings->no_restore;
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
        quorum->members[i].lock->cancel_ms = 2 * quorum->attempt_ms;
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
    if (member->lock->value.length > 0 || member->lock->loose_ends)
        inside_cancel(member->lock, false);
    member->lock->value = TEXT_OVER(member->lock->value_storage);
    member->lock->acquired_ms = 0;
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
            if (j != i &&
                strcmp(refused->lock->blocker.holder.token, quorum->members[j].lock->token) == 0) {
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
    const struct question raise = {
        .ask = ask_raise_fence, .deadline = attempt(quorum, deadline), .number = quorum->fence};
    ask_all(quorum, &raise);
    bool in_time = clock_boot_ms() < lease_stop_at(&quorum->lease, quorum->confirmed_ms);
    if (count_of(quorum, LOCK_OK) >= quorum->majority && in_time)
        return LOCK_OK;
    struct text why = TEXT_OVER(quorum->why);
    text_add(&why, "a majority granted the lock, but did not confirm its fence in time");
    return LOCK_UNAVAILABLE;
}

/* The member that speaks for those with `result`; -1: there is none. */
static int member_with(const struct quorum *quorum, enum lock_result result)
{
    for (int i = 0; i < quorum->count; i++)
        if (quorum->members[i].result == result)
            return i;
    return -1;
}

/* What does not pass: LOCK_OK while the members that are troubled by it leave room for a majority. */
static enum lock_result lasting_trouble(struct quorum *quorum)
{
    static const enum lock_result kinds[] = {LOCK_OTHER_SLOTS, LOCK_DENIED,       LOCK_UNTRUSTED,
                                             LOCK_NOT_A_LOCK,  LOCK_BAD_DATABASE, LOCK_NONSENSE,
                                             LOCK_OS};
    enum lock_result first = LOCK_OK;
    int count = 0;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        int member = member_with(quorum, kinds[i]);
        if (member >= 0 && first == LOCK_OK) {
            first = kinds[i];
            quorum->spokesman = member;
        }
        count += count_of(quorum, kinds[i]);
    }
    return count > quorum->count - quorum->majority ? first : LOCK_OK;
}

/* What a round without a majority comes to. */
static enum lock_result judge(struct quorum *quorum)
{
    int answered = count_of(quorum, LOCK_OK) + count_of(quorum, LOCK_HELD);
    int refused = member_with(quorum, LOCK_HELD);
    if (member_with(quorum, LOCK_INTERRUPTED) >= 0)
        return LOCK_INTERRUPTED;
    if (answered >= quorum->majority && refused >= 0) {
        quorum->spokesman = refused;
        return LOCK_HELD;
    }
    enum lock_result trouble = lasting_trouble(quorum);
    if (trouble != LOCK_OK)
        return trouble;
    int silent = member_with(quorum, LOCK_UNAVAILABLE);
    if (silent >= 0)
        quorum->spokesman = silent;
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

/* One to three rounds' time, so that contenders who split the votes do not meet again. */
static enum deadline_result pause_between_rounds(const struct quorum *quorum,
                                                 const struct deadline *deadline)
{
    int64_t pause = quorum->attempt_ms + token_random_below((uint32_t)(2 * quorum->attempt_ms) + 1);
    struct deadline wait = deadline_sooner(*deadline, clock_boot_ms() + pause);
    if (deadline_wait(-1, 0, &wait) == DEADLINE_WOKEN)
        return DEADLINE_WOKEN;
    return clock_boot_ms() >= deadline->at_ms ? DEADLINE_PASSED : DEADLINE_READY;
}

enum lock_result quorum_acquire(struct quorum *quorum, bool count_skip,
                                const struct deadline *deadline)
{
    for (int round = 1;; round++) {
        enum lock_result result = one_round(quorum, count_skip && round == 1, deadline);
        if (result != LOCK_HELD && result != LOCK_UNAVAILABLE)
            return result;
        /* a majority that refuses is an answer; votes that were split are asked for again */
        bool split = count_of(quorum, LOCK_HELD) < quorum->majority;
        if (result == LOCK_HELD && (!split || round >= ROUNDS_MAX))
            return result;
        switch (pause_between_rounds(quorum, deadline)) {
        case DEADLINE_WOKEN:
            return LOCK_INTERRUPTED;
        case DEADLINE_PASSED:
            return result;
        case DEADLINE_READY:
        default:
            break;
        }
    }
}

enum lock_result quorum_wait(struct quorum *quorum, const struct lock_waiting *waiting,
                             int64_t connect_ms, const struct deadline *deadline)
{
    int64_t answered_ms = clock_boot_ms();
    for (;;) {
        enum lock_result result = one_round(quorum, false, deadline);
        if (result != LOCK_HELD && result != LOCK_UNAVAILABLE)
            return result;
        if (result == LOCK_HELD) {
            answered_ms = clock_boot_ms();
            waiting->tell(waiting->context, quorum_blocker(quorum), true);
        } else if (clock_boot_ms() - answered_ms >= connect_ms) {
            return LOCK_UNAVAILABLE;
        }
        switch (pause_between_rounds(quorum, deadline)) {
        case DEADLINE_WOKEN:
            return LOCK_INTERRUPTED;
        case DEADLINE_PASSED:
            return LOCK_HELD; /* as on one server: it is the wait that failed */
        case DEADLINE_READY:
        default:
            break;
        }
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

/*
 * Whether what a member holds under our token is our own value with the raised fence, whose answer
 * was lost; then it is taken for what it is.
 */
static bool is_raised_unheard(struct member *member)
{
    struct lock *lock = member->lock;
    const struct holder *holder = &lock->blocker.holder;
    char storage[HOLDER_VALUE_MAX + 1];
    struct text raised = TEXT_OVER(storage);
    if (strcmp(holder->token, lock->token) != 0 || holder->fence != member->quorum->fence ||
        holder->fence == lock->fence)
        return false;
    holder_add_with_fence(&raised, &lock->value, holder->fence);
    lock->value = TEXT_OVER(lock->value_storage);
    text_add_bytes(&lock->value, raised.at, raised.length);
    lock->fence = holder->fence;
    return true;
}

static void ask_extend(struct member *member, const struct question *question)
{
    (void)question;
    member->rejoined = false;
    if (member->lock->value.length == 0) {
        member->result = LOCK_GONE;
        return;
    }
    member->result = lock_extend(member->lock);
    if (member->result == LOCK_TAKEN && is_raised_unheard(member))
        member->result = lock_extend(member->lock);
}

/*
 * After a majority was extended: the others take the lock up again where it is free. Nobody else can
 * have held it since, whatever fence a contender's vote has left there.
 */
static void ask_rejoin(struct member *member, const struct question *question)
{
    (void)question;
    if (member->result != LOCK_GONE)
        return;
    if (member->lock->value.length == 0 || member->quorum->restores) {
        member->lock->value = TEXT_OVER(member->lock->value_storage);
        join_late(member);
    }
}

/* Without a majority: only where no later holder has left a larger fence. */
static void ask_restore(struct member *member, const struct question *question)
{
    (void)question;
    if (member->result != LOCK_GONE)
        return;
    if (member->lock->value.length == 0) {
        join_late(member);
    } else if (member->quorum->restores && lock_restore(member->lock) == LOCK_OK) {
        member->rejoined = true;
        member->result = LOCK_OK;
    }
}

/* What an extension without a majority comes to. */
static enum lock_result judge_extension(struct quorum *quorum)
{
    int taken = count_of(quorum, LOCK_TAKEN) + count_of(quorum, LOCK_HELD);
    int gone = count_of(quorum, LOCK_GONE);
    int lost = taken + gone + count_of(quorum, LOCK_NOT_A_LOCK);
    if (lost > quorum->count - quorum->majority) {
        enum lock_result result = taken > 0 ? LOCK_TAKEN : gone > 0 ? LOCK_GONE : LOCK_NOT_A_LOCK;
        int member = member_with(quorum, result);
        quorum->spokesman = member >= 0 ? member : member_with(quorum, LOCK_HELD);
        return result;
    }
    int silent = member_with(quorum, LOCK_UNAVAILABLE);
    struct text why = TEXT_OVER(quorum->why);
    text_addf(&why, "%d of %d servers still hold the lock, %d are needed",
              count_of(quorum, LOCK_OK), quorum->count, quorum->majority);
    if (silent >= 0)
        text_addf(&why, "; %s", lock_why(quorum->members[silent].lock));
    return LOCK_UNAVAILABLE;
}

static bool any_absent(const struct quorum *quorum)
{
    return member_with(quorum, LOCK_GONE) >= 0;
}

enum lock_result quorum_extend(struct quorum *quorum)
{
    const struct question extend = {.ask = ask_extend};
    const struct question rejoin = {.ask = ask_rejoin};
    const struct question restore = {.ask = ask_restore};
    quorum->why[0] = '\0';
    ask_all(quorum, &extend);
    if (count_of(quorum, LOCK_OK) >= quorum->majority) {
        int64_t fence = quorum->fence;
        collect_votes(quorum);
        quorum->fence = fence;
        if (any_absent(quorum))
            ask_all(quorum, &rejoin);
        return LOCK_OK;
    }
    if (any_absent(quorum))
        ask_all(quorum, &restore);
    return judge_extension(quorum);
}

/* Any result but UNAVAILABLE: this member needs no more asking. */
static void ask_release(struct member *member, const struct question *question)
{
    if (member->result != LOCK_UNAVAILABLE)
        return;
    if (member->lock->value.length == 0) {
        if (member->lock->loose_ends)
            inside_cancel(member->lock, false);
        member->result = LOCK_HELD; /* never by us */
        return;
    }
    member->result = lock_release(member->lock, question->record, question->number);
    if (member->result == LOCK_TAKEN && is_raised_unheard(member))
        member->result = lock_release(member->lock, question->record, question->number);
}

/* Until a majority has answered: a minority that is silent costs one attempt, and expires by itself. */
static void release_majority(struct quorum *quorum, const struct lock_run_record *record,
                             int64_t until_ms)
{
    struct lock_run_record again = {.only_if_held = true};
    struct pause pause = PAUSE_START;
    const struct deadline deadline = {until_ms, -1};
    if (record != NULL)
        again = *record;
    again.only_if_held = true;
    for (bool first = true;; first = false) {
        const struct question release = {
            .ask = ask_release,
            .record = first || record == NULL ? record : &again,
            .number = attempt(quorum, &deadline).at_ms,
        };
        ask_all(quorum, &release);
        if (count_of(quorum, LOCK_UNAVAILABLE) <= quorum->count - quorum->majority ||
            pause_wait(&pause, &deadline) != DEADLINE_READY)
            return;
    }
}

enum lock_result quorum_release(struct quorum *quorum, const struct lock_run_record *record,
                                int64_t until_ms)
{
    for (int i = 0; i < quorum->count; i++) {
        quorum->members[i].result = LOCK_UNAVAILABLE;
        quorum->members[i].rejoined = false;
    }
    release_majority(quorum, record, until_ms);
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

static enum lock_result check_once(struct quorum *quorum, int64_t fence,
                                   const struct deadline *deadline)
{
    const struct question check = {
        .ask = ask_check, .deadline = attempt(quorum, deadline), .number = fence};
    ask_all(quorum, &check);
    int held = count_of(quorum, LOCK_OK);
    int taken = count_of(quorum, LOCK_TAKEN);
    int lost = taken + count_of(quorum, LOCK_GONE);
    if (held >= quorum->majority)
        return LOCK_OK;
    /* those that did not answer could still make a majority, or not: nobody knows */
    if (lost <= quorum->count - quorum->majority) {
        enum lock_result trouble = lasting_trouble(quorum);
        int silent = member_with(quorum, LOCK_UNAVAILABLE);
        if (trouble == LOCK_OK && silent >= 0)
            quorum->spokesman = silent;
        return trouble != LOCK_OK ? trouble : LOCK_UNAVAILABLE;
    }
    quorum->spokesman = member_with(quorum, taken > 0 ? LOCK_TAKEN : LOCK_GONE);
    return taken > 0 ? LOCK_TAKEN : LOCK_GONE;
}

enum lock_result quorum_check(struct quorum *quorum, int64_t fence, const struct deadline *deadline)
{
    struct pause pause = PAUSE_START;
    enum lock_result result;
    do
        result = check_once(quorum, fence, deadline);
    while (result == LOCK_UNAVAILABLE && pause_wait(&pause, deadline) == DEADLINE_READY);
    return result;
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
