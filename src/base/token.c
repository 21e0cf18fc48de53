/*
 * Owns the sources of randomness; nothing else draws from them directly.
 *
 * Without sodium_init: randombytes_buf opens its own source when first used and ends the process
 * where there is none. What sodium_init adds is the choice of ciphers for this processor, which
 * nobody here uses, and which costs every start a dozen traps and pages.
 */
#include "base/token.h"

#include <sodium.h>
#include <sys/random.h>

void token_make(char token[TOKEN_LENGTH + 1])
{
    unsigned char bytes[TOKEN_BYTES];
    /* the kernel itself, once: randombytes_buf would first ask for others, to see whether it can */
    if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
        randombytes_buf(bytes, sizeof(bytes));
    sodium_bin2hex(token, TOKEN_LENGTH + 1, bytes, sizeof(bytes));
}

uint32_t token_random_below(uint32_t bound)
{
    return randombytes_uniform(bound);
}
