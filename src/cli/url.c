/*
 * Owns the grammar of server addresses.
 *
 * Promises: percent-encoding is decoded exactly once, on the parts after they were told apart, so
 * that an encoded @ : / cannot move a boundary. Pure: no look-up, no I/O, no message. The password
 * is copied into a secret and nowhere else.
 */
#include "cli/url.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

#define DEFAULT_PORT  6379
#define SENTINEL_PORT 26379

/* A part of the text that is being read: not terminated, still percent-encoded. */
struct part {
    const char *at;
    size_t length;
};

static const char bad_percent[] = "has a % that is not followed by two hexadecimal digits";
static const char has_nul[] = "holds a NUL byte";
static const char no_host[] = "has no host";
static const char bad_ipv6[] = "has a bracketed host that is not an IPv6 address";
static const char no_path[] = "needs an absolute path, as in unix:///run/redis.sock";
static const char no_memory[] = "cannot be copied: out of memory";
static const char bad_db[] = "has a database that is not a number from 0 to 1000000";

static bool fail(const char **why, const char *text)
{
    *why = text;
    return false;
}

/* The length of what stands before the first of `marks`. Not strcspn: it would load two pages. */
static size_t length_before(const char *text, const char *marks)
{
    size_t length = 0;

    while (text[length] != '\0' && strchr(marks, text[length]) == NULL)
        length++;
    return length;
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Decodes `part` once into `out`, NUL-terminated; `too_long` says what is wrong when it is. */
static bool decode(struct part part, char *out, size_t size, const char *too_long, const char **why)
{
    size_t length = 0;

    for (size_t i = 0; i < part.length; i++) {
        char c = part.at[i];

        if (c == '%') {
            int high = i + 2 < part.length ? hex_value(part.at[i + 1]) : -1;
            int low = i + 2 < part.length ? hex_value(part.at[i + 2]) : -1;

            if (high < 0 || low < 0)
                return fail(why, bad_percent);
            c = (char)(high * 16 + low);
            i += 2;
        }
        if (c == '\0')
            return fail(why, has_nul);
        if (length + 1 >= size)
            return fail(why, too_long);
        out[length++] = c;
    }
    out[length] = '\0';
    return true;
}

/* Splits `*rest` at the first `mark`: what stands before it; `*rest` keeps what follows. */
static bool split_at(struct part *rest, char mark, struct part *before)
{
    const char *found = memchr(rest->at, mark, rest->length);

    if (found == NULL)
        return false;
    before->at = rest->at;
    before->length = (size_t)(found - rest->at);
    rest->length -= before->length + 1;
    rest->at = found + 1;
    return true;
}

/* Takes [user][:password]@ off the front of `*authority`; the last @ ends it. */
static bool take_userinfo(struct part *authority, struct part *user, struct part *password)
{
    const char *end = memrchr(authority->at, '@', authority->length);

    *user = (struct part){authority->at, 0};
    *password = *user;
    if (end == NULL)
        return false;

    *password = (struct part){authority->at, (size_t)(end - authority->at)};
    if (!split_at(password, ':', user)) {
        *user = *password;
        password->length = 0;
    }
    authority->length -= (size_t)(end + 1 - authority->at);
    authority->at = end + 1;
    return true;
}

/* Decoded where it lies: the encoded form is never shorter, and its rest is wiped at once. */
static bool read_password(struct part part, struct secret *password, const char **why)
{
    if (part.length > URL_PASSWORD_MAX)
        return fail(why, "has a password of more than 4096 bytes");
    if (!secret_set(password, part.at, part.length))
        return fail(why, no_memory);

    bool good = decode(part, password->bytes, part.length + 1, bad_percent, why);
    size_t decoded = good ? strlen(password->bytes) : 0;

    secret_wipe_bytes(password->bytes + decoded, part.length - decoded);
    password->length = decoded;
    return good;
}

static bool read_credentials(struct part user, struct part password, struct url *url,
                             const char **why)
{
    if (!decode(user, url->user, sizeof url->user, "has a user of more than 255 bytes", why))
        return false;
    return password.length == 0 || read_password(password, &url->password, why);
}

/* A decimal number of digits alone, at most `most`; -1 for anything else. */
static int32_t read_decimal(struct part part, int32_t most)
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

static bool read_port(struct part part, struct url *url, const char **why)
{
    int32_t port = read_decimal(part, 65535);

    if (port == 0)
        return fail(why, "has port 0; ports are 1 to 65535");
    if (port < 0)
        return fail(why, "has a port that is not a number from 1 to 65535");
    url->port = (uint16_t)port;
    return true;
}

static bool read_db(struct part part, struct url *url, const char **why)
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
static bool read_ipv6(struct part literal, struct url *url, const char **why)
{
    struct part zone = literal;
    struct part address = literal;
    bool has_zone = split_at(&zone, '%', &address);
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
        return decode((struct part){zone.at + 2, zone.length - 2}, out, space, bad_ipv6, why);
    if (zone.length == 0 || zone.length >= space)
        return fail(why, bad_ipv6);
    memcpy(out, zone.at, zone.length);
    out[zone.length] = '\0';
    return true;
}

static bool read_host(struct part host, struct url *url, const char **why)
{
    if (!decode(host, url->host, sizeof url->host, "has a host of more than 255 bytes", why))
        return false;
    if (host.length == 0)
        return fail(why, no_host);
    for (const char *c = url->host; *c != '\0'; c++) {
        if ((unsigned char)*c <= ' ' || strchr("/@:%[],\x7f", *c) != NULL)
            return fail(why, "has a host with a character that no host name has");
    }
    return true;
}

static bool read_bracketed(struct part rest, struct url *url, const char **why)
{
    struct part literal;

    rest.at++;
    rest.length--;
    if (!split_at(&rest, ']', &literal))
        return fail(why, "has a [ without its ]");
    if (!read_ipv6(literal, url, why))
        return false;
    if (rest.length == 0)
        return true;
    if (rest.at[0] != ':')
        return fail(why, "has something other than :PORT after the ]");
    return read_port((struct part){rest.at + 1, rest.length - 1}, url, why);
}

static bool read_host_and_port(struct part rest, struct url *url, const char **why)
{
    struct part host;

    if (rest.length > 0 && rest.at[0] == '[')
        return read_bracketed(rest, url, why);
    if (!split_at(&rest, ':', &host))
        return read_host(rest, url, why);
    if (memchr(rest.at, ':', rest.length) != NULL)
        return fail(why, "has an IPv6 address without its brackets, as in redis://[::1]:6379");
    return read_host(host, url, why) && read_port(rest, url, why);
}

/* h1[:port],h2[:port] into places, with `port` where none is named. */
static bool read_places(struct part rest, struct url *url, uint16_t port, const char **why)
{
    bool more = true;

    url->places = calloc(URL_PLACES_MAX, sizeof *url->places);
    if (url->places == NULL)
        return fail(why, no_memory);
    while (more) {
        struct part place;
        struct url one = {.port = port};

        if (url->place_count == URL_PLACES_MAX)
            return fail(why, "names more than 9 hosts");
        more = split_at(&rest, ',', &place);
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
    struct part rest = {tail + 1, strlen(tail) - 1};
    struct part name;

    if (url->scheme == URL_CLUSTER) {
        if (strcmp(tail, "/") != 0 && strcmp(tail, "/0") != 0)
            return fail(why, "has a database other than 0, which a cluster does not have");
        return true;
    }
    if (!split_at(&rest, '/', &name)) {
        name = rest;
        rest.length = 0;
    }
    if (!decode(name, url->master, sizeof url->master, "has a master's name of more than 127 bytes",
                why))
        return false;
    return rest.length == 0 || read_db(rest, url, why);
}

/* [[user]:password@]h1[:port],h2[:port][/…] */
static bool parse_places(const char *text, struct url *url, enum url_scheme scheme,
                         const char **why)
{
    struct part authority = {text, length_before(text, "/?#")};
    const char *tail = text + authority.length;
    struct part user;
    struct part password;

    take_userinfo(&authority, &user, &password);
    url->scheme = scheme;
    if (tail[length_before(tail, "?#")] != '\0')
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
    struct part authority = {text, length_before(text, "/?#")};
    const char *tail = text + authority.length;
    struct part user;
    struct part password;

    take_userinfo(&authority, &user, &password);
    url->scheme = URL_TCP;
    url->port = DEFAULT_PORT;
    if (tail[length_before(tail, "?#")] != '\0')
        return fail(why, "has a ? or # that a redis:// address does not take");
    if (!read_host_and_port(authority, url, why))
        return false;
    if (tail[0] == '/' && tail[1] != '\0' &&
        !read_db((struct part){tail + 1, strlen(tail + 1)}, url, why))
        return false;
    return read_credentials(user, password, url, why);
}

/* /path[?db=N] */
static bool parse_unix(const char *text, struct url *url, const char **why)
{
    struct part path = {text, length_before(text, "?#")};
    const char *query = text + path.length;

    url->scheme = URL_UNIX;
    if (path.length < 2 || path.at[0] != '/')
        return fail(why, no_path);
    if (!decode(path, url->path, sizeof url->path, "has a socket path of more than 107 bytes", why))
        return false;
    if (query[0] == '\0')
        return true;
    if (strncmp(query, "?db=", 4) != 0)
        return fail(why, "has something other than ?db=N after the path");
    return read_db((struct part){query + 4, strlen(query + 4)}, url, why);
}

/* The schemes but unix://, each with and without TLS. */
static const struct {
    const char *prefix;
    enum url_scheme scheme;
    bool tls;
} schemes[] = {
    {"redis://", URL_TCP, false},
    {"rediss://", URL_TCP, true},
    {"redis+sentinel://", URL_SENTINEL, false},
    {"rediss+sentinel://", URL_SENTINEL, true},
    {"redis+cluster://", URL_CLUSTER, false},
    {"rediss+cluster://", URL_CLUSTER, true},
};

#define SCHEME_COUNT (sizeof schemes / sizeof schemes[0])

static bool parse_any(const char *text, struct url *url, const char **why)
{
    const char *rest = text_after(text, "unix://");

    for (const char *c = text; *c != '\0'; c++) {
        if ((unsigned char)*c <= ' ' || *c == '\x7f')
            return fail(why, "holds a blank or a control byte, which are written as %20 and so on");
    }
    if (rest != NULL)
        return parse_unix(rest, url, why);
    for (size_t i = 0; i < SCHEME_COUNT; i++) {
        rest = text_after(text, schemes[i].prefix);
        if (rest == NULL)
            continue;
        url->tls = schemes[i].tls;
        if (schemes[i].scheme == URL_TCP)
            return parse_tcp(rest, url, why);
        return parse_places(rest, url, schemes[i].scheme, why);
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

bool url_same_server(const struct url *a, const struct url *b)
{
    bool same = a->scheme == b->scheme && a->tls == b->tls && a->port == b->port &&
                a->place_count == b->place_count && strcmp(a->host, b->host) == 0 &&
                strcmp(a->path, b->path) == 0 && strcmp(a->master, b->master) == 0;

    for (int i = 0; i < a->place_count && same; i++) {
        same = a->places[i].port == b->places[i].port &&
               strcmp(a->places[i].host, b->places[i].host) == 0;
    }
    return same;
}

size_t url_find_password(const char *text, size_t *length)
{
    const char *start = NULL;
    struct part user;
    struct part password = {text, 0};

    for (size_t i = 0; i < SCHEME_COUNT && start == NULL; i++)
        start = text_after(text, schemes[i].prefix);
    if (start != NULL) {
        struct part authority = {start, length_before(start, "/?#")};

        take_userinfo(&authority, &user, &password);
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
        for (size_t i = 0; i < SCHEME_COUNT; i++)
            if (schemes[i].scheme == url->scheme && schemes[i].tls == url->tls)
                text_add(&text, schemes[i].prefix);
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
