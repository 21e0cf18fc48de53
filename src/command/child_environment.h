/*
 * The environment of the child: the caller's as it came, plus what tells the child of its lock.
 */
#ifndef REDISLOCK_COMMAND_CHILD_ENVIRONMENT_H
#define REDISLOCK_COMMAND_CHILD_ENVIRONMENT_H

#include <stdint.h>

#include "base/text.h"

struct child_environment {
    char **entries;     /* NULL-terminated; the array is owned, the caller's strings are borrowed */
    char *own;          /* storage of the added strings, owned */
    const char *marker; /* the entry REDISLOCK_LOCK_KEY=…, or REDISLOCK_NAME=… without a lock */
};

/*
 * Copies `caller` without any REDISLOCK_NAME, _LOCK_KEY, _FENCE or _SLOT of an outer run, and adds
 * this run's; `key` NULL: there is no lock, only the name is added; `slot` 0: none. The token is never in it.
 * false: no memory.
 */
bool child_environment_make(struct child_environment *environment, char *const *caller,
                            const char *name, const char *key, int64_t fence, int slot);
void child_environment_free(struct child_environment *environment);

#endif
