/*
 * Owns the choice between plain and TLS, and TLS's waiting. Knows nothing of what is sent.
 */
#include "redis/stream.h"

#include <poll.h>
#include <unistd.h>

#include "redis/socket.h"

/* Waits for what TLS wants; SERVER_OK: try again. */
static enum server_error wait_for(const struct stream *stream, enum tls_result wanted,
                                  const struct deadline *deadline, struct text *why)
{
    short events = wanted == TLS_WANTS_WRITE ? POLLOUT : POLLIN;
    switch (deadline_wait(stream->fd, events, deadline)) {
    case DEADLINE_READY:
        return SERVER_OK;
    case DEADLINE_WOKEN:
        return SERVER_INTERRUPTED;
    case DEADLINE_PASSED:
    default:
        text_add(why, "no answer in time");
        return SERVER_LATE;
    }
}

/* What a step of TLS came to: SERVER_OK with `*again`, or how it ended. */
static enum server_error judge(const struct stream *stream, enum tls_result result,
                               const char *reason, const struct deadline *deadline, bool *again,
                               struct text *why)
{
    *again = false;
    switch (result) {
    case TLS_DONE:
        return SERVER_OK;
    case TLS_WANTS_READ:
    case TLS_WANTS_WRITE:
        *again = true;
        return wait_for(stream, result, deadline, why);
    case TLS_REFUSED:
        text_add(why, reason);
        return SERVER_UNTRUSTED;
    case TLS_CLOSED:
        text_add(why, "the server closed the connection");
        return SERVER_UNREACHABLE;
    case TLS_FAILED:
    default:
        text_add(why, reason);
        return SERVER_UNREACHABLE;
    }
}

static enum server_error start_tls(struct stream *stream, const struct url *url,
                                   const struct tls_settings *tls, const struct deadline *deadline,
                                   struct text *why)
{
    char reason[TLS_WHY_MAX] = "";
    stream->module = tls_load(reason);
    if (stream->module == NULL) {
        text_add(why, reason);
        return SERVER_OS;
    }
    stream->session = stream->module->open(tls, url->host, stream->fd, reason);
    if (stream->session == NULL) {
        text_add(why, reason[0] != '\0' ? reason : "out of memory");
        return SERVER_UNTRUSTED; /* our own certificates are no good */
    }
    enum server_error error;
    bool again;
    do {
        enum tls_result result = stream->module->handshake(stream->session, reason);
        error = judge(stream, result, reason, deadline, &again, why);
    } while (again && error == SERVER_OK);
    return error;
}

enum server_error stream_open(struct stream *stream, const struct url *url,
                              const struct tls_settings *tls, const struct deadline *deadline,
                              struct text *why)
{
    *stream = STREAM_CLOSED;
    enum server_error error = socket_connect(url, deadline, &stream->fd, why);
    if (error == SERVER_OK && url->tls)
        error = start_tls(stream, url, tls, deadline, why);
    if (error != SERVER_OK)
        stream_close(stream);
    return error;
}

void stream_close(struct stream *stream)
{
    if (stream->session != NULL)
        stream->module->close(stream->session);
    if (stream->fd >= 0)
        close(stream->fd);
    *stream = STREAM_CLOSED;
}

void stream_withdraw(struct stream *stream)
{
    if (stream->fd >= 0)
        socket_withdraw(stream->fd);
    stream_close(stream);
}

enum server_error stream_send(struct stream *stream, const char *bytes, size_t length,
                              const struct deadline *deadline, struct text *why)
{
    if (stream->session == NULL)
        return socket_send(stream->fd, bytes, length, deadline, why);
    char reason[TLS_WHY_MAX] = "";
    while (length > 0) {
        size_t written = 0;
        bool again;
        enum tls_result result =
            stream->module->write(stream->session, bytes, length, &written, reason);
        enum server_error error = judge(stream, result, reason, deadline, &again, why);
        if (error != SERVER_OK)
            return error;
        bytes += written;
        length -= written;
    }
    return SERVER_OK;
}

enum server_error stream_receive(struct stream *stream, char *bytes, size_t size,
                                 const struct deadline *deadline, size_t *received,
                                 struct text *why)
{
    if (stream->session == NULL)
        return socket_receive(stream->fd, bytes, size, deadline, received, why);
    char reason[TLS_WHY_MAX] = "";
    for (;;) {
        bool again;
        *received = 0;
        enum tls_result result =
            stream->module->read(stream->session, bytes, size, received, reason);
        enum server_error error = judge(stream, result, reason, deadline, &again, why);
        if (error != SERVER_OK || !again)
            return error;
    }
}
