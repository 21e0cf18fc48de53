/*
 * src/redis/error.c: the class of an error reply. The replies are as Redis 7.0.15 sent them, but for
 * LOADING, BUSY, TRYAGAIN, CLUSTERDOWN, MOVED, ASK, "max number of clients" and what is marked as another
 * version's, which are written after its documentation.
 */
#include "redis/error.h"

#include "check.h"

#define SCRIPT " script: 2e02ce62774582d1ed79ce8ef7e555302cb5f25a, on @user_script:1."

static const struct {
    const char *reply;
    enum server_error error;
} replies[] = {
    {"NOSCRIPT No matching script. Please use EVAL.", SERVER_NO_SCRIPT},
    {"MOVED 3999 127.0.0.1:6381", SERVER_REDIRECTED},
    {"ASK 3999 127.0.0.1:6381", SERVER_REDIRECTED},

    {"LOADING Redis is loading the dataset in memory", SERVER_BUSY},
    {"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
     SERVER_BUSY},
    {"TRYAGAIN Multiple keys request during rehashing of slot", SERVER_BUSY},
    {"CLUSTERDOWN The cluster is down", SERVER_BUSY},
    {"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
     SERVER_BUSY},
    {"ERR max number of clients reached", SERVER_BUSY},

    {"READONLY You can't write against a read only replica.", SERVER_READONLY},
    {"READONLY You can't write against a read only replica." SCRIPT, SERVER_READONLY},
    /* 6.2 puts its own words in front of what a script has met */
    {"ERR Error running script (call to f_2e02ce62774582d1ed79ce8ef7e555302cb5f25a): "
     "@user_script:1: -READONLY You can't write against a read only replica. ",
     SERVER_READONLY},

    {"OOM command not allowed when used memory > 'maxmemory'.", SERVER_WRITES_REFUSED},
    {"OOM command not allowed when used memory > 'maxmemory'." SCRIPT, SERVER_WRITES_REFUSED},
    {"NOREPLICAS Not enough good replicas to write.", SERVER_WRITES_REFUSED},
    {"NOREPLICAS Not enough good replicas to write." SCRIPT, SERVER_WRITES_REFUSED},

    {"NOAUTH Authentication required.", SERVER_DENIED},
    {"WRONGPASS invalid username-password pair or user is disabled.", SERVER_DENIED},
    {"NOPERM this user has no permissions to run the 'set' command", SERVER_DENIED},
    {"NOPERM this user has no permissions to access one of the keys used as arguments",
     SERVER_DENIED},
    {"ERR The user executing the script can't run this command or subcommand" SCRIPT,
     SERVER_DENIED},
    {"ERR The user executing the script can't access at least one of the keys mentioned in the "
     "command arguments" SCRIPT,
     SERVER_DENIED},
    {"ERR AUTH <password> called without any password configured for the default user. Are you "
     "sure your configuration is correct?",
     SERVER_DENIED},
    {"ERR Protocol error: unauthenticated multibulk length", SERVER_DENIED},

    {"ERR DB index is out of range", SERVER_BAD_DATABASE},
    {"ERR value is not an integer or out of range", SERVER_BAD_DATABASE}, /* SELECT abc */

    {"WRONGTYPE Operation against a key holding the wrong kind of value", SERVER_NOT_A_LOCK},
    {"WRONGTYPE Operation against a key holding the wrong kind of value" SCRIPT, SERVER_NOT_A_LOCK},
    {"NOTALOCK the key holds a list", SERVER_NOT_A_LOCK}, /* our own scripts */

    {"", SERVER_NONSENSE},
    {"ERR", SERVER_NONSENSE},
    {"ERR unknown command 'EVALSHA', with args beginning with: ", SERVER_NONSENSE},
    {"MOVED", SERVER_NONSENSE},
    /* words that count only at the beginning */
    {"ERR somebody is BUSY here", SERVER_NONSENSE},
    {"ERR not ASK 3999 127.0.0.1:6381", SERVER_NONSENSE},
};

int main(void)
{
    for (size_t i = 0; i < sizeof(replies) / sizeof(replies[0]); i++)
        CHECK_INT(server_error_classify(replies[i].reply, strlen(replies[i].reply)),
                  replies[i].error, "\"%s\"", replies[i].reply);
    CHECK_INT(server_error_classify("READONLY", 4), SERVER_NONSENSE, "no byte beyond the length");
    CHECK_INT(server_error_classify("a\0READONLY", 10), SERVER_READONLY, "NULs do not end a reply");
    return check_done();
}
