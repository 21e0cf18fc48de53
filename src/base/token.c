/*
 * Owns the sources of randomness; nothing else draws from them directly.
 *
 * Without sodium_init: what it adds is the choice of ciphers for this processor, which nobody here
 * uses, and which costs every start a dozen traps and pages. A token, which every run draws, comes
 * from the kernel itself: randombytes_buf asks it for the same bytes, but first for others, to see
 * whether it can.
 */
#include "base/token.h"

#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <sys/random.h>

void token_make(char token[TOKEN_LENGTH + 1])
{
    unsigned char bytes[TOKEN_BYTES];
    ssize_t drawn;
    do /* interrupted only while the kernel still gathers what it needs, soon after boot */
        drawn = getrandom(bytes, sizeof(bytes), 0);
    while (drawn < 0 && errno == EINTR);
    if (drawn != sizeof(bytes))
        abort();
    sodium_bin2hex(token, TOKEN_LENGTH + 1, bytes, sizeof(bytes));
}

uint32_t token_random_below(uint32_t bound)
{
    return randombytes_uniform(bound);
}
