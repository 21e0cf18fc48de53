/*
 * The names of the locks on a server, or on all masters of a cluster: collected by SCAN, sorted, each
 * once.
 */
#ifndef REDISLOCK_COMMAND_NAMES_H
#define REDISLOCK_COMMAND_NAMES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/deadline.h"
#include "lock/observe.h"

struct name {
    char *text;  /* owned */
    size_t node; /* for observer_announce */
};

struct names {
    struct name *at; /* owned */
    size_t count;
    size_t capacity;
    const char *pattern; /* glob; NULL: all */
    bool no_memory;
    size_t node;              /* that is being looked through */
    enum lock_result missing; /* not OK: some nodes of the cluster gave no names, and why */
    char why[1024];
};

/*
 * Collects the names that match `pattern`. `progress` (NULL: none) is told after each step how many
 * have been found. OK, also where a part of a cluster's nodes does not answer (`missing`); or as
 * observer_scan, and `why` says why. names_free is needed in any case.
 */
enum lock_result names_collect(struct names *names, struct observer *observer, const char *pattern,
                               void (*progress)(size_t found), const struct deadline *deadline);

/* Announces the names from `first` on, as many as the observer takes: to be called before each is looked at. */
void names_announce(const struct names *names, size_t first, size_t end, struct observer *observer);

void names_free(struct names *names);

#endif
