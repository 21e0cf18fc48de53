/*
 * Where a client connects to: the URL's own address, a node that a cluster redirected to, or the
 * master that a sentinel names.
 */
#ifndef REDISLOCK_REDIS_ROUTE_H
#define REDISLOCK_REDIS_ROUTE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/deadline.h"
#include "base/text.h"
#include "cli/url.h"
#include "redis/error.h"
#include "redis/stream.h"

struct route {
    int next;               /* of the URL's places: the one to try next */
    bool redirected;        /* `place` is a node of a cluster, and holds until it fails */
    bool visiting;          /* by ASK: for one call only, behind ASKING */
    bool home_redirected;   /* what `redirected` and `place` were before the visit */
    struct url_place place; /* connected to, where it is not the URL's own host */
    struct url_place home;
    int64_t resolved_ms; /* when a sentinel was last asked for `place` (clock_boot_ms) */
};

/* What MOVED or ASK says. */
struct redirect {
    bool ask;
    struct url_place place; /* host "": the node that was asked */
};

/* Reads "MOVED 3999 127.0.0.1:6381" or "ASK …". false: neither. Pure. */
bool redirect_parse(const char *reply, size_t length, struct redirect *redirect);

/* Takes a redirect: the next connection goes there. */
void route_follow(struct route *route, const struct url *url, const struct redirect *redirect);

/* The end of an ASK's visit: the next connection goes home. */
void route_return(struct route *route);

/* The connection has failed: the next attempt begins elsewhere, where there is a choice. */
void route_failed(struct route *route, const struct url *url);

struct client_settings;

/* Connects. As stream_open; `why` then names the address where it is not the URL's own. */
enum server_error route_open(struct route *route, const struct client_settings *settings,
                             struct stream *stream, const struct deadline *deadline,
                             struct text *why);

/*
 * Whether a connection that is kept leads to the wrong server: sentinels have made another one the
 * master, and the old one may not know yet and still take writes. Asks a sentinel, unless one was
 * asked just now, for a quarter of the deadline at most; false where there are none.
 */
bool route_is_stale(struct route *route, const struct client_settings *settings,
                    const struct deadline *deadline);

#endif
