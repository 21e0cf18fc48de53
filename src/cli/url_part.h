/*
 * The parts of a server address, before anyone has looked at what they say. For url.c, which reads
 * them, and url_show.c, which must find the same password that url.c reads.
 */
#ifndef REDISLOCK_CLI_URL_PART_H
#define REDISLOCK_CLI_URL_PART_H

#include <stdbool.h>
#include <stddef.h>

#include "cli/url.h"

/* A part of the text that is being read: not terminated, still percent-encoded. */
struct url_part {
    const char *at;
    size_t length;
};

/* The schemes but unix://, each with and without TLS. */
struct url_scheme_row {
    const char *prefix;
    enum url_scheme scheme;
    bool tls;
};

#define URL_SCHEME_COUNT 6
extern const struct url_scheme_row url_schemes[URL_SCHEME_COUNT];

/* The length of what stands before the first of `marks`, or of all of `text`. */
size_t url_length_before(const char *text, const char *marks);

/* Splits `*rest` at the first `mark`: what stands before it; `*rest` keeps what follows. */
bool url_split_at(struct url_part *rest, char mark, struct url_part *before);

/*
 * Takes [user][:password]@ off the front of `*authority`; the last @ ends it. Without one, `*user`
 * and `*password` are empty and lie in `*authority`.
 */
void url_take_login(struct url_part *authority, struct url_part *user, struct url_part *password);

/*
 * Decodes `part` once into `out`, NUL-terminated; `out` may be where the part lies, which is never
 * shorter. false: `*why` says what is wrong, `too_long` where it does not fit `size`.
 */
bool url_decode(struct url_part part, char *out, size_t size, const char *too_long,
                const char **why);

#endif
