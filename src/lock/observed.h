/*
 * What can be seen of a lock, and how it is read out of the reply of the script STATUS.
 */
#ifndef REDISLOCK_LOCK_OBSERVED_H
#define REDISLOCK_LOCK_OBSERVED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lock/holder.h"
#include "lock/lock.h"
#include "redis/reply.h"

#define OBSERVE_HOLDERS_MAX 64
#define OBSERVE_WAITERS_MAX 100

struct observed_holder {
    struct holder holder;
    int64_t left_ms; /* until its expiry; -1: it has none */
    int64_t age_ms;  /* since its start, by the server's clock; -1: unknown */
    size_t value_length;
    char value[HOLDER_VALUE_MAX + 1]; /* cut at HOLDER_VALUE_MAX; then `value_length` says more */
};

struct observed_waiter {
    enum lock_mode mode;
    struct holder who; /* host, pid, user, command, ttl */
};

/* What is known of a lock at one moment. All times are the server's. */
struct observed {
    int64_t now_ms; /* since the epoch */
    size_t holder_count;
    int64_t waiting; /* all of them; the first are listed */
    size_t waiter_count;
    int64_t fence; /* the last one given; 0: none is known */
    int64_t slots; /* of a lock in use; 1: without slots */
    int64_t runs;
    int64_t skips;  /* refused because it was held, or waited in vain */
    int64_t losses; /* runs whose lock was no longer theirs at the end */
    bool has_run;   /* the rest is of the last run that ended */
    int64_t run_start_ms;
    int64_t run_duration_ms;
    int64_t run_status; /* -1: not told, as after --release */
    char run_host[HOLDER_FIELD_MAX + 1];
    struct observed_holder holders[OBSERVE_HOLDERS_MAX]; /* behind their counts: undefined */
    struct observed_waiter waiters[OBSERVE_WAITERS_MAX];
};

/*
 * Reads all of it; what does not fit, or is no holder or waiter, is left out. false: this is no reply of
 * STATUS, `*observed` is undefined. Pure.
 */
bool observed_read(struct observed *observed, const struct reply *reply);

#endif
