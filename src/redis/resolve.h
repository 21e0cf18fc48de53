/*
 * From a host's name to all its addresses, without ever waiting longer than the caller allows.
 */
#ifndef REDISLOCK_REDIS_RESOLVE_H
#define REDISLOCK_REDIS_RESOLVE_H

#include <stdint.h>
#include <sys/socket.h>
#include <netinet/in.h>

#include "base/deadline.h"
#include "redis/error.h"

#define RESOLVE_ADDRESSES_MAX 16

struct resolve_address {
    socklen_t length;
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } to;
};

struct resolve_result {
    int count; /* at least 1 after SERVER_OK, in the resolver's order of preference */
    struct resolve_address addresses[RESOLVE_ADDRESSES_MAX];
};

/*
 * Literal addresses cost nothing. Names go to getaddrinfo(3) in a thread of its own, because it
 * cannot be given a deadline; one that answers too late is abandoned to that thread.
 * On SERVER_UNREACHABLE and SERVER_LATE `*why` is a static text. SERVER_INTERRUPTED, SERVER_OS as in
 * error.h.
 */
enum server_error resolve_host(const char *host, uint16_t port, const struct deadline *deadline,
                               struct resolve_result *result, const char **why);

#endif
