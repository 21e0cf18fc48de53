/*
 * Passwords in memory: one owner, wiped when done.
 *
 * A secret owns a copy of its bytes on the heap. Secrets are never printed, never put into an
 * environment, and are wiped with libsodium so that the compiler cannot drop the wipe. From the first
 * secret on the kernel writes no core file of this process and of what it forks, and lets nobody but
 * root read their memory and /proc/PID/environ.
 */
#ifndef REDISLOCK_BASE_SECRET_H
#define REDISLOCK_BASE_SECRET_H

#include <stdbool.h>
#include <stddef.h>

struct secret {
    char *bytes;   /* NUL-terminated for convenience; may hold NULs of its own; NULL: not set */
    size_t length; /* without the final NUL */
};

#define SECRET_NONE ((struct secret){NULL, 0})

/* Replaces what `secret` held by a copy of `length` bytes. false: no memory, `secret` unchanged. */
bool secret_set(struct secret *secret, const char *bytes, size_t length);

/* Wipes and frees. Safe on an unset secret, and twice. */
void secret_wipe(struct secret *secret);

/* Wipes `length` bytes that belong to somebody else (an argv string, a read buffer). */
void secret_wipe_bytes(void *bytes, size_t length);

#endif
