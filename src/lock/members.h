/*
 * The members of a quorum: asking all of them at once, and counting what they said. For quorum.c and
 * quorum_hold.c, who decide what it comes to.
 *
 * A question goes to every member in parallel, each in a thread of its own that has ended when
 * members_ask returns; a member's lock and result belong to its thread until then. Each member has
 * its own token, so that two names of one server give themselves away.
 */
#ifndef REDISLOCK_LOCK_MEMBERS_H
#define REDISLOCK_LOCK_MEMBERS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "lock/inside.h"
#include "redis/topology.h"

struct member {
    struct quorum *quorum;
    struct lock *lock;
    enum lock_result result;      /* of the last question */
    bool rejoined;                /* does not count in this round */
    bool on_trial;                /* nor in the next, until a majority was extended without it */
    char id[TOPOLOGY_ID_MAX + 1]; /* the server's run id; "": not asked, or not told */
    pthread_t thread;
    bool threaded;
};

/* One question to all members; what it needs besides the member. */
struct question {
    void (*ask)(struct member *member, const struct question *question); /* sets its result */
    struct deadline deadline;
    bool count_skip;
    int64_t number; /* a fence, or a time */
    const struct lock_run_record *record;
};

struct quorum {
    int count; /* N: of the configured servers */
    int majority;
    int64_t attempt_ms; /* that one exchange with a member may take */
    struct lease lease;
    bool mixed_databases; /* the servers' numbers of a database differ */
    bool restores;        /* a member that lost the lock takes it up again */
    int64_t fence;
    int64_t confirmed_ms;
    int spokesman; /* the member whose refusal or reason is told */
    const struct question *question;
    char remark[512]; /* on a majority that was won: who did not count; "": all may */
    char why[512];    /* a reason of the whole; "": the spokesman's */
    struct member members[];
};

/* Asks every member, and returns when all have answered or run out of time. */
void members_ask(struct quorum *quorum, const struct question *question);

/* How long one member may take: an exchange, and connecting as long again. */
struct deadline members_attempt(const struct quorum *quorum, const struct deadline *deadline);

/* How many gave `result`; those that rejoined in this round do not count. */
int members_count(const struct quorum *quorum, enum lock_result result);

/* The first member with `result`, to speak for the others; -1: there is none. */
int members_find(const struct quorum *quorum, enum lock_result result);

/* Takes the largest fence that those who said OK gave, and the earliest moment of their votes. */
void members_collect_votes(struct quorum *quorum);

/*
 * What does not pass: LOCK_OK while the members that are troubled by it leave room for a majority;
 * else the trouble, and one of them is the spokesman.
 */
enum lock_result members_trouble(struct quorum *quorum);

#endif
