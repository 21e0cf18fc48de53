/*
 * Owns the naming of keys. Pure.
 */
#include "lock/keys.h"

#include <stdbool.h>
#include <string.h>

static bool needs_encoding(unsigned char byte)
{
    return byte < 0x20 || byte == 0x7f || byte == '{' || byte == '}' || byte == '%';
}

static void add_encoded(struct text *key, const char *name)
{
    for (; *name != '\0'; name++) {
        unsigned char byte = (unsigned char)*name;
        if (needs_encoding(byte))
            text_addf(key, "%%%02X", byte);
        else
            text_add_char(key, *name);
    }
}

static struct text beside(char *storage, size_t size, const char *prefix, const struct text *lock,
                          const char *part)
{
    struct text key = text_over(storage, size);
    text_add(&key, prefix);
    text_add(&key, "{");
    text_add_bytes(&key, lock->at, lock->length);
    text_add(&key, "}:");
    text_add(&key, part);
    return key;
}

void keys_make(struct keys *keys, const char *prefix, const char *name, const char *token)
{
    keys->lock = TEXT_OVER(keys->lock_storage);
    text_add(&keys->lock, prefix);
    add_encoded(&keys->lock, name);

    keys->state = beside(keys->state_storage, sizeof(keys->state_storage), prefix, &keys->lock,
                         "state");
    keys->probe = beside(keys->probe_storage, sizeof(keys->probe_storage), prefix, &keys->lock,
                         "probe");
    keys->tombstone = beside(keys->tombstone_storage, sizeof(keys->tombstone_storage), prefix,
                             &keys->lock, "cancelled:");
    text_add(&keys->tombstone, token);
}
