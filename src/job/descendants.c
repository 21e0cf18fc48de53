/*
 * Owns the reading of /proc. Promises never to signal a process that is not a descendant: each is
 * pinned by a pidfd and recognised again by its start time before the signal goes out.
 */
#include "job/descendants.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/text.h"

#define STAT_BYTES    1024
#define ENVIRON_BYTES 262144
#define TABLE_GROWTH  256

struct process {
    pid_t pid;
    pid_t parent;
    pid_t group;
    bool dead; /* zombie: nothing of it runs */
    bool counts;
    unsigned long long start; /* clock ticks since boot */
};

struct table {
    struct process *rows;
    size_t count;
    size_t capacity;
};

void descendants_adopt(void)
{
    prctl(PR_SET_CHILD_SUBREAPER, 1);
}

static ssize_t read_file(pid_t pid, const char *name, char *bytes, size_t size)
{
    char path_storage[64];
    struct text path = TEXT_OVER(path_storage);
    text_add(&path, "/proc/");
    text_add_int(&path, pid);
    text_add_char(&path, '/');
    text_add(&path, name);
    int fd = open(path.at, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    size_t used = 0;
    ssize_t got;
    while (used < size - 1 && (got = read(fd, bytes + used, size - 1 - used)) > 0)
        used += (size_t)got;
    close(fd);
    bytes[used] = '\0';
    return (ssize_t)used;
}

/* Moves past `count` blank-separated fields. */
static const char *skip_fields(const char *at, int count)
{
    while (count-- > 0 && at != NULL) {
        at = strchr(at, ' ');
        if (at != NULL)
            at++;
    }
    return at;
}

/* proc(5): pid (comm) state ppid pgrp … starttime is field 22; comm may hold blanks and brackets */
static bool read_process(pid_t pid, struct process *process)
{
    char bytes[STAT_BYTES];
    if (read_file(pid, "stat", bytes, sizeof(bytes)) <= 0)
        return false;
    const char *at = strrchr(bytes, ')');
    if (at == NULL || at[1] != ' ')
        return false;
    at += 2;
    char state = *at;
    const char *parent = skip_fields(at, 1);
    const char *group = skip_fields(at, 2);
    const char *start = skip_fields(at, 19);
    if (parent == NULL || group == NULL || start == NULL)
        return false;
    *process = (struct process){
        .pid = pid,
        .parent = (pid_t)strtol(parent, NULL, 10),
        .group = (pid_t)strtol(group, NULL, 10),
        .dead = state == 'Z' || state == 'X' || state == 'x',
        .start = strtoull(start, NULL, 10),
    };
    return true;
}

static bool table_add(struct table *table, const struct process *process)
{
    if (table->count == table->capacity) {
        size_t capacity = table->capacity + TABLE_GROWTH;
        struct process *rows = realloc(table->rows, capacity * sizeof(*rows));
        if (rows == NULL)
            return false;
        table->rows = rows;
        table->capacity = capacity;
    }
    table->rows[table->count++] = *process;
    return true;
}

static bool table_read(struct table *table)
{
    DIR *directory = opendir("/proc");
    if (directory == NULL)
        return false;
    bool complete = true;
    const struct dirent *entry;
    while (complete && (entry = readdir(directory)) != NULL) {
        char *end;
        long pid = strtol(entry->d_name, &end, 10);
        struct process process;
        if (pid > 0 && *end == '\0' && read_process((pid_t)pid, &process))
            complete = table_add(table, &process);
    }
    closedir(directory);
    return complete;
}

static bool is_first_generation(const struct process *process, const struct descendants *who)
{
    static const int64_t ms_per_second = 1000;
    int64_t ticks = who->since_ms * sysconf(_SC_CLK_TCK) / ms_per_second;
    if (process->parent != who->root || process->pid == who->except)
        return false;
    /* a tick is 10 ms: near the command's, the order of the numbers is that of the forks */
    unsigned long long began = (unsigned long long)ticks;
    return process->start > began + 1 || (process->start >= began && process->pid >= who->child);
}

static bool parent_counts(const struct table *table, const struct process *process)
{
    for (size_t i = 0; i < table->count; i++)
        if (table->rows[i].pid == process->parent)
            return table->rows[i].counts;
    return false;
}

/* Marks the descendants, generation by generation, until nothing changes. */
static void table_mark(struct table *table, const struct descendants *who)
{
    for (size_t i = 0; i < table->count; i++)
        table->rows[i].counts = is_first_generation(&table->rows[i], who);
    bool changed;
    do {
        changed = false;
        for (size_t i = 0; i < table->count; i++) {
            struct process *row = &table->rows[i];
            if (!row->counts && row->parent != who->root && parent_counts(table, row)) {
                row->counts = true;
                changed = true;
            }
        }
    } while (changed);
}

/* A pidfd pins the number; the start time tells whether it still is the process that was seen. */
static void signal_exactly(const struct process *process, int signal)
{
    int fd = (int)syscall(SYS_pidfd_open, process->pid, 0);
    struct process now;
    bool same = read_process(process->pid, &now) && now.start == process->start;
    if (fd < 0) {
        if (same)
            kill(process->pid, signal); /* a kernel before 5.3, or one that forbids pidfds */
        return;
    }
    if (same)
        syscall(SYS_pidfd_send_signal, fd, signal, NULL, 0);
    close(fd);
}

int descendants_signal(const struct descendants *who, int signal, pid_t except_group)
{
    struct table table = {NULL, 0, 0};
    int living = -1;
    if (table_read(&table)) {
        living = 0;
        table_mark(&table, who);
        for (size_t i = 0; i < table.count; i++) {
            const struct process *row = &table.rows[i];
            if (!row->counts || row->dead)
                continue;
            living++;
            if (signal != 0 && (except_group == 0 || row->group != except_group))
                signal_exactly(row, signal);
        }
    }
    free(table.rows);
    return living;
}

bool descendants_have_ended(void)
{
    siginfo_t child;
    return waitid(P_ALL, 0, &child, WEXITED | WNOHANG | WNOWAIT) != 0 && errno == ECHILD;
}

static void add_name(struct text *names, pid_t pid)
{
    char bytes[STAT_BYTES];
    if (names->length > 0)
        text_add(names, ", ");
    if (read_file(pid, "comm", bytes, sizeof(bytes)) > 0)
        text_add_bytes(names, bytes, strcspn(bytes, "\n"));
    text_addf(names, " (%d)", (int)pid);
}

int descendants_name(const struct descendants *who, struct text *names)
{
    struct table table = {NULL, 0, 0};
    int living = -1;
    if (table_read(&table)) {
        living = 0;
        table_mark(&table, who);
        for (size_t i = 0; i < table.count; i++) {
            if (!table.rows[i].counts || table.rows[i].dead)
                continue;
            living++;
            add_name(names, table.rows[i].pid);
        }
    }
    free(table.rows);
    return living;
}

static bool has_marker(const char *environment, size_t length, const char *marker)
{
    for (const char *at = environment; at < environment + length; at += strlen(at) + 1)
        if (strcmp(at, marker) == 0)
            return true;
    return false;
}

int descendants_kill_marked(pid_t group, const char *marker)
{
    struct table table = {NULL, 0, 0};
    int found = 0;
    char *environment = malloc(ENVIRON_BYTES);
    if (environment != NULL && table_read(&table)) {
        for (size_t i = 0; i < table.count; i++) {
            const struct process *row = &table.rows[i];
            if (row->group != group || row->dead)
                continue;
            ssize_t length = read_file(row->pid, "environ", environment, ENVIRON_BYTES);
            if (length <= 0 || !has_marker(environment, (size_t)length, marker))
                continue;
            signal_exactly(row, SIGKILL);
            found++;
        }
    }
    free(environment);
    free(table.rows);
    return found;
}
