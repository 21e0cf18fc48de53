/*
 * What is shown of a wait: on a terminal one line that is kept up to date, with -v a message per
 * change, otherwise nothing.
 */
#ifndef REDISLOCK_COMMAND_WAITING_H
#define REDISLOCK_COMMAND_WAITING_H

#include <stdbool.h>

#include "cli/config.h"
#include "lock/lock.h"

struct waiting {
    const struct config *config;
    bool terminal; /* stderr is one */
    bool begun;    /* the event has been sent */
    bool polls;    /* said that the wait goes by polling */
    struct {
        int64_t fence; /* tells two holders apart */
        enum holder_kind kind;
        int64_t holders;
        int64_t ahead;
    } told;
};

void waiting_init(struct waiting *waiting, const struct config *config);

/* To be handed to lock_wait. */
struct lock_waiting waiting_for_lock(struct waiting *waiting);

/* Takes the line off the terminal. */
void waiting_end(struct waiting *waiting);

#endif
