/*
 * A client's login: the user and password of its URL, or else of its settings, and the database.
 */
#ifndef REDISLOCK_REDIS_LOGIN_H
#define REDISLOCK_REDIS_LOGIN_H

#include <stddef.h>

#include "base/secret.h"
#include "base/text.h"

struct client_settings;
struct outgoing;

struct login {
    const struct client_settings *settings; /* the client's */
    struct secret reread;                   /* owned: a newer password than the settings' */
};

/*
 * Adds AUTH and SELECT, as far as this server needs them, and returns how many commands that is: 0..2.
 * -1: no memory.
 */
int login_add(const struct login *login, struct outgoing *outgoing);

/*
 * The server has refused the password, which may have been rotated: reads its file again, so that the
 * next login uses what is there now.
 */
void login_refused(struct login *login);

/*
 * Adds what a server says, with *** where it says the password back. That it wants a login first it tells
 * to a long command in other words than to a short one: those of the short one are added.
 */
void login_add_said(const struct login *login, struct text *text, const char *bytes, size_t length);

#endif
