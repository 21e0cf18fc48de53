/*
 * One server: connects when needed, logs in, sends commands in one write, reads their replies.
 *
 * The connection is made by the first call, kept between calls, and dropped by any failure, so that
 * a late reply can never be taken for the answer to a later command. A client belongs to one thread
 * at a time.
 */
#ifndef REDISLOCK_REDIS_CLIENT_H
#define REDISLOCK_REDIS_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/deadline.h"
#include "base/secret.h"
#include "cli/url.h"
#include "redis/error.h"
#include "redis/reply.h"
#include "redis/tls.h"

struct client_settings {
    const struct url *url;          /* outlives the client */
    const char *user;               /* for a URL without one; NULL: none */
    const struct secret *password;  /* for a URL without one; may be unset; outlives the client */
    const struct tls_settings *tls; /* for rediss://; outlives the client */
    const char *sentinel_user;      /* for sentinels; NULL: none */
    const struct secret *sentinel_password; /* NULL or unset: none */
    const char *password_file; /* read again when the server refuses a login; NULL: none */
};

struct client;

/* One command: `count` words with their lengths. */
struct client_command {
    int count;
    const char *const *words;
    const size_t *lengths;
};

#define CLIENT_COMMANDS_MAX 4
#define CLIENT_WORDS_MAX    24

/* NULL: no memory. Does not connect. */
struct client *client_open(const struct client_settings *settings);
void client_close(struct client *client);

/*
 * Sends `count` commands (at most CLIENT_COMMANDS_MAX) in one write, connecting and logging in
 * first where needed (in the same write, but for a database other than 0), and reads one reply each.
 *
 * SERVER_OK: every reply has come; `replies[i]` live until the next call. Error replies are replies:
 * the caller classifies them. Anything else: no reply counts, the connection is
 * closed, and client_why says what happened.
 */
enum server_error client_call(struct client *client, const struct client_command *commands,
                              int count, const struct reply **replies,
                              const struct deadline *deadline);

/*
 * A call that is given up without an answer is taken back as far as the system has not delivered it: it
 * must not take a lock when the network is back. Not so the next one, which only gives something up.
 */
void client_may_be_late(struct client *client);

/* client_call with one command of NUL-free words, NULL behind the last; 1 to CLIENT_WORDS_MAX. */
enum server_error client_ask(struct client *client, const char *const *words,
                             const struct reply **reply, const struct deadline *deadline);

/*
 * Many questions on their way at once, for what may be asked twice: client_add keeps a command, whose
 * words are copied, and client_next gives the reply to the oldest one that has none yet.
 *
 * client_add, false: not now, as long as not all that was sent has been answered, or once
 * CLIENT_AHEAD_BYTES are kept. That is less than what a connection buffers: no proxy that reads from us
 * only when it has got rid of its replies can keep us from reading them. Also false without memory.
 *
 * client_next sends all commands in one write, if it has not yet, then reads one reply, which lives
 * until the next call; so only one is in memory. As many calls as there were commands; one too many is
 * SERVER_UNREACHABLE. SERVER_OK and failures as client_call; after a failure nothing is awaited any more.
 * The deadline is for this one reply.
 *
 * client_skip forgets the commands, and the replies that are still to come: the next call reads them
 * away, in its own deadline. client_call begins with it. It leaves client_why as it is.
 */
#define CLIENT_AHEAD_BYTES 49152
bool client_add(struct client *client, const struct client_command *command);
enum server_error client_next(struct client *client, const struct reply **reply,
                              const struct deadline *deadline);
void client_skip(struct client *client);

/* When the first byte of the last call's own commands was about to be written (clock_boot_ms). */
int64_t client_sent_ms(const struct client *client);

/*
 * After a failed call: whether its commands may have reached the server all the same. False means
 * that they were not applied.
 */
bool client_outcome_unknown(const struct client *client);

/* Why the last call failed, naming the server: one line without a secret. Never NULL. */
const char *client_why(const struct client *client);

/*
 * What follows are tries of one thing until `deadline`. One that it cuts short, and that got no answer in
 * what time there was, tells nothing about the server: after it client_why says again what the try before
 * it met. The same deadline again changes nothing.
 */
void client_tries_until(struct client *client, const struct deadline *deadline);

/* For script.c: the last refusal is what this try has come to, though it only named another call. */
void client_keep_why(struct client *client);

/* The server's address, fit for a message. */
const char *client_address(const struct client *client);

/* The number of the connection that is kept, which no other one of this client has; 0: there is none. */
uint64_t client_connection(const struct client *client);

/* Closes the connection; the next call makes a new one. */
void client_disconnect(struct client *client);

/* For script.c: makes an error reply, or a reply without sense, the reason of a failure. */
enum server_error client_refused(struct client *client, const struct reply *reply);
enum server_error client_nonsense(struct client *client, const char *what);

/*
 * After client_refused gave SERVER_REDIRECTED: the next call goes where the cluster has sent us. An
 * ASK holds for the calls until client_end_visit.
 */
void client_follow(struct client *client);
void client_end_visit(struct client *client);

/* In a cluster: another node may serve where this one cannot. Elsewhere nothing. */
void client_leave_node(struct client *client);

/*
 * Subscriptions: after a SUBSCRIBE has been answered, client_subscribed says so; then only
 * client_listen may be used, or client_call, which first leaves the subscription in the same write.
 */
void client_subscribed(struct client *client);

enum client_heard {
    CLIENT_HEARD_MESSAGE, /* `*message` is its text, alive until the next call */
    CLIENT_HEARD_NOTHING, /* the deadline has passed; still subscribed */
    CLIENT_HEARD_SIGNAL,  /* the deadline's wake_fd became readable; still subscribed */
    CLIENT_HEARD_BROKEN   /* the connection has ended: client_why */
};

enum client_heard client_listen(struct client *client, const struct reply **message,
                                const struct deadline *deadline);

#endif
