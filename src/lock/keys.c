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

size_t keys_storage_size(const char *prefix, const char *name)
{
    size_t longest = 2 * strlen(prefix) + keys_encoded_length(name) + KEYS_BESIDE;
    return (KEYS_COUNT + 1) * (longest + 1);
}

/* What is left of the storage. The names stand close together, on few pages. */
struct room {
    char *at;
    size_t size;
};

static struct text begin(const struct room *room)
{
    return text_over(room->at, room->size);
}

static void finish(struct room *room, const struct text *key)
{
    room->at += key->length + 1;
    room->size -= key->length + 1;
}

static void make_beside(struct keys *keys, struct room *room, enum keys_part part,
                        const char *prefix, const char *suffix, const char *token)
{
    const struct text *lock = &keys->all[KEYS_LOCK];
    struct text *key = &keys->all[part];
    *key = begin(room);
    text_add(key, prefix);
    text_add(key, "{");
    text_add_bytes(key, lock->at, lock->length);
    text_add(key, "}:");
    text_add(key, suffix);
    text_add(key, token);
    finish(room, key);
}

void keys_make(struct keys *keys, char *storage, const char *prefix, const char *name,
               const char *token)
{
    struct room room = {storage, keys_storage_size(prefix, name)};
    struct text *lock = &keys->all[KEYS_LOCK];
    *lock = begin(&room);
    text_add(lock, prefix);
    add_encoded(lock, name);
    finish(&room, lock);

    make_beside(keys, &room, KEYS_STATE, prefix, "state", "");
    make_beside(keys, &room, KEYS_QUEUE, prefix, "queue", "");
    make_beside(keys, &room, KEYS_HOLDERS, prefix, "holders", "");
    make_beside(keys, &room, KEYS_LEASES, prefix, "leases", "");
    make_beside(keys, &room, KEYS_PROBE, prefix, "probe", "");
    make_beside(keys, &room, KEYS_TOMBSTONE, prefix, "cancelled:", token);

    const struct text *queue = &keys->all[KEYS_QUEUE];
    keys->channel = begin(&room);
    text_add_bytes(&keys->channel, queue->at, queue->length);
    text_add(&keys->channel, ":");
    text_add(&keys->channel, token);
}
