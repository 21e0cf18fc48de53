/*
 * Owns looking. Promises to change nothing but in observer_unlock, and there only what was shown.
 */
#include "lock/observe.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "lock/inside.h"
#include "lock/pause.h"
#include "redis/topology.h"

#define SCAN_COUNT "1000" /* keys a step looks at: less than a millisecond of the server's time */

/* A master of a cluster. */
struct node {
    struct url url; /* the observer's, with this address */
    struct client *client;
};

/* A lock that will be looked at. */
struct announced {
    size_t node;
    const char *name;
};

struct observer {
    struct client_settings server;
    struct client *client;
    struct client *asked; /* the last one: whose reason is told */
    struct node **nodes;  /* in a cluster whose names were looked for; else none */
    size_t node_count;
    struct announced ahead[OBSERVE_AHEAD_MAX]; /* in the order of their looks */
    size_t ahead_count;
    size_t ahead_next; /* of them, the first that has not been looked at */
    const char *prefix;
    struct keys keys;
    char key_storage[KEYS_STORAGE_MAX];
};

struct observer *observer_open(const struct client_settings *server, const char *prefix)
{
    struct observer *observer = calloc(1, sizeof(*observer));
    if (observer == NULL)
        return NULL;
    observer->server = *server;
    observer->prefix = prefix;
    observer->client = client_open(server);
    observer->asked = observer->client;
    if (observer->client == NULL) {
        free(observer);
        return NULL;
    }
    return observer;
}

static void close_nodes(struct node **nodes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        client_close(nodes[i]->client);
        free(nodes[i]);
    }
    free(nodes);
}

void observer_close(struct observer *observer)
{
    if (observer == NULL)
        return;
    close_nodes(observer->nodes, observer->node_count);
    client_close(observer->client);
    free(observer);
}

const char *observer_why(const struct observer *observer)
{
    return client_why(observer->asked);
}

static struct client *client_of(const struct observer *observer, size_t node)
{
    return node < observer->node_count ? observer->nodes[node]->client : observer->client;
}

/* The client for `node`, which becomes the one that was asked. */
static struct client *ask_at(struct observer *observer, size_t node)
{
    observer->asked = client_of(observer, node);
    return observer->asked;
}

/* Runs a script that may be run twice, until the deadline. */
static enum lock_result run(struct observer *observer, const struct script_call *call,
                            const struct reply **reply, const struct deadline *deadline)
{
    struct pause pause = PAUSE_START;
    for (;;) {
        struct deadline attempt = deadline_sooner(*deadline, clock_boot_ms() + INSIDE_ATTEMPT_MS);
        enum lock_result result =
            inside_of_error(script_run(observer->asked, call, reply, &attempt));
        if (result != LOCK_UNAVAILABLE)
            return result;
        enum deadline_result waited = pause_wait(&pause, deadline);
        if (waited != DEADLINE_READY)
            return waited == DEADLINE_WOKEN ? LOCK_INTERRUPTED : LOCK_UNAVAILABLE;
    }
}

/* The question for all about a lock; its keys are the observer's, until the next one is made. */
static struct script_call make_question(struct observer *observer, const char *name,
                                        struct script_arguments *arguments)
{
    arguments->count = 0;
    keys_make(&observer->keys, observer->key_storage, observer->prefix, name, "");
    arguments_add_number(arguments, clock_wall_ms());
    arguments_add_number(arguments, OBSERVE_HOLDERS_MAX);
    return (struct script_call){.script = &SCRIPT_STATUS,
                                .key_count = KEYS_HOLDERS + 1,
                                .argument_count = arguments->count,
                                .keys = observer->keys.all,
                                .arguments = arguments->at};
}

size_t observer_announced(const struct observer *observer)
{
    return observer->ahead_count - observer->ahead_next;
}

bool observer_announce(struct observer *observer, size_t node, const char *name)
{
    struct script_arguments arguments;
    if (observer->ahead_next > 0 || observer->ahead_count == OBSERVE_AHEAD_MAX)
        return false;
    const struct script_call call = make_question(observer, name, &arguments);
    if (!script_add(client_of(observer, node), &call))
        return false;
    observer->ahead[observer->ahead_count++] = (struct announced){node, name};
    return true;
}

static void take_back(struct observer *observer)
{
    client_skip(observer->client);
    for (size_t i = 0; i < observer->node_count; i++)
        client_skip(observer->nodes[i]->client);
    observer->ahead_count = 0;
    observer->ahead_next = 0;
}

static bool is_next(const struct observer *observer, const char *name)
{
    return observer_announced(observer) > 0 &&
           strcmp(observer->ahead[observer->ahead_next].name, name) == 0;
}

/* The answer to the first announcement. */
static enum server_error next_answer(struct observer *observer, const struct reply **reply,
                                     const struct deadline *deadline)
{
    struct client *client = ask_at(observer, observer->ahead[observer->ahead_next].node);
    struct deadline attempt = deadline_sooner(*deadline, clock_boot_ms() + INSIDE_ATTEMPT_MS);
    enum server_error error = script_next(client, reply, &attempt);
    if (error == SERVER_REDIRECTED && client == observer->client)
        client_follow(client); /* those of the nodes stay at their nodes */
    if (++observer->ahead_next == observer->ahead_count)
        observer->ahead_count = observer->ahead_next = 0;
    return error;
}

/* Asks for one lock until it is told, by the client that goes after redirects. */
static enum lock_result ask_alone(struct observer *observer, const char *name, bool by_text,
                                  const struct reply **reply, const struct deadline *deadline)
{
    struct script_arguments arguments;
    struct script_call call = make_question(observer, name, &arguments);
    call.by_text = by_text;
    (void)ask_at(observer, SIZE_MAX);
    return run(observer, &call, reply, deadline);
}

enum lock_result observer_look(struct observer *observer, const char *name,
                               struct observed *observed, const struct deadline *deadline)
{
    const struct reply *reply = NULL;
    enum server_error error = SERVER_UNREACHABLE;
    if (is_next(observer, name))
        error = next_answer(observer, &reply, deadline);
    enum lock_result result = inside_of_error(error);
    if (result != LOCK_OK && result != LOCK_NOT_A_LOCK)
        take_back(observer);
    if (result == LOCK_UNAVAILABLE)
        result = ask_alone(observer, name, error == SERVER_NO_SCRIPT, &reply, deadline);
    if (result != LOCK_OK || observed_read(observed, reply))
        return result;
    take_back(observer);
    client_nonsense(observer->asked, "gives an unexpected reply to a script");
    return LOCK_NONSENSE;
}

enum lock_result observer_unlock(struct observer *observer, const char *name,
                                 const struct observed *observed, int64_t *removed,
                                 const struct deadline *deadline)
{
    struct text arguments[OBSERVE_HOLDERS_MAX + 1];
    char digits[ARGUMENT_DIGITS];
    int count = 1;
    arguments[0] = TEXT_OVER(digits);
    text_add_int(&arguments[0], clock_wall_ms());
    for (size_t i = 0; i < observed->holder_count; i++) {
        const struct observed_holder *holder = &observed->holders[i];
        if (holder->value_length > HOLDER_VALUE_MAX)
            continue; /* a foreign value that we have not kept whole */
        arguments[count++] =
            (struct text){.at = (char *)(uintptr_t)holder->value, .length = holder->value_length};
    }
    keys_make(&observer->keys, observer->key_storage, observer->prefix, name, "");
    const struct script_call call = {.script = &SCRIPT_UNLOCK,
                                     .key_count = KEYS_LEASES + 1,
                                     .argument_count = count,
                                     .keys = observer->keys.all,
                                     .arguments = arguments};
    const struct reply *reply = NULL;
    (void)ask_at(observer, 0);
    enum lock_result result = run(observer, &call, &reply, deadline);
    if (result == LOCK_OK && (reply->count < 2 || !reply_number(&reply->items[1], removed)))
        result = LOCK_NONSENSE;
    return result;
}

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
            close_nodes(nodes, i);
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
    close_nodes(observer->nodes, observer->node_count);
    observer->nodes = nodes;
    observer->node_count = masters->count;
    return LOCK_OK;
}

enum lock_result observer_find_nodes(struct observer *observer, size_t *count,
                                     const struct deadline *deadline)
{
    const struct url *url = observer->server.url;
    struct client *client = ask_at(observer, SIZE_MAX);
    struct topology_masters masters = {.places = NULL};
    enum server_error error = SERVER_UNREACHABLE;
    *count = 1;
    if (url->scheme == URL_SENTINEL)
        return LOCK_OK;
    /* each of the URL's nodes once, and one that a redirect may have led to */
    for (int i = 0; i <= url->place_count && error == SERVER_UNREACHABLE; i++) {
        struct deadline attempt = deadline_sooner(*deadline, clock_boot_ms() + INSIDE_ATTEMPT_MS);
        error = topology_find_masters(client, &masters, &attempt);
    }
    if (error != SERVER_OK)
        return inside_of_error(error);
    if (url->scheme == URL_CLUSTER && masters.refused == SERVER_DENIED)
        return LOCK_DENIED; /* else a part would be shown for the whole */
    enum lock_result result = take_nodes(observer, &masters);
    free(masters.places);
    *count = observer->node_count > 0 ? observer->node_count : 1;
    return result;
}

enum lock_result observer_scan(struct observer *observer, size_t node, uint64_t *cursor,
                               void (*found)(void *context, const char *name), void *context,
                               const struct deadline *deadline)
{
    char cursor_storage[24];
    char pattern_storage[2 * KEYS_PREFIX_MAX + 2];
    char name_storage[KEYS_NAME_MAX + 1];
    struct text at = TEXT_OVER(cursor_storage);
    struct text pattern = TEXT_OVER(pattern_storage);
    text_addf(&at, "%llu", (unsigned long long)*cursor);
    add_literal(&pattern, observer->prefix);
    text_add_char(&pattern, '*');
    const char *const words[] = {"SCAN", at.at, "MATCH", pattern.at, "COUNT", SCAN_COUNT, NULL};
    const struct reply *reply;
    struct client *client = ask_at(observer, node);
    struct deadline attempt = deadline_sooner(*deadline, clock_boot_ms() + INSIDE_ATTEMPT_MS);
    enum server_error error = client_ask(client, words, &reply, &attempt);
    if (error == SERVER_OK && reply->kind == REPLY_ERROR)
        error = client_refused(client, reply);
    if (error != SERVER_OK)
        return inside_of_error(error);
    if (reply->kind != REPLY_ARRAY || reply->count != 2 || reply->items[0].kind != REPLY_STRING) {
        client_nonsense(client, "gives an unexpected reply to SCAN");
        return LOCK_NONSENSE;
    }
    *cursor = strtoull(reply->items[0].bytes, NULL, 10);
    const struct reply *names = &reply->items[1];
    for (size_t i = 0; i < names->count; i++) {
        struct text name = TEXT_OVER(name_storage);
        if (name_of(observer->prefix, &names->items[i], &name))
            found(context, name.at);
    }
    return LOCK_OK;
}
