/*
 * Owns what happens between vfork and exec. Everything the child needs is made before; after the
 * fork only async-signal-safe calls, and only writes to `failure`, because the memory is shared.
 */
#include "job/spawn.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

#define TOO_LATE (-1) /* no errno */

static void become_child(const struct spawn_request *request)
{
    if (request->own_group)
        setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != request->self) /* it died before the line above: nobody would tell us */
        _exit(1);
    if (request->signals->chld_ignored) {
        struct sigaction action = {.sa_handler = SIG_IGN};
        sigemptyset(&action.sa_mask);
        sigaction(SIGCHLD, &action, NULL);
    }
    sigprocmask(SIG_SETMASK, &request->signals->original_mask, NULL);
}

static int status_of_exec_failure(int error)
{
    return error == ENOENT ? 127 : 126;
}

enum spawn_result spawn_child(const struct spawn_request *request, pid_t *pid)
{
    volatile int failure = 0; /* set by the child in our memory: a pipe would cost four calls */

    /*
     * vfork: a sixth of a whole wrap is saved where the page tables need not be copied. It returns
     * here only after the child has called exec or _exit.
     */
    pid_t child = vfork(); /* NOLINT(clang-analyzer-security.insecureAPI.vfork) */
    if (child == 0) {
        become_child(request);
        bool late = clock_boot_ms() >= request->not_after_ms; /* the fork was held up */
        if (!late)
            execvpe(request->argv[0], request->argv, request->environment);
        failure = late ? TOO_LATE : errno;
        _exit(status_of_exec_failure(errno));
    }
    if (child < 0)
        return SPAWN_NO_PROCESS;
    if (failure == 0) {
        *pid = child;
        return SPAWN_OK;
    }
    int error = failure;
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
        continue;
    if (error == TOO_LATE)
        return SPAWN_TOO_LATE;
    errno = error;
    return error == ENOENT ? SPAWN_NOT_FOUND : SPAWN_NOT_EXECUTABLE;
}
