/*
 * libFuzzer target: addresses of servers, and what redirects say. `make fuzz` builds and runs it.
 *
 * The first byte chooses; the rest is the text. Anything may be refused, but what is taken must be
 * whole, what is shown must be taken again, and no message may tell a password.
 */
#include "cli/url.h"
#include "fuzz.h"
#include "redis/route.h"

static void check_taken(const struct url *url)
{
    REQUIRE(url->db >= 0 && url->db <= URL_DB_MAX);
    REQUIRE(strlen(url->user) <= URL_USER_MAX);
    if (url->scheme == URL_UNIX) {
        REQUIRE(url->path[0] == '/');
        return;
    }
    REQUIRE(url->host[0] != '\0' && url->port != 0);
    REQUIRE(url->scheme == URL_TCP ? url->place_count == 0
                                   : url->place_count >= 1 && url->place_count <= URL_PLACES_MAX);
    for (int i = 0; i < url->place_count; i++)
        REQUIRE(url->places[i].host[0] != '\0' && url->places[i].port != 0);
    REQUIRE((url->scheme == URL_SENTINEL) == (url->master[0] != '\0'));
}

/* But for what is percent-encoded, an address that was shown is an address. */
static void check_shown(const struct url *url, const char *given)
{
    char shown[URL_SHOWN_MAX];
    struct url again;
    const char *why;
    url_show(url, shown, sizeof(shown));
    if (strchr(given, '%') != NULL)
        return;
    REQUIRE(url_parse(shown, &again, &why));
    REQUIRE(again.scheme == url->scheme && again.tls == url->tls && again.db == url->db);
    REQUIRE(strcmp(again.host, url->host) == 0 && again.port == url->port);
    REQUIRE(strcmp(again.master, url->master) == 0 && again.place_count == url->place_count);
    REQUIRE(again.password.bytes == NULL && again.user[0] == '\0');
    url_wipe(&again);
}

static void check_url(const char *text)
{
    struct url url = {.port = 4711};
    const char *why = NULL;
    size_t length = SIZE_MAX;
    char small[32];
    size_t offset = url_find_password(text, &length);
    REQUIRE(offset <= strlen(text) && length <= strlen(text) - offset);
    url_redact(text, small, sizeof(small));
    REQUIRE(strlen(small) < sizeof(small));
    if (!url_parse(text, &url, &why)) {
        REQUIRE(why != NULL && url.port == 4711 && url.password.bytes == NULL);
        return;
    }
    check_taken(&url);
    check_shown(&url, text);
    REQUIRE((url.password.bytes != NULL) == (length > 0));
    url_wipe(&url);
}

static void check_redirect(const char *text, size_t length)
{
    struct redirect redirect;
    const struct url url = {.scheme = URL_TCP, .host = "h", .port = 1};
    struct route route = {.next = 0};
    if (!redirect_parse(text, length, &redirect))
        return;
    REQUIRE(redirect.place.port != 0 && strlen(redirect.place.host) <= URL_HOST_MAX);
    route_follow(&route, &url, &redirect);
    REQUIRE(route.place.host[0] != '\0' && route.redirected);
    route_return(&route);
    route_failed(&route, &url);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    char *text = fuzz_text(data + 1, size - 1);
    if (data[0] % 4 == 3)
        check_redirect(text, size - 1);
    else
        check_url(text);
    free(text);
    return 0;
}
