/*
 * What the files of this room share; nobody else includes it.
 *
 * lock.c owns the life of a lock, take.c how it is taken on one server, hold.c how it is kept and given
 * up, line.c the waiting; quorum.c and quorum_hold.c do the same on several servers, which members.c
 * asks. All of them talk to the server through here.
 */
#ifndef REDISLOCK_LOCK_INSIDE_H
#define REDISLOCK_LOCK_INSIDE_H

#include <stddef.h>

#include "lock/keys.h"
#include "lock/lock.h"
#include "redis/script.h"

#define INSIDE_ATTEMPT_MS 2000 /* of acquiring and releasing, connecting included */

struct quorum;

struct lock {
    struct quorum *quorum; /* set: the lock is on several servers, and all below is unused */
    struct lock_settings settings;
    struct client *client;
    int64_t acquired_ms;
    int64_t confirmed_ms;
    int64_t cancel_ms; /* that a cancellation may take */
    int64_t fence;
    int slot;
    bool read_only;         /* the server that the URL itself names takes no writes, as a replica */
    bool loose_ends;        /* an ACQUIRE or RESTORE went out that may still arrive */
    bool in_line;           /* a ticket of ours may stand in the queue */
    bool polls;             /* waits without pub/sub */
    int64_t ticket;         /* its number; 0: none yet */
    int64_t known_fence;    /* of the exclusive holder that we were told of last */
    int64_t known_ttl_ms;   /* how long a lease it takes each time; 0: we know of none */
    int64_t known_until_ms; /* until when its lease runs as far as we know (clock_boot_ms) */
    struct lock_blocker blocker;
    struct text mode; /* x, s or the number of slots, as the scripts want it */
    struct text head; /* "redislock1:TOKEN:" */
    struct text tail;
    struct text value; /* the whole value, once acquired */
    char token[TOKEN_LENGTH + 1];
    char mode_storage[8];
    char head_storage[TOKEN_LENGTH + 32];
    char tail_storage[HOLDER_VALUE_MAX];
    char value_storage[HOLDER_VALUE_MAX + 1];
    char why_before[512]; /* what had failed before a cancellation, which is not to hide it */
    struct keys keys;     /* in what lock_open has allocated behind this struct */
};

/* The arguments of a script, numbers spelled out. */
#define ARGUMENTS_MAX   12
#define ARGUMENT_DIGITS 24
struct script_arguments {
    int count;
    struct text at[ARGUMENTS_MAX];
    char digits[ARGUMENTS_MAX][ARGUMENT_DIGITS];
};

void arguments_add(struct script_arguments *arguments, const struct text *text);
void arguments_add_word(struct script_arguments *arguments, const char *word); /* borrowed */
void arguments_add_number(struct script_arguments *arguments, int64_t number);

/* What a refusal means to ACQUIRE. */
enum acquire_want {
    ACQUIRE_TRY,
    ACQUIRE_SKIP, /* this run is skipped, and counted as such */
    ACQUIRE_WAIT, /* get in line, and listen */
    ACQUIRE_CLAIM /* we were called: as WAIT, but there should be no need to listen again */
};

/* One attempt; with ACQUIRE_WAIT and pub/sub it also subscribes. Results as lock_acquire. */
enum lock_result inside_acquire_once(struct lock *lock, enum acquire_want want,
                                     const struct deadline *deadline);

/* lock_wait on several servers: rounds until the deadline; there is no line across servers. */
enum lock_result inside_wait_for_quorum(struct lock *lock, const struct lock_waiting *waiting,
                                        int64_t connect_ms, const struct deadline *deadline);

/* Tries until the deadline, through every passing trouble. */
enum lock_result inside_acquire(struct lock *lock, enum acquire_want want,
                                const struct deadline *deadline);

/* Writes a larger fence into our place and the state, after LOCK_OK. OK, GONE, or why not. */
enum lock_result inside_raise_fence(struct lock *lock, int64_t fence,
                                    const struct deadline *deadline);

/*
 * Makes an attempt of unknown outcome harmless and leaves the line; best effort, a second at most.
 * `skipped`: counts as a run that was skipped.
 */
void inside_cancel(struct lock *lock, bool skipped);

/* A well-formed reply that means nothing to us: LOCK_NONSENSE, and lock_why says so. */
enum lock_result inside_nonsense(struct lock *lock);

/* The number at `index` of a reply's items, or `otherwise`. */
int64_t inside_number_at(const struct reply *reply, size_t index, int64_t otherwise);

/* Takes note of whose value a HELD or TAKEN reply shows. */
void inside_note_blocker(struct lock *lock, const struct reply *reply);

/* OK, GONE or TAKEN from a script's reply, or what became of it. */
enum lock_result inside_verdict(struct lock *lock, enum server_error error,
                                const struct reply *reply);
enum lock_result inside_of_error(enum server_error error);
bool inside_is(const struct reply *reply, const char *word);

/* The expiry to ask for, so that neither the lease nor the minimum hold ends early; in ms. */
int64_t inside_expiry(const struct lock *lock);

/* Remembers that a call failed in a way that may have been applied all the same. */
void inside_note_outcome(struct lock *lock);

/* The mode's extension runs on one key. */
bool inside_is_exclusive(const struct lock *lock);

#endif
