/*
 * What the files of an observer share; nobody else includes it. observe.c owns the looks at single locks,
 * survey.c the walk through the names of all of them.
 */
#ifndef REDISLOCK_LOCK_OBSERVER_H
#define REDISLOCK_LOCK_OBSERVER_H

#include "lock/inside.h"
#include "lock/observe.h"

/* A master of a cluster. */
struct node {
    struct url url; /* the observer's, with this address */
    int64_t slot;   /* its first */
    struct client *client;
};

/* A lock that will be looked at. */
struct announced {
    size_t node;
    const char *name;
};

struct observer {
    struct client_settings server;
    struct client *client;
    struct client *asked; /* the last one: whose reason is told */
    bool once;            /* of observer_ask_once */
    bool silent;          /* of observer_silent */
    struct node **nodes;  /* in a cluster whose names were looked for; else none */
    size_t node_count;
    struct announced ahead[OBSERVE_AHEAD_MAX]; /* in the order of their looks */
    size_t ahead_count;
    size_t ahead_next; /* of them, the first that has not been looked at */
    const char *prefix;
    struct keys keys;
    char key_storage[KEYS_STORAGE_MAX];
};

/* The client for `node`, which becomes the one that was asked; SIZE_MAX: that of the URL itself. */
struct client *inside_ask_at(struct observer *observer, size_t node);

/* One try of something that may be asked twice. */
typedef enum server_error observer_try(struct observer *observer, void *context,
                                       const struct deadline *attempt);

/*
 * Tries it on the client that was chosen, until the deadline; with observer_ask_once no longer than until
 * something has answered.
 */
enum lock_result inside_ask_until(struct observer *observer, observer_try *ask, void *context,
                                  const struct deadline *deadline);

/* Whether that is no answer at all. */
bool inside_is_silence(enum server_error error);

/*
 * After silence of `node`, a cluster's: asks the other masters who has its slots now. true: another one,
 * which stands at this index from now on; nothing has been asked of it yet, nor is any question on its way.
 */
bool inside_replace_node(struct observer *observer, size_t node, const struct deadline *deadline);

void inside_close_nodes(struct node **nodes, size_t count);

#endif
