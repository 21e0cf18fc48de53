/*
 * Owns the fork of a process that nobody waits for. Called while there is no second thread, so the
 * child may do whatever we may.
 */
#include "job/detach.h"

#include <fcntl.h>
#include <unistd.h>

static void leave_caller(int kept)
{
    setsid();
    (void)!chdir("/");
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = STDIN_FILENO; null >= 0 && fd <= STDERR_FILENO; fd++)
        if (fd != kept)
            dup2(null, fd);
    if (null > STDERR_FILENO)
        close(null);
}

/* Closes what was inherited: all that is not close-on-exec, as ours are. */
static void close_inherited(int kept)
{
    long most = sysconf(_SC_OPEN_MAX);
    for (int fd = STDERR_FILENO + 1; fd < most && fd < 65536; fd++) {
        int flags = fcntl(fd, F_GETFD);
        if (flags >= 0 && (flags & FD_CLOEXEC) == 0 && fd != kept)
            close(fd);
    }
}

pid_t detach_spawn(int (*body)(void *context), void *context, int kept)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    leave_caller(kept);
    close_inherited(kept);
    _exit(body(context));
}
