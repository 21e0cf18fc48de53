/*
 * Prints the peak resident memory of a command's own process, without what its children use.
 *
 *   peak COMMAND...       "VmHWM RSS FAULTS": kB, kB, minor faults, of the process as it exits
 *
 * wait4's ru_maxrss will not do: it is inherited over exec from whoever started the process, and
 * holds the children's. So the process is traced and stopped as it exits, while its memory still
 * stands. RSS is from smaps_rollup, exact at that moment; VmHWM is the kernel's own high water mark,
 * which may lag by some pages for each processor.
 */
#include "bench.h"

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>

static long field_of(pid_t pid, const char *file, const char *field)
{
    char line[256];
    snprintf(line, sizeof line, "/proc/%d/%s", (int)pid, file);
    FILE *stream = fopen(line, "re");
    long value = -1;
    if (stream == NULL)
        return value;
    while (value < 0 && fgets(line, sizeof line, stream) != NULL)
        if (strncmp(line, field, strlen(field)) == 0)
            value = strtol(line + strlen(field), NULL, 10);
    fclose(stream);
    return value;
}

static pid_t start(char **argv)
{
    int go[2];
    char byte = 0;
    if (pipe2(go, O_CLOEXEC) != 0)
        die("peak", "pipe: %s", strerror(errno));
    pid_t pid = fork();
    if (pid == 0) {
        close(go[1]);
        if (read(go[0], &byte, 1) == 1)
            execvp(argv[0], argv);
        _exit(127);
    }
    if (pid < 0 || ptrace(PTRACE_SEIZE, pid, NULL, PTRACE_O_TRACEEXIT) != 0)
        die("peak", "cannot trace: %s", strerror(errno));
    if (write(go[1], &byte, 1) != 1)
        die("peak", "cannot start: %s", strerror(errno));
    close(go[0]);
    close(go[1]);
    return pid;
}

int main(int argc, char **argv)
{
    if (argc < 2)
        die("peak", "usage: peak COMMAND...");
    pid_t pid = start(argv + 1);
    long high = -1;
    long resident = -1;
    int status;
    struct rusage usage = {0};
    while (wait4(pid, &status, 0, &usage) == pid && WIFSTOPPED(status)) {
        int event = status >> 16;
        if (event == PTRACE_EVENT_EXIT) {
            high = field_of(pid, "status", "VmHWM:");
            resident = field_of(pid, "smaps_rollup", "Rss:");
        }
        /* a signal that was about to be delivered goes on to the process */
        ptrace(PTRACE_CONT, pid, NULL, event == 0 ? (long)WSTOPSIG(status) : 0L);
    }
    if (!WIFEXITED(status) || high < 0)
        die("peak", "%s did not exit by itself", argv[1]);
    printf("%ld\t%ld\t%ld\n", high, resident, usage.ru_minflt);
    return WEXITSTATUS(status);
}
