/*
 * Owns the arithmetic of lease.h. Pure: no clock, no I/O.
 */
#include "lock/lease.h"

#define DRIFT_DIVISOR  100 /* 1 % */
#define ROUNDING_MS    10
#define RESERVE_MAX_MS 500
#define GRACE_MAX_MS   10000
#define ATTEMPT_MIN_MS 50
#define ATTEMPT_MAX_MS 2000

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static struct lease shape(int64_t ttl_ms, int64_t grace_ms)
{
    struct lease lease = {.ttl_ms = ttl_ms};
    lease.grace_ms = grace_ms >= 0 ? grace_ms : smaller(GRACE_MAX_MS, ttl_ms / 4);
    lease.reserve_ms = smaller(RESERVE_MAX_MS, ttl_ms / 10);
    lease.attempt_ms = smaller(ATTEMPT_MAX_MS, ttl_ms / 10);
    if (lease.attempt_ms < ATTEMPT_MIN_MS)
        lease.attempt_ms = ATTEMPT_MIN_MS;
    return lease;
}

static bool fits(const struct lease *lease)
{
    return lease_extend_at(lease, 0) + 2 * lease->attempt_ms <= lease_stop_at(lease, 0);
}

/* The smallest TTL that fits, by halving: what is left for extending grows with the TTL. */
static int64_t least_ttl(int64_t grace_ms)
{
    int64_t low = 1;
    int64_t high = 1;
    struct lease lease = shape(high, grace_ms);
    while (!fits(&lease)) {
        low = high;
        high *= 2;
        lease = shape(high, grace_ms);
    }
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        lease = shape(middle, grace_ms);
        if (fits(&lease))
            high = middle;
        else
            low = middle;
    }
    return high;
}

bool lease_make(int64_t ttl_ms, int64_t grace_ms, struct lease *lease, int64_t *least_ttl_ms)
{
    struct lease made = shape(ttl_ms, grace_ms);
    if (!fits(&made)) {
        *least_ttl_ms = least_ttl(grace_ms);
        return false;
    }
    *lease = made;
    return true;
}

int64_t lease_valid_until(const struct lease *lease, int64_t confirmed_ms)
{
    return confirmed_ms + lease->ttl_ms - (lease->ttl_ms + DRIFT_DIVISOR - 1) / DRIFT_DIVISOR -
           ROUNDING_MS;
}

int64_t lease_kill_at(const struct lease *lease, int64_t confirmed_ms)
{
    return lease_valid_until(lease, confirmed_ms) - lease->reserve_ms;
}

int64_t lease_stop_at(const struct lease *lease, int64_t confirmed_ms)
{
    return lease_kill_at(lease, confirmed_ms) - lease->grace_ms;
}

int64_t lease_extend_at(const struct lease *lease, int64_t confirmed_ms)
{
    return confirmed_ms + lease->ttl_ms / 3;
}

int64_t lease_retry_max(const struct lease *lease)
{
    int64_t most = lease->ttl_ms / 12;
    return most > LEASE_RETRY_MIN_MS ? most : LEASE_RETRY_MIN_MS;
}
