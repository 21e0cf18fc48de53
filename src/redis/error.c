/*
 * Owns the table of server errors. Pure: text in, class out.
 */
#include "redis/error.h"

#include <stdbool.h>
#include <string.h>

struct row {
    const char *code;
    enum server_error error;
    bool anywhere; /* also inside a longer text; only for words that no other text has */
};

/*
 * First match wins. `anywhere` rows find what Redis 6.2 wraps ("ERR Error running script …:
 * @user_script: 7: -READONLY You can't write …") and what ACLs say inside scripts.
 */
static const struct row table[] = {
    {"NOSCRIPT", SERVER_NO_SCRIPT, false},
    {"MOVED ", SERVER_REDIRECTED, false},
    {"ASK ", SERVER_REDIRECTED, false},
    {"NOTALOCK", SERVER_NOT_A_LOCK, true}, /* our own scripts, naming the type */
    {"WRONGTYPE", SERVER_NOT_A_LOCK, true},
    {"LOADING", SERVER_BUSY, true},
    {"BUSY ", SERVER_BUSY, false},
    {"TRYAGAIN", SERVER_BUSY, true},
    {"CLUSTERDOWN", SERVER_BUSY, true},
    {"MASTERDOWN", SERVER_BUSY, true},
    {"ERR max number of clients", SERVER_BUSY, false},
    {"READONLY", SERVER_READONLY, true},
    {"non local key", SERVER_READONLY, true},
    {"OOM ", SERVER_WRITES_REFUSED, false},
    {"OOM command not allowed", SERVER_WRITES_REFUSED, true},
    {"MISCONF", SERVER_WRITES_REFUSED, true},
    {"NOREPLICAS", SERVER_WRITES_REFUSED, true},
    {"NOAUTH", SERVER_DENIED, true},
    {"WRONGPASS", SERVER_DENIED, false},
    {"NOPERM", SERVER_DENIED, true},
    {"DENIED", SERVER_DENIED, false},                     /* protected mode */
    {"ERR unknown command 'AUTH'", SERVER_DENIED, false}, /* renamed away */
    {"ERR unknown command `AUTH`", SERVER_DENIED, false},
    {"ERR ACL failure in script", SERVER_DENIED, false}, /* 7.2 */
    {"ERR invalid password", SERVER_DENIED, false},
    {"ERR AUTH ", SERVER_DENIED, false}, /* a password for a server that has none */
    {"ERR Client sent AUTH", SERVER_DENIED, false},
    {"can't run this command", SERVER_DENIED, true}, /* 7.0, inside a script */
    {"can't access at least one of the keys", SERVER_DENIED, true},
    {"ERR Protocol error: unauthenticated", SERVER_DENIED, false}, /* a long command before AUTH */
    {"ERR DB index", SERVER_BAD_DATABASE, false},
    {"ERR invalid DB index", SERVER_BAD_DATABASE, false},
    {"ERR SELECT is not allowed", SERVER_BAD_DATABASE, false}, /* cluster mode */
    {"ERR value is not an integer or out of range", SERVER_BAD_DATABASE, false},
};

static bool matches(const struct row *row, const char *reply, size_t length)
{
    size_t size = strlen(row->code);
    if (length >= size && memcmp(reply, row->code, size) == 0)
        return true;
    return row->anywhere && memmem(reply, length, row->code, size) != NULL;
}

enum server_error server_error_classify(const char *reply, size_t length)
{
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        if (matches(&table[i], reply, length))
            return table[i].error;
    return SERVER_NONSENSE;
}
