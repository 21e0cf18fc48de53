/*
 * Owns the back-off. Promises that clients which failed together do not come back together.
 */
#include "lock/pause.h"

#include "base/clock.h"
#include "base/token.h"

int64_t pause_jitter(int64_t ms)
{
    int64_t span = ms * 2 / 5;
    if (span <= 0)
        return ms;
    uint32_t bound = span < UINT32_MAX ? (uint32_t)span : UINT32_MAX;
    return ms - span / 2 + token_random_below(bound);
}

enum deadline_result pause_wait(struct pause *pause, const struct deadline *deadline)
{
    int64_t until = clock_boot_ms() + pause_jitter(pause->next_ms);
    struct deadline wait = deadline_sooner(*deadline, until);
    enum deadline_result result = deadline_wait(-1, 0, &wait);
    if (pause->next_ms < PAUSE_MAX_MS)
        pause->next_ms *= 2;
    if (result == DEADLINE_PASSED && wait.at_ms == until && until < deadline->at_ms)
        return DEADLINE_READY;
    return result;
}
