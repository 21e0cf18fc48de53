/*
 * Taking a lock for whatever is to happen under it: the common beginning of a run, of --attach and
 * of --acquire, and the end that they share.
 */
#ifndef REDISLOCK_COMMAND_TAKING_H
#define REDISLOCK_COMMAND_TAKING_H

#include <stdbool.h>
#include <sys/types.h>

#include "cli/config.h"
#include "job/signals.h"
#include "lock/lease.h"
#include "lock/lock.h"

/* The servers of a config, as the rooms below want them. */
struct taking_servers {
    int count;
    struct client_settings at[CONFIG_SERVERS_MAX];
};

struct taking {
    const struct config *config;
    pid_t pid; /* of the process that the lock is shown to belong to */
    struct signals signals;
    struct lease lease;
    struct lock *lock;
    struct taking_servers servers;
    bool locked; /* false: not yet, released, or --on-error run */
};

/*
 * Checks the lease, blocks the signals and makes a lock that shows `pid` and `command` to others.
 * STATUS_OK, or the status to exit with, after its message.
 */
int taking_open(struct taking *taking, const struct config *config, pid_t pid, const char *command);
void taking_close(struct taking *taking);

/*
 * Waits the jitter and takes the lock, as long as --wait allows. An acquisition that has aged before
 * it can be used is given up and done again.
 *
 * STATUS_OK: go on, under the lock if `locked`, without one after --on-error run. Otherwise the
 * status to exit with, after its message; `*skip` then tells that a run is
 * skipped with status 0 (--on-error skip, or held with -E 0).
 */
int taking_acquire(struct taking *taking, bool *skip);

/* 128 + N for a signal that came before anything ran; STATUS_OK when none did after all. */
int taking_interrupted(const struct taking *taking);

/*
 * Gives the lock up, if it is held, and tells what became of it. `record` as in lock_release; `lost`:
 * the loss has been told already.
 */
void taking_release(struct taking *taking, const struct lock_run_record *record, bool lost);

/* The number of our slot as a child sees it: with --slots 1, a plain lock underneath, 1; else 0. */
int taking_slot(const struct taking *taking);

/* An event with one number (`key` NULL: with none). */
void taking_tell(const struct taking *taking, const char *what, const char *key, int64_t number);

/* The status of a lease that lease_make refuses: 64, or 78 where a setting made it so. */
int taking_lease_status(const struct config *config);

/* Adds to such a refusal where TTL and grace were set, as setting_add_origin. */
void taking_add_lease_origin(struct text *text, const struct config *config);

/* Fills in the servers of a config; `config` outlives them. */
void taking_name_servers(struct taking_servers *servers, const struct config *config);

/* The lock settings of a config; for commands that look at a lock without taking it as well. */
struct lock_settings taking_settings(const struct config *config, const struct lease *lease,
                                     const struct taking_servers *servers);

#endif
