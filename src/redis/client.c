/*
 * Owns a connection: when it logs in, what it sends at once, its replies. Its callers may retry.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "redis/inside.h"
#include "redis/sentinel.h"

#define RECEIVE_BYTES 2048 /* a script's reply is far smaller; a page of stack is 4,096 */

struct client *client_open(const struct client_settings *settings)
{
    struct client *client = calloc(1, sizeof(*client));
    if (client == NULL)
        return NULL;
    client->settings = *settings;
    client->login.settings = &client->settings;
    client->stream = STREAM_CLOSED;
    client->why = TEXT_OVER(client->why_storage);
    url_show(settings->url, client->address, sizeof(client->address));
    return client;
}

void client_disconnect(struct client *client)
{
    stream_close(&client->stream);
    client->heard_from = false;
    client->logged_in = false;
    client->subscribed = false;
    client->awaited = 0;
    client->skipped = 0;
    reply_reader_close(client->reader);
    client->reader = NULL;
}

void client_close(struct client *client)
{
    if (client == NULL)
        return;
    client_disconnect(client);
    outgoing_wipe(&client->ahead);
    secret_wipe(&client->login.reread);
    free(client);
}

uint64_t client_connection(const struct client *client)
{
    return client->stream.fd >= 0 ? client->connections : 0;
}

int64_t client_sent_ms(const struct client *client)
{
    return client->sent_ms;
}

bool client_outcome_unknown(const struct client *client)
{
    return client->outcome_unknown;
}

const char *client_why(const struct client *client)
{
    return client->why.at;
}

const char *client_address(const struct client *client)
{
    return client->address;
}

void inside_why_begin(struct client *client)
{
    client->why = TEXT_OVER(client->why_storage);
    text_add(&client->why, client->address);
    text_add(&client->why, ": ");
}

void client_tries_until(struct client *client, const struct deadline *deadline)
{
    if (client->tries_until_ms == deadline->at_ms)
        return;
    client->tries_until_ms = deadline->at_ms;
    client->why_before[0] = '\0';
}

/* Whether no reason has been added yet. */
static bool ends_open(const struct text *why)
{
    return why->length >= 2 && strcmp(why->at + why->length - 2, ": ") == 0;
}

void client_keep_why(struct client *client)
{
    if (ends_open(&client->why))
        return;
    struct text before = TEXT_OVER(client->why_before);
    text_add_bytes(&before, client->why.at, client->why.length);
}

static void tell_why_before(struct client *client)
{
    if (client->why_before[0] == '\0')
        return;
    client->why = TEXT_OVER(client->why_storage);
    text_add(&client->why, client->why_before);
}

enum server_error client_refused(struct client *client, const struct reply *reply)
{
    static const char quote[] = ", with args beginning"; /* a password, or the token, follows */
    const char *end = memmem(reply->bytes, reply->length, quote, sizeof(quote) - 1);
    size_t length = end != NULL ? (size_t)(end - reply->bytes) : reply->length;
    inside_why_begin(client);
    login_add_said(&client->login, &client->why, reply->bytes, length);
    enum server_error error = server_error_classify(reply->bytes, reply->length);
    if (error == SERVER_REDIRECTED &&
        !redirect_parse(reply->bytes, reply->length, &client->redirect))
        error = SERVER_NONSENSE;
    if (error != SERVER_REDIRECTED &&
        error != SERVER_NO_SCRIPT) /* which only lead to another call */
        client_keep_why(client);
    return error;
}

void client_follow(struct client *client)
{
    client_disconnect(client);
    route_follow(&client->route, client->settings.url, &client->redirect);
}

void client_leave_node(struct client *client)
{
    if (client->settings.url->scheme != URL_CLUSTER && !client->route.redirected)
        return;
    client_disconnect(client);
    route_failed(&client->route, client->settings.url);
}

void client_end_visit(struct client *client)
{
    if (!client->route.visiting)
        return;
    client_disconnect(client);
    route_return(&client->route);
}

enum server_error client_nonsense(struct client *client, const char *what)
{
    inside_why_begin(client);
    text_add(&client->why, what);
    return SERVER_NONSENSE;
}

enum server_error inside_feed(struct client *client, const struct deadline *deadline)
{
    char bytes[RECEIVE_BYTES];
    size_t received = 0;
    inside_why_begin(client);
    enum server_error error =
        stream_receive(&client->stream, bytes, sizeof(bytes), deadline, &received, &client->why);
    bool first = !client->heard_from;
    client->heard_from = client->heard_from || error == SERVER_OK;
    /* an alert record: what a TLS server says to a plain command; later on these bytes are data */
    if (error == SERVER_OK && first && received > 1 && bytes[0] == 0x15 && bytes[1] == 0x03)
        return client_nonsense(client, "does not speak the Redis protocol but TLS: use rediss://");
    if (error == SERVER_OK && !reply_reader_feed(client->reader, bytes, received))
        error = client_nonsense(client, "sent a reply that is too large");
    return error;
}

enum server_error inside_read_reply(struct client *client, const struct reply **reply,
                                    const struct deadline *deadline)
{
    for (;;) {
        switch (reply_reader_next(client->reader, reply)) {
        case REPLY_READER_DONE:
            return SERVER_OK;
        case REPLY_READER_BROKEN:
            return client_nonsense(client, "does not speak the Redis protocol");
        case REPLY_READER_MORE:
        default:
            break;
        }
        enum server_error error = inside_feed(client, deadline);
        if (error != SERVER_OK)
            return error;
    }
}

static enum server_error read_login(struct client *client, int count,
                                    const struct deadline *deadline)
{
    enum server_error error = SERVER_OK;
    for (int i = 0; i < count && error == SERVER_OK; i++) {
        const struct reply *reply;
        error = inside_read_reply(client, &reply, deadline);
        if (error == SERVER_OK && reply->kind == REPLY_ERROR)
            error = client_refused(client, reply);
        else if (error == SERVER_OK && !reply_is(reply, "OK"))
            error = client_nonsense(client, "answers a login with something else than OK");
    }
    client->logged_in = error == SERVER_OK;
    if (error == SERVER_DENIED)
        login_refused(&client->login);
    return error;
}

static enum server_error connect_if_needed(struct client *client, const struct deadline *deadline)
{
    if (client->stream.fd >= 0)
        return SERVER_OK;
    client->reader = reply_reader_open();
    if (client->reader == NULL)
        return SERVER_OS;
    inside_why_begin(client);
    enum server_error error =
        route_open(&client->route, &client->settings, &client->stream, deadline, &client->why);
    client->connections += error == SERVER_OK;
    return error;
}

/* Sentinels can be stale: what they name must say that it is a master. */
static enum server_error check_role(struct client *client, const struct deadline *deadline)
{
    static const char role[] = "*1\r\n$4\r\nROLE\r\n";
    const struct reply *reply = NULL;
    enum server_error error =
        stream_send(&client->stream, role, sizeof(role) - 1, deadline, &client->why);
    if (error == SERVER_OK)
        error = inside_read_reply(client, &reply, deadline);
    if (error != SERVER_OK || sentinel_accepts_role(reply))
        return error;
    inside_why_begin(client);
    text_add(&client->why, "the sentinel names a server that is no master");
    return SERVER_READONLY;
}

static enum server_error send_all(struct client *client, struct outgoing *outgoing,
                                  const struct deadline *deadline)
{
    inside_why_begin(client);
    return stream_send(&client->stream, outgoing->text.at, outgoing->text.length, deadline,
                       &client->why);
}

/* Logs in ahead of the commands where they must not run on a refused login's leftovers. */
static enum server_error login_first(struct client *client, const struct deadline *deadline)
{
    struct outgoing outgoing = OUTGOING_NONE;
    int count = login_add(&client->login, &outgoing);
    enum server_error error = SERVER_OK;
    if (count != 0)
        error = count < 0 ? SERVER_OS : send_all(client, &outgoing, deadline);
    outgoing_wipe(&outgoing);
    return error == SERVER_OK ? read_login(client, count, deadline) : error;
}

static const struct client_command asking = {1, (const char *const[]){"ASKING"},
                                             (const size_t[]){6}};
static const struct client_command unsubscribe = {1, (const char *const[]){"UNSUBSCRIBE"},
                                                  (const size_t[]){11}};

/* Whether ASKING goes before command `i`: inside a transaction it would become a part of that. */
static bool needs_asking(const struct client *client, const struct client_command *commands, int i)
{
    bool transaction = strcmp(commands[0].words[0], "MULTI") == 0;
    return client->route.visiting && (i == 0 || !transaction);
}

enum server_error inside_begin(struct client *client, struct outgoing *outgoing, int *logins,
                               const struct deadline *deadline)
{
    if (client->logged_in && route_is_stale(&client->route, &client->settings, deadline))
        client_disconnect(client);
    enum server_error error = connect_if_needed(client, deadline);
    if (error == SERVER_OK)
        error = inside_read_skipped(client, deadline);
    /* behind a refused SELECT the commands would run in database 0: wait for its answer */
    bool by_sentinel = client->settings.url->scheme == URL_SENTINEL;
    if (error == SERVER_OK && !client->logged_in &&
        (client->settings.url->db != 0 || by_sentinel)) {
        error = login_first(client, deadline);
        if (error == SERVER_OK && by_sentinel)
            error = check_role(client, deadline);
    }
    if (error != SERVER_OK)
        return error;
    *logins = client->logged_in ? 0 : login_add(&client->login, outgoing);
    if (*logins < 0 || (client->subscribed && !outgoing_add(outgoing, &unsubscribe)))
        return SERVER_OS;
    return SERVER_OK;
}

enum server_error inside_send(struct client *client, struct outgoing *outgoing, int logins,
                              const struct deadline *deadline)
{
    reply_reader_reset(client->reader);
    client->sent_ms = clock_boot_ms();
    client->outcome_unknown = true;
    enum server_error error = send_all(client, outgoing, deadline);
    outgoing_wipe(outgoing);
    if (error == SERVER_OK && logins > 0)
        error = read_login(client, logins, deadline);
    client->logged_in = error == SERVER_OK;
    if (error == SERVER_OK && client->subscribed)
        error = inside_read_unsubscribed(client, deadline);
    return error;
}

/* Adds the commands. false: no memory. */
static bool compose(const struct client *client, const struct client_command *commands, int count,
                    struct outgoing *outgoing)
{
    bool complete = true;
    for (int i = 0; i < count && complete; i++)
        complete = (!needs_asking(client, commands, i) || outgoing_add(outgoing, &asking)) &&
                   outgoing_add(outgoing, &commands[i]);
    return complete;
}

static enum server_error exchange(struct client *client, const struct client_command *commands,
                                  int count, const struct reply **replies,
                                  const struct deadline *deadline)
{
    struct outgoing outgoing = OUTGOING_NONE;
    int logins = 0;
    enum server_error error = inside_begin(client, &outgoing, &logins, deadline);
    if (error == SERVER_OK && !compose(client, commands, count, &outgoing))
        error = SERVER_OS;
    if (error != SERVER_OK) {
        outgoing_wipe(&outgoing);
        return error;
    }
    error = inside_send(client, &outgoing, logins, deadline);
    for (int i = 0; i < count && error == SERVER_OK; i++) {
        if (needs_asking(client, commands, i))
            error = inside_read_reply(client, &replies[i], deadline); /* of ASKING */
        if (error == SERVER_OK)
            error = inside_read_reply(client, &replies[i], deadline);
    }
    return error;
}

enum server_error inside_end(struct client *client, enum server_error error,
                             const struct deadline *deadline)
{
    /* behind a refused login the commands may still have run, as a default user without password */
    if (error == SERVER_OK)
        client->outcome_unknown = false;
    if (error == SERVER_OS && ends_open(&client->why))
        text_add(&client->why, "out of memory or descriptors on this side");
    if (error == SERVER_LATE && deadline->at_ms == client->tries_until_ms)
        tell_why_before(client);
    else if (error != SERVER_OK && error != SERVER_INTERRUPTED)
        client_keep_why(client);
    if (error != SERVER_OK) {
        if (client->outcome_unknown && !client->may_be_late)
            stream_withdraw(&client->stream);
        client_disconnect(client);
        if (error != SERVER_INTERRUPTED)
            route_failed(&client->route, client->settings.url);
    }
    client->may_be_late = false;
    return error;
}

void client_may_be_late(struct client *client)
{
    client->may_be_late = true;
}

enum server_error client_call(struct client *client, const struct client_command *commands,
                              int count, const struct reply **replies,
                              const struct deadline *deadline)
{
    client->outcome_unknown = false;
    inside_why_begin(client);
    client_skip(client);
    return inside_end(client, exchange(client, commands, count, replies, deadline), deadline);
}

enum server_error client_ask(struct client *client, const char *const *words,
                             const struct reply **reply, const struct deadline *deadline)
{
    size_t lengths[CLIENT_WORDS_MAX];
    int count = 0;
    do
        lengths[count] = strlen(words[count]);
    while (++count < CLIENT_WORDS_MAX && words[count] != NULL);
    return client_call(client, &(struct client_command){count, words, lengths}, 1, reply, deadline);
}
