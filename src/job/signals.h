/*
 * Signals, read from a descriptor instead of interrupting.
 *
 * All signals that concern a job are blocked before anything that takes time, so none is missed and
 * none strikes in between. Before the child runs, the descriptor shows only those that end a run
 * (HUP INT QUIT TERM), so that it can serve as a deadline's wake_fd; afterwards also those that are
 * forwarded, and SIGCHLD. A signal that was inherited as ignored stays ignored, though a blocked one
 * still shows up on a descriptor.
 */
#ifndef REDISLOCK_JOB_SIGNALS_H
#define REDISLOCK_JOB_SIGNALS_H

#include <signal.h>
#include <stdbool.h>
#include <sys/signalfd.h>

struct signals {
    int fd;
    sigset_t original_mask; /* as the caller had it: the child gets it back */
    bool chld_ignored;      /* SIGCHLD was inherited as ignored: so is the child's */
};

/*
 * Blocks, and opens the descriptor (close-on-exec, never 0, 1 or 2: those that are closed
 * are filled, see base/descriptor.h). false with errno.
 */
bool signals_open(struct signals *signals);

/* Whether it is one of those that ask a program to end: HUP, INT, QUIT, TERM. */
bool signals_is_fatal(int signal);

/* The next signal that ends the run before it began, or 0; others are dropped. */
int signals_fatal(const struct signals *signals);

/* Before a wait: what was inherited as ignored will not wake us. */
void signals_before_waiting(const struct signals *signals);

/*
 * Right before the child is started: from here on TSTP no longer stops us, and the descriptor shows
 * everything. signals_fatal afterwards drops what came for a child that was not there yet (USR1).
 */
bool signals_before_child(struct signals *signals);

/* The next signal of any kind. false: none pending. */
bool signals_next(const struct signals *signals, struct signalfd_siginfo *info);

#endif
