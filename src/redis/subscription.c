/*
 * Owns what a subscribed connection hears, and how the subscription ends.
 */
#include "base/clock.h"
#include "redis/inside.h"
#include "redis/socket.h"

static bool is_push(const struct reply *reply, const char *kind)
{
    return reply->kind == REPLY_ARRAY && reply->count == 3 && reply_is(&reply->items[0], kind);
}

enum server_error inside_read_unsubscribed(struct client *client, const struct deadline *deadline)
{
    const struct reply *reply;
    enum server_error error;
    do
        error = inside_read_reply(client, &reply, deadline);
    while (error == SERVER_OK && is_push(reply, "message"));
    if (error == SERVER_OK && !is_push(reply, "unsubscribe"))
        error = client_nonsense(client, "does not end a subscription");
    client->subscribed = false;
    return error;
}

void client_subscribed(struct client *client)
{
    client->subscribed = true;
    socket_keep_alive(client->stream.fd);
}

enum client_heard client_listen(struct client *client, const struct reply **message,
                                const struct deadline *deadline)
{
    if (client->reader == NULL)
        return CLIENT_HEARD_BROKEN;
    reply_reader_reset(client->reader);
    for (;;) {
        const struct reply *reply;
        enum reply_reader_result next = reply_reader_next(client->reader, &reply);
        if (next == REPLY_READER_DONE && is_push(reply, "message")) {
            *message = &reply->items[2];
            return CLIENT_HEARD_MESSAGE;
        }
        if (next != REPLY_READER_MORE) {
            client_nonsense(client, "sent something that is no message");
            break;
        }
        enum server_error error = inside_feed(client, deadline);
        if (error == SERVER_INTERRUPTED)
            return CLIENT_HEARD_SIGNAL;
        if (error != SERVER_OK && clock_boot_ms() >= deadline->at_ms)
            return CLIENT_HEARD_NOTHING;
        if (error != SERVER_OK)
            break;
    }
    client_disconnect(client);
    return CLIENT_HEARD_BROKEN;
}
