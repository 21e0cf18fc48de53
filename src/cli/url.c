/*
 * Owns what the parts of a server address may be, and reads them into a struct url.
 *
 * Promises: parts are told apart before they are decoded, so that an encoded @ : / cannot move a
 * boundary. Pure: no look-up, no I/O, no message. The password is copied into a secret and nowhere
 * else.
 */
#include "cli/url.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cli/url_part.h"

#define DEFAULT_PORT  6379
#define SENTINEL_PORT 26379

static const char no_host[] = "has no host";
static const char bad_ipv6[] = "has a bracketed host that is not an IPv6 address";
static const char no_path[] = "needs an absolute path, as in unix:///run/redis.sock";
static const char long_password[] = "has a password of more than 4096 bytes";
static const char no_memory[] = "cannot be copied: out of memory";
static const char bad_db[] = "has a database that is not a number from 0 to 1000000";

static bool fail(const char **why, const char *text)
{
    *why = text;
    return false;
}

/* Decoded where it lies: the encoded form is never shorter, and its rest is wiped at once. */
static bool read_password(struct url_part part, struct secret *password, const char **why)
{
    if (part.length > URL_PASSWORD_MAX)
        return fail(why, long_password);
    if (!secret_set(password, part.at, part.length))
        return fail(why, no_memory);

    bool good = url_decode(part, password->bytes, part.length + 1, long_password, why);
    size_t decoded = good ? strlen(password->bytes) : 0;

    secret_wipe_bytes(password->bytes + decoded, part.length - decoded);
    password->length = decoded;
    return good;
}

static bool read_credentials(struct url_part user, struct url_part password, struct url *url,
                             const char **why)
{
    if (!url_decode(user, url->user, sizeof url->user, "has a user of more than 255 bytes", why))
        return false;
    return password.length == 0 || read_password(password, &url->password, why);
}

/* A decimal number of digits alone, at most `most`; -1 for anything else. */
static int32_t read_decimal(struct url_part part, int32_t most)
{
    int32_t number = 0;

    for (size_t i = 0; i < part.length; i++) {
        if (part.at[i] < '0' || part.at[i] > '9')
            return -1;
        number = number * 10 + (part.at[i] - '0');
        if (number > most)
            return -1;
    }
    return part.length > 0 ? number : -1;
}

static bool read_port(struct url_part part, struct url *url, const char **why)
{
    int32_t port = read_decimal(part, 65535);

    if (port == 0)
        return fail(why, "has port 0; ports are 1 to 65535");
    if (port < 0)
        return fail(why, "has a port that is not a number from 1 to 65535");
    url->port = (uint16_t)port;
    return true;
}

static bool read_db(struct url_part part, struct url *url, const char **why)
{
    int32_t db = read_decimal(part, URL_DB_MAX);

    if (db < 0)
        return fail(why, bad_db);
    url->db = db;
    return true;
}

/*
 * The inside of the brackets. A zone after %25 is RFC 6874's, encoded as the rest of the URL is;
 * after a lone % it is taken as people type it.
 */
static bool read_ipv6(struct url_part literal, struct url *url, const char **why)
{
    struct url_part zone = literal;
    struct url_part address = literal;
    bool has_zone = url_split_at(&zone, '%', &address);
    struct in6_addr binary;

    if (literal.length == 0)
        return fail(why, no_host);
    if (address.length >= INET6_ADDRSTRLEN)
        return fail(why, bad_ipv6);
    memcpy(url->host, address.at, address.length);
    url->host[address.length] = '\0';
    if (inet_pton(AF_INET6, url->host, &binary) != 1)
        return fail(why, bad_ipv6);
    if (!has_zone)
        return true;

    char *out = url->host + address.length;
    size_t space = sizeof url->host - address.length - 1;

    *out++ = '%';
    if (zone.length > 2 && strncmp(zone.at, "25", 2) == 0)
        return url_decode((struct url_part){zone.at + 2, zone.length - 2}, out, space, bad_ipv6,
                          why);
    if (zone.length == 0 || zone.length >= space)
        return fail(why, bad_ipv6);
    memcpy(out, zone.at, zone.length);
    out[zone.length] = '\0';
    return true;
}

static bool read_host(struct url_part host, struct url *url, const char **why)
{
    if (!url_decode(host, url->host, sizeof url->host, "has a host of more than 255 bytes", why))
        return false;
    if (host.length == 0)
        return fail(why, no_host);
    for (const char *c = url->host; *c != '\0'; c++) {
        if ((unsigned char)*c <= ' ' || strchr("/@:%[],\x7f", *c) != NULL)
            return fail(why, "has a host with a character that no host name has");
    }
    return true;
}

static bool read_bracketed(struct url_part rest, struct url *url, const char **why)
{
    struct url_part literal;

    rest.at++;
    rest.length--;
    if (!url_split_at(&rest, ']', &literal))
        return fail(why, "has a [ without its ]");
    if (!read_ipv6(literal, url, why))
        return false;
    if (rest.length == 0)
        return true;
    if (rest.at[0] != ':')
        return fail(why, "has something other than :PORT after the ]");
    return read_port((struct url_part){rest.at + 1, rest.length - 1}, url, why);
}

static bool read_host_and_port(struct url_part rest, struct url *url, const char **why)
{
    struct url_part host;

    if (rest.length > 0 && rest.at[0] == '[')
        return read_bracketed(rest, url, why);
    if (!url_split_at(&rest, ':', &host))
        return read_host(rest, url, why);
    if (memchr(rest.at, ':', rest.length) != NULL)
        return fail(why, "has an IPv6 address without its brackets, as in redis://[::1]:6379");
    return read_host(host, url, why) && read_port(rest, url, why);
}

/* h1[:port],h2[:port] into places, with `port` where none is named. */
static bool read_places(struct url_part rest, struct url *url, uint16_t port, const char **why)
{
    bool more = true;

    url->places = calloc(URL_PLACES_MAX, sizeof *url->places);
    if (url->places == NULL)
        return fail(why, no_memory);
    while (more) {
        struct url_part place;
        struct url one = {.port = port};

        if (url->place_count == URL_PLACES_MAX)
            return fail(why, "names more than 9 hosts");
        more = url_split_at(&rest, ',', &place);
        if (!read_host_and_port(more ? place : rest, &one, why))
            return false;
        memcpy(url->places[url->place_count].host, one.host, sizeof one.host);
        url->places[url->place_count].port = one.port;
        url->place_count++;
    }
    memcpy(url->host, url->places[0].host, sizeof url->host);
    url->port = url->places[0].port;
    return true;
}

/* Of sentinels: /master[/db]; of a cluster: nothing, or /0. */
static bool read_tail(const char *tail, struct url *url, const char **why)
{
    struct url_part rest = {tail + 1, strlen(tail) - 1};
    struct url_part name;

    if (url->scheme == URL_CLUSTER) {
        if (strcmp(tail, "/") != 0 && strcmp(tail, "/0") != 0)
            return fail(why, "has a database other than 0, which a cluster does not have");
        return true;
    }
    if (!url_split_at(&rest, '/', &name)) {
        name = rest;
        rest.length = 0;
    }
    if (!url_decode(name, url->master, sizeof url->master,
                    "has a master's name of more than 127 bytes", why))
        return false;
    return rest.length == 0 || read_db(rest, url, why);
}

/* [[user]:password@]h1[:port],h2[:port][/…] */
static bool parse_places(const char *text, struct url *url, enum url_scheme scheme,
                         const char **why)
{
    struct url_part authority = {text, url_length_before(text, "/?#")};
    const char *tail = text + authority.length;
    struct url_part user;
    struct url_part password;

    url_take_login(&authority, &user, &password);
    url->scheme = scheme;
    if (tail[url_length_before(tail, "?#")] != '\0')
        return fail(why, "has a ? or # that such an address does not take");
    if (!read_places(authority, url, scheme == URL_SENTINEL ? SENTINEL_PORT : DEFAULT_PORT, why))
        return false;
    if (tail[0] == '/' && !read_tail(tail, url, why))
        return false;
    if (scheme == URL_SENTINEL && url->master[0] == '\0')
        return fail(why, "names no master, as in redis+sentinel://h1,h2,h3/mymaster");
    return read_credentials(user, password, url, why);
}

/* [[user]:password@]host[:port][/db] */
static bool parse_tcp(const char *text, struct url *url, const char **why)
{
    struct url_part authority = {text, url_length_before(text, "/?#")};
    const char *tail = text + authority.length;
    struct url_part user;
    struct url_part password;

    url_take_login(&authority, &user, &password);
    url->scheme = URL_TCP;
    url->port = DEFAULT_PORT;
    if (tail[url_length_before(tail, "?#")] != '\0')
        return fail(why, "has a ? or # that a redis:// address does not take");
    if (!read_host_and_port(authority, url, why))
        return false;
    if (tail[0] == '/' && tail[1] != '\0' &&
        !read_db((struct url_part){tail + 1, strlen(tail + 1)}, url, why))
        return false;
    return read_credentials(user, password, url, why);
}

/* /path[?db=N] */
static bool parse_unix(const char *text, struct url *url, const char **why)
{
    struct url_part path = {text, url_length_before(text, "?#")};
    const char *query = text + path.length;

    url->scheme = URL_UNIX;
    if (path.length < 2 || path.at[0] != '/')
        return fail(why, no_path);
    if (!url_decode(path, url->path, sizeof url->path, "has a socket path of more than 107 bytes",
                    why))
        return false;
    if (query[0] == '\0')
        return true;
    if (strncmp(query, "?db=", 4) != 0)
        return fail(why, "has something other than ?db=N after the path");
    return read_db((struct url_part){query + 4, strlen(query + 4)}, url, why);
}

static bool parse_any(const char *text, struct url *url, const char **why)
{
    const char *rest = text_after(text, "unix://");

    for (const char *c = text; *c != '\0'; c++) {
        if ((unsigned char)*c <= ' ' || *c == '\x7f')
            return fail(why, "holds a blank or a control byte, which are written as %20 and so on");
    }
    if (rest != NULL)
        return parse_unix(rest, url, why);
    for (size_t i = 0; i < URL_SCHEME_COUNT; i++) {
        rest = text_after(text, url_schemes[i].prefix);
        if (rest == NULL)
            continue;
        url->tls = url_schemes[i].tls;
        if (url_schemes[i].scheme == URL_TCP)
            return parse_tcp(rest, url, why);
        return parse_places(rest, url, url_schemes[i].scheme, why);
    }
    return fail(why, "does not begin with redis://, rediss:// or unix://");
}

bool url_parse(const char *text, struct url *url, const char **why)
{
    struct url parsed = {.password = SECRET_NONE};

    if (!parse_any(text, &parsed, why)) {
        url_wipe(&parsed);
        return false;
    }
    *url = parsed;
    return true;
}

void url_wipe(struct url *url)
{
    secret_wipe(&url->password);
    free(url->places);
    url->places = NULL;
    url->place_count = 0;
}

struct url url_at(const struct url *url, const struct url_place *place)
{
    struct url there = *url;

    there.scheme = URL_TCP;
    memcpy(there.host, place->host, sizeof there.host);
    there.port = place->port;
    there.places = NULL;
    there.place_count = 0;
    return there;
}

bool url_same_place(const struct url_place *a, const struct url_place *b)
{
    return a->port == b->port && strcmp(a->host, b->host) == 0;
}

bool url_same_server(const struct url *a, const struct url *b)
{
    bool same = a->scheme == b->scheme && a->tls == b->tls && a->port == b->port &&
                a->place_count == b->place_count && strcmp(a->host, b->host) == 0 &&
                strcmp(a->path, b->path) == 0 && strcmp(a->master, b->master) == 0;

    for (int i = 0; i < a->place_count && same; i++)
        same = url_same_place(&a->places[i], &b->places[i]);
    return same;
}
