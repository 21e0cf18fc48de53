/*
 * pristine COMMAND [ARG...]: runs COMMAND as a login shell would find the world: only stdin, stdout
 * and stderr open, every signal at its default and none blocked.
 *
 * What runs the tests leaves traces that the tests would take for redislock's: prove and its callers
 * descriptors, make two ignored signals (32 and 33: glibc's posix_spawn ignores what it uses itself,
 * and lets no program put that right but by the system call).
 */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The kernel's own struct sigaction differs between machines; zeros are SIG_DFL in all of them. */
static void signals_default(void)
{
    static const char zeros[256];
    sigset_t none;

    for (int number = 1; number < _NSIG; number++)
        syscall(SYS_rt_sigaction, number, zeros, NULL, (size_t)(_NSIG - 1) / 8);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static void descriptors_close(void)
{
    DIR *open_now = opendir("/proc/self/fd");
    const struct dirent *entry;

    if (open_now == NULL)
        return;
    while ((entry = readdir(open_now)) != NULL) {
        int fd = atoi(entry->d_name);
        if (fd > STDERR_FILENO && fd != dirfd(open_now))
            close(fd);
    }
    closedir(open_now);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: pristine COMMAND [ARG...]\n");
        return 2;
    }
    signals_default();
    descriptors_close();
    execvp(argv[1], argv + 1);
    fprintf(stderr, "pristine: %s: %s\n", argv[1], strerror(errno));
    return errno == ENOENT ? 127 : 126;
}
