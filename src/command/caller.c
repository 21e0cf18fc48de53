/*
 * Owns the question who the calling script is. Reads /proc and nothing else; what it may not read
 * there, it does without. The answer is that of one moment: who needs it for longer asks again once
 * the process is held by a pidfd.
 */
#include "command/caller.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"

#define FORKED_ONLY 0x40 /* PF_FORKNOEXEC: it has not executed a program of its own */
#define CLIMB_MAX   16
#define NAPS_MAX    1000 /* of a millisecond */

struct process {
    char state; /* as ps shows it */
    pid_t parent;
    unsigned long flags;
};

/* What a file of /proc says, or an empty text. */
static void read_text(const char *path, char *bytes, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, bytes, size - 1) : -1;
    if (fd >= 0)
        close(fd);
    bytes[got > 0 ? got : 0] = '\0';
}

static bool read_process(pid_t pid, struct process *process)
{
    char path_storage[64];
    char line[1024];
    struct text path = TEXT_OVER(path_storage);
    text_addf(&path, "/proc/%d/stat", (int)pid);
    read_text(path.at, line, sizeof(line));
    const char *rest = strrchr(line, ')'); /* the name before it may hold anything */
    if (rest == NULL || strlen(rest) < strlen(") S 1"))
        return false;
    /* proc(5): state, parent, group, session, terminal, its group, flags */
    char *at;
    process->state = rest[strlen(") ")];
    process->parent = (pid_t)strtol(rest + strlen(") S"), &at, 10);
    for (int skipped = 0; skipped < 4; skipped++)
        (void)strtol(at, &at, 10);
    process->flags = strtoul(at, NULL, 10);
    return true;
}

/* Whether `reader` has the reading end of the pipe that is the stdout of `writer`. */
static bool reads_output(pid_t reader, pid_t writer)
{
    char path_storage[64];
    struct stat output;
    struct text path = TEXT_OVER(path_storage);
    text_addf(&path, "/proc/%d/fd/1", (int)writer);
    if (stat(path.at, &output) != 0 || !S_ISFIFO(output.st_mode))
        return false;
    path = TEXT_OVER(path_storage);
    text_addf(&path, "/proc/%d/fd", (int)reader);
    DIR *folder = opendir(path.at);
    bool found = false;
    for (struct dirent *entry; folder != NULL && !found && (entry = readdir(folder)) != NULL;) {
        struct stat link; /* its mode tells how the descriptor was opened */
        struct stat file;
        found = fstatat(dirfd(folder), entry->d_name, &link, AT_SYMLINK_NOFOLLOW) == 0 &&
                (link.st_mode & S_IRUSR) != 0 &&
                fstatat(dirfd(folder), entry->d_name, &file, 0) == 0 &&
                file.st_dev == output.st_dev && file.st_ino == output.st_ino;
    }
    if (folder != NULL)
        closedir(folder);
    return found;
}

/* Whether another child of `shell` reads what `subshell` prints: then the two are a pipeline. */
static bool is_piped(pid_t shell, pid_t subshell)
{
    char path_storage[64];
    char children[4096];
    struct text path = TEXT_OVER(path_storage);
    text_addf(&path, "/proc/%d/task/%d/children", (int)shell, (int)shell);
    read_text(path.at, children, sizeof(children));
    char *at = children;
    bool piped = false;
    while (!piped && *at != '\0') {
        char *end;
        pid_t child = (pid_t)strtol(at, &end, 10);
        if (end == at)
            break;
        piped = child != subshell && reads_output(child, subshell);
        at = end + strspn(end, " ");
    }
    return piped;
}

/*
 * Whether `subshell` is there only for what it prints: its shell sleeps, reading that. A shell that
 * makes a pipeline has the reading end for a moment as well. But then it is at work, or it waits for
 * the next process of the pipeline to begin, which has that end too.
 */
static bool is_substitution(pid_t shell, pid_t subshell)
{
    const struct timespec nap = {0, 1000000};
    struct process process;
    for (int naps = 0; naps < NAPS_MAX; naps++) {
        if (!read_process(shell, &process))
            return false;
        bool asleep = process.state == 'S'; /* before the rest is looked at, which may change */
        if (!reads_output(shell, subshell) || is_piped(shell, subshell))
            return false;
        if (asleep)
            return true;
        nanosleep(&nap, NULL);
    }
    return true; /* a lock that is held for too long does less harm than one that is gone */
}

/*
 * Whoever started us is in our session, unless we lead one that was made for us alone. A process that
 * adopts orphans is not; and the first process starts many, but is no script where it is in another.
 */
static bool has_inherited_us(pid_t parent)
{
    pid_t session = getsid(0);
    return parent <= 0 || (getsid(parent) != session && (parent == 1 || session != getpid()));
}

pid_t caller_script(void)
{
    pid_t script = getppid();
    if (has_inherited_us(script))
        return 0;
    for (int i = 0; i < CLIMB_MAX; i++) {
        struct process process;
        if (!read_process(script, &process) || (process.flags & FORKED_ONLY) == 0 ||
            !is_substitution(process.parent, script))
            break;
        script = process.parent;
    }
    return script;
}
