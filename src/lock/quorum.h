/*
 * One lock on N independent servers, of which a majority decides (after Redlock, with fences that
 * rise). For the files of this room: lock.c hands over to it where there are several servers.
 *
 * quorum.c takes the lock, quorum_hold.c keeps it and gives it up; members.h is how both ask.
 */
#ifndef REDISLOCK_LOCK_QUORUM_H
#define REDISLOCK_LOCK_QUORUM_H

#include "lock/lock.h"

struct quorum;

/* NULL: no memory. */
struct quorum *quorum_open(const struct lock_settings *settings);
void quorum_close(struct quorum *quorum);

/*
 * Rounds until a majority says yes, or says no often enough, or the deadline has passed. In each
 * round every member is asked once; without a majority all are cancelled, also those whose answer
 * is unknown, and the next round waits a random time.
 * Results as lock_acquire; UNAVAILABLE when fewer than a majority answered.
 */
enum lock_result quorum_acquire(struct quorum *quorum, bool count_skip,
                                const struct deadline *deadline);

/* The same, but goes on until the deadline where a majority refuses; as lock_wait. */
enum lock_result quorum_wait(struct quorum *quorum, const struct lock_waiting *waiting,
                             int64_t connect_ms, const struct deadline *deadline);

/*
 * Counts only members that still hold. One that lost the lock may take it up again, but does not count
 * in that round, as it may have forgotten another holder; nor in the next, unless it put its value
 * back under its fence, or a majority was extended without it meanwhile.
 */
enum lock_result quorum_extend(struct quorum *quorum);

enum lock_result quorum_release(struct quorum *quorum, const struct lock_run_record *record,
                                int64_t until_ms);

/* OK if a majority still has the adopted value, or a holder with this fence. */
enum lock_result quorum_check(struct quorum *quorum, int64_t fence,
                              const struct deadline *deadline);

void quorum_forget(struct quorum *quorum);

/* What the last successful acquisition or extension gave. */
int64_t quorum_fence(const struct quorum *quorum);
int64_t quorum_confirmed_ms(const struct quorum *quorum);
const char *quorum_why(const struct quorum *quorum);

/* After OK of quorum_acquire or quorum_wait; NULL: nothing to remark. */
const char *quorum_remark(const struct quorum *quorum);
const struct lock_blocker *quorum_blocker(const struct quorum *quorum);

#endif
