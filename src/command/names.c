/*
 * Owns the collecting of names. Memory grows with the locks that match, never with the other keys of
 * the database.
 */
#include "command/names.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

static void add(void *context, const char *name)
{
    struct names *names = context;
    if (names->pattern != NULL && fnmatch(names->pattern, name, 0) != 0)
        return;
    if (names->count == names->capacity) {
        size_t capacity = names->capacity == 0 ? 64 : names->capacity * 2;
        char **at = realloc(names->at, capacity * sizeof(*at));
        names->no_memory = names->no_memory || at == NULL;
        if (at == NULL)
            return;
        names->at = at;
        names->capacity = capacity;
    }
    char *copy = strdup(name);
    if (copy != NULL)
        names->at[names->count++] = copy;
    names->no_memory = names->no_memory || copy == NULL;
}

static int compare(const void *a, const void *b)
{
    char *const *left = a;
    char *const *right = b;
    return strcmp(*left, *right);
}

/* SCAN may tell a key twice, and a lock has several keys. */
static void sort_and_unite(struct names *names)
{
    size_t kept = 0;
    if (names->count == 0)
        return;
    qsort(names->at, names->count, sizeof(*names->at), compare);
    for (size_t i = 1; i < names->count; i++) {
        if (strcmp(names->at[kept], names->at[i]) == 0)
            free(names->at[i]);
        else
            names->at[++kept] = names->at[i];
    }
    names->count = kept + 1;
}

enum lock_result names_collect(struct names *names, struct observer *observer, const char *pattern,
                               void (*progress)(size_t found), const struct deadline *deadline)
{
    uint64_t cursor = 0;
    *names = (struct names){.pattern = pattern};
    do {
        enum lock_result result = observer_scan(observer, &cursor, add, names, deadline);
        if (result == LOCK_OK && names->no_memory)
            result = LOCK_OS;
        if (result != LOCK_OK)
            return result;
        if (progress != NULL)
            progress(names->count);
    } while (cursor != 0);
    sort_and_unite(names);
    return LOCK_OK;
}

void names_free(struct names *names)
{
    for (size_t i = 0; i < names->count; i++)
        free(names->at[i]);
    free(names->at);
}
