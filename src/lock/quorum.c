/*
 * Owns how a majority is won: the rounds, the fence that a majority confirms, what a round without
 * one comes to. Promises that no vote is left standing after a round without a majority; a minority
 * that fails is invisible but for its own time-out.
 */
#include "lock/quorum.h"

#include <string.h>

#include "base/clock.h"
#include "base/token.h"
#include "lock/members.h"

#define ROUNDS_MAX 3 /* that split votes are taken */

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

static void ask_id(struct member *member, const struct question *question)
{
    if (member->id[0] == '\0')
        (void)topology_run_id(member->lock->client, member->id, &question->deadline);
}

/* Two members that refuse each other's token are one server, and so are two with one run id. */
static bool are_one(const struct member *one, const struct member *other)
{
    bool refused = one->result == LOCK_HELD &&
                   strcmp(one->lock->blocker.holder.token, other->lock->token) == 0;
    return refused || (one->id[0] != '\0' && strcmp(one->id, other->id) == 0);
}

static bool is_duplicate(struct quorum *quorum)
{
    for (int i = 0; i < quorum->count; i++) {
        for (int j = 0; j < quorum->count; j++) {
            if (i == j || !are_one(&quorum->members[i], &quorum->members[j]))
                continue;
            struct text why = TEXT_OVER(quorum->why);
            text_addf(&why, "%s and %s are one and the same server",
                      client_address(quorum->members[i < j ? i : j].lock->client),
                      client_address(quorum->members[i < j ? j : i].lock->client));
            return true;
        }
    }
    return false;
}

/* Who has no vote for being a replica. false: nobody. */
static bool add_read_only(struct text *text, const struct quorum *quorum)
{
    int count = 0;
    for (int i = 0; i < quorum->count; i++) {
        const struct lock *lock = quorum->members[i].lock;
        if (quorum->members[i].result != LOCK_UNAVAILABLE || !lock->read_only)
            continue;
        text_add(text, count++ == 0 ? "no vote from " : ", ");
        text_add(text, client_address(lock->client));
    }
    if (count > 0)
        text_add(text, ": read-only, as a replica is; name the master in --url");
    return count > 0;
}

/* A majority has granted: its fences are made one, on a majority again. */
static enum lock_result confirm(struct quorum *quorum, const struct deadline *deadline)
{
    members_collect_votes(quorum);
    const struct question raise = {.ask = ask_raise_fence,
                                   .deadline = members_attempt(quorum, deadline),
                                   .number = quorum->fence};
    members_ask(quorum, &raise);
    bool in_time = clock_boot_ms() < lease_stop_at(&quorum->lease, quorum->confirmed_ms);
    if (members_count(quorum, LOCK_OK) >= quorum->majority && in_time)
        return LOCK_OK;
    struct text why = TEXT_OVER(quorum->why);
    text_add(&why, "a majority granted the lock, but did not confirm its fence in time");
    return LOCK_UNAVAILABLE;
}

/* What a round without a majority comes to. */
static enum lock_result judge(struct quorum *quorum)
{
    int answered = members_count(quorum, LOCK_OK) + members_count(quorum, LOCK_HELD);
    int refused = members_find(quorum, LOCK_HELD);
    if (members_find(quorum, LOCK_INTERRUPTED) >= 0)
        return LOCK_INTERRUPTED;
    if (answered >= quorum->majority && refused >= 0) {
        quorum->spokesman = refused;
        return LOCK_HELD;
    }
    enum lock_result trouble = members_trouble(quorum);
    if (trouble != LOCK_OK)
        return trouble;
    struct text why = TEXT_OVER(quorum->why);
    text_addf(&why, "%d of %d servers answered, %d are needed; ", answered, quorum->count,
              quorum->majority);
    if (!add_read_only(&why, quorum)) {
        int silent = members_find(quorum, LOCK_UNAVAILABLE);
        quorum->spokesman = silent >= 0 ? silent : quorum->spokesman;
        text_add(&why, lock_why(quorum->members[quorum->spokesman].lock));
    }
    return LOCK_UNAVAILABLE;
}

static enum lock_result one_round(struct quorum *quorum, bool count_skip,
                                  const struct deadline *deadline)
{
    enum lock_result result;
    quorum->why[0] = '\0';
    quorum->remark[0] = '\0';
    /* in one database two names of a server refuse each other's token; else it must be asked */
    if (quorum->mixed_databases) {
        const struct question id = {.ask = ask_id, .deadline = members_attempt(quorum, deadline)};
        members_ask(quorum, &id);
    }
    const struct question acquire = {.ask = ask_acquire,
                                     .deadline = members_attempt(quorum, deadline),
                                     .count_skip = count_skip};
    members_ask(quorum, &acquire);
    if (is_duplicate(quorum)) {
        result = LOCK_DUPLICATE_SERVER;
    } else if (members_count(quorum, LOCK_OK) >= quorum->majority) {
        result = confirm(quorum, deadline);
    } else {
        result = judge(quorum);
    }
    if (result == LOCK_OK) {
        struct text remark = TEXT_OVER(quorum->remark);
        (void)add_read_only(&remark, quorum);
        return result;
    }
    const struct question cancel = {.ask = ask_cancel};
    members_ask(quorum, &cancel);
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
        bool split = members_count(quorum, LOCK_HELD) < quorum->majority;
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

const char *quorum_remark(const struct quorum *quorum)
{
    return quorum->remark[0] != '\0' ? quorum->remark : NULL;
}
