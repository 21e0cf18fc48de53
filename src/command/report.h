/*
 * What a command tells people and programs: the wording of every message about a lock, and the
 * status that goes with a result. Texts are made here, once.
 */
#ifndef REDISLOCK_COMMAND_REPORT_H
#define REDISLOCK_COMMAND_REPORT_H

#include "base/text.h"
#include "cli/config.h"
#include "lock/lock.h"

/* Adds "held by web-2 (pid 4711, deploy) since 02:00:00, 3m12s ago". */
void report_add_blocker(struct text *text, const struct lock_blocker *blocker);

/* Adds "SIGTERM", or "signal 40" for one without a name. */
void report_add_signal(struct text *text, int signal);

/*
 * Tells why the lock was not acquired (with "after waiting DUR" where `waited_ms` is positive), as
 * far as --quiet lets it, and returns the exit status. `result` is anything but LOCK_OK.
 */
int report_not_acquired(const struct config *config, const struct lock *lock,
                        enum lock_result result, int64_t waited_ms);

/* The status of a bad --url: 64 or 78, by where it came from. */
int report_servers_status(const struct config *config);

/*
 * Tells why a server could not do what was asked, and returns the exit status. `why` is the line of
 * the room that failed.
 */
int report_failure(const struct config *config, const char *why, enum lock_result result);

#endif
