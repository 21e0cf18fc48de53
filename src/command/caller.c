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
#include <unistd.h>

#include "base/text.h"

#define FORKED_ONLY 0x40 /* PF_FORKNOEXEC: it has not executed a program of its own */
#define CLIMB_MAX   16

/* The parent of a process that is the fork of a shell; 0: it is a program of its own, or unknown. */
static pid_t parent_of_subshell(pid_t pid)
{
    char path_storage[64];
    char line[1024];
    struct text path = TEXT_OVER(path_storage);
    text_addf(&path, "/proc/%d/stat", (int)pid);
    int fd = open(path.at, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, line, sizeof(line) - 1) : -1;
    if (fd >= 0)
        close(fd);
    line[got > 0 ? got : 0] = '\0';
    const char *rest = strrchr(line, ')'); /* the name before it may hold anything */
    if (rest == NULL || strlen(rest) < strlen(") S "))
        return 0;
    /* proc(5): state, parent, group, session, terminal, its group, flags */
    char *at;
    long parent = strtol(rest + strlen(") S "), &at, 10);
    for (int skipped = 0; skipped < 4; skipped++)
        (void)strtol(at, &at, 10);
    unsigned long flags = strtoul(at, NULL, 10);
    return (flags & FORKED_ONLY) != 0 ? (pid_t)parent : 0;
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
        pid_t above = parent_of_subshell(script);
        if (above <= 0 || !reads_output(above, script))
            break;
        script = above;
    }
    return script;
}
