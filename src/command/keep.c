/*
 * Owns the decisions of a turn: extended, put back, lost, or try again. May not stop the child:
 * that is the supervisor's, which hears of a loss through the descriptor.
 */
#include "command/keep.h"

#include <sys/eventfd.h>

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/event.h"
#include "base/log.h"
#include "base/text.h"
#include "command/report.h"
#include "lock/pause.h"

void keep_init(struct keep *keep, const struct config *config, const struct lease *lease,
               struct lock *lock)
{
    *keep = (struct keep){.config = config,
                          .lease = lease,
                          .lock = lock,
                          .keeper = KEEPER_NONE,
                          .stop_timer = -1,
                          .kill_timer = -1,
                          .lost_fd = -1,
                          .retry_ms = LEASE_RETRY_MIN_MS};
    atomic_init(&keep->lost, false);
}

static void tell(const struct keep *keep, const char *what)
{
    struct event event;
    event_begin(&event, keep->config->status_fd, what, keep->config->name);
    event_int(&event, "fence", lock_fence(keep->lock));
    event_send(&event);
}

static int64_t extended(struct keep *keep)
{
    int64_t confirmed = lock_confirmed_ms(keep->lock);
    clock_timer_set(keep->stop_timer, lease_stop_at(keep->lease, confirmed));
    clock_timer_set(keep->kill_timer, lease_kill_at(keep->lease, confirmed));
    if (keep->told)
        log_notice("the lock is being extended again");
    else
        log_info("extended the lock");
    keep->failing = false;
    keep->told = false;
    keep->retry_ms = LEASE_RETRY_MIN_MS;
    tell(keep, "extended");
    return lease_extend_at(keep->lease, confirmed);
}

static int64_t try_again(struct keep *keep)
{
    int64_t now = clock_boot_ms();
    int64_t stop = lease_stop_at(keep->lease, lock_confirmed_ms(keep->lock));
    int64_t pause = pause_jitter(keep->retry_ms);
    if (!keep->failing)
        log_info("cannot extend the lock: %s; trying again", lock_why(keep->lock));
    keep->failing = true;
    /* an outage that ends in time is nobody's business; this one will not */
    if (now + pause + keep->lease->attempt_ms >= stop && !keep->told) {
        log_warning("cannot extend the lock: %s", lock_why(keep->lock));
        keep->told = true;
    }
    keep->retry_ms *= 2;
    if (keep->retry_ms > lease_retry_max(keep->lease))
        keep->retry_ms = lease_retry_max(keep->lease);
    return now + pause;
}

static int64_t lost(struct keep *keep, enum lock_result result, bool expired)
{
    struct text loss = TEXT_OVER(keep->loss);
    if (result == LOCK_TAKEN) {
        text_add(&loss, "it is now ");
        report_add_blocker(&loss, lock_blocker(keep->lock));
    } else if (result == LOCK_NOT_A_LOCK) {
        text_add(&loss, "its key now holds something else");
    } else if (expired) {
        text_add(&loss, "it has expired");
    } else if (keep->config->shared || keep->config->slots > 1) {
        text_add(&loss, "our place among the holders vanished");
    } else if (keep->config->restore) {
        text_add(&loss, "its key vanished, and it was taken away or held by somebody else since");
    } else {
        text_add(&loss, "its key vanished");
    }
    atomic_store(&keep->lost, true);
    eventfd_write(keep->lost_fd, 1);
    return CLOCK_NEVER;
}

static int64_t turn(void *context)
{
    struct keep *keep = context;
    bool restored = false;
    enum lock_result result = lock_extend(keep->lock);
    /* once the child is being stopped for it, the lock is not to come back */
    bool expired = clock_boot_ms() >= lease_stop_at(keep->lease, lock_confirmed_ms(keep->lock));
    if (result == LOCK_GONE && keep->config->restore && !expired) {
        result = lock_restore(keep->lock);
        restored = result == LOCK_OK;
    }
    switch (result) {
    case LOCK_OK:
        if (restored) {
            log_warning("the lock's key had vanished from the server; nobody took the lock since, "
                        "so it was put back");
            tell(keep, "restored");
        }
        return extended(keep);
    case LOCK_GONE:
    case LOCK_TAKEN:
    case LOCK_NOT_A_LOCK:
        return lost(keep, result, expired);
    case LOCK_HELD:
    case LOCK_OTHER_SLOTS:
    case LOCK_DUPLICATE_SERVER:
    case LOCK_INTERRUPTED:
    case LOCK_UNAVAILABLE:
    case LOCK_DENIED:
    case LOCK_UNTRUSTED:
    case LOCK_TOO_FEW_REPLICAS:
    case LOCK_NONSENSE:
    case LOCK_BAD_DATABASE:
    case LOCK_OS:
    default:
        return try_again(keep);
    }
}

int keep_start(struct keep *keep, int stop_timer, int kill_timer)
{
    keep->stop_timer = stop_timer;
    keep->kill_timer = kill_timer;
    keep->lost_fd = eventfd(0, EFD_CLOEXEC);
    const struct keeper_work work = {turn, keep};
    if (keep->lost_fd >= 0 && keeper_start(&keep->keeper, &work))
        return keep->lost_fd;
    descriptor_close(keep->lost_fd);
    keep->lost_fd = -1;
    return -1;
}

void keep_stop(struct keep *keep)
{
    keeper_stop(&keep->keeper);
}

const char *keep_loss(const struct keep *keep)
{
    return atomic_load(&keep->lost) ? keep->loss : NULL;
}
