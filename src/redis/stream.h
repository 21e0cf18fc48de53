/*
 * Bytes to and from a server, plain or inside TLS, with a deadline for everything.
 */
#ifndef REDISLOCK_REDIS_STREAM_H
#define REDISLOCK_REDIS_STREAM_H

#include <stdbool.h>
#include <stddef.h>

#include "base/deadline.h"
#include "base/text.h"
#include "cli/url.h"
#include "redis/error.h"
#include "redis/tls.h"

struct stream {
    int fd; /* -1: closed */
    const struct tls_module *module;
    struct tls_session *session; /* NULL: plain */
};

#define STREAM_CLOSED ((struct stream){.fd = -1})

/*
 * Connects to the URL's address and, for rediss://, does the handshake in the same deadline.
 * SERVER_UNTRUSTED: a certificate was refused. On anything but SERVER_OK the stream is closed, and
 * `why` says what failed.
 */
enum server_error stream_open(struct stream *stream, const struct url *url,
                              const struct tls_settings *tls, const struct deadline *deadline,
                              struct text *why);
void stream_close(struct stream *stream);

/* Closes it, and takes back what has not been delivered yet. */
void stream_withdraw(struct stream *stream);

/* Sends all of it. On failure any part may have gone out. */
enum server_error stream_send(struct stream *stream, const char *bytes, size_t length,
                              const struct deadline *deadline, struct text *why);

/* Waits for at least one byte. SERVER_OK: `*received` is 1..size. End of stream: UNREACHABLE. */
enum server_error stream_receive(struct stream *stream, char *bytes, size_t size,
                                 const struct deadline *deadline, size_t *received,
                                 struct text *why);

#endif
