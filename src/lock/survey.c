/*
 * Owns the walk through the names of all locks: which nodes there are, and each node's keys. Promises that
 * no name is missed for a connection that was cut, or a master whose replica takes over.
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

/* The host that a master has which does not name it: that of the node which told of it. */
static const char *host_of(const struct url_place *place, const struct url *asked)
{
    if (place->host[0] != '\0')
        return place->host;
    return asked->scheme == URL_UNIX ? "localhost" : asked->host;
}

static bool is_at(const struct node *node, const struct url_place *place, const struct url *asked)
{
    return node->url.port == place->port && strcmp(node->url.host, host_of(place, asked)) == 0;
}

static struct node *open_node(const struct observer *observer, const struct topology_master *master,
                              const struct url *asked)
{
    struct client_settings server = observer->server;
    struct node *node = calloc(1, sizeof(*node));
    if (node == NULL)
        return NULL;
    node->url = url_at(observer->server.url, &master->place);
    node->slot = master->slot;
    struct text host = text_over(node->url.host, sizeof(node->url.host));
    text_add(&host, host_of(&master->place, asked));
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
        nodes[i] = open_node(observer, &masters->at[i], observer->server.url);
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
        const struct node *node = observer->nodes[i];
        const struct topology_master *master = &masters->at[i];
        same = node->slot == master->slot && is_at(node, &master->place, observer->server.url);
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
    struct topology_masters masters = {.at = NULL};
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
    free(masters.at);
    *count = observer->node_count > 0 ? observer->node_count : 1;
    return result;
}

/* Puts the one that has its slots now at the place of `node`, as `asked` has told. false: it is the same. */
static bool succeed(struct observer *observer, struct node **node,
                    const struct topology_masters *masters, const struct url *asked)
{
    for (size_t i = 0; i < masters->count; i++) {
        const struct topology_master *master = &masters->at[i];
        if (master->slot != (*node)->slot || is_at(*node, &master->place, asked))
            continue;
        struct node *successor = open_node(observer, master, asked);
        if (successor == NULL)
            return false;
        if (observer->asked == (*node)->client)
            observer->asked = successor->client;
        client_close((*node)->client);
        free(*node);
        *node = successor;
        return true;
    }
    return false;
}

bool inside_replace_node(struct observer *observer, size_t node, const struct deadline *deadline)
{
    struct topology_masters masters = {.at = NULL};
    enum server_error error = SERVER_UNREACHABLE;
    const struct url *asked = NULL;
    if (node >= observer->node_count)
        return false;
    /* each gets half of the time that is left: it may be gone as well; those of the URL are the last */
    for (size_t i = 1; i <= observer->node_count && error != SERVER_OK; i++) {
        bool last = i == observer->node_count;
        const struct node *other = observer->nodes[(node + i) % observer->node_count];
        int64_t now = clock_boot_ms();
        struct deadline own = deadline_sooner(*deadline, now + (deadline->at_ms - now) / 2);
        asked = last ? observer->server.url : &other->url;
        error = topology_find_masters(last ? observer->client : other->client, &masters, &own);
    }
    if (error != SERVER_OK)
        return false;
    bool replaced = succeed(observer, &observer->nodes[node], &masters, asked);
    free(masters.at);
    return replaced;
}

/* Where a walk through one node's keys is. */
struct walk {
    size_t node;
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

/*
 * A step, and where the node does not answer, a question to the others whether it still is one: a quarter
 * of a whole attempt is left for that. Its successor is walked through from the beginning.
 */
static enum server_error try_node(struct observer *observer, void *context,
                                  const struct deadline *attempt)
{
    struct walk *walk = context;
    struct deadline own = *attempt;
    if (walk->node < observer->node_count)
        own = deadline_sooner(*attempt, clock_boot_ms() + INSIDE_ATTEMPT_MS * 3 / 4);
    enum server_error error = try_step(observer, walk, &own);
    if (!inside_is_silence(error) || !inside_replace_node(observer, walk->node, attempt))
        return error;
    *walk = (struct walk){.node = walk->node, .restarts = walk->restarts + 1};
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
    struct walk walk = {.node = node};
    (void)inside_ask_at(observer, node);
    do {
        struct deadline deadline = {clock_boot_ms() + patience_ms, -1};
        enum lock_result result = inside_ask_until(observer, try_node, &walk, &deadline);
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
