/*
 * Owns how a majority is kept, asked and given up. Promises that an extension counts only members that
 * still hold: one that lost the lock may have forgotten another holder. Put back by its fence it
 * counts from the next round on; taken anew, once a majority was extended without it.
 */
#include "lock/quorum.h"

#include <string.h>

#include "base/clock.h"
#include "lock/members.h"
#include "lock/pause.h"

/*
 * A member that holds nothing of ours. It is on trial: the majority that was extended just now may be
 * gone again, and another's run have come and gone, before the lock is taken here.
 */
static void join_late(struct member *member)
{
    struct deadline deadline = {clock_boot_ms() + 2 * member->quorum->attempt_ms, -1};
    member->result = inside_acquire_once(member->lock, ACQUIRE_TRY, &deadline);
    if (member->result != LOCK_OK)
        return;
    (void)inside_raise_fence(member->lock, member->quorum->fence, &deadline);
    member->rejoined = true;
    member->on_trial = true;
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
    member->rejoined = member->on_trial && member->result == LOCK_OK;
}

/*
 * After a majority was extended: the others take the lock up again where it is free, whatever fence a
 * contender's vote has left there.
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

/*
 * Without a majority: only where no later holder has left a larger fence. Never on a member that was
 * away when we acquired: with one that forgot us it can have made another's majority meanwhile, and
 * we have no fence there that would tell.
 */
static void ask_restore(struct member *member, const struct question *question)
{
    (void)question;
    if (member->result != LOCK_GONE || member->lock->value.length == 0)
        return;
    if (member->quorum->restores && lock_restore(member->lock) == LOCK_OK) {
        member->rejoined = true;
        member->on_trial = false; /* nobody has taken a larger fence here */
        member->result = LOCK_OK;
    }
}

/* What an extension without a majority comes to. */
static enum lock_result judge_extension(struct quorum *quorum)
{
    int taken = members_count(quorum, LOCK_TAKEN) + members_count(quorum, LOCK_HELD);
    int gone = members_count(quorum, LOCK_GONE);
    int lost = taken + gone + members_count(quorum, LOCK_NOT_A_LOCK);
    if (lost > quorum->count - quorum->majority) {
        enum lock_result result = taken > 0 ? LOCK_TAKEN : gone > 0 ? LOCK_GONE : LOCK_NOT_A_LOCK;
        int member = members_find(quorum, result);
        quorum->spokesman = member >= 0 ? member : members_find(quorum, LOCK_HELD);
        return result;
    }
    int silent = members_find(quorum, LOCK_UNAVAILABLE);
    struct text why = TEXT_OVER(quorum->why);
    text_addf(&why, "%d of %d servers still hold the lock, %d are needed",
              members_count(quorum, LOCK_OK), quorum->count, quorum->majority);
    if (silent >= 0)
        text_addf(&why, "; %s", lock_why(quorum->members[silent].lock));
    return LOCK_UNAVAILABLE;
}

static bool any_absent(const struct quorum *quorum)
{
    return members_find(quorum, LOCK_GONE) >= 0;
}

static bool any_on_trial(const struct quorum *quorum)
{
    bool any = false;
    for (int i = 0; i < quorum->count; i++)
        any = any || quorum->members[i].on_trial;
    return any;
}

/* Extends what is held. Where that is a majority, those that had joined before count from now on. */
static bool extend_majority(struct quorum *quorum)
{
    const struct question extend = {.ask = ask_extend};
    int64_t fence = quorum->fence;
    members_ask(quorum, &extend);
    if (members_count(quorum, LOCK_OK) < quorum->majority)
        return false;
    members_collect_votes(quorum);
    quorum->fence = fence;
    for (int i = 0; i < quorum->count; i++)
        quorum->members[i].on_trial = false;
    return true;
}

enum lock_result quorum_extend(struct quorum *quorum)
{
    const struct question rejoin = {.ask = ask_rejoin};
    const struct question restore = {.ask = ask_restore};
    quorum->why[0] = '\0';
    if (extend_majority(quorum)) {
        if (any_absent(quorum))
            members_ask(quorum, &rejoin);
        /* at once where it takes no time, so that those who joined are of use; its failure is for the
         * next round to tell */
        if (any_on_trial(quorum) && members_find(quorum, LOCK_UNAVAILABLE) < 0)
            (void)extend_majority(quorum);
        return LOCK_OK;
    }
    if (any_absent(quorum))
        members_ask(quorum, &restore);
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
            .number = members_attempt(quorum, &deadline).at_ms,
        };
        members_ask(quorum, &release);
        if (members_count(quorum, LOCK_UNAVAILABLE) <= quorum->count - quorum->majority ||
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
    int released = members_find(quorum, LOCK_OK);
    if (released >= 0)
        return LOCK_OK;
    enum lock_result result = members_count(quorum, LOCK_TAKEN) > 0  ? LOCK_TAKEN
                              : members_count(quorum, LOCK_GONE) > 0 ? LOCK_GONE
                                                                     : LOCK_UNAVAILABLE;
    int which = members_find(quorum, result);
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
        .ask = ask_check, .deadline = members_attempt(quorum, deadline), .number = fence};
    members_ask(quorum, &check);
    int held = members_count(quorum, LOCK_OK);
    int taken = members_count(quorum, LOCK_TAKEN);
    int lost = taken + members_count(quorum, LOCK_GONE);
    if (held >= quorum->majority)
        return LOCK_OK;
    /* those that did not answer could still make a majority, or not: nobody knows */
    if (lost <= quorum->count - quorum->majority) {
        enum lock_result trouble = members_trouble(quorum);
        int silent = members_find(quorum, LOCK_UNAVAILABLE);
        if (trouble == LOCK_OK && silent >= 0)
            quorum->spokesman = silent;
        return trouble != LOCK_OK ? trouble : LOCK_UNAVAILABLE;
    }
    quorum->spokesman = members_find(quorum, taken > 0 ? LOCK_TAKEN : LOCK_GONE);
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
    members_ask(quorum, &forget);
}
