/*
 * The names of the locks on a server, or on all masters of a cluster: collected by SCAN, sorted, each
 * once.
 */
#ifndef REDISLOCK_COMMAND_NAMES_H
#define REDISLOCK_COMMAND_NAMES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/text.h"
#include "lock/observe.h"

struct name {
    char *text;  /* owned */
    size_t node; /* for observer_announce */
};

/* What could not be told of them. */
struct gaps {
    enum lock_result result;      /* OK: nothing is missing; else why the first is */
    bool lost[OBSERVE_NODES_MAX]; /* nodes that do not answer, and are not asked again */
    size_t locks;                 /* that could not be told though their node answers */
    char why[1024];               /* the reason of each lost node, and of the first lock */
};

struct names {
    struct name *at; /* owned */
    size_t count;
    size_t capacity;
    const char *pattern;            /* glob; NULL: all */
    size_t node;                    /* that is being looked through */
    void (*progress)(size_t found); /* NULL: none */
    struct gaps gaps;
};

/*
 * Collects the names that match `pattern`. `progress` (NULL: none) is told after each step how many
 * have been found. Each step is tried for `patience_ms`; once a node has not answered for so long, the
 * others and all that follows is asked once.
 * OK, also where a part of a cluster's nodes does not answer (`gaps`); or as observer_walk, and the gaps'
 * `why` says why. names_free is needed in any case.
 */
enum lock_result names_collect(struct names *names, struct observer *observer, const char *pattern,
                               void (*progress)(size_t found), int64_t patience_ms);

/*
 * After a look at name `i` was LOCK_UNAVAILABLE: the others go on, each asked once. A node that was
 * silent is lost with all its names.
 */
void names_miss(const struct names *names, size_t i, struct observer *observer, struct gaps *gaps);

/* Adds what is missing, and why: one line. */
void names_add_gaps(struct text *text, const struct gaps *gaps);

/*
 * Announces the names from `first` on but those of lost nodes, as many as the observer takes: to be called
 * before each of them is looked at.
 */
void names_announce(const struct names *names, size_t first, size_t end, const struct gaps *gaps,
                    struct observer *observer);

void names_free(struct names *names);

#endif
