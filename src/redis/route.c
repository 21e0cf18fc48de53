/*
 * Owns the choice of an address. Keeps no map of a cluster: every answer MOVED says all that one
 * lock needs to know, which lives in one slot.
 */
#include "redis/route.h"

#include <string.h>

#include "base/clock.h"
#include "redis/client.h"
#include "redis/sentinel.h"

#define TRUSTED_MS   100 /* what a sentinel said; an extension comes later than that */
#define CHECK_MAX_MS 500

bool redirect_parse(const char *reply, size_t length, struct redirect *redirect)
{
    bool ask = length > 4 && memcmp(reply, "ASK ", 4) == 0;
    if (!ask && (length <= 6 || memcmp(reply, "MOVED ", 6) != 0))
        return false;
    const char *slot = reply + (ask ? 4 : 6);
    const char *address = memchr(slot, ' ', length - (size_t)(slot - reply));
    const char *colon = memrchr(reply, ':', length);
    if (address == NULL || colon == NULL || colon < ++address)
        return false;
    long port = 0;
    for (const char *c = colon + 1; c < reply + length; c++) {
        port = *c >= '0' && *c <= '9' ? port * 10 + (*c - '0') : 65536;
        if (port > 65535)
            return false;
    }
    size_t host = (size_t)(colon - address);
    if (port < 1 || host > URL_HOST_MAX || memchr(address, '\0', host) != NULL)
        return false;
    *redirect = (struct redirect){.ask = ask, .place = {.port = (uint16_t)port}};
    memcpy(redirect->place.host, address, host);
    return true;
}

/* The host of the node that was asked. */
static const char *present_host(const struct route *route, const struct url *url)
{
    if (route->redirected)
        return route->place.host;
    return url->place_count > 0 ? url->places[route->next % url->place_count].host : url->host;
}

void route_follow(struct route *route, const struct url *url, const struct redirect *redirect)
{
    struct url_place to = redirect->place;
    if (to.host[0] == '\0')
        memcpy(to.host, present_host(route, url), strlen(present_host(route, url)) + 1);
    if (redirect->ask && !route->visiting) {
        route->visiting = true;
        route->home_redirected = route->redirected;
        route->home = route->place;
    } else if (!redirect->ask) {
        route->visiting = false;
    }
    route->redirected = true;
    route->place = to;
}

void route_return(struct route *route)
{
    if (!route->visiting)
        return;
    route->visiting = false;
    route->redirected = route->home_redirected;
    route->place = route->home;
}

void route_failed(struct route *route, const struct url *url)
{
    /* a node that we were sent to is forgotten first; the place itself may be as good as ever */
    if (!route->redirected && url->place_count > 0)
        route->next = (route->next + 1) % url->place_count;
    route->redirected = false;
    route->visiting = false;
}

static enum server_error open_place(const struct url *url, const struct tls_settings *tls,
                                    const struct url_place *place, struct stream *stream,
                                    const struct deadline *deadline, struct text *why)
{
    const struct url one = url_at(url, place);
    text_addf(why, "%s:%d: ", place->host, (int)place->port);
    return stream_open(stream, &one, tls, deadline, why);
}

enum server_error route_open(struct route *route, const struct client_settings *settings,
                             struct stream *stream, const struct deadline *deadline,
                             struct text *why)
{
    const struct url *url = settings->url;
    if (url->scheme == URL_SENTINEL) {
        enum server_error error =
            sentinel_find(settings, &route->next, deadline, &route->place, why);
        if (error != SERVER_OK)
            return error;
        route->resolved_ms = clock_boot_ms();
        return open_place(url, settings->tls, &route->place, stream, deadline, why);
    }
    if (route->redirected)
        return open_place(url, settings->tls, &route->place, stream, deadline, why);
    if (url->scheme == URL_CLUSTER)
        return open_place(url, settings->tls, &url->places[route->next], stream, deadline, why);
    return stream_open(stream, url, settings->tls, deadline, why);
}

bool route_is_stale(struct route *route, const struct client_settings *settings,
                    const struct deadline *deadline)
{
    if (settings->url->scheme != URL_SENTINEL)
        return false;
    int64_t now = clock_boot_ms();
    if (now - route->resolved_ms < TRUSTED_MS)
        return false;
    int64_t share = (deadline->at_ms - now) / 4;
    struct deadline own =
        deadline_sooner(*deadline, now + (share < CHECK_MAX_MS ? share : CHECK_MAX_MS));
    bool stale = sentinel_has_moved(settings, &route->next, &route->place, &own);
    route->resolved_ms = clock_boot_ms();
    return stale;
}
