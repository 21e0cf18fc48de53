/*
 * Owns the source of randomness: libsodium, and nothing else draws from it directly.
 */
#include "base/token.h"

#include <sodium.h>

bool token_make(char token[TOKEN_LENGTH + 1])
{
    unsigned char bytes[TOKEN_BYTES];
    if (sodium_init() < 0)
        return false;
    randombytes_buf(bytes, sizeof(bytes));
    sodium_bin2hex(token, TOKEN_LENGTH + 1, bytes, sizeof(bytes));
    return true;
}

uint32_t token_random_below(uint32_t bound)
{
    return randombytes_uniform(bound);
}
