/*
 * Owns the reading of INFO's run_id and of CLUSTER SLOTS. May not retry, and keeps nothing.
 */
#include "redis/topology.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"

const struct client_command TOPOLOGY_INFO = {2, (const char *const[]){"INFO", "server"},
                                             (const size_t[]){4, 6}};

void topology_read_run_id(const struct reply *reply, char id[TOPOLOGY_ID_MAX + 1])
{
    static const char field[] = "\nrun_id:";
    struct text text = text_over(id, TOPOLOGY_ID_MAX + 1);
    const char *at = reply->kind == REPLY_STRING ? strstr(reply->bytes, field) : NULL;
    if (at == NULL)
        return;
    at += sizeof(field) - 1;
    text_add_bytes(&text, at, strcspn(at, "\r\n"));
}

enum server_error topology_run_id(struct client *client, char id[TOPOLOGY_ID_MAX + 1],
                                  const struct deadline *deadline)
{
    const struct reply *reply;
    enum server_error error = client_call(client, &TOPOLOGY_INFO, 1, &reply, deadline);
    if (error == SERVER_OK)
        topology_read_run_id(reply, id);
    return error;
}

/* {host, port, …} of a node. false: makes no sense. */
static bool read_place(const struct reply *node, struct url_place *place)
{
    int64_t port;
    if (node->kind != REPLY_ARRAY || node->count < 2 || !reply_number(&node->items[1], &port) ||
        port < 1 || port > 65535)
        return false;
    *place = (struct url_place){.port = (uint16_t)port};
    const struct reply *host = &node->items[0];
    if (host->kind != REPLY_STRING || strcmp(host->bytes, "?") == 0)
        return true; /* a node that does not know its own address */
    if (host->length > URL_HOST_MAX)
        return false;
    memcpy(place->host, host->bytes, host->length);
    return true;
}

static struct topology_master *find(const struct topology_masters *masters,
                                    const struct url_place *place)
{
    for (size_t i = 0; i < masters->count; i++)
        if (url_same_place(&masters->at[i].place, place))
            return &masters->at[i];
    return NULL;
}

/* Adds the master of one range of slots. */
static enum server_error add_master(struct client *client, struct topology_masters *masters,
                                    const struct reply *range)
{
    struct topology_master master;
    if (range->kind != REPLY_ARRAY || range->count < 3 ||
        !reply_number(&range->items[0], &master.slot) ||
        !read_place(&range->items[2], &master.place) || masters->count == TOPOLOGY_MASTERS_MAX)
        return client_nonsense(client, "gives an unexpected reply to CLUSTER SLOTS");
    struct topology_master *known = find(masters, &master.place);
    if (known != NULL) {
        known->slot = master.slot < known->slot ? master.slot : known->slot;
        return SERVER_OK;
    }
    struct topology_master *grown = realloc(masters->at, (masters->count + 1) * sizeof(master));
    if (grown == NULL)
        return SERVER_OS;
    masters->at = grown;
    masters->at[masters->count++] = master;
    return SERVER_OK;
}

enum server_error topology_find_masters(struct client *client, struct topology_masters *masters,
                                        const struct deadline *deadline)
{
    const char *const words[] = {"CLUSTER", "SLOTS", NULL};
    const struct reply *reply;
    *masters = (struct topology_masters){.at = NULL};
    enum server_error error = client_ask(client, words, &reply, deadline);
    if (error != SERVER_OK)
        return error;
    if (reply->kind != REPLY_ARRAY) {
        masters->refused = reply->kind == REPLY_ERROR ? client_refused(client, reply)
                                                      : client_nonsense(client, "has no slots");
        return SERVER_OK;
    }
    for (size_t i = 0; i < reply->count && error == SERVER_OK; i++)
        error = add_master(client, masters, &reply->items[i]);
    if (error != SERVER_OK)
        free(masters->at);
    return error;
}
