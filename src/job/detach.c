/*
 * Owns the fork of a process that nobody waits for. Called while there is no second thread, so the
 * child may do whatever we may.
 */
#include "job/detach.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
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

/* What was inherited is what is not close-on-exec, as ours are. */
static void close_if_inherited(int fd, int kept)
{
    int flags = fd > STDERR_FILENO && fd != kept ? fcntl(fd, F_GETFD) : -1;
    if (flags >= 0 && (flags & FD_CLOEXEC) == 0)
        close(fd);
}

/* By the list of what is open: a limit of a million descriptors would be as many calls. */
static void close_inherited(int kept)
{
    DIR *open_ones = opendir("/proc/self/fd");
    long most = open_ones == NULL ? sysconf(_SC_OPEN_MAX) : 0;
    const struct dirent *entry;
    while (open_ones != NULL && (entry = readdir(open_ones)) != NULL)
        close_if_inherited((int)strtol(entry->d_name, NULL, 10), kept);
    for (int fd = 0; fd < most && fd < 65536; fd++)
        close_if_inherited(fd, kept);
    if (open_ones != NULL)
        closedir(open_ones);
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
