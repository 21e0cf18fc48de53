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

size_t keys_encoded_length(const char *name)
{
    size_t length = 0;
    for (; *name != '\0'; name++)
        length += needs_encoding((unsigned char)*name) ? 3 : 1;
    return length;
}

bool keys_decode(const char *encoded, size_t length, struct text *name)
{
    for (size_t i = 0; i < length; i++) {
        unsigned char byte = (unsigned char)encoded[i];
        if (byte == '%') {
            if (length - i < 3 || text_hex_value(encoded[i + 1]) < 0 ||
                text_hex_value(encoded[i + 2]) < 0)
                return false;
            byte = (unsigned char)(text_hex_value(encoded[i + 1]) * 16 +
                                   text_hex_value(encoded[i + 2]));
            i += 2;
            if (byte == '\0' || !needs_encoding(byte))
                return false;
        } else if (needs_encoding(byte)) {
            return false;
        }
        text_add_char(name, (char)byte);
    }
    return name->length > 0 && !name->cut;
}

static struct text begin(struct keys *keys)
{
    return text_over(keys->storage + keys->used, sizeof(keys->storage) - keys->used);
}

static void finish(struct keys *keys, const struct text *key)
{
    keys->used += key->length + 1;
}

static void make_beside(struct keys *keys, enum keys_part part, const char *prefix,
                        const char *suffix, const char *token)
{
    const struct text *lock = &keys->all[KEYS_LOCK];
    struct text *key = &keys->all[part];
    *key = begin(keys);
    text_add(key, prefix);
    text_add(key, "{");
    text_add_bytes(key, lock->at, lock->length);
    text_add(key, "}:");
    text_add(key, suffix);
    text_add(key, token);
    finish(keys, key);
}

void keys_make(struct keys *keys, const char *prefix, const char *name, const char *token)
{
    struct text *lock = &keys->all[KEYS_LOCK];
    keys->used = 0;
    *lock = begin(keys);
    text_add(lock, prefix);
    add_encoded(lock, name);
    finish(keys, lock);

    make_beside(keys, KEYS_STATE, prefix, "state", "");
    make_beside(keys, KEYS_QUEUE, prefix, "queue", "");
    make_beside(keys, KEYS_HOLDERS, prefix, "holders", "");
    make_beside(keys, KEYS_LEASES, prefix, "leases", "");
    make_beside(keys, KEYS_PROBE, prefix, "probe", "");
    make_beside(keys, KEYS_TOMBSTONE, prefix, "cancelled:", token);

    const struct text *queue = &keys->all[KEYS_QUEUE];
    keys->channel = begin(keys);
    text_add_bytes(&keys->channel, queue->at, queue->length);
    text_add(&keys->channel, ":");
    text_add(&keys->channel, token);
}
