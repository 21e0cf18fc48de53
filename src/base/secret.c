/*
 * Owns the copies of passwords. Promises that they are wiped, and that a process which has one leaves
 * no core file; may not print or log anything.
 */
#include "base/secret.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

bool secret_set(struct secret *secret, const char *bytes, size_t length)
{
    char *copy = malloc(length + 1);
    if (copy == NULL)
        return false;
    prctl(PR_SET_DUMPABLE, 0); /* exec, and so the child, begins anew */
    memcpy(copy, bytes, length);
    copy[length] = '\0';
    secret_wipe(secret);
    secret->bytes = copy;
    secret->length = length;
    return true;
}

void secret_wipe(struct secret *secret)
{
    if (secret->bytes == NULL)
        return;
    sodium_memzero(secret->bytes, secret->length);
    free(secret->bytes);
    *secret = SECRET_NONE;
}

void secret_wipe_bytes(void *bytes, size_t length)
{
    sodium_memzero(bytes, length);
}
