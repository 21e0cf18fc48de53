/*
 * Tokens: the random names under which locks are held.
 */
#ifndef REDISLOCK_BASE_TOKEN_H
#define REDISLOCK_BASE_TOKEN_H

#include <stdint.h>

#define TOKEN_BYTES  20                /* 160 random bits */
#define TOKEN_LENGTH (TOKEN_BYTES * 2) /* in hexadecimal digits */

/* Writes TOKEN_LENGTH hexadecimal digits and a NUL. Ends the process where the kernel has no random
 * bytes (Linux before 3.17 without /dev/urandom). */
void token_make(char token[TOKEN_LENGTH + 1]);

/* A random number below `bound` (> 0), for jitter: no modulo bias. */
uint32_t token_random_below(uint32_t bound);

#endif
