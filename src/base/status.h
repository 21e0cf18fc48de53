/*
 * The exit statuses of redislock, the same numbers that the man page's EXIT STATUS lists.
 *
 * A child's own status is passed through unchanged, so every number can also come from the child;
 * `--status-fd` tells the two apart.
 */
#ifndef REDISLOCK_BASE_STATUS_H
#define REDISLOCK_BASE_STATUS_H

enum exit_status {
    STATUS_OK = 0,
    STATUS_USAGE = 64,           /* bad command line */
    STATUS_UNAVAILABLE = 69,     /* no working Redis */
    STATUS_BUG = 70,             /* a state that cannot be */
    STATUS_OS = 71,              /* the operating system refused: fork, memory, descriptors */
    STATUS_HELD = 75,            /* somebody holds the lock, or the wait timed out; -E changes it */
    STATUS_NONSENSE = 76,        /* a reply without sense, or a key that is not a lock */
    STATUS_DENIED = 77,          /* authentication, ACL or TLS verification refused */
    STATUS_CONFIG = 78,          /* bad value in the environment or a configuration file */
    STATUS_LOST = 79,            /* the lock was lost and the child was stopped for it */
    STATUS_TIMEOUT = 124,        /* --max-runtime was reached */
    STATUS_NOT_EXECUTABLE = 126, /* COMMAND was found but cannot be executed */
    STATUS_NOT_FOUND = 127,      /* COMMAND was not found */
    STATUS_SIGNAL = 128          /* + N: ended by signal N */
};

#endif
