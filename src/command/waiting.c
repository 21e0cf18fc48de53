/*
 * Owns the line that a waiter shows. May not slow the wait down: it is told, and asks nothing.
 */
#include "command/waiting.h"

#include <unistd.h>

#include "base/event.h"
#include "base/log.h"
#include "base/text.h"
#include "command/report.h"

void waiting_init(struct waiting *waiting, const struct config *config)
{
    *waiting = (struct waiting){.config = config};
    waiting->terminal =
        config->log_format == LOG_FORMAT_TEXT && !config->quiet && isatty(STDERR_FILENO) == 1;
}

static void tell_event(struct waiting *waiting, const struct lock_blocker *blocker)
{
    struct event event;
    event_begin(&event, waiting->config->status_fd, "waiting", waiting->config->name);
    event_int(&event, "ahead", blocker->ahead);
    event_send(&event);
}

/* Whether there is something new to tell. That time passes is nothing new. */
static bool note(struct waiting *waiting, const struct lock_blocker *blocker)
{
    bool same = waiting->begun && waiting->told.fence == blocker->holder.fence &&
                waiting->told.kind == blocker->holder.kind &&
                waiting->told.holders == blocker->holders && waiting->told.ahead == blocker->ahead;
    waiting->begun = true;
    waiting->told.fence = blocker->holder.fence;
    waiting->told.kind = blocker->holder.kind;
    waiting->told.holders = blocker->holders;
    waiting->told.ahead = blocker->ahead;
    return !same;
}

static void tell(void *context, const struct lock_blocker *blocker, bool polls)
{
    struct waiting *waiting = context;
    char storage[512];
    struct text text = TEXT_OVER(storage);
    text_add(&text, "waiting, ");
    text_add_int(&text, blocker->ahead);
    text_add(&text, " ahead; ");
    report_add_blocker(&text, blocker);

    if (polls && !waiting->polls)
        log_info("cannot listen to the server (pub/sub is forbidden, or its memory full): "
                 "waiting by polling");
    waiting->polls = polls;
    if (waiting->terminal)
        log_status(text.at);
    if (!note(waiting, blocker))
        return;
    tell_event(waiting, blocker);
    if (!waiting->terminal)
        log_info("%s", text.at);
}

struct lock_waiting waiting_for_lock(struct waiting *waiting)
{
    return (struct lock_waiting){tell, waiting, waiting->terminal};
}

void waiting_end(struct waiting *waiting)
{
    if (waiting->terminal && waiting->begun)
        log_status(NULL);
}
