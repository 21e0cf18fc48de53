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

struct observer;

/* NULL: no memory. `prefix` and the settings' strings outlive the observer. */
struct observer *observer_open(const struct client_settings *server, const char *prefix);
void observer_close(struct observer *observer);

/*
 * Fills `*observed` with all about the lock NAME; tries until the deadline. `node`: where
 * observer_scan found it, to be asked first; 0 where it was not looked for. OK, or as lock_acquire
 * but for HELD. After anything else `*observed` is undefined.
 */
enum lock_result observer_look(struct observer *observer, size_t node, const char *name,
                               struct observed *observed, const struct deadline *deadline);

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
enum lock_result observer_find_nodes(struct observer *observer, size_t *count,
                                     const struct deadline *deadline);

/*
 * One step through the names under the prefix that hold a lock or are remembered on `node`, which is
 * less than observer_find_nodes' count. `*cursor` begins at 0 and is 0 again after the last step.
 * `found` is called for each name, which may come more than once, also from several nodes. SCAN in
 * small steps: other clients are never kept waiting.
 */
enum lock_result observer_scan(struct observer *observer, size_t node, uint64_t *cursor,
                               void (*found)(void *context, const char *name), void *context,
                               const struct deadline *deadline);

/* Why the last call failed. Never NULL. */
const char *observer_why(const struct observer *observer);

#endif
