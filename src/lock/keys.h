/*
 * The names of a lock's keys in Redis.
 *
 * The lock itself is PREFIX + enc(NAME), where enc percent-encodes braces, '%' and control bytes.
 * Everything beside it is PREFIX{LOCK}:PART. The hash tag is the whole lock key, which has no brace
 * of its own: so all keys of one lock are in the cluster slot of the lock, whatever its name.
 */
#ifndef REDISLOCK_LOCK_KEYS_H
#define REDISLOCK_LOCK_KEYS_H

#include "base/text.h"
#include "base/token.h"

#define KEYS_PREFIX_MAX 128
#define KEYS_NAME_MAX   512
#define KEYS_LOCK_MAX   (KEYS_PREFIX_MAX + 3 * KEYS_NAME_MAX)
#define KEYS_BESIDE     (TOKEN_LENGTH + 32) /* what a key beside has more than two prefixes and NAME */
#define KEYS_BESIDE_MAX (KEYS_PREFIX_MAX + KEYS_LOCK_MAX + KEYS_BESIDE)

enum keys_part {
    KEYS_LOCK,      /* string: the exclusive holder's value */
    KEYS_STATE,     /* hash: fence, ticket, counters, last run */
    KEYS_QUEUE,     /* zset: who waits */
    KEYS_HOLDERS,   /* zset: shared and slot holders */
    KEYS_LEASES,    /* zset: waiters that poll */
    KEYS_TOMBSTONE, /* of one token */
    KEYS_PROBE,     /* never exists */
    KEYS_COUNT
};

#define KEYS_STORAGE_MAX ((KEYS_COUNT + 1) * (KEYS_BESIDE_MAX + 1))

struct keys {
    struct text all[KEYS_COUNT]; /* by enum keys_part, as the scripts expect them */
    struct text channel;         /* on which the waiter of this token is called: QUEUE:TOKEN */
};

/* Bytes that the names of this lock take, whatever the token; at most KEYS_STORAGE_MAX. */
size_t keys_storage_size(const char *prefix, const char *name);

/*
 * Makes all names in `storage`, which has keys_storage_size bytes and outlives `keys`. `prefix` has no
 * braces and at most KEYS_PREFIX_MAX bytes; NAME 1..KEYS_NAME_MAX; `token` at most TOKEN_LENGTH.
 */
void keys_make(struct keys *keys, char *storage, const char *prefix, const char *name,
               const char *token);

/*
 * Adds the NAME that enc(NAME) stands for. false: no lock is named so, or it does not fit; `name` is
 * then undefined.
 */
bool keys_decode(const char *encoded, size_t length, struct text *name);

/* The length of enc(NAME). */
size_t keys_encoded_length(const char *name);

#endif
