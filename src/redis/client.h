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
#include "base/text.h"
#include "cli/url.h"
#include "lua/scripts.h"
#include "redis/error.h"
#include "redis/reply.h"

struct client_settings {
    const struct url *url;         /* outlives the client */
    const char *user;              /* for a URL without one; NULL: none */
    const struct secret *password; /* for a URL without one; may be unset; outlives the client */
    const char *password_file;     /* read again when the server refuses a login; NULL: none */
};

struct client;

/* One command: `count` words with their lengths. */
struct client_command {
    int count;
    const char *const *words;
    const size_t *lengths;
};

#define CLIENT_COMMANDS_MAX 6

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

/* A script with its keys and arguments. */
struct client_script {
    const struct script *script;
    int key_count;
    int argument_count;
    const struct text *keys;
    const struct text *arguments;
    const struct text *probe; /* a key that never exists, to be deleted behind the script; or NULL */
};

#define CLIENT_SCRIPT_WORDS_MAX 24

/*
 * Runs a script by its hash, or by its text where the server does not know it yet.
 *
 * With a probe, the verdict counts only if the server also takes a write in the same exchange: a
 * read-only replica runs a script's read branch without a complaint (fact 3 of the design).
 * SERVER_OK: `*reply` is an array, alive until the next call. Error replies come back as their
 * class, with client_why.
 */
enum server_error client_run(struct client *client, const struct client_script *call,
                             const struct reply **reply, const struct deadline *deadline);

/* When the first byte of the last call's own commands was about to be written (clock_boot_ms). */
int64_t client_sent_ms(const struct client *client);

/*
 * After a failed call: whether its commands may have reached the server all the same. False means
 * that they were not applied.
 */
bool client_outcome_unknown(const struct client *client);

/* Why the last call failed, naming the server: one line without a secret. Never NULL. */
const char *client_why(const struct client *client);

/* The server's address, fit for a message. */
const char *client_address(const struct client *client);

/* Closes the connection; the next call makes a new one. */
void client_disconnect(struct client *client);

#endif
