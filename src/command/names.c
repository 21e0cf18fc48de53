/*
 * Owns the collecting of names. Memory grows with the locks that match, never with the other keys of
 * the database.
 */
#include "command/names.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

static void add(void *context, const char *name)
{
    struct names *names = context;
    if (names->pattern != NULL && fnmatch(names->pattern, name, 0) != 0)
        return;
    if (names->count == names->capacity) {
        size_t capacity = names->capacity == 0 ? 64 : names->capacity * 2;
        struct name *at = realloc(names->at, capacity * sizeof(*at));
        names->no_memory = names->no_memory || at == NULL;
        if (at == NULL)
            return;
        names->at = at;
        names->capacity = capacity;
    }
    names->at[names->count].node = names->node;
    names->at[names->count].text = strdup(name);
    if (names->at[names->count].text != NULL)
        names->count++;
    else
        names->no_memory = true;
}

static int compare(const void *a, const void *b)
{
    const struct name *left = a;
    const struct name *right = b;
    return strcmp(left->text, right->text);
}

/* SCAN may tell a key twice, a lock has several keys, and a slot that moves is on two nodes. */
static void sort_and_unite(struct names *names)
{
    size_t kept = 0;
    if (names->count == 0)
        return;
    qsort(names->at, names->count, sizeof(*names->at), compare);
    for (size_t i = 1; i < names->count; i++) {
        if (strcmp(names->at[kept].text, names->at[i].text) == 0)
            free(names->at[i].text);
        else
            names->at[++kept] = names->at[i];
    }
    names->count = kept + 1;
}

static enum lock_result walk(struct names *names, struct observer *observer,
                             void (*progress)(size_t found), const struct deadline *deadline)
{
    uint64_t cursor = 0;
    do {
        enum lock_result result =
            observer_scan(observer, names->node, &cursor, add, names, deadline);
        if (result == LOCK_OK && names->no_memory)
            result = LOCK_OS;
        if (result != LOCK_OK)
            return result;
        if (progress != NULL)
            progress(names->count);
    } while (cursor != 0);
    return LOCK_OK;
}

enum lock_result names_collect(struct names *names, struct observer *observer, const char *pattern,
                               void (*progress)(size_t found), const struct deadline *deadline)
{
    size_t nodes;
    size_t failed = 0;
    *names = (struct names){.pattern = pattern};
    struct text why = TEXT_OVER(names->why);
    enum lock_result result = observer_find_nodes(observer, &nodes, deadline);
    if (result != LOCK_OK) {
        text_add(&why, observer_why(observer));
        return result;
    }
    for (; names->node < nodes; names->node++) {
        result = walk(names, observer, progress, deadline);
        if (result == LOCK_OK)
            continue;
        text_addf(&why, "%s%s", failed++ > 0 ? "; " : "", observer_why(observer));
        names->missing = names->missing == LOCK_OK ? result : names->missing;
        if (result == LOCK_OS)
            return result; /* ours, not the node's */
    }
    sort_and_unite(names);
    return failed == nodes ? names->missing : LOCK_OK;
}

void names_announce(const struct names *names, size_t first, size_t end, struct observer *observer)
{
    size_t i = first + observer_announced(observer);
    while (i < end && observer_announce(observer, names->at[i].node, names->at[i].text))
        i++;
}

void names_free(struct names *names)
{
    for (size_t i = 0; i < names->count; i++)
        free(names->at[i].text);
    free(names->at);
}
