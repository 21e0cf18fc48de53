/*
 * Running scripts on a server: by hash, by text where the server does not know it, and with the
 * check that a read-only replica's verdict does not count.
 */
#ifndef REDISLOCK_REDIS_SCRIPT_H
#define REDISLOCK_REDIS_SCRIPT_H

#include "base/deadline.h"
#include "base/text.h"
#include "lua/scripts.h"
#include "redis/client.h"

struct script_call {
    const struct script *script;
    int key_count;
    int argument_count;
    const struct text *keys;
    const struct text *arguments;
    const struct text
        *probe;       /* a key that never exists, to be deleted behind the script; or NULL */
    bool by_text;     /* at once: for CANCEL, which must work though no NOSCRIPT may come back */
    bool may_be_late; /* client_may_be_late; not with a subscription */
};

/*
 * Runs a script by its hash, or by its text where the server does not know it yet.
 *
 * With a probe, the verdict counts only if the server also takes a write in the same exchange: a
 * read-only replica runs a script's read branch without a complaint.
 * SERVER_OK: `*reply` is an array, alive until the next call. Error replies come back as their
 * class, with client_why.
 */
enum server_error script_run(struct client *client, const struct script_call *call,
                             const struct reply **reply, const struct deadline *deadline);

/*
 * The same for many calls on their way at once, as client_add and client_next: by hash only and without
 * a probe, for scripts that change nothing. script_next follows no redirect and gives no text: its
 * NO_SCRIPT and REDIRECTED are for the caller, who may ask again by script_run.
 */
bool script_add(struct client *client, const struct script_call *call);
enum server_error script_next(struct client *client, const struct reply **reply,
                              const struct deadline *deadline);

/*
 * Runs a script and subscribes to `channel`, in one transaction: nothing can be published between
 * the two. SERVER_OK: subscribed, whatever the script's verdict is. SERVER_DENIED: pub/sub or
 * transactions are forbidden here, nothing was done. Otherwise as script_run.
 */
enum server_error script_run_and_subscribe(struct client *client, const struct script_call *call,
                                           const struct text *channel, const struct reply **reply,
                                           const struct deadline *deadline);

#endif
