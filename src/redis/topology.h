/*
 * Who a server is, and which others make a cluster with it. One question each, on a client of the
 * caller's; a server that refuses it is no failure.
 */
#ifndef REDISLOCK_REDIS_TOPOLOGY_H
#define REDISLOCK_REDIS_TOPOLOGY_H

#include "base/deadline.h"
#include "cli/url.h"
#include "redis/client.h"

#define TOPOLOGY_ID_MAX 64

/*
 * Copies the server's run id, the same whatever name, address or database it is reached by, into `id`;
 * "" where the server does not tell. SERVER_OK, or why nothing was answered.
 */
enum server_error topology_run_id(struct client *client, char id[TOPOLOGY_ID_MAX + 1],
                                  const struct deadline *deadline);

/* The same question and the reading of its reply, for those who put it beside another one. */
extern const struct client_command TOPOLOGY_INFO;
void topology_read_run_id(const struct reply *reply, char id[TOPOLOGY_ID_MAX + 1]);

#define TOPOLOGY_MASTERS_MAX 1024 /* a cluster has 1,000 nodes at most, say its authors */

struct topology_master {
    struct url_place place;
    int64_t slot; /* its first: who has it later has come in its place */
};

struct topology_masters {
    struct topology_master *at; /* owned: free() */
    size_t count;               /* 0: not a cluster, or it does not tell */
    enum server_error refused;  /* not OK: it does not tell, and client_why says why */
};

/*
 * The masters that have slots, each once; host "" stands for the host of the node that was asked.
 * SERVER_OK, or why nothing was answered; then there is nothing to free.
 */
enum server_error topology_find_masters(struct client *client, struct topology_masters *masters,
                                        const struct deadline *deadline);

#endif
