/*
 * Looking at locks, and taking one away from its holder: what operators do. An observer holds no
 * lock of its own, and uses one connection for all it looks at; of a cluster whose names are looked
 * for, one for each master.
 */
#ifndef REDISLOCK_LOCK_OBSERVE_H
#define REDISLOCK_LOCK_OBSERVE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/deadline.h"
#include "lock/lock.h"
#include "lock/observed.h"
#include "redis/topology.h"

struct observer;

/* NULL: no memory. `prefix` and the settings' strings outlive the observer. */
struct observer *observer_open(const struct client_settings *server, const char *prefix);
void observer_close(struct observer *observer);

/*
 * Fills `*observed` with all about the lock NAME; tries until the deadline. OK, or as lock_acquire
 * but for HELD. After anything else `*observed` is undefined.
 */
enum lock_result observer_look(struct observer *observer, const char *name,
                               struct observed *observed, const struct deadline *deadline);

/*
 * Says which lock will be looked at behind those announced already, so that their questions go out
 * together: with the first look, in one write for each node. `node`: where observer_scan found it; 0
 * where it was not looked for. `name` lives until it has been looked at.
 *
 * It is only a hint: observer_look has the same results without, each after a round trip of its own. A
 * look at another lock takes all announcements back, and so does one that met trouble, whatever it
 * came to in the end.
 *
 * false: not now, as there are OBSERVE_AHEAD_MAX, or some of them have been looked at and others not.
 * observer_announced: how many are still to be looked at. So before each look one announces what is
 * next behind these, until it is refused.
 */
#define OBSERVE_AHEAD_MAX 64 /* the server answers them in one go: 2 to 3 ms, and others wait */
bool observer_announce(struct observer *observer, size_t node, const char *name);
size_t observer_announced(const struct observer *observer);

/*
 * Removes exactly the holders that were observed, as far as they still stand there, lets the first
 * in line have it, and raises the fence. `*removed`: how many it was.
 */
enum lock_result observer_unlock(struct observer *observer, const char *name,
                                 const struct observed *observed, int64_t *removed,
                                 const struct deadline *deadline);

/*
 * Finds out where names are to be looked for: `*count` is the number of a cluster's masters, or 1.
 * OK, or as lock_acquire but for HELD.
 */
#define OBSERVE_NODES_MAX TOPOLOGY_MASTERS_MAX
enum lock_result observer_find_nodes(struct observer *observer, size_t *count,
                                     const struct deadline *deadline);

/* What becomes of the names. */
struct observer_names {
    bool (*found)(void *context, const char *name); /* false: no memory, and the walk ends */
    void (*stepped)(void *context);                 /* after each step */
    void *context;
};

/*
 * Walks through the names under the prefix that hold a lock or are remembered on `node`, which is less
 * than observer_find_nodes' count. A name may come more than once, also from several nodes. SCAN in small
 * steps: other clients are never kept waiting. Each step is tried for `patience_ms`; a server that is not
 * the one that began it, be it one that took over in a cluster, is walked through from its beginning.
 * OK, or as lock_acquire but for HELD.
 */
enum lock_result observer_walk(struct observer *observer, size_t node,
                               const struct observer_names *to, int64_t patience_ms);

/*
 * From now on each question is asked once, not until its deadline: for those who ask again by themselves,
 * or who have waited long enough for this server. A connection that was cut is made again all the same.
 */
void observer_ask_once(struct observer *observer, bool once);

/* After LOCK_UNAVAILABLE: whether there was no answer, so that another question would have none. */
bool observer_silent(const struct observer *observer);

/* Why the last call failed. Never NULL. */
const char *observer_why(const struct observer *observer);

#endif
