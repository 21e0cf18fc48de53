/*
 * TLS as a module: OpenSSL is loaded only by a run that uses rediss://, because linking it would
 * make every start twice as long.
 *
 * The module is a shared object beside the program or in the library folder (built with `make`), or
 * part of the program itself (`make static`). It never waits: it says what it wants, and stream.c
 * waits within its deadline.
 */
#ifndef REDISLOCK_REDIS_TLS_H
#define REDISLOCK_REDIS_TLS_H

#include <stddef.h>

#include "cli/tls.h"

struct tls_session;

enum tls_result {
    TLS_DONE,
    TLS_WANTS_READ,
    TLS_WANTS_WRITE,
    TLS_CLOSED,  /* by the peer */
    TLS_REFUSED, /* a certificate was not accepted, by us or by the peer */
    TLS_FAILED   /* anything else, such as a peer that does not speak TLS */
};

#define TLS_WHY_MAX 256

struct tls_module {
    int version; /* TLS_MODULE_VERSION of the program it was built with */
    /* A session over a connected, non-blocking socket, which stays the caller's. NULL: `why`. */
    struct tls_session *(*open)(const struct tls_settings *settings, const char *host, int fd,
                                char why[TLS_WHY_MAX]);
    enum tls_result (*handshake)(struct tls_session *session, char why[TLS_WHY_MAX]);
    enum tls_result (*read)(struct tls_session *session, char *bytes, size_t size, size_t *got,
                            char why[TLS_WHY_MAX]);
    enum tls_result (*write)(struct tls_session *session, const char *bytes, size_t length,
                             size_t *written, char why[TLS_WHY_MAX]);
    void (*close)(struct tls_session *session);
};

#define TLS_MODULE_VERSION 1
#define TLS_MODULE_SYMBOL  "redislock_tls_module"

/* The module, loaded at the first call. NULL: `why` says what is missing. */
const struct tls_module *tls_load(char why[TLS_WHY_MAX]);

#endif
