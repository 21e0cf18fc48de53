/*
 * Owns who we are to the server: which user, password and database, of the several places that may
 * name them. May not send: that is the client's.
 */
#include "redis/login.h"

#include <string.h>

#include "cli/password.h"
#include "redis/client.h"
#include "redis/outgoing.h"

#define DATABASE_DIGITS 16

/* NULL or unset: there is none. */
static const struct secret *password_of(const struct login *login)
{
    if (login->reread.bytes != NULL)
        return &login->reread;
    if (login->settings->url->password.bytes != NULL)
        return &login->settings->url->password;
    return login->settings->password;
}

static const char *user_of(const struct login *login)
{
    if (login->settings->url->user[0] != '\0')
        return login->settings->url->user;
    return login->settings->user;
}

int login_add(const struct login *login, struct outgoing *outgoing)
{
    int count = 0;
    const struct secret *secret = password_of(login);
    const char *user = user_of(login);
    bool has_password = secret != NULL && secret->bytes != NULL;
    if (has_password || user != NULL) {
        const char *password = has_password ? secret->bytes : ""; /* a user may need none */
        size_t length = has_password ? secret->length : 0;
        const char *words[3] = {"AUTH", user != NULL ? user : password, password};
        const size_t lengths[3] = {4, user != NULL ? strlen(user) : length, length};
        struct client_command auth = {user != NULL ? 3 : 2, words, lengths};
        if (!outgoing_add(outgoing, &auth))
            return -1;
        outgoing->secret = has_password;
        count++;
    }
    if (login->settings->url->db != 0) {
        char digits[DATABASE_DIGITS];
        struct text number = TEXT_OVER(digits);
        text_add_int(&number, login->settings->url->db);
        const char *words[2] = {"SELECT", digits};
        const size_t lengths[2] = {6, number.length};
        struct client_command select = {2, words, lengths};
        if (!outgoing_add(outgoing, &select))
            return -1;
        count++;
    }
    return count;
}

void login_refused(struct login *login)
{
    const char *path = login->settings->password_file;
    if (path == NULL || login->settings->url->password.bytes != NULL)
        return;
    const char *why; /* unreadable just now: the one we have may do again later */
    (void)password_read(path, &login->reread, &why);
}

void login_add_said(const struct login *login, struct text *text, const char *bytes, size_t length)
{
    enum { BYTES_MIN = 4 }; /* in fewer bytes anything would be one */
    static const char early[] = "ERR Protocol error: unauthenticated"; /* … multibulk length */
    if (length >= sizeof(early) - 1 && memcmp(bytes, early, sizeof(early) - 1) == 0) {
        text_add(text, "NOAUTH Authentication required.");
        return;
    }
    const struct secret *secret = password_of(login);
    const char *found;
    if (secret != NULL && secret->bytes != NULL && secret->length >= BYTES_MIN) {
        while ((found = memmem(bytes, length, secret->bytes, secret->length)) != NULL) {
            text_add_bytes(text, bytes, (size_t)(found - bytes));
            text_add(text, "***");
            length -= (size_t)(found - bytes) + secret->length;
            bytes = found + secret->length;
        }
    }
    text_add_bytes(text, bytes, length);
}
