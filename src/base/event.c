/*
 * Owns the form of --status-fd's lines. May not fail: a job does not depend on who reads them.
 */
#include "base/event.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

#define EVENT_BYTES 4096

void event_begin(struct event *event, int fd, const char *what, const char *name)
{
    char *storage = fd >= 0 ? malloc(EVENT_BYTES) : NULL;
    event->fd = storage != NULL ? fd : -1;
    if (storage == NULL)
        return;
    event->line = text_over(storage, EVENT_BYTES);
    text_add(&event->line, "{\"event\":\"");
    text_add(&event->line, what);
    text_add(&event->line, "\",\"time\":\"");
    text_add_timestamp(&event->line, clock_wall_ms());
    text_add(&event->line, "\"");
    event_string(event, "name", name);
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
    add_key(event, key);
    text_add(&event->line, "\"");
    text_add_json(&event->line, value, strlen(value));
    text_add(&event->line, "\"");
}

void event_int(struct event *event, const char *key, int64_t value)
{
    if (event->fd < 0)
        return;
    add_key(event, key);
    text_add_int(&event->line, value);
}

void event_send(struct event *event)
{
    if (event->fd < 0)
        return;
    text_add(&event->line, "}\n");
    ssize_t written;
    do
        written = write(event->fd, event->line.at, event->line.length);
    while (written < 0 && errno == EINTR);
    free(event->line.at);
}
