/*
 * The live view of --list --watch on a terminal.
 */
#ifndef REDISLOCK_COMMAND_VIEW_H
#define REDISLOCK_COMMAND_VIEW_H

#include "cli/config.h"
#include "lock/observe.h"

/*
 * Redraws the table every config->watch_ms and when the terminal's size changes, until q is pressed
 * or a signal comes; then leaves the terminal as it was. `observed` is storage. Returns the exit
 * status: 0 after q, 128 + N after a signal, or why the server could not be asked at the start.
 */
int view_run(const struct config *config, struct observer *observer, struct observed *observed);

#endif
