/*
 * Owns connecting, sending and receiving. Knows nothing of what is sent.
 */
#include "redis/socket.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "redis/resolve.h"

#define ADDRESS_SHARE_MIN_MS 250 /* what each of several addresses gets at least */

static enum server_error of_errno(int error)
{
    switch (error) {
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case ENOBUFS:
        return SERVER_OS;
    default:
        return SERVER_UNREACHABLE;
    }
}

static enum server_error failed(struct text *why, int error)
{
    text_add(why, strerror(error));
    return of_errno(error);
}

/* Waits; true when ready, else `*error` and `why` say how it ended. */
static bool wait_ready(int fd, short events, const struct deadline *deadline, struct text *why,
                       enum server_error *error)
{
    switch (deadline_wait(fd, events, deadline)) {
    case DEADLINE_READY:
        return true;
    case DEADLINE_WOKEN:
        *error = SERVER_INTERRUPTED;
        break;
    case DEADLINE_PASSED:
    default:
        *error = SERVER_LATE;
        text_add(why, "no answer in time");
        break;
    }
    return false;
}

/*
 * Asking a second time tells how a connection that is under way has ended: one within this host, at
 * once.
 */
static enum server_error finish_connect(int fd, const struct sockaddr *address, socklen_t length,
                                        const struct deadline *deadline, struct text *why)
{
    enum server_error error;
    while (connect(fd, address, length) != 0 && errno != EISCONN) {
        if (errno == EALREADY || errno == EINPROGRESS) {
            if (!wait_ready(fd, POLLOUT, deadline, why, &error))
                return error;
        } else if (errno != EINTR) {
            return failed(why, errno);
        }
    }
    return SERVER_OK;
}

static enum server_error connect_to(const struct sockaddr *address, socklen_t length,
                                    const struct deadline *deadline, int *out, struct text *why)
{
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return failed(why, errno);
    enum server_error error = SERVER_OK;
    if (connect(fd, address, length) != 0) {
        /* EINTR leaves a connection under way, as EINPROGRESS does */
        if (errno == EINPROGRESS || errno == EINTR)
            error = finish_connect(fd, address, length, deadline, why);
        else
            error = failed(why, errno);
    }
    if (error != SERVER_OK) {
        close(fd);
        return error;
    }
    *out = fd;
    return SERVER_OK;
}

/* The part of the time left that the next of `remaining` addresses may use. */
static struct deadline share_of(const struct deadline *deadline, int remaining)
{
    if (deadline->at_ms == CLOCK_NEVER || remaining == 1)
        return *deadline;
    int64_t now = clock_boot_ms();
    int64_t share = (deadline->at_ms - now) / remaining;
    if (share < ADDRESS_SHARE_MIN_MS)
        share = ADDRESS_SHARE_MIN_MS;
    return deadline_sooner(*deadline, now + share);
}

static enum server_error connect_tcp(const struct url *url, const struct deadline *deadline,
                                     int *fd, struct text *why)
{
    struct resolve_result found;
    const char *reason;
    enum server_error error = resolve_host(url->host, url->port, deadline, &found, &reason);
    if (error != SERVER_OK) {
        text_add(why, reason);
        return error;
    }
    const size_t begun = why->length; /* it names the server already */
    for (int i = 0; i < found.count; i++) {
        struct deadline share = share_of(deadline, found.count - i);
        why->length = begun; /* the last address's reason is the one told */
        why->at[begun] = '\0';
        error = connect_to(&found.addresses[i].to.any, found.addresses[i].length, &share, fd, why);
        if (error == SERVER_OK || error == SERVER_INTERRUPTED)
            break;
    }
    return error;
}

static enum server_error connect_unix(const struct url *url, const struct deadline *deadline,
                                      int *fd, struct text *why)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, url->path, strlen(url->path));
    /* a full backlog gives EAGAIN at once: nothing to poll for, the caller tries again */
    return connect_to((const struct sockaddr *)&address, sizeof(address), deadline, fd, why);
}

enum server_error socket_connect(const struct url *url, const struct deadline *deadline, int *fd,
                                 struct text *why)
{
    switch (url->scheme) {
    case URL_UNIX:
        return connect_unix(url, deadline, fd, why);
    case URL_TCP:
    case URL_SENTINEL:
    case URL_CLUSTER:
    default:
        return connect_tcp(url, deadline, fd, why);
    }
}

void socket_keep_alive(int fd)
{
    const int on = 1;
    const int idle_s = 20;
    const int interval_s = 10;
    const int probes = 4;
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof(interval_s));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
}

void socket_withdraw(int fd)
{
    const struct linger at_once = {.l_onoff = 1, .l_linger = 0};
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
}

enum server_error socket_send(int fd, const char *bytes, size_t length,
                              const struct deadline *deadline, struct text *why)
{
    while (length > 0) {
        ssize_t sent = send(fd, bytes, length, MSG_NOSIGNAL);
        if (sent >= 0) {
            bytes += sent;
            length -= (size_t)sent;
        } else if (errno == EAGAIN) {
            enum server_error error;
            if (!wait_ready(fd, POLLOUT, deadline, why, &error))
                return error;
        } else if (errno != EINTR) {
            return failed(why, errno);
        }
    }
    return SERVER_OK;
}

enum server_error socket_receive(int fd, char *bytes, size_t size, const struct deadline *deadline,
                                 size_t *received, struct text *why)
{
    for (;;) {
        enum server_error error;
        if (!wait_ready(fd, POLLIN, deadline, why, &error))
            return error;
        ssize_t got = recv(fd, bytes, size, 0);
        if (got > 0) {
            *received = (size_t)got;
            return SERVER_OK;
        }
        if (got == 0) {
            text_add(why, "the server closed the connection");
            return SERVER_UNREACHABLE;
        }
        if (errno != EAGAIN && errno != EINTR)
            return failed(why, errno);
    }
}
