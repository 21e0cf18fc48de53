/*
 * The questions that --doctor asks a server beside locking itself: each finding is one line.
 */
#ifndef REDISLOCK_COMMAND_EXAMINE_H
#define REDISLOCK_COMMAND_EXAMINE_H

#include <stdbool.h>

#include "cli/config.h"
#include "lock/lease.h"
#include "redis/client.h"

struct examination {
    const struct config *config;
    const struct url *url; /* of the server that is examined */
    struct client *client;
    const struct lease *lease; /* that locks are tried with; NULL: --ttl allows none */
    int status;                /* of the first failure; 0: none */
    bool time_refused;         /* TIME is forbidden to this user */
};

/* Prints "ok", "warning" or "failure" and a line. A failure keeps `status` for the exit. */
void examine_ok(const char *format, ...) __attribute__((format(printf, 1, 2)));
void examine_warning(const char *format, ...) __attribute__((format(printf, 1, 2)));
void examine_failure(struct examination *examination, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/*
 * A failure with the reason that client_why or lock_why gave, and what to do about it. `step` is what
 * could not be done, or NULL.
 */
void examine_refusal(struct examination *examination, int status, const char *step,
                     const char *why);

/* Connection, login and latency. false: nothing further can be asked. */
bool examine_connection(struct examination *examination);

/* Role, version, user, clock, persistence, eviction, replicas, encryption. */
void examine_server(struct examination *examination);

#endif
