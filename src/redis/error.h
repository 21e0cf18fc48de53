/*
 * What can go wrong between us and a server: every failure gets one class, and the class decides
 * what is done about it. New error texts of servers are added in error.c's one table.
 */
#ifndef REDISLOCK_REDIS_ERROR_H
#define REDISLOCK_REDIS_ERROR_H

#include <stddef.h>

enum server_error {
    SERVER_OK,
    SERVER_INTERRUPTED, /* the deadline's wake_fd became readable */
    SERVER_UNREACHABLE, /* no connection, or it broke: resolve, connect, end of stream */
    SERVER_LATE,        /* as UNREACHABLE, but all that is known is that the deadline has passed */
    SERVER_BUSY,        /* a state that passes: LOADING, BUSY, TRYAGAIN, too many clients … */
    SERVER_READONLY,    /* this server is a replica: ask for the master again */
    SERVER_WRITES_REFUSED, /* OOM, MISCONF, NOREPLICAS: up, but does not take writes */
    SERVER_REDIRECTED,     /* MOVED, ASK: another node of the cluster has the slot */
    SERVER_UNTRUSTED,      /* TLS: a certificate was not accepted, by us or by the server */
    SERVER_DENIED,         /* NOAUTH, WRONGPASS, NOPERM, protected mode */
    SERVER_BAD_DATABASE,   /* SELECT refused */
    SERVER_NOT_A_LOCK,     /* the key holds another type */
    SERVER_NO_SCRIPT,      /* EVALSHA of a script that the server does not know */
    SERVER_NONSENSE,       /* a protocol error, or a reply nobody expects */
    SERVER_OS              /* no memory or descriptors on our side */
};

/*
 * The class of an error reply, without its leading '-'. Codes are also found inside longer texts,
 * because older servers wrap the error of a command in the error of its script.
 */
enum server_error server_error_classify(const char *reply, size_t length);

#endif
