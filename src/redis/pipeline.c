/*
 * Owns the questions of a client that are on their way together. May only carry what can be asked
 * twice: whoever asks learns that an answer is missing, not what became of the question.
 */
#include "redis/inside.h"

bool client_add(struct client *client, const struct client_command *command)
{
    if (client->awaited > 0 || client->ahead.text.length >= CLIENT_AHEAD_BYTES ||
        !outgoing_add(&client->ahead, command))
        return false;
    client->added++;
    return true;
}

static enum server_error send_added(struct client *client, const struct deadline *deadline)
{
    struct outgoing outgoing = OUTGOING_NONE;
    int logins = 0;
    enum server_error error = inside_begin(client, &outgoing, &logins, deadline);
    if (error == SERVER_OK && !outgoing_add_all(&outgoing, &client->ahead))
        error = SERVER_OS;
    size_t count = client->added;
    client->added = 0;
    outgoing_wipe(&client->ahead);
    if (error == SERVER_OK)
        error = inside_send(client, &outgoing, logins, deadline);
    outgoing_wipe(&outgoing);
    client->awaited = error == SERVER_OK ? count : 0;
    return error;
}

enum server_error client_next(struct client *client, const struct reply **reply,
                              const struct deadline *deadline)
{
    enum server_error error = SERVER_OK;
    client->outcome_unknown = false;
    inside_why_begin(client);
    if (client->added > 0)
        error = send_added(client, deadline);
    else if (client->awaited == 0)
        error = SERVER_UNREACHABLE;
    if (error == SERVER_OK) {
        reply_reader_reset(client->reader);
        error = inside_read_reply(client, reply, deadline);
        client->awaited--;
    }
    return inside_end(client, error, deadline);
}

void client_skip(struct client *client)
{
    client->added = 0;
    outgoing_wipe(&client->ahead);
    client->skipped += client->awaited;
    client->awaited = 0;
}

enum server_error inside_read_skipped(struct client *client, const struct deadline *deadline)
{
    const struct reply *reply;
    enum server_error error = SERVER_OK;
    for (; client->skipped > 0 && error == SERVER_OK; client->skipped--) {
        reply_reader_reset(client->reader);
        error = inside_read_reply(client, &reply, deadline);
    }
    return error;
}
