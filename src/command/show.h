/*
 * A lock as people and programs see it: the text and the JSON of --status, --list and --unlock.
 */
#ifndef REDISLOCK_COMMAND_SHOW_H
#define REDISLOCK_COMMAND_SHOW_H

#include "lock/observe.h"

/* Prints the block of --status on stdout. */
void show_text(const char *name, const struct observed *observed);

/* Prints one JSON object on stdout, without a newline. Its schema is in the man page. */
void show_json(const char *name, const struct observed *observed);

/* Adds one holder in words: "held by web-2 (pid 4711, deploy) since 02:00:00, 3m12s ago". */
void show_add_holder(struct text *text, const struct observed_holder *holder);

/*
 * How many bytes of valid UTF-8 fit into `width` columns, a column for each character; `*columns` is
 * how many they fill.
 */
size_t show_fit(const char *words, size_t width, size_t *columns);

/* The columns of a row: `brief` tells the last run in fewer words. */
struct show_shape {
    size_t name;
    size_t holder;
    bool brief;
};

/* The shape that fits into `width` columns, as far as one does; 0: the whole width of --list. */
struct show_shape show_shape_for(size_t width);

/* One row of --list, and its head. */
#define SHOW_ROW_MAX 512
void show_add_row_head(struct text *row, const struct show_shape *shape);
void show_add_row(struct text *row, const struct show_shape *shape, const char *name,
                  const struct observed *observed);

#endif
