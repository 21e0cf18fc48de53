/*
 * The lock in one Redis server: acquire, extend, restore, release, cancel.
 *
 * A lock is made once per run, under a token of its own. Its functions block within the deadline
 * they are given and belong to one thread at a time: main until the keeper starts, the keeper while
 * it runs, main again after the join. Nothing here prints: a result is an enum, and lock_why says
 * the rest.
 */
#ifndef REDISLOCK_LOCK_LOCK_H
#define REDISLOCK_LOCK_LOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/deadline.h"
#include "base/token.h"
#include "lock/holder.h"
#include "lock/lease.h"
#include "redis/client.h"

struct lock;

enum lock_mode { LOCK_MODE_EXCLUSIVE, LOCK_MODE_SHARED, LOCK_MODE_SLOTS };

struct lock_settings {
    const char *name; /* outlives the lock, as the other strings do */
    const char *prefix;
    const char *command; /* shown to others as what runs */
    pid_t pid;           /* and as whose */
    struct lease lease;
    int64_t min_hold_ms; /* 0: none */
    enum lock_mode mode;
    int slots;        /* with LOCK_MODE_SLOTS: at most so many holders, 1..HOLDER_SLOTS_MAX */
    int server_count; /* 1, or the N of a quorum */
    struct client_settings server;         /* the one */
    const struct client_settings *servers; /* with a quorum: all N; outlives the lock */
    bool no_restore;                       /* of a quorum's members: what vanished is lost */
    int wait_replicas;                     /* so many must acknowledge an acquisition; 0: none */
};

enum lock_result {
    LOCK_OK,
    LOCK_HELD,             /* by somebody else: lock_blocker */
    LOCK_DUPLICATE_SERVER, /* two names of a quorum are one server */
    LOCK_OTHER_SLOTS,      /* in use with another number of slots: lock_blocker's slots */
    LOCK_GONE,             /* the key vanished and may not be put back */
    LOCK_TAKEN,            /* another value is in the key */
    LOCK_INTERRUPTED,      /* the deadline's wake_fd became readable */
    LOCK_UNAVAILABLE,      /* no working server until the deadline */
    LOCK_DENIED,           /* authentication or ACL */
    LOCK_UNTRUSTED,        /* TLS verification */
    LOCK_TOO_FEW_REPLICAS, /* acknowledged the acquisition, which was given up */
    LOCK_NOT_A_LOCK,       /* the key holds another type */
    LOCK_NONSENSE,         /* a reply without sense */
    LOCK_BAD_DATABASE,
    LOCK_OS
};

/* Whose value is there, or stands for those that are. */
struct lock_blocker {
    struct holder holder;
    int64_t age_ms;  /* since its start, by the server's clock; -1: unknown */
    int64_t left_ms; /* until its expiry; -1: it has none, or unknown */
    int64_t holders; /* how many hold at once: more than 1 for shared locks and slots */
    int64_t ahead;   /* how many wait before us (or at all, for one who does not wait) */
    int64_t slots;   /* after LOCK_OTHER_SLOTS: the N in use; 1 for a lock without slots */
};

/* NULL: no memory. Does not connect. */
struct lock *lock_open(const struct lock_settings *settings);
void lock_close(struct lock *lock);

/*
 * Takes the lock, trying again through every passing trouble until the deadline. A lost reply is
 * asked for again under the same token; an attempt that is given up with its outcome unknown is
 * cancelled. `count_skip`: a refusal counts as a skipped run.
 * OK, HELD, OTHER_SLOTS, INTERRUPTED, UNAVAILABLE, DENIED, NOT_A_LOCK, NONSENSE, BAD_DATABASE, OS.
 */
enum lock_result lock_acquire(struct lock *lock, bool count_skip, const struct deadline *deadline);

/*
 * Told while waiting, whenever it is learned anew who holds the lock and how many are ahead, and
 * whether the wait goes by polling, because pub/sub is forbidden or the server's memory full.
 */
struct lock_waiting {
    void (*tell)(void *context, const struct lock_blocker *blocker, bool polls);
    void *context;
    bool lively; /* somebody watches: look every other second */
};

/*
 * Waits in line for the lock, first come, first served, until the deadline; the place survives
 * lost connections, a server may be away for `connect_ms` at a time. On every result but OK the
 * line has been left.
 * Results as lock_acquire; HELD: the deadline has passed.
 */
enum lock_result lock_wait(struct lock *lock, const struct lock_waiting *waiting,
                           int64_t connect_ms, const struct deadline *deadline);

/*
 * One attempt to push the expiry on. OK; GONE or TAKEN, on the word of a server that takes writes;
 * NOT_A_LOCK: as TAKEN; anything else: not now, try again. Never INTERRUPTED: it is short.
 */
enum lock_result lock_extend(struct lock *lock);

/*
 * One attempt to put a vanished value back where nobody has held the lock since. As lock_extend;
 * for exclusive holders only: a vanished place among others is GONE.
 */
enum lock_result lock_restore(struct lock *lock);

struct lock_run_record {
    int64_t start_ms; /* since the epoch */
    int64_t duration_ms;
    int status;        /* -1: not known */
    bool only_if_held; /* a lock that was no longer ours leaves no record */
};

/*
 * Gives the lock up and records the run (`record` NULL: there was none, and no minimum hold is
 * left behind). Tries until `until_ms`, and never past the validity of the lease.
 * OK; GONE, TAKEN: it was no longer ours; anything else: it expires by itself.
 */
enum lock_result lock_release(struct lock *lock, const struct lock_run_record *record,
                              int64_t until_ms);

/*
 * Takes over a token that --acquire has printed: the whole value of a holder. From then on extend and
 * release work under it. false: no such value.
 */
bool lock_adopt(struct lock *lock, const char *value);

/*
 * One question: does the adopted value still hold the lock, or, without one, any holder with
 * `fence`? OK, GONE, TAKEN, or why it could not be asked.
 */
enum lock_result lock_check(struct lock *lock, int64_t fence, const struct deadline *deadline);

/* Removes what is remembered of the name (fences, runs): for scratch names that nobody uses again. */
void lock_forget(struct lock *lock);

/* The whole value under which the lock is held: what a plain compare-and-delete compares. */
const char *lock_value(const struct lock *lock);

/* After LOCK_OK of lock_acquire: */
int64_t lock_fence(const struct lock *lock);
int lock_slot(const struct lock *lock);             /* 1..N with slots, else 0 */
int64_t lock_confirmed_ms(const struct lock *lock); /* t of lease.h: the last confirmed attempt */
const char *lock_key(const struct lock *lock);

/* After LOCK_HELD, LOCK_TAKEN or LOCK_OTHER_SLOTS. */
const struct lock_blocker *lock_blocker(const struct lock *lock);

/*
 * After LOCK_OK of lock_acquire or lock_wait: which servers of a quorum cannot count, because they are
 * read-only as replicas are, in one line. NULL: none.
 */
const char *lock_remark(const struct lock *lock);

/* Why the last call failed: one line that names the server. Never NULL. */
const char *lock_why(const struct lock *lock);

#endif
