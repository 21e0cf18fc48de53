/*
 * libFuzzer target: the lock's value, as anybody may have written it. `make fuzz` builds and runs it.
 *
 * What is not exactly of our form is foreign and leaves nothing behind. What is of our form keeps to
 * its ranges, and comes back the same when it is written anew.
 */
#include "fuzz.h"
#include "lock/holder.h"

#define KEPT 64 /* bytes of a word that are written again */

static void check_word(const char *word)
{
    REQUIRE(memchr(word, '\0', HOLDER_FIELD_MAX + 1) != NULL);
}

static void check_ranges(const struct holder *holder)
{
    size_t token = strlen(holder->token);
    REQUIRE(holder->kind <= HOLDER_RESIDUE && holder->slot >= 0 &&
            holder->slot <= HOLDER_SLOTS_MAX);
    REQUIRE(holder->fence >= 0 && holder->start_ms >= 0 && holder->ttl_ms >= 0 && holder->pid >= 0);
    REQUIRE(token == (holder->kind == HOLDER_RESIDUE ? 0 : TOKEN_LENGTH));
    check_word(holder->host);
    check_word(holder->boot);
    check_word(holder->user);
    check_word(holder->command);
}

static void check_same(const struct holder *one, const struct holder *other)
{
    REQUIRE(one->slot == other->slot && one->start_ms == other->start_ms);
    REQUIRE(one->ttl_ms == other->ttl_ms && one->pid == other->pid);
    REQUIRE(strncmp(one->host, other->host, KEPT) == 0);
    REQUIRE(strncmp(one->boot, other->boot, KEPT) == 0);
    REQUIRE(strncmp(one->user, other->user, KEPT) == 0);
    REQUIRE(strncmp(one->command, other->command, KEPT) == 0);
}

/* The value with another fence is the same holder with that fence. */
static void check_other_fence(const char *value, size_t length, const struct holder *holder)
{
    char storage[HOLDER_VALUE_MAX + 32];
    struct text raised = TEXT_OVER(storage);
    struct text given = {.at = (char *)(uintptr_t)value, .length = length};
    struct holder again;
    holder_add_with_fence(&raised, &given, 4711);
    if (raised.length > HOLDER_VALUE_MAX)
        return;
    holder_parse(raised.at, raised.length, &again);
    REQUIRE(again.kind == holder->kind && again.fence == 4711);
    REQUIRE(strcmp(again.token, holder->token) == 0);
    check_same(holder, &again);
}

/* So is what stays behind for the rest of a minimum hold, but for the token. */
static void check_residue(const struct holder *holder)
{
    char storage[HOLDER_VALUE_MAX + 1];
    struct text residue = TEXT_OVER(storage);
    struct holder again;
    holder_add_residue(&residue, holder);
    if (residue.cut)
        return; /* a foreign host's words of nothing but encoded bytes */
    REQUIRE(fuzz_is_visible(residue.at, residue.length) && strchr(residue.at, ' ') == NULL);
    holder_parse(residue.at, residue.length, &again);
    REQUIRE(again.kind == HOLDER_RESIDUE && again.token[0] == '\0');
    REQUIRE(again.fence == holder->fence);
    check_same(holder, &again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct holder nobody;
    char *value = fuzz_text(data, size);
    struct holder holder;
    memset(&holder, 0xa5, sizeof(holder));
    holder_parse(value, size, &holder);
    if (holder.kind == HOLDER_FOREIGN) {
        REQUIRE(memcmp(&holder, &nobody, sizeof(nobody)) == 0);
    } else {
        REQUIRE(size <= HOLDER_VALUE_MAX);
        check_ranges(&holder);
        check_other_fence(value, size, &holder);
        check_residue(&holder);
    }
    free(value);
    return 0;
}
