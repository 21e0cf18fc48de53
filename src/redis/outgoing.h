/*
 * What goes out in one write: commands one behind the other, in the protocol's form.
 */
#ifndef REDISLOCK_REDIS_OUTGOING_H
#define REDISLOCK_REDIS_OUTGOING_H

#include <stdbool.h>

#include "base/text.h"

struct client_command;

struct outgoing {
    struct text text; /* on the heap; its bytes and length are what to send */
    bool secret;      /* set by whoever adds a password: the bytes are then wiped, not only freed */
};

#define OUTGOING_NONE ((struct outgoing){.secret = false})

/* Adds a command, whose words are copied. false: no memory, `*outgoing` is as it was. */
bool outgoing_add(struct outgoing *outgoing, const struct client_command *command);

/* Adds what `more` has, which is no secret. false: no memory, `*outgoing` is as it was. */
bool outgoing_add_all(struct outgoing *outgoing, const struct outgoing *more);

/* Frees all of it; it is OUTGOING_NONE again. */
void outgoing_wipe(struct outgoing *outgoing);

#endif
