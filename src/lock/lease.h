/*
 * The arithmetic of a lease: when to extend, when the child must stop, when it must be dead.
 * Pure functions; all times in ms on clock_boot_ms.
 *
 * With T the TTL and t the moment just before the confirmed attempt was sent:
 *
 *     valid   V = t + 0.99 T - 10 ms     drift of 1 %, and rounding on both sides
 *     kill    K = V - R                  R = min(0.5 s, T/10): time for KILL to take effect
 *     stop    S = K - G                  G = --kill-after, or min(10 s, T/4): time to stop by itself
 *     extend    = t + T/3                and every attempt at most clamp(T/10, 50 ms, 2 s) long
 *
 * The key lives at least until t + T on the server's clock, so nothing runs when it can be gone.
 */
#ifndef REDISLOCK_LOCK_LEASE_H
#define REDISLOCK_LOCK_LEASE_H

#include <stdbool.h>
#include <stdint.h>

struct lease {
    int64_t ttl_ms;     /* T */
    int64_t grace_ms;   /* G */
    int64_t reserve_ms; /* R */
    int64_t attempt_ms; /* the longest that one exchange with a server may take */
};

#define LEASE_GRACE_DEFAULT (-1)

/*
 * Makes a lease of `ttl_ms`, with `grace_ms` or LEASE_GRACE_DEFAULT. false if the first extension
 * and a second try would not fit before the child must stop; then `*lease` is untouched and
 * `*least_ttl_ms` is the smallest TTL that does with this grace.
 */
bool lease_make(int64_t ttl_ms, int64_t grace_ms, struct lease *lease, int64_t *least_ttl_ms);

int64_t lease_valid_until(const struct lease *lease, int64_t confirmed_ms); /* V */
int64_t lease_kill_at(const struct lease *lease, int64_t confirmed_ms);     /* K */
int64_t lease_stop_at(const struct lease *lease, int64_t confirmed_ms);     /* S */
int64_t lease_extend_at(const struct lease *lease, int64_t confirmed_ms);

/* The longest pause before a failed extension is tried again; the shortest is LEASE_RETRY_MIN_MS. */
#define LEASE_RETRY_MIN_MS 100
int64_t lease_retry_max(const struct lease *lease);

#endif
