/*
 * libFuzzer target: names, their keys, and their forms for people and programs. `make fuzz` builds
 * and runs it.
 *
 * A name and its key stand for each other; no name leaves its cluster slot, gets at another one's
 * keys, or reaches a terminal raw.
 */
#include "base/text.h"
#include "fuzz.h"
#include "lock/keys.h"

#define TOKEN "00112233445566778899aabbccddeeff00112233"

/* Everything beside the lock has the lock's whole key, and nothing else, as its hash tag. */
static void check_beside(const struct keys *keys, int part, const char *prefix)
{
    const struct text *lock = &keys->all[KEYS_LOCK];
    const struct text *key = &keys->all[part];
    const char *open = strchr(key->at, '{');
    REQUIRE(!key->cut && strlen(key->at) == key->length && key->length <= KEYS_BESIDE_MAX);
    REQUIRE(open == key->at + strlen(prefix) && memcmp(key->at, prefix, strlen(prefix)) == 0);
    REQUIRE(strncmp(open + 1, lock->at, lock->length) == 0 && open[1 + lock->length] == '}');
}

static void check_name(const char *name, const char *prefix)
{
    struct keys made;
    struct keys *keys = &made;
    char *key_storage = malloc(keys_storage_size(prefix, name)); /* an end that ASan knows */
    char storage[KEYS_NAME_MAX + 1];
    struct text again = TEXT_OVER(storage);
    REQUIRE(key_storage != NULL);
    keys_make(keys, key_storage, prefix, name, TOKEN);
    const struct text *lock = &keys->all[KEYS_LOCK];
    size_t encoded = keys_encoded_length(name);
    REQUIRE(!lock->cut && lock->length == strlen(prefix) + encoded);
    REQUIRE(strpbrk(lock->at + strlen(prefix), "{}\n\r\x1b\x7f") == NULL);
    REQUIRE(keys_decode(lock->at + strlen(prefix), encoded, &again));
    REQUIRE(again.length == strlen(name) && memcmp(again.at, name, again.length) == 0);
    for (int part = KEYS_LOCK + 1; part < KEYS_COUNT; part++)
        check_beside(keys, part, prefix);
    REQUIRE(!keys->channel.cut);
    free(key_storage);
}

/* Where a key is a name's, it is the only key of that name. */
static void check_key(const char *bytes, size_t length)
{
    char storage[KEYS_NAME_MAX + 1];
    struct text name = TEXT_OVER(storage);
    if (!keys_decode(bytes, length, &name))
        return;
    REQUIRE(name.length >= 1 && strlen(name.at) == name.length);
    struct keys keys;
    char *key_storage = malloc(keys_storage_size("", name.at));
    REQUIRE(key_storage != NULL);
    keys_make(&keys, key_storage, "", name.at, TOKEN);
    REQUIRE(keys.all[KEYS_LOCK].length == length);
    REQUIRE(memcmp(keys.all[KEYS_LOCK].at, bytes, length) == 0);
    free(key_storage);
}

/* The forms for people and for programs, in as little room as `capacity`. */
static void check_forms(const char *bytes, size_t length, size_t capacity)
{
    char *storage = malloc(capacity);
    REQUIRE(storage != NULL);
    struct text text = text_over(storage, capacity);
    text_add_visible(&text, bytes, length);
    REQUIRE(text.length < capacity && storage[text.length] == '\0');
    REQUIRE(text.cut || text.length >= length);
    REQUIRE(fuzz_is_visible(storage, text.length));
    text = text_over(storage, capacity);
    text_add_json(&text, bytes, length);
    REQUIRE(text.length < capacity && storage[text.length] == '\0');
    REQUIRE(fuzz_is_visible(storage, text.length));
    for (size_t i = 0; i < text.length; i++)
        REQUIRE(storage[i] != '"' || (i > 0 && storage[i - 1] == '\\'));
    free(storage);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const prefixes[] = {"lock:", "", "a:b:", "lock:lock:"};
    if (size == 0)
        return 0;
    char *text = fuzz_text(data + 1, size - 1);
    size_t length = strlen(text);
    if (length >= 1 && length <= KEYS_NAME_MAX)
        check_name(text, prefixes[data[0] % 4]);
    check_key(text, size - 1);
    check_forms(text, size - 1, 6 * size + 1);
    check_forms(text, size - 1, 1 + data[0]);
    free(text);
    return 0;
}
