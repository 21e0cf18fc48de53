/*
 * Owns the names that a child sees. They are no option's variable, so that a redislock inside the
 * child is not configured by them.
 */
#include "command/child_environment.h"

#include <stdlib.h>
#include <string.h>

#define NAME_IS  "REDISLOCK_NAME="
#define KEY_IS   "REDISLOCK_LOCK_KEY="
#define FENCE_IS "REDISLOCK_FENCE="
#define SLOT_IS  "REDISLOCK_SLOT="
#define ADDED    4
#define DIGITS   24

static bool is_ours(const char *entry)
{
    static const char *const names[] = {NAME_IS, KEY_IS, FENCE_IS, SLOT_IS};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strncmp(entry, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

/* Appends one string with its NUL and returns where it starts. */
static char *add_entry(struct text *own, const char *name, const char *value)
{
    char *start = own->at + own->length;
    text_add(own, name);
    text_add(own, value);
    own->length++; /* keeps the NUL */
    own->at[own->length] = '\0';
    return start;
}

static char *add_number(struct text *own, const char *name, int64_t value)
{
    char digits[DIGITS];
    struct text number = TEXT_OVER(digits);
    text_add_int(&number, value);
    return add_entry(own, name, digits);
}

bool child_environment_make(struct child_environment *environment, char *const *caller,
                            const char *name, const char *key, int64_t fence, int slot)
{
    size_t count = 0;
    while (caller[count] != NULL)
        count++;
    size_t size = sizeof(NAME_IS) + strlen(name) + sizeof(KEY_IS) +
                  (key != NULL ? strlen(key) : 0) + sizeof(FENCE_IS) + DIGITS + sizeof(SLOT_IS) +
                  DIGITS + 1;
    char **entries = malloc((count + ADDED + 1) * sizeof(*entries));
    char *storage = malloc(size);
    if (entries == NULL || storage == NULL) {
        free(entries);
        free(storage);
        return false;
    }

    size_t used = 0;
    for (size_t i = 0; i < count; i++)
        if (!is_ours(caller[i]))
            entries[used++] = caller[i];
    struct text own = text_over(storage, size);
    environment->marker = entries[used++] = add_entry(&own, NAME_IS, name);
    if (key != NULL) {
        environment->marker = entries[used++] = add_entry(&own, KEY_IS, key);
        entries[used++] = add_number(&own, FENCE_IS, fence);
        if (slot > 0)
            entries[used++] = add_number(&own, SLOT_IS, slot);
    }
    entries[used] = NULL;
    environment->entries = entries;
    environment->own = storage;
    return true;
}

void child_environment_free(struct child_environment *environment)
{
    free(environment->entries);
    free(environment->own);
}
