/*
 * Owns looking. Promises to change nothing but in observer_unlock, and there only what was shown.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "lock/observer.h"
#include "lock/pause.h"

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

void inside_close_nodes(struct node **nodes, size_t count)
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
    inside_close_nodes(observer->nodes, observer->node_count);
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

struct client *inside_ask_at(struct observer *observer, size_t node)
{
    observer->asked = client_of(observer, node);
    return observer->asked;
}

void observer_ask_once(struct observer *observer, bool once)
{
    observer->once = once;
}

bool observer_silent(const struct observer *observer)
{
    return observer->silent;
}

bool inside_is_silence(enum server_error error)
{
    return error == SERVER_UNREACHABLE || error == SERVER_LATE;
}

/* How many tries are one: in a cluster each of the URL's nodes, and one that a redirect led to. */
static int tries_in_one(const struct observer *observer)
{
    const struct url *url = observer->server.url;
    bool cluster = url->scheme == URL_CLUSTER || observer->node_count > 0;
    return cluster && observer->asked == observer->client ? url->place_count + 2 : 1;
}

enum lock_result inside_ask_until(struct observer *observer, observer_try *ask, void *context,
                                  const struct deadline *deadline)
{
    struct pause pause = PAUSE_START;
    int left = tries_in_one(observer);
    client_tries_until(observer->asked, deadline);
    for (bool first = true;; first = false) {
        struct deadline attempt = deadline_sooner(*deadline, clock_boot_ms() + INSIDE_ATTEMPT_MS);
        enum server_error error = ask(observer, context, &attempt);
        enum lock_result result = inside_of_error(error);
        /* a try that was cut short is no silence of a server that has answered until now */
        if (first || error != SERVER_LATE || attempt.at_ms < deadline->at_ms)
            observer->silent = inside_is_silence(error);
        if (result != LOCK_UNAVAILABLE)
            return result;
        if (observer->once && (--left == 0 || !observer->silent))
            return result;
        if (observer->once)
            continue;
        enum deadline_result waited = pause_wait(&pause, deadline);
        if (waited != DEADLINE_READY)
            return waited == DEADLINE_WOKEN ? LOCK_INTERRUPTED : LOCK_UNAVAILABLE;
    }
}

struct script_try {
    const struct script_call *call;
    const struct reply **reply;
};

static enum server_error try_script(struct observer *observer, void *context,
                                    const struct deadline *attempt)
{
    const struct script_try *script = context;
    return script_run(observer->asked, script->call, script->reply, attempt);
}

static enum lock_result run(struct observer *observer, const struct script_call *call,
                            const struct reply **reply, const struct deadline *deadline)
{
    struct script_try script = {call, reply};
    return inside_ask_until(observer, try_script, &script, deadline);
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
    struct client *client = inside_ask_at(observer, observer->ahead[observer->ahead_next].node);
    client_tries_until(client, deadline);
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
    (void)inside_ask_at(observer, SIZE_MAX);
    return run(observer, &call, reply, deadline);
}

/* What is announced from now on for a node that was silent goes to its successor. */
static bool replace(struct observer *observer, size_t node, const struct deadline *deadline)
{
    struct deadline soon = deadline_sooner(*deadline, clock_boot_ms() + INSIDE_ATTEMPT_MS / 4);
    return inside_replace_node(observer, node, &soon);
}

enum lock_result observer_look(struct observer *observer, const char *name,
                               struct observed *observed, const struct deadline *deadline)
{
    const struct reply *reply = NULL;
    enum server_error error = SERVER_UNREACHABLE;
    bool announced = is_next(observer, name);
    size_t node = announced ? observer->ahead[observer->ahead_next].node : SIZE_MAX;
    if (announced)
        error = next_answer(observer, &reply, deadline);
    struct client *first = observer->asked;
    enum lock_result result = inside_of_error(error);
    observer->silent = inside_is_silence(error);
    if (error == SERVER_BUSY && observer->once)
        return result; /* that was the answer; those of the others are on their way */
    if (result != LOCK_OK && result != LOCK_NOT_A_LOCK)
        take_back(observer);
    if (announced && inside_is_silence(error) && replace(observer, node, deadline))
        announced = false; /* who was silent is no more */
    if (result == LOCK_UNAVAILABLE)
        result = ask_alone(observer, name, error == SERVER_NO_SCRIPT, &reply, deadline);
    if (result == LOCK_UNAVAILABLE && announced && inside_is_silence(error) && observer->silent)
        observer->asked = first; /* whose reason names the node, not the one that sent us there */
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
    (void)inside_ask_at(observer, 0);
    enum lock_result result = run(observer, &call, &reply, deadline);
    if (result == LOCK_OK && (reply->count < 2 || !reply_number(&reply->items[1], removed)))
        result = LOCK_NONSENSE;
    return result;
}
