/*
 * Asking sentinels for the master.
 */
#ifndef REDISLOCK_REDIS_SENTINEL_H
#define REDISLOCK_REDIS_SENTINEL_H

#include <stdbool.h>

#include "base/deadline.h"
#include "base/text.h"
#include "cli/url.h"
#include "redis/client.h"
#include "redis/error.h"

/*
 * Asks one sentinel after the other, beginning at `*next` of the URL's places, each with its share of
 * the time. SERVER_OK: `*master` is what one of them says; `*next` is that one. Whether it is true
 * (sentinels can be stale) is found out by asking the master for its role.
 */
enum server_error sentinel_find(const struct client_settings *settings, int *next,
                                const struct deadline *deadline, struct url_place *master,
                                struct text *why);

/* Whether ROLE's reply is a master's. An ACL may refuse to tell: then writing will. */
bool sentinel_accepts_role(const struct reply *role);

/*
 * Whether the master is another one than `from`: a sentinel names another, and that one says that it
 * is a master. Sentinels that do not answer, or are stale, change nothing. `*next` as above.
 */
bool sentinel_has_moved(const struct client_settings *settings, int *next,
                        const struct url_place *from, const struct deadline *deadline);

#endif
