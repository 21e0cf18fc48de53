/*
 * Owns the collecting of names. Memory grows with the locks that match, never with the other keys of
 * the database.
 */
#include "command/names.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

static bool add(void *context, const char *name)
{
    struct names *names = context;
    if (names->pattern != NULL && fnmatch(names->pattern, name, 0) != 0)
        return true;
    if (names->count == names->capacity) {
        size_t capacity = names->capacity == 0 ? 64 : names->capacity * 2;
        struct name *at = realloc(names->at, capacity * sizeof(*at));
        if (at == NULL)
            return false;
        names->at = at;
        names->capacity = capacity;
    }
    names->at[names->count].node = names->node;
    names->at[names->count].text = strdup(name);
    if (names->at[names->count].text == NULL)
        return false;
    names->count++;
    return true;
}

static void tell_progress(void *context)
{
    const struct names *names = context;
    if (names->progress != NULL)
        names->progress(names->count);
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

/* `why`, to be added to. */
static struct text going_on(struct gaps *gaps)
{
    return (struct text){gaps->why, strlen(gaps->why), sizeof(gaps->why), false};
}

static void lose_node(struct gaps *gaps, size_t node, enum lock_result result,
                      struct observer *observer)
{
    struct text why = going_on(gaps);
    text_addf(&why, "%s%s", why.length > 0 ? "; " : "", observer_why(observer));
    gaps->lost[node] = true;
    gaps->result = gaps->result == LOCK_OK ? result : gaps->result;
    if (result == LOCK_UNAVAILABLE)
        observer_ask_once(observer, true);
}

enum lock_result names_collect(struct names *names, struct observer *observer, const char *pattern,
                               void (*progress)(size_t found), int64_t patience_ms)
{
    const struct observer_names to = {add, tell_progress, names};
    const struct deadline deadline = {clock_boot_ms() + patience_ms, -1};
    size_t nodes;
    size_t failed = 0;
    *names = (struct names){.pattern = pattern, .progress = progress};
    enum lock_result result = observer_find_nodes(observer, &nodes, &deadline);
    if (result != LOCK_OK) {
        lose_node(&names->gaps, 0, result, observer);
        return result;
    }
    for (; names->node < nodes; names->node++) {
        result = observer_walk(observer, names->node, &to, patience_ms);
        if (result == LOCK_OK)
            continue;
        failed++;
        lose_node(&names->gaps, names->node, result, observer);
        if (result == LOCK_OS)
            return result; /* ours, not the node's */
    }
    sort_and_unite(names);
    return failed == nodes ? names->gaps.result : LOCK_OK;
}

void names_miss(const struct names *names, size_t i, struct observer *observer, struct gaps *gaps)
{
    const struct name *name = &names->at[i];
    if (observer_silent(observer)) {
        lose_node(gaps, name->node, LOCK_UNAVAILABLE, observer);
        return;
    }
    struct text why = going_on(gaps);
    if (gaps->locks++ == 0)
        text_addf(&why, "%s%s: %s", why.length > 0 ? "; " : "", name->text, observer_why(observer));
    gaps->result = gaps->result == LOCK_OK ? LOCK_UNAVAILABLE : gaps->result;
    observer_ask_once(observer, true);
}

void names_add_gaps(struct text *text, const struct gaps *gaps)
{
    text_addf(text, "the list is not whole: %s", gaps->why);
    if (gaps->locks > 1)
        text_addf(text, "; and %zu more lock%s", gaps->locks - 1, gaps->locks > 2 ? "s" : "");
}

void names_announce(const struct names *names, size_t first, size_t end, const struct gaps *gaps,
                    struct observer *observer)
{
    size_t announced = observer_announced(observer);
    for (size_t i = first; i < end; i++) {
        const struct name *name = &names->at[i];
        if (gaps->lost[name->node])
            continue;
        if (announced > 0)
            announced--;
        else if (!observer_announce(observer, name->node, name->text))
            return;
    }
}

void names_free(struct names *names)
{
    for (size_t i = 0; i < names->count; i++)
        free(names->at[i].text);
    free(names->at);
}
