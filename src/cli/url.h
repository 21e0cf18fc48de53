/*
 * Server addresses: redis://[[user]:password@]host[:port][/db], the same with rediss:// for TLS, and
 * unix:///path[?db=N].
 * Pure: no look-up, no I/O.
 */
#ifndef REDISLOCK_CLI_URL_H
#define REDISLOCK_CLI_URL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/secret.h"

enum url_scheme {
    URL_TCP,
    URL_UNIX,
    URL_SENTINEL, /* redis+sentinel://: places are sentinels, which know the master */
    URL_CLUSTER   /* redis+cluster://: places are nodes, which know the others */
};

#define URL_HOST_MAX     255
#define URL_PATH_MAX     107 /* sun_path without its NUL */
#define URL_USER_MAX     255
#define URL_PASSWORD_MAX 4096
#define URL_DB_MAX       1000000

#define URL_PLACES_MAX 9
#define URL_MASTER_MAX 127

struct url_place {
    char host[URL_HOST_MAX + 1];
    uint16_t port;
};

struct url {
    enum url_scheme scheme;
    bool tls;                    /* rediss:// */
    char host[URL_HOST_MAX + 1]; /* TCP: name or literal, IPv6 without brackets, zone kept (%lo) */
    uint16_t port;               /* TCP: 1..65535, default 6379 */
    char path[URL_PATH_MAX + 1]; /* UNIX: absolute, percent-decoded once */
    char user[URL_USER_MAX + 1]; /* "" when none is named */
    struct secret password;      /* owned; url_wipe releases it */
    int db;                      /* 0 by default */
    char master[URL_MASTER_MAX + 1]; /* SENTINEL: its name there */
    int place_count;                 /* SENTINEL, CLUSTER: 1..URL_PLACES_MAX; else 0 */
    struct url_place *places;        /* owned; the first is host and port as well; NULL: none */
};

/*
 * Parses `text` into `*url`. Percent-encoding is decoded exactly once, `+` is literal, a password
 * may hold anything that is percent-encoded (NUL excepted). `redis://:pw@h` has a password alone,
 * `redis://u@h` a user alone (redis-cli takes that one for a password), `redis://u:p@h` both. An
 * empty password is none. The last @ before the path ends them.
 * IPv6 hosts are written in brackets; a zone may be `%25lo` (RFC 6874) or `%lo` as people type it.
 * On false `*url` is untouched and `*why` is a static text ("has no host", "has port 0; ports are
 * 1 to 65535", …) fit to follow the URL in a message.
 */
bool url_parse(const char *text, struct url *url, const char **why);

/* Wipes the password, frees the places. */
void url_wipe(struct url *url);

#define URL_SHOWN_MAX ((URL_HOST_MAX + 8) * URL_PLACES_MAX + URL_MASTER_MAX + 64)

/* The address at another place, by TCP. Its password is still that of `url`: it is not to be wiped. */
struct url url_at(const struct url *url, const struct url_place *place);

bool url_same_place(const struct url_place *a, const struct url_place *b);

/* Whether two addresses name one server, in whatever database and as whatever user. */
bool url_same_server(const struct url *a, const struct url *b);

/*
 * Writes the address without any secret into `out` (redis://host:6379/2, unix:///run/redis.sock):
 * what messages show. Always NUL-terminated, cut at `size`.
 */
void url_show(const struct url *url, char *out, size_t size);

/*
 * Where the (still encoded) password of a valid address stands: its offset in `text`, and its
 * length in `*length`, 0 when there is none. For wiping it where it can be seen.
 */
size_t url_find_password(const char *text, size_t *length);

/*
 * An address that url_parse refused, fit for a message: *** in the place of all that is or may be
 * a password. Always NUL-terminated, cut at `size`.
 */
void url_redact(const char *given, char *out, size_t size);

#endif
