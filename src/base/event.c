/*
 * Owns the form of --status-fd's lines. May not fail: a job does not depend on who reads them.
 */
#include "base/event.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/descriptor.h"

#define EVENT_BYTES 4096
#define END         "}\n"

void event_begin(struct event *event, int fd, const char *what, const char *name)
{
    char *storage = fd >= 0 ? malloc(EVENT_BYTES) : NULL;
    event->fd = storage != NULL ? fd : -1;
    if (storage == NULL)
        return;
    event->line = text_over(storage, EVENT_BYTES - strlen(END));
    text_add(&event->line, "{\"event\":\"");
    text_add(&event->line, what);
    text_add(&event->line, "\",\"time\":\"");
    text_add_timestamp(&event->line, clock_wall_ms());
    text_add(&event->line, "\"");
    event_string(event, "name", name);
}

/* A member that does not fit (a name of hundreds of control characters) is left out, not cut. */
static void keep_whole(struct event *event, size_t before)
{
    if (event->line.cut)
        event->line = (struct text){event->line.at, before, event->line.capacity, false};
}

static void add_key(struct event *event, const char *key)
{
    text_add(&event->line, ",\"");
    text_add(&event->line, key);
    text_add(&event->line, "\":");
}

void event_string(struct event *event, const char *key, const char *value)
{
    if (event->fd < 0)
        return;
    size_t before = event->line.length;
    add_key(event, key);
    text_add(&event->line, "\"");
    text_add_json(&event->line, value, strlen(value));
    text_add(&event->line, "\"");
    keep_whole(event, before);
}

void event_int(struct event *event, const char *key, int64_t value)
{
    if (event->fd < 0)
        return;
    size_t before = event->line.length;
    add_key(event, key);
    text_add_int(&event->line, value);
    keep_whole(event, before);
}

void event_send(struct event *event)
{
    if (event->fd < 0)
        return;
    event->line.capacity += strlen(END);
    text_add(&event->line, END);
    descriptor_write_line(event->fd, event->line.at, event->line.length);
    free(event->line.at);
}
