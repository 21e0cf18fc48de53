/*
 * Owns the walk through the names of all locks: which nodes there are, and each node's keys. Promises that
 * no name is missed for a connection that was cut.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "lock/observer.h"
#include "redis/topology.h"

#define SCAN_COUNT   "1000" /* keys a step looks at: less than a millisecond of the server's time */
#define RESTARTS_MAX 16     /* of one walk: a server that is another one each time is no server */

/* Escapes what SCAN's MATCH takes for a pattern. */
static void add_literal(struct text *pattern, const char *text)
{
    for (; *text != '\0'; text++) {
        if (strchr("*?[]\\", *text) != NULL)
            text_add_char(pattern, '\\');
        text_add_char(pattern, *text);
    }
}

/* The lock's NAME out of a key of it: PREFIX enc(NAME), or PREFIX{PREFIX enc(NAME)}:state. */
static bool name_of(const char *prefix, const struct reply *key, struct text *name)
{
    static const char tail[] = "}:state";
    size_t length = strlen(prefix);
    if (key->kind != REPLY_STRING || key->length <= length ||
        memcmp(key->bytes, prefix, length) != 0)
        return false;
    const char *at = key->bytes + length;
    size_t left = key->length - length;
    if (*at == '{') {
        size_t around = 1 + length + strlen(tail);
        if (left <= around || memcmp(at + 1, prefix, length) != 0 ||
            memcmp(at + left - strlen(tail), tail, strlen(tail)) != 0)
            return false;
        at += 1 + length;
        left -= around;
    }
    return keys_decode(at, left, name);
}

static struct node *open_node(const struct observer *observer, const struct url_place *place)
{
    const struct url *url = observer->server.url;
    const char *asked = url->scheme == URL_UNIX ? "localhost" : url->host;
    struct client_settings server = observer->server;
    struct node *node = calloc(1, sizeof(*node));
    if (node == NULL)
        return NULL;
    node->url = url_at(url, place);
    struct text host = text_over(node->url.host, sizeof(node->url.host));
    text_add(&host, place->host[0] != '\0' ? place->host : asked);
    server.url = &node->url;
    node->client = client_open(&server);
    if (node->client != NULL)
        return node;
    free(node);
    return NULL;
}

/* A client for each master. NULL: no memory. */
static struct node **open_nodes(const struct observer *observer,
                                const struct topology_masters *masters)
{
    struct node **nodes = calloc(masters->count, sizeof(struct node *));
    for (size_t i = 0; i < masters->count && nodes != NULL; i++) {
        nodes[i] = open_node(observer, &masters->places[i]);
        if (nodes[i] == NULL) {
            inside_close_nodes(nodes, i);
            return NULL;
        }
    }
    return nodes;
}

/* Whether the nodes that we know are these. */
static bool are_known(const struct observer *observer, const struct topology_masters *masters)
{
    bool same = observer->node_count == masters->count;
    for (size_t i = 0; i < masters->count && same; i++) {
        const struct url *known = &observer->nodes[i]->url;
        const struct url_place *place = &masters->places[i];
        same = known->port == place->port &&
               (place->host[0] == '\0' || strcmp(known->host, place->host) == 0);
    }
    return same;
}

static enum lock_result take_nodes(struct observer *observer,
                                   const struct topology_masters *masters)
{
    if (are_known(observer, masters))
        return LOCK_OK;
    struct node **nodes = NULL;
    if (masters->count > 0) {
        nodes = open_nodes(observer, masters);
        if (nodes == NULL)
            return LOCK_OS;
    }
    inside_close_nodes(observer->nodes, observer->node_count);
    observer->nodes = nodes;
    observer->node_count = masters->count;
    return LOCK_OK;
}

static enum server_error try_masters(struct observer *observer, void *context,
                                     const struct deadline *attempt)
{
    struct topology_masters *masters = context;
    enum server_error error = topology_find_masters(observer->asked, masters, attempt);
    /* what a server that still loads refuses, it will tell later */
    if (error == SERVER_OK && inside_of_error(masters->refused) == LOCK_UNAVAILABLE)
        error = masters->refused;
    return error;
}

enum lock_result observer_find_nodes(struct observer *observer, size_t *count,
                                     const struct deadline *deadline)
{
    const struct url *url = observer->server.url;
    struct topology_masters masters = {.places = NULL};
    (void)inside_ask_at(observer, SIZE_MAX);
    *count = 1;
    if (url->scheme == URL_SENTINEL)
        return LOCK_OK;
    enum lock_result result = inside_ask_until(observer, try_masters, &masters, deadline);
    if (result != LOCK_OK)
        return result;
    if (url->scheme == URL_CLUSTER && masters.refused == SERVER_DENIED)
        return LOCK_DENIED; /* else a part would be shown for the whole */
    result = take_nodes(observer, &masters);
    free(masters.places);
    *count = observer->node_count > 0 ? observer->node_count : 1;
    return result;
}

/* Where a walk through one node's keys is. */
struct walk {
    uint64_t cursor;
    uint64_t connection; /* that `cursor` came by */
    bool knows_id;       /* `id` is that server's, "": it does not tell */
    char id[TOPOLOGY_ID_MAX + 1];
    int restarts;
    const struct reply *names; /* the last step's; NULL: the walk begins anew */
};

/*
 * A cursor means something to the process that gave it. Which one answers now is asked along with the
 * step where that is not sure; not with the first step, which most walks end with.
 */
static enum server_error send_step(const struct observer *observer, const struct walk *walk,
                                   const struct reply **answer, const struct reply **info,
                                   const struct deadline *attempt)
{
    char cursor_storage[24];
    char pattern_storage[2 * KEYS_PREFIX_MAX + 2];
    struct text cursor = TEXT_OVER(cursor_storage);
    struct text pattern = TEXT_OVER(pattern_storage);
    text_addf(&cursor, "%llu", (unsigned long long)walk->cursor);
    add_literal(&pattern, observer->prefix);
    text_add_char(&pattern, '*');
    const char *const words[] = {"SCAN", cursor.at, "MATCH", pattern.at, "COUNT", SCAN_COUNT};
    const size_t lengths[] = {4, cursor.length, 5, pattern.length, 5, strlen(SCAN_COUNT)};
    const struct client_command commands[2] = {{6, words, lengths}, TOPOLOGY_INFO};
    const struct reply *replies[2] = {NULL, NULL};
    bool sure = walk->knows_id && client_connection(observer->asked) == walk->connection;
    bool begins = walk->cursor == 0 && walk->restarts == 0;
    enum server_error error =
        client_call(observer->asked, commands, sure || begins ? 1 : 2, replies, attempt);
    *answer = replies[0];
    *info = replies[1];
    return error;
}

/* Whether `cursor` was given by the server that has answered now; takes note of who that is. */
static bool is_same_server(struct walk *walk, uint64_t connection, const struct reply *info)
{
    char id[TOPOLOGY_ID_MAX + 1] = "";
    bool same = walk->cursor == 0 || connection == walk->connection;
    if (info != NULL) {
        topology_read_run_id(info, id);
        same = same || (walk->knows_id && id[0] != '\0' && strcmp(id, walk->id) == 0);
        memcpy(walk->id, id, sizeof(id));
    }
    walk->knows_id = info != NULL || (walk->knows_id && connection == walk->connection);
    walk->connection = connection;
    return same;
}

static enum server_error try_step(struct observer *observer, void *context,
                                  const struct deadline *attempt)
{
    struct walk *walk = context;
    struct client *client = observer->asked;
    const struct reply *reply;
    const struct reply *info;
    walk->names = NULL;
    enum server_error error = send_step(observer, walk, &reply, &info, attempt);
    if (error == SERVER_OK && reply->kind == REPLY_ERROR)
        error = client_refused(client, reply);
    if (error != SERVER_OK)
        return error;
    if (!is_same_server(walk, client_connection(client), info)) {
        walk->cursor = 0;
        walk->restarts++;
        return SERVER_OK;
    }
    if (reply->kind != REPLY_ARRAY || reply->count != 2 || reply->items[0].kind != REPLY_STRING)
        return client_nonsense(client, "gives an unexpected reply to SCAN");
    walk->cursor = strtoull(reply->items[0].bytes, NULL, 10);
    walk->names = &reply->items[1];
    return SERVER_OK;
}

/* false: `found` wants no more. */
static bool tell_names(const struct observer *observer, const struct reply *names,
                       const struct observer_names *to)
{
    char name_storage[KEYS_NAME_MAX + 1];
    bool wanted = true;
    for (size_t i = 0; i < names->count && wanted; i++) {
        struct text name = TEXT_OVER(name_storage);
        if (name_of(observer->prefix, &names->items[i], &name))
            wanted = to->found(to->context, name.at);
    }
    return wanted;
}

enum lock_result observer_walk(struct observer *observer, size_t node,
                               const struct observer_names *to, int64_t patience_ms)
{
    struct walk walk = {.cursor = 0};
    (void)inside_ask_at(observer, node);
    do {
        struct deadline deadline = {clock_boot_ms() + patience_ms, -1};
        enum lock_result result = inside_ask_until(observer, try_step, &walk, &deadline);
        if (result == LOCK_OK && walk.names != NULL && !tell_names(observer, walk.names, to))
            result = LOCK_OS;
        if (result == LOCK_OK && walk.restarts > RESTARTS_MAX) {
            (void)client_nonsense(observer->asked, "is another server at each connection");
            result = LOCK_UNAVAILABLE;
        }
        if (result != LOCK_OK)
            return result;
        to->stepped(to->context);
    } while (walk.cursor != 0 || walk.names == NULL);
    return LOCK_OK;
}
