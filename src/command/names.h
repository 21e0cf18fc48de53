/*
 * The names of the locks on a server: collected by SCAN, sorted, each once.
 */
#ifndef REDISLOCK_COMMAND_NAMES_H
#define REDISLOCK_COMMAND_NAMES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/deadline.h"
#include "lock/observe.h"

struct names {
    char **at; /* owned, and each string too */
    size_t count;
    size_t capacity;
    const char *pattern; /* glob; NULL: all */
    bool no_memory;
};

/*
 * Collects the names that match `pattern`. `progress` (NULL: none) is told after each step how many
 * have been found. OK, or as observer_scan; names_free is needed in any case.
 */
enum lock_result names_collect(struct names *names, struct observer *observer, const char *pattern,
                               void (*progress)(size_t found), const struct deadline *deadline);
void names_free(struct names *names);

#endif
