/*
 * Owns the thread and its timer (on CLOCK_BOOTTIME: a turn that came due during a suspend is taken
 * at once afterwards). All signals are blocked before it exists, so none is ever delivered to it.
 */
#include "job/keeper.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>

#include "base/descriptor.h"

#define STACK_BYTES ((size_t)256 * 1024)

static void *keep(void *argument)
{
    struct keeper *keeper = argument;
    struct pollfd watched[2] = {{keeper->stop_fd, POLLIN, 0}, {keeper->timer, POLLIN, 0}};
    for (;;) {
        int64_t next = keeper->work.turn(keeper->work.context);
        clock_timer_set(keeper->timer, next); /* also forgets the expiry that began this turn */
        while (poll(watched, 2, -1) < 0)
            continue;
        if (watched[0].revents != 0)
            return NULL;
    }
}

static int start_thread(struct keeper *keeper)
{
    pthread_attr_t attributes;
    int error = pthread_attr_init(&attributes);
    if (error != 0)
        return error;
    error = pthread_attr_setstacksize(&attributes, STACK_BYTES);
    if (error == 0)
        error = pthread_create(&keeper->thread, &attributes, keep, keeper);
    pthread_attr_destroy(&attributes);
    return error;
}

static void close_descriptors(const struct keeper *keeper)
{
    descriptor_close(keeper->stop_fd);
    descriptor_close(keeper->timer);
}

bool keeper_start(struct keeper *keeper, const struct keeper_work *work)
{
    *keeper = (struct keeper){
        .stop_fd = eventfd(0, EFD_CLOEXEC), .timer = clock_timer_open(), .work = *work};
    int error = keeper->stop_fd < 0 || keeper->timer < 0 ? errno : start_thread(keeper);
    if (error != 0) {
        close_descriptors(keeper);
        *keeper = KEEPER_NONE;
        errno = error;
        return false;
    }
    keeper->running = true;
    return true;
}

void keeper_stop(struct keeper *keeper)
{
    if (!keeper->running)
        return;
    eventfd_write(keeper->stop_fd, 1);
    pthread_join(keeper->thread, NULL);
    close_descriptors(keeper);
    *keeper = KEEPER_NONE;
}
