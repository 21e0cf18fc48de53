/*
 * A stream to a server, with a deadline for everything.
 *
 * hiredis could open sockets too, but (0.14) without close-on-exec, without a deadline for a whole
 * exchange and with SIGPIPE; so the socket is ours. Close-on-exec always; never raises SIGPIPE.
 */
#ifndef REDISLOCK_REDIS_SOCKET_H
#define REDISLOCK_REDIS_SOCKET_H

#include <stddef.h>

#include "base/deadline.h"
#include "base/text.h"
#include "cli/url.h"
#include "redis/error.h"

/*
 * Connects to the URL's address, trying each address of a name in turn within one deadline.
 * SERVER_OK: `*fd` is non-blocking and the caller's to close. Otherwise `why` says what failed.
 */
enum server_error socket_connect(const struct url *url, const struct deadline *deadline, int *fd,
                                 struct text *why);

/* Lets the system notice within a minute that a silent peer has gone. */
void socket_keep_alive(int fd);

/*
 * Takes back what the system has not delivered yet: closing then resets the connection. Otherwise the
 * system goes on for minutes, and a request that was given up arrives when the network is back.
 */
void socket_withdraw(int fd);

/* Sends all of it. On failure any part may have gone out. */
enum server_error socket_send(int fd, const char *bytes, size_t length,
                              const struct deadline *deadline, struct text *why);

/* Waits for at least one byte. SERVER_OK: `*received` is 1..size. End of stream: UNREACHABLE. */
enum server_error socket_receive(int fd, char *bytes, size_t size, const struct deadline *deadline,
                                 size_t *received, struct text *why);

#endif
