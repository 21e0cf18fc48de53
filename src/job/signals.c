/*
 * Owns the signal mask and the signalfd. Promises that dispositions stay as inherited, except for
 * SIGCHLD, without which waiting for a child does not work; spawn.c gives that one back.
 */
#include "job/signals.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/descriptor.h"

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

static const int fatal[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM};
static const int forwarded[] = {SIGUSR1, SIGUSR2, SIGWINCH, SIGCONT};
/* never acted on, but they must not strike: our own writes (to a closed pipe, beyond the limit of a
   file), and a terminal that is not ours */
static const int silent[] = {SIGPIPE, SIGXFSZ, SIGTTIN, SIGTTOU};

static void add(sigset_t *set, const int *signals, size_t count)
{
    for (size_t i = 0; i < count; i++)
        sigaddset(set, signals[i]);
}

static bool is_ignored(int signal)
{
    struct sigaction action;
    return sigaction(signal, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

/* The first descriptor we open tells whether 0, 1 and 2 are taken: the lowest free one is given. */
static int above_stdio(int fd)
{
    if (fd < 0 || fd > STDERR_FILENO)
        return fd;
    int moved = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    close(fd);
    descriptor_fill_standard();
    return moved;
}

bool signals_open(struct signals *signals)
{
    sigset_t blocked;
    sigset_t shown;
    sigemptyset(&blocked);
    sigemptyset(&shown);
    add(&blocked, fatal, LENGTH(fatal));
    add(&blocked, forwarded, LENGTH(forwarded));
    add(&blocked, silent, LENGTH(silent));
    sigaddset(&blocked, SIGCHLD);
    if (sigprocmask(SIG_BLOCK, &blocked, &signals->original_mask) != 0)
        return false;

    struct sigaction action = {.sa_handler = SIG_DFL};
    struct sigaction before;
    sigemptyset(&action.sa_mask);
    sigaction(SIGCHLD, &action, &before);
    signals->chld_ignored = before.sa_handler == SIG_IGN;

    add(&shown, fatal, LENGTH(fatal));
    signals->fd = above_stdio(signalfd(-1, &shown, SFD_CLOEXEC | SFD_NONBLOCK));
    return signals->fd >= 0;
}

void signals_before_waiting(const struct signals *signals)
{
    sigset_t shown;
    sigemptyset(&shown);
    for (size_t i = 0; i < LENGTH(fatal); i++)
        if (!is_ignored(fatal[i]))
            sigaddset(&shown, fatal[i]);
    (void)signalfd(signals->fd, &shown, 0);
}

bool signals_next(const struct signals *signals, struct signalfd_siginfo *info)
{
    for (;;) {
        ssize_t got;
        do
            got = read(signals->fd, info, sizeof(*info));
        while (got < 0 && errno == EINTR);
        if (got != (ssize_t)sizeof(*info))
            return false;
        if (info->ssi_signo == SIGCHLD || !is_ignored((int)info->ssi_signo))
            return true;
    }
}

bool signals_is_fatal(int signal)
{
    for (size_t i = 0; i < LENGTH(fatal); i++)
        if (signal == fatal[i])
            return true;
    return false;
}

int signals_fatal(const struct signals *signals)
{
    struct signalfd_siginfo info;
    while (signals_next(signals, &info)) {
        /* others come as well just before the child runs: a USR1, or the CHLD of a child that this
           process had before it became redislock */
        if (signals_is_fatal((int)info.ssi_signo))
            return (int)info.ssi_signo;
    }
    return 0;
}

bool signals_before_child(struct signals *signals)
{
    sigset_t stop;
    sigset_t shown;
    sigemptyset(&stop);
    sigaddset(&stop, SIGTSTP);
    if (sigprocmask(SIG_BLOCK, &stop, NULL) != 0)
        return false;
    sigemptyset(&shown);
    add(&shown, fatal, LENGTH(fatal));
    add(&shown, forwarded, LENGTH(forwarded));
    sigaddset(&shown, SIGTSTP);
    sigaddset(&shown, SIGCHLD);
    return signalfd(signals->fd, &shown, 0) >= 0;
}
