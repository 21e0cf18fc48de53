/*
 * Owns how a server address is shown and hidden: in a message without its password, and where its
 * password stands so that it can be wiped. Pure.
 */
#include "cli/url.h"

#include <string.h>

#include "base/text.h"
#include "cli/url_part.h"

size_t url_find_password(const char *text, size_t *length)
{
    const char *start = NULL;
    struct url_part user;
    struct url_part password = {text, 0};

    for (size_t i = 0; i < URL_SCHEME_COUNT && start == NULL; i++)
        start = text_after(text, url_schemes[i].prefix);
    if (start != NULL) {
        struct url_part authority = {start, url_length_before(start, "/?#")};

        url_take_login(&authority, &user, &password);
    }
    *length = password.length;
    return (size_t)(password.at - text);
}

static void add_place(struct text *text, const char *host, uint16_t port)
{
    bool ipv6 = strchr(host, ':') != NULL;

    text_add(text, ipv6 ? "[" : "");
    text_add(text, host);
    text_add(text, ipv6 ? "]:" : ":");
    text_add_int(text, port);
}

void url_show(const struct url *url, char *out, size_t size)
{
    struct text text = text_over(out, size);

    if (url->scheme == URL_UNIX) {
        text_add(&text, "unix://");
        text_add(&text, url->path);
    } else {
        for (size_t i = 0; i < URL_SCHEME_COUNT; i++)
            if (url_schemes[i].scheme == url->scheme && url_schemes[i].tls == url->tls)
                text_add(&text, url_schemes[i].prefix);
    }
    if (url->scheme == URL_TCP)
        add_place(&text, url->host, url->port);
    for (int i = 0; i < url->place_count; i++) {
        text_add(&text, i > 0 ? "," : "");
        add_place(&text, url->places[i].host, url->places[i].port);
    }
    if (url->scheme == URL_SENTINEL) {
        text_add_char(&text, '/');
        text_add(&text, url->master);
    }
    if (url->db != 0) {
        text_add(&text, url->scheme == URL_UNIX ? "?db=" : "/");
        text_add_int(&text, url->db);
    }
}

/* Whether what stands in a bad address's host:port/db may be a password that lost its @host. */
static bool may_hide_secret(const char *place)
{
    const char *bracket = strchr(place, ']');
    const char *colon = strchr(bracket != NULL ? bracket : place, ':');

    if (strchr(place, '?') != NULL && strstr(place, "?db=") == NULL)
        return true;
    if (colon == NULL)
        return false;

    size_t digits = strspn(colon + 1, "0123456789");

    return colon == place || digits > 5 || strchr("/", colon[1 + digits]) == NULL;
}

void url_redact(const char *given, char *out, size_t size)
{
    struct text text = text_over(out, size);
    const char *scheme_end = strstr(given, "://");
    const char *place = scheme_end != NULL ? scheme_end + 3 : given;
    const char *at = strrchr(place, '@');

    text_add_bytes(&text, given, (size_t)(place - given));
    if (at != NULL) {
        text_add(&text, "***@");
        place = at + 1;
    }
    text_add(&text, may_hide_secret(place) ? "***" : place);
}
