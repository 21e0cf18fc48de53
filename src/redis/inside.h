/*
 * What the files of a client share; nobody else includes it. client.c owns the connection, the login and
 * the exchange of a few commands, subscription.c what a subscribed connection hears, pipeline.c the
 * questions that are on their way together.
 */
#ifndef REDISLOCK_REDIS_INSIDE_H
#define REDISLOCK_REDIS_INSIDE_H

#include "redis/client.h"
#include "redis/login.h"
#include "redis/outgoing.h"
#include "redis/route.h"
#include "redis/stream.h"

struct client {
    struct client_settings settings;
    struct reply_reader *reader;
    struct stream stream;
    struct route route;
    struct redirect redirect; /* what the last refusal said, if it was one */
    uint64_t connections;     /* made so far */
    bool heard_from;          /* this connection has brought bytes */
    bool logged_in;
    bool subscribed; /* the connection takes no other command until it is unsubscribed */
    bool outcome_unknown;
    bool may_be_late;      /* this call, see client_may_be_late */
    struct outgoing ahead; /* commands that client_next will send */
    size_t added;          /* how many those are */
    size_t awaited;        /* replies that client_next has still to read */
    size_t skipped;        /* replies that come before them, and that nobody wants any more */
    int64_t sent_ms;
    struct login login;
    struct text why;
    char why_storage[512];
    int64_t tries_until_ms; /* of client_tries_until */
    char why_before[512];   /* the last reason since then that tells something; "": none */
    char address[URL_HOST_MAX + 64];
};

/*
 * Connects and logs in where that is due, and puts in front of what will be sent what goes with it: the
 * login, in `*logins` commands, and the end of a subscription.
 */
enum server_error inside_begin(struct client *client, struct outgoing *outgoing, int *logins,
                               const struct deadline *deadline);

/* Sends and wipes `outgoing`, and reads the replies to what inside_begin has put in front. */
enum server_error inside_send(struct client *client, struct outgoing *outgoing, int logins,
                              const struct deadline *deadline);

/* Reads away the replies that nobody wants any more. */
enum server_error inside_read_skipped(struct client *client, const struct deadline *deadline);

/* One reply, which lives until the reader is reset. */
enum server_error inside_read_reply(struct client *client, const struct reply **reply,
                                    const struct deadline *deadline);

/* Waits for bytes and gives them to the parser. */
enum server_error inside_feed(struct client *client, const struct deadline *deadline);

/* Begins client_why anew, with the server's address. */
void inside_why_begin(struct client *client);

/* The end of a call: after a failure the connection is closed, and why is told. Returns `error`. */
enum server_error inside_end(struct client *client, enum server_error error,
                             const struct deadline *deadline);

/* Leaves the subscription: what was published before is passed over, it was only a hint. */
enum server_error inside_read_unsubscribed(struct client *client, const struct deadline *deadline);

#endif
