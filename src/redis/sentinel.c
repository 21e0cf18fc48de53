/*
 * Owns the conversation with sentinels: one question, on a connection of its own, and one to a master
 * that they name anew.
 */
#include "redis/sentinel.h"

#include <string.h>

#include "base/clock.h"

#define SHARE_MIN_MS 100

static bool read_master(const struct reply *reply, struct url_place *master)
{
    int64_t port;
    if (reply->kind != REPLY_ARRAY || reply->count != 2 || reply->items[0].kind != REPLY_STRING ||
        reply->items[0].length > URL_HOST_MAX || !reply_number(&reply->items[1], &port) ||
        port < 1 || port > 65535)
        return false;
    memcpy(master->host, reply->items[0].bytes, reply->items[0].length + 1);
    master->port = (uint16_t)port;
    return true;
}

static enum server_error ask(const struct client_settings *settings, const struct url_place *place,
                             const struct deadline *deadline, struct url_place *master,
                             struct text *why)
{
    struct url url = {.scheme = URL_TCP, .tls = settings->url->tls, .port = place->port};
    memcpy(url.host, place->host, sizeof(url.host));
    const struct client_settings own = {.url = &url,
                                        .user = settings->sentinel_user,
                                        .password = settings->sentinel_password,
                                        .tls = settings->tls};
    struct client *client = client_open(&own);
    if (client == NULL)
        return SERVER_OS;
    const char *const words[] = {"SENTINEL", "get-master-addr-by-name", settings->url->master,
                                 NULL};
    const struct reply *reply;
    enum server_error error = client_ask(client, words, &reply, deadline);
    if (error == SERVER_OK && reply->kind == REPLY_ERROR)
        error = client_refused(client, reply);
    else if (error == SERVER_OK && !read_master(reply, master))
        error = client_nonsense(client, "the sentinel knows no such master");
    if (error != SERVER_OK)
        text_add(why, client_why(client));
    client_close(client);
    return error;
}

enum server_error sentinel_find(const struct client_settings *settings, int *next,
                                const struct deadline *deadline, struct url_place *master,
                                struct text *why)
{
    const struct url *url = settings->url;
    enum server_error error = SERVER_UNREACHABLE;
    struct text begun = *why;
    for (int i = 0; i < url->place_count && error != SERVER_OK; i++) {
        int index = (*next + i) % url->place_count;
        int64_t now = clock_boot_ms();
        int64_t share = (deadline->at_ms - now) / (url->place_count - i + 1); /* and the master's */
        struct deadline own =
            deadline_sooner(*deadline, now + (share > SHARE_MIN_MS ? share : SHARE_MIN_MS));
        *why = begun; /* the last sentinel's reason is the one told */
        error = ask(settings, &url->places[index], &own, master, why);
        if (error == SERVER_INTERRUPTED || error == SERVER_OS)
            return error;
        if (error == SERVER_OK)
            *next = index;
    }
    /* one that does not know the name may not have been told yet */
    return error == SERVER_NONSENSE || error == SERVER_BUSY ? SERVER_UNREACHABLE : error;
}

bool sentinel_accepts_role(const struct reply *role)
{
    return role->kind == REPLY_ERROR ||
           (role->kind == REPLY_ARRAY && role->count > 0 && reply_is(&role->items[0], "master"));
}

static bool says_master(const struct client_settings *settings, const struct url_place *place,
                        const struct deadline *deadline)
{
    struct url url = url_at(settings->url, place);
    struct client_settings there = *settings;
    url.db = 0;
    there.url = &url;
    struct client *client = client_open(&there);
    if (client == NULL)
        return false;
    const char *const words[] = {"ROLE", NULL};
    const struct reply *reply;
    bool master =
        client_ask(client, words, &reply, deadline) == SERVER_OK && sentinel_accepts_role(reply);
    client_close(client);
    return master;
}

bool sentinel_has_moved(const struct client_settings *settings, int *next,
                        const struct url_place *from, const struct deadline *deadline)
{
    char storage[512];
    struct text why = TEXT_OVER(storage);
    struct url_place named = {.port = 0};
    if (sentinel_find(settings, next, deadline, &named, &why) != SERVER_OK)
        return false;
    if (url_same_place(&named, from))
        return false;
    return says_master(settings, &named, deadline);
}
