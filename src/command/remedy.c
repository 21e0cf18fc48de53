/*
 * Owns the advice. Pure: a reason in, what to do out. The classes of redis/error.h are too coarse for
 * it: NOAUTH, WRONGPASS and NOPERM are all a refusal, and each is mended elsewhere.
 */
#include "command/remedy.h"

#include <stddef.h>
#include <string.h>

#define RIGHTS                                                                                     \
    "give the user the rights that redislock(1) lists under Permissions, for keys and channels "   \
    "that begin with --prefix"
#define REACH                                                                                      \
    "look at host and port in --url, whether the server runs, and which addresses it binds"

struct row {
    const char *says;
    const char *remedy;
};

/* First match wins; so what is part of a longer text stands behind it. */
static const struct row table[] = {
    /* the reason says it */
    {"name the master in --url", NULL},
    {": use rediss://", NULL},

    /* login and rights */
    {"NOAUTH", "give a password by --password-file, and with an ACL user its name by --user"},
    {"WRONGPASS", "look at the name (--user) and the password (--password-file), and whether ACL "
                  "LIST shows this user as \"on\""},
    {"configured for the default user", "leave the password out, or name the ACL user that it "
                                        "belongs to by --user"},
    {"invalid password", "look at the password (--password-file)"},
    {"AUTH", "leave user and password out, or let the server have them"},
    {"NOPERM", RIGHTS},
    {"ACL failure", RIGHTS},
    {"can't run this command", RIGHTS},
    {"can't access at least one of the keys", RIGHTS},
    {"DENIED", "the server is in protected mode: set a password there and give it by "
               "--password-file"},

    /* the server's state */
    {"MISCONF", "make room on the server's disk; its log says why it cannot save"},
    {"OOM ", "raise maxmemory, or use another server"},
    {"NOREPLICAS", "bring its replicas back, or lower min-replicas-to-write"},
    {"READONLY", "name the master in --url"},
    {"LOADING", "wait until the server has loaded its data, and ask again"},
    {"BUSY ", "a script keeps the server busy: end it by SCRIPT KILL, or wait"},
    {"max number of clients", "raise maxclients, or look who keeps connections open (CLIENT LIST)"},
    {"CLUSTERDOWN", "look at the cluster (redis-cli --cluster check)"},
    {"has no slots", "look at the cluster (redis-cli --cluster check)"},
    {"replicas acknowledged", "bring its replicas back, or lower --wait-replicas"},
    {"DB index", "give --url a number that the server has; CONFIG GET databases tells how many"},
    {"not an integer or out of range", "give --url a number that the server has"},
    {"SELECT is not allowed", "leave the number out of --url: a cluster has database 0 alone"},
    {"unknown command 'SENTINEL'",
     "name sentinels in --url, not the servers that they watch (their port is 26379 by default)"},
    {"no such master", "give --url the master's name as the sentinels have it (SENTINEL MASTERS)"},
    {"no master", "ask again after the failover, and look at the sentinels (SENTINEL MASTERS)"},
    {"one and the same server", "name each server once in --url"},
    {"holds a ", "give --prefix a value under which nobody else keeps keys"},

    /* TLS */
    {"mismatch", "use the name that the certificate has, in --url or by --sni"},
    {"certificate has expired", "renew the server's certificate"},
    {"is not trusted", "give the certificate of its authority by --cacert"},
    {"does not speak TLS", "use redis:// here, or the server's TLS port"},
    {"TLS module", "install redislock-tls.so of this version beside the program, or in its folder"},
    {"TLS: ",
     "see whether the server wants a client's certificate (--cert, --key); its log says why "
     "it refused"},

    /* the way there */
    {"Connection refused", REACH},
    {"No route to host", REACH},
    {"unreachable", REACH},
    {"no answer in time",
     REACH ", and whether a firewall is between, or TLS is spoken (rediss://)"},
    {"closed the connection",
     "see whether this is the server's port for TLS (rediss://), and its log"},
    {"reset by peer", "see whether this is the server's port for TLS (rediss://), and its log"},
    {"No such file or directory", "look at the path in --url, and at unixsocket in the server's "
                                  "configuration"},
    {"Permission denied", "let this user write to the socket (unixsocketperm, or its group)"},
    {"name resolution", "look at the host's name in --url, and at this host's DNS"},
    {"Name or service", "look at the host's name in --url, and at this host's DNS"},
    {"address associated", "look at the host's name in --url, and at this host's DNS"},
    {"looking up", "look at the host's name in --url, and at this host's DNS"},
    {"does not speak the Redis protocol",
     "look at host and port in --url: this is no Redis server"},
};

const char *remedy_for(const char *why)
{
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        if (strstr(why, table[i].says) != NULL)
            return table[i].remedy;
    return "look at the server's log, and whether it is Redis 6.2 or later";
}
