/*
 * Events for programs: one JSON object a line on the descriptor of --status-fd, one write each.
 *
 * An event is begun, filled and sent:
 *
 *     struct event event;
 *     event_begin(&event, fd, "acquired", name);
 *     event_int(&event, "fence", fence);
 *     event_send(&event);
 *
 * With fd -1, or without memory, all of it does nothing. A reader that has gone away is not an error:
 * the job goes on. Every event that was begun is sent, which frees it. Safe from several threads.
 */
#ifndef REDISLOCK_BASE_EVENT_H
#define REDISLOCK_BASE_EVENT_H

#include <stdint.h>

#include "base/text.h"

struct event {
    int fd;
    struct text line; /* on the heap: large on a stack, it would cost a run without events a page */
};

void event_begin(struct event *event, int fd, const char *what, const char *name);
void event_string(struct event *event, const char *key, const char *value);
void event_int(struct event *event, const char *key, int64_t value);
void event_send(struct event *event);

#endif
