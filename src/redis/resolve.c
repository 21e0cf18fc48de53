/*
 * Owns name resolution. The thread it starts touches nothing but its own struct lookup, which the
 * last of the two sides to let go frees.
 */
#include "redis/resolve.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct lookup {
    atomic_int owners; /* the asker and the thread */
    int done_fd;       /* eventfd, readable once result and error are set */
    atomic_int error;  /* set after result: who reads it may read that */
    struct addrinfo *result;
    char host[]; /* NUL-terminated */
};

static void lookup_drop(struct lookup *lookup)
{
    if (atomic_fetch_sub(&lookup->owners, 1) > 1)
        return;
    if (lookup->result != NULL)
        freeaddrinfo(lookup->result);
    close(lookup->done_fd);
    free(lookup);
}

static void *lookup_run(void *argument)
{
    struct lookup *lookup = argument;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    int error = getaddrinfo(lookup->host, NULL, &hints, &list);
    lookup->result = error == 0 ? list : NULL;
    atomic_store(&lookup->error, error);
    eventfd_write(lookup->done_fd, 1);
    lookup_drop(lookup);
    return NULL;
}

static struct lookup *lookup_start(const char *host)
{
    size_t size = strlen(host) + 1;
    struct lookup *lookup = calloc(1, sizeof(*lookup) + size);
    if (lookup == NULL)
        return NULL;
    memcpy(lookup->host, host, size);
    atomic_init(&lookup->owners, 2);
    atomic_init(&lookup->error, EAI_AGAIN);
    lookup->done_fd = eventfd(0, EFD_CLOEXEC);
    pthread_t thread;
    if (lookup->done_fd < 0 || pthread_create(&thread, NULL, lookup_run, lookup) != 0) {
        if (lookup->done_fd >= 0)
            close(lookup->done_fd);
        free(lookup);
        return NULL;
    }
    pthread_detach(thread);
    return lookup;
}

static void add_address(struct resolve_result *result, const struct sockaddr *address,
                        socklen_t length, uint16_t port)
{
    if (result->count == RESOLVE_ADDRESSES_MAX || length > sizeof(result->addresses[0].to))
        return;
    struct resolve_address *slot = &result->addresses[result->count];
    memset(slot, 0, sizeof(*slot));
    memcpy(&slot->to, address, length);
    slot->length = length;
    if (address->sa_family == AF_INET)
        slot->to.v4.sin_port = htons(port);
    else if (address->sa_family == AF_INET6)
        slot->to.v6.sin6_port = htons(port);
    else
        return;
    result->count++;
}

static void add_list(struct resolve_result *result, const struct addrinfo *list, uint16_t port)
{
    for (; list != NULL; list = list->ai_next)
        add_address(result, list->ai_addr, list->ai_addrlen, port);
}

static bool resolve_literal(const char *host, uint16_t port, struct resolve_result *result)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    if (inet_pton(AF_INET, host, &v4.sin_addr) == 1) {
        add_address(result, (const struct sockaddr *)&v4, sizeof(v4), port);
        return true;
    }
    if (strchr(host, ':') == NULL)
        return false;
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    if (getaddrinfo(host, NULL, &hints, &list) == 0) { /* numeric: no look-up; knows zones */
        add_list(result, list, port);
        freeaddrinfo(list);
    }
    return true;
}

static enum server_error wait_for(const struct lookup *lookup, const struct deadline *deadline,
                                  const char **why)
{
    switch (deadline_wait(lookup->done_fd, POLLIN, deadline)) {
    case DEADLINE_WOKEN:
        return SERVER_INTERRUPTED;
    case DEADLINE_PASSED:
        *why = "looking up the host's name took too long";
        return SERVER_LATE;
    case DEADLINE_READY:
    default:
        return SERVER_OK;
    }
}

enum server_error resolve_host(const char *host, uint16_t port, const struct deadline *deadline,
                               struct resolve_result *result, const char **why)
{
    result->count = 0;
    *why = "is no address";
    if (resolve_literal(host, port, result))
        return result->count > 0 ? SERVER_OK : SERVER_UNREACHABLE;

    struct lookup *lookup = lookup_start(host);
    if (lookup == NULL) {
        *why = "cannot start a thread for the resolver";
        return SERVER_OS;
    }
    enum server_error error = wait_for(lookup, deadline, why);
    if (error == SERVER_OK) {
        int failure = atomic_load(&lookup->error);
        if (failure != 0)
            *why = gai_strerror(failure);
        else
            add_list(result, lookup->result, port);
        error = result->count > 0 ? SERVER_OK : SERVER_UNREACHABLE;
    }
    lookup_drop(lookup);
    return error;
}
