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

struct observer {
    struct client_settings server;
    struct client *client;
    struct client *asked; /* the last one: whose reason is told */
    struct node **nodes;  /* in a cluster whose names were looked for; else none */
    size_t node_count;
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

/* The client for `node`, which becomes the one that was asked. */
static struct client *ask_at(struct observer *observer, size_t node)
{
    observer->asked =
        node < observer->node_count ? observer->nodes[node]->client : observer->client;
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

static bool is_string(const struct reply *reply)
{
    return reply->kind == REPLY_STRING;
}

static void read_holder(struct observed *observed, const struct reply *value,
                        const struct reply *left)
{
    if (!is_string(value) || observed->holder_count == OBSERVE_HOLDERS_MAX)
        return;
    struct observed_holder *to = &observed->holders[observed->holder_count++];
    size_t kept = value->length < HOLDER_VALUE_MAX ? value->length : HOLDER_VALUE_MAX;
    holder_parse(value->bytes, value->length, &to->holder);
    memcpy(to->value, value->bytes, kept);
    to->value[kept] = '\0';
    to->value_length = value->length;
    to->left_ms = -1;
    (void)reply_number(left, &to->left_ms);
    to->age_ms = -1;
    if (to->holder.kind != HOLDER_FOREIGN)
        to->age_ms =
            observed->now_ms > to->holder.start_ms ? observed->now_ms - to->holder.start_ms : 0;
}

/* MODE:EAR:TOKEN:TAIL; the tail is that of a value. */
static void read_waiter(struct observed *observed, const struct reply *ticket)
{
    char storage[HOLDER_VALUE_MAX + 1];
    struct text value = TEXT_OVER(storage);
    if (!is_string(ticket) || observed->waiter_count == OBSERVE_WAITERS_MAX)
        return;
    const char *ear = strchr(ticket->bytes, ':');
    const char *token = ear != NULL ? strchr(ear + 1, ':') : NULL;
    const char *tail = token != NULL ? strchr(token + 1, ':') : NULL;
    if (tail == NULL)
        return;
    holder_add_head(&value, "");
    value.length -= 2; /* colon, no token, colon: here comes the token with both of its own */
    text_add_bytes(&value, token, (size_t)(tail - token));
    text_add(&value, ":0:granted:0");
    text_add(&value, tail);
    struct observed_waiter *to = &observed->waiters[observed->waiter_count];
    holder_parse(value.at, value.length, &to->who);
    if (to->who.kind == HOLDER_FOREIGN)
        return;
    to->mode = ticket->bytes[0] == 'x'   ? LOCK_MODE_EXCLUSIVE
               : ticket->bytes[0] == 's' ? LOCK_MODE_SHARED
                                         : LOCK_MODE_SLOTS;
    observed->waiter_count++;
}

static void read_field(struct observed *observed, const struct reply *field,
                       const struct reply *value)
{
    const struct {
        const char *name;
        int64_t *to;
    } numbers[] = {
        {"fence", &observed->fence},
        {"slots", &observed->slots},
        {"runs", &observed->runs},
        {"skips", &observed->skips},
        {"losses", &observed->losses},
        {"last_start", &observed->run_start_ms},
        {"last_ms", &observed->run_duration_ms},
        {"last_status", &observed->run_status},
    };
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        if (reply_is(field, numbers[i].name))
            (void)reply_number(value, numbers[i].to);
    if (reply_is(field, "last_host") && is_string(value)) {
        struct text host = TEXT_OVER(observed->run_host);
        text_add_bytes(&host, value->bytes, value->length);
        observed->has_run = true;
    }
}

static bool read_all(struct observed *observed, const struct reply *reply)
{
    if (reply->count != 5 || !reply_number(&reply->items[0], &observed->now_ms) ||
        !reply_number(&reply->items[3], &observed->waiting))
        return false;
    const struct reply *holders = &reply->items[1];
    const struct reply *waiters = &reply->items[2];
    const struct reply *state = &reply->items[4];
    for (size_t i = 0; i + 1 < holders->count; i += 2)
        read_holder(observed, &holders->items[i], &holders->items[i + 1]);
    for (size_t i = 0; i < waiters->count; i++)
        read_waiter(observed, &waiters->items[i]);
    for (size_t i = 0; i + 1 < state->count; i += 2)
        read_field(observed, &state->items[i], &state->items[i + 1]);
    return true;
}

enum lock_result observer_look(struct observer *observer, size_t node, const char *name,
                               struct observed *observed, const struct deadline *deadline)
{
    struct script_arguments arguments = {.count = 0};
    keys_make(&observer->keys, observer->key_storage, observer->prefix, name, "");
    arguments_add_number(&arguments, clock_wall_ms());
    arguments_add_number(&arguments, OBSERVE_HOLDERS_MAX);
    const struct script_call call = {
        &SCRIPT_STATUS, KEYS_HOLDERS + 1, arguments.count, observer->keys.all, arguments.at, NULL,
        false};
    const struct reply *reply = NULL;
    struct client *client = ask_at(observer, node);
    enum lock_result result = run(observer, &call, &reply, deadline);
    if (result != LOCK_OK)
        return result;
    memset(observed, 0, sizeof(*observed));
    observed->slots = 1;
    observed->run_status = -1;
    if (read_all(observed, reply))
        return LOCK_OK;
    client_nonsense(client, "gives an unexpected reply to a script");
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
    const struct script_call call = {
        &SCRIPT_UNLOCK, KEYS_LEASES + 1, count, observer->keys.all, arguments, NULL, false};
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
    if (!is_string(key) || key->length <= length || memcmp(key->bytes, prefix, length) != 0)
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
    struct text host = TEXT_OVER(node->url.host);
    node->url = *url; /* with its login */
    node->url.scheme = URL_TCP;
    node->url.place_count = 0;
    node->url.port = place->port;
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
    const char *const words[] = {"SCAN", at.at, "MATCH", pattern.at, "COUNT", SCAN_COUNT};
    const size_t lengths[] = {4, at.length, 5, pattern.length, 5, strlen(SCAN_COUNT)};
    const struct client_command command = {6, words, lengths};
    const struct reply *reply;
    struct client *client = ask_at(observer, node);
    if (*cursor == 0 && client != observer->client)
        client_leave_node(client); /* a lock that has moved may have led it away */
    struct deadline attempt = deadline_sooner(*deadline, clock_boot_ms() + INSIDE_ATTEMPT_MS);
    enum server_error error = client_call(client, &command, 1, &reply, &attempt);
    if (error == SERVER_OK && reply->kind == REPLY_ERROR)
        error = client_refused(client, reply);
    if (error != SERVER_OK)
        return inside_of_error(error);
    if (reply->kind != REPLY_ARRAY || reply->count != 2 || !is_string(&reply->items[0])) {
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
