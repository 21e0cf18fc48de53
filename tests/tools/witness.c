/*
 * witness: a child that tells what it sees, and misbehaves on request.
 *
 * Build: cc -O1 -g -std=c11 -D_GNU_SOURCE tests/tools/witness.c -o build/tools/witness
 *
 * Without a behaviour, or with --report, it writes what it sees as `name value` lines, all in one
 * write, on stdout or at the end of --out FILE: pid ppid pgid sid tpgid tty cwd, `arg N TEXT`,
 * `env NAME=VALUE`, `fd N TARGET`, umask and signal masks as /proc has them, pdeathsig, nice,
 * nofile. Bytes that would break a line are escaped. The report comes before any behaviour changes
 * what it tells. Behaviours then happen in the order of the help text. Nothing it starts lives
 * longer than TOOL_LIFE_SECONDS.
 */
#include <dirent.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "tool.h"

#define FOREVER_MS ((int64_t)TOOL_LIFE_SECONDS * 1000)

#if defined(__SANITIZE_ADDRESS__)
/*
 * At its end the sanitizer stops a process to look for leaks. A CONT that redislock forwards at that
 * moment takes the stop back, and the end never comes.
 */
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    return 1;
}
#endif

struct wishes {
    const char *out; /* NULL: stdout */
    const char *log; /* NULL: none */
    bool report;
    bool copy_stdin;
    bool daemonize;
    bool watch;  /* log signals while lingering */
    int exit_on; /* with watch: the signal that ends it; 0: none */
    int64_t forks;
    int64_t tick_ms;   /* 0: no ticks */
    int64_t linger_ms; /* -1: not given */
    int die;           /* 0: exit instead */
    int status;
    sigset_t ignore;
};

static const char help[] =
    "usage: witness [OPTION]... [ARG]...\n"
    "  --report            write what it sees; the default when no behaviour is asked for\n"
    "  --now               print CLOCK_BOOTTIME in ms and exit\n"
    "  --out FILE          report, ticks and signals go to the end of FILE, not to stdout\n"
    "  --ignore SIG        ignore SIG, descendants too (may be repeated)\n"
    "  --log FILE          `start MS PID FENCE` here, `end MS PID FENCE` before the end\n"
    "  --stdin             copy stdin to stdout\n"
    "  --fork N            N children in the same group that tick until they are killed\n"
    "  --daemonize         a double-forked ticker in a session of its own, without 0, 1 and 2\n"
    "  --signals S|inf     `ready PID`, then log each catchable signal for S seconds\n"
    "  --exit-on SIG       with --signals: end there\n"
    "  --tick MS           `tick MS PID` every MS until killed, or as long as --sleep\n"
    "  --sleep MS|inf      stay that long\n"
    "  --die SIG           end by SIG\n"
    "  --exit N            end with status N\n";

/* One write, so that lines of several witnesses do not mix. EIO: the terminal was hung up. */
static void emit(const char *path, const char *bytes, size_t length)
{
    int fd = path ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666) : STDOUT_FILENO;
    if (fd < 0 || (write(fd, bytes, length) != (ssize_t)length && errno != EIO))
        fail("%s: %s", path ? path : "stdout", strerror(errno));
    if (path != NULL)
        close(fd);
}

__attribute__((format(printf, 2, 3))) static void emit_line(const char *path, const char *format,
                                                            ...)
{
    char line[256];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    emit(path, line, (size_t)length);
}

/* `text` with everything escaped that would break a line or hide on a terminal. */
static void put_escaped(FILE *report, const char *text)
{
    for (const char *c = text; *c != '\0'; c++) {
        if (*c == '\\')
            fputs("\\\\", report);
        else if ((unsigned char)*c < ' ' || *c == 0x7f)
            fprintf(report, "\\x%02x", (unsigned char)*c);
        else
            fputc(*c, report);
    }
    fputc('\n', report);
}

/* tty and tpgid stand in /proc/self/stat, so nothing has to be opened to learn them. */
static void report_terminal(FILE *report)
{
    char line[1024] = "";
    int tty = 0, foreground = -1;
    FILE *stat = fopen("/proc/self/stat", "re");
    if (stat == NULL || fgets(line, sizeof(line), stat) == NULL)
        fail("/proc/self/stat: %s", strerror(errno));
    fclose(stat);
    const char *rest = strrchr(line, ')');
    if (rest == NULL || sscanf(rest, ") %*c %*d %*d %*d %d %d", &tty, &foreground) != 2)
        fail("/proc/self/stat: \"%s\"", line);
    fprintf(report, "tpgid %d\n", foreground);
    int major = (tty >> 8) & 0xfff, minor = (tty & 0xff) | ((tty >> 12) & 0xfff00);
    if (tty == 0)
        fputs("tty none\n", report);
    else if (major >= 136 && major <= 143)
        fprintf(report, "tty /dev/pts/%d\n", (major - 136) * 256 + minor);
    else
        fprintf(report, "tty %d:%d\n", major, minor);
}

static void report_masks(FILE *report)
{
    static const char *const wanted[] = {"Umask", "SigPnd", "ShdPnd", "SigBlk", "SigIgn", "SigCgt"};
    char line[1024], value[64];
    FILE *status = fopen("/proc/self/status", "re");
    if (status == NULL)
        fail("/proc/self/status: %s", strerror(errno));
    while (fgets(line, sizeof(line), status) != NULL)
        for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
            size_t length = strlen(wanted[i]);
            if (strncmp(line, wanted[i], length) == 0 && line[length] == ':' &&
                sscanf(line + length + 1, "%63s", value) == 1)
                fprintf(report, "%s %s\n", wanted[i], value);
        }
    fclose(status);
}

static void report_descriptors(FILE *report)
{
    DIR *folder = opendir("/proc/self/fd");
    if (folder == NULL)
        fail("/proc/self/fd: %s", strerror(errno));
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        char target[PATH_MAX + 1];
        if (entry->d_name[0] == '.' || number_of(entry->d_name, INT_MAX) == dirfd(folder))
            continue;
        ssize_t length = readlinkat(dirfd(folder), entry->d_name, target, sizeof(target) - 1);
        target[length < 0 ? 0 : length] = '\0';
        fprintf(report, "fd %s ", entry->d_name);
        put_escaped(report, target);
    }
    closedir(folder);
}

static void report_limits(FILE *report)
{
    int death = 0;
    struct rlimit files = {0, 0};
    prctl(PR_GET_PDEATHSIG, &death);
    getrlimit(RLIMIT_NOFILE, &files);
    fprintf(report, "pdeathsig %d\nnice %d\nnofile %ju\n", death, getpriority(PRIO_PROCESS, 0),
            (uintmax_t)files.rlim_cur);
}

static void report_write(const char *path, int argc, char **argv)
{
    char *bytes = NULL;
    size_t length = 0;
    FILE *report = open_memstream(&bytes, &length);
    char *cwd = getcwd(NULL, 0);
    if (report == NULL)
        fail("memory: %s", strerror(errno));
    fprintf(report, "pid %d\nppid %d\npgid %d\nsid %d\n", getpid(), getppid(), getpgrp(),
            getsid(0));
    report_terminal(report);
    fputs("cwd ", report);
    put_escaped(report, cwd ? cwd : strerror(errno));
    for (int i = 0; i < argc; i++) {
        fprintf(report, "arg %d ", i);
        put_escaped(report, argv[i]);
    }
    for (char **entry = environ; *entry != NULL; entry++) {
        fputs("env ", report);
        put_escaped(report, *entry);
    }
    report_descriptors(report);
    report_masks(report);
    report_limits(report);
    fclose(report);
    emit(path, bytes, length);
    free(bytes);
    free(cwd);
}

/* Logs and ticks for `length_ms`; the signals in `watched` are blocked and picked up here. */
static void linger(const struct wishes *wishes, const sigset_t *watched, int64_t length_ms)
{
    int64_t now = boottime_ms(), end = now + length_ms, next_tick = now;
    while ((now = boottime_ms()) < end) {
        if (wishes->tick_ms > 0 && now >= next_tick) {
            emit_line(wishes->out, "tick %lld %d\n", (long long)now, getpid());
            next_tick = now + wishes->tick_ms;
        }
        int64_t until = wishes->tick_ms > 0 && next_tick < end ? next_tick : end;
        struct timespec pause = {until > now ? (until - now) / 1000 : 0,
                                 until > now ? (until - now) % 1000 * 1000000 : 0};
        siginfo_t info;
        int number = sigtimedwait(watched, &info, &pause);
        if (number < 0)
            continue;
        const char *name = signal_name(number);
        if (name != NULL)
            emit_line(wishes->out, "signal %s from %d\n", name, info.si_pid);
        else
            emit_line(wishes->out, "signal %d from %d\n", number, info.si_pid);
        if (number == wishes->exit_on)
            return;
    }
}

/* A descendant: ticks until it is killed. */
__attribute__((noreturn)) static void ticker(const struct wishes *wishes)
{
    struct wishes mine = *wishes;
    sigset_t none;
    sigemptyset(&none);
    mine.watch = false;
    if (mine.tick_ms == 0)
        mine.tick_ms = 20;
    linger(&mine, &none, FOREVER_MS);
    _exit(0);
}

static pid_t fork_or_fail(void)
{
    pid_t pid = fork();
    if (pid < 0)
        fail("fork: %s", strerror(errno));
    return pid;
}

static void start_descendants(const struct wishes *wishes)
{
    for (int64_t i = 0; i < wishes->forks; i++)
        if (fork_or_fail() == 0)
            ticker(wishes);
    if (!wishes->daemonize)
        return;
    pid_t middle = fork_or_fail();
    if (middle == 0) {
        setsid();
        if (fork_or_fail() != 0)
            _exit(0);
        for (int fd = 0; fd < 3; fd++)
            close(fd);
        ticker(wishes);
    }
    waitpid(middle, NULL, 0);
}

static void copy_stdin(void)
{
    char bytes[65536];
    for (ssize_t got; (got = read(STDIN_FILENO, bytes, sizeof(bytes))) != 0;)
        if (got < 0)
            fail("stdin: %s", strerror(errno));
        else
            emit(NULL, bytes, (size_t)got);
}

static void mark(const struct wishes *wishes, const char *word)
{
    const char *fence = getenv("REDISLOCK_FENCE");
    if (wishes->log != NULL)
        emit_line(wishes->log, "%s %lld %d %.32s\n", word, (long long)boottime_ms(), getpid(),
                  fence ? fence : "-");
}

/* Stays for as long as was asked, logging signals where that was asked. */
static void stay(const struct wishes *wishes)
{
    sigset_t watched;
    sigemptyset(&watched);
    int64_t length = wishes->linger_ms >= 0 ? wishes->linger_ms : wishes->tick_ms ? FOREVER_MS : 0;
    if (wishes->watch) {
        sigfillset(&watched);
        sigprocmask(SIG_BLOCK, &watched, NULL);
        emit_line(wishes->out, "ready %d\n", getpid());
    }
    linger(wishes, &watched, length);
}

static int behave(const struct wishes *wishes)
{
    for (int number = 1; number < SIGRTMAX; number++)
        if (sigismember(&wishes->ignore, number) == 1)
            signal(number, SIG_IGN);
    mark(wishes, "start");
    if (wishes->copy_stdin)
        copy_stdin();
    start_descendants(wishes);
    stay(wishes);
    mark(wishes, "end");
    if (wishes->die != 0) {
        sigset_t one;
        sigemptyset(&one);
        sigaddset(&one, wishes->die);
        prctl(PR_SET_DUMPABLE, 0); /* no core files */
        signal(wishes->die, SIG_DFL);
        kill(getpid(), wishes->die);
        sigprocmask(SIG_UNBLOCK, &one, NULL);
    }
    return wishes->status;
}

static int64_t length_of(const char *text, int64_t unit_ms)
{
    return strcmp(text, "inf") == 0 ? FOREVER_MS : number_of(text, FOREVER_MS / unit_ms) * unit_ms;
}

/* Takes one option into `wishes`; what is no behaviour returns false. */
static bool wish(struct wishes *wishes, int option, char *value)
{
    switch (option) {
    case 'r':
        wishes->report = true;
        break;
    case 'o':
        wishes->out = value;
        return false;
    case 'i':
        sigaddset(&wishes->ignore, signal_of(value));
        break;
    case 'l':
        wishes->log = value;
        break;
    case 'c':
        wishes->copy_stdin = true;
        break;
    case 'f':
        wishes->forks = number_of(value, 100);
        break;
    case 'd':
        wishes->daemonize = true;
        break;
    case 'w':
        wishes->watch = true;
        wishes->linger_ms = length_of(value, 1000);
        break;
    case 'x':
        wishes->exit_on = signal_of(value);
        break;
    case 't':
        wishes->tick_ms = number_of(value, FOREVER_MS);
        break;
    case 's':
        wishes->linger_ms = length_of(value, 1);
        break;
    case 'k':
        wishes->die = signal_of(value);
        break;
    case 'e':
        wishes->status = (int)number_of(value, 255);
        break;
    case 'n':
        printf("%lld\n", (long long)boottime_ms());
        exit(0);
    case 'h':
        fputs(help, stdout);
        exit(0);
    default:
        fail("see --help");
    }
    return true;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"report", 0, NULL, 'r'},  {"now", 0, NULL, 'n'},       {"out", 1, NULL, 'o'},
        {"ignore", 1, NULL, 'i'},  {"log", 1, NULL, 'l'},       {"stdin", 0, NULL, 'c'},
        {"fork", 1, NULL, 'f'},    {"daemonize", 0, NULL, 'd'}, {"signals", 1, NULL, 'w'},
        {"exit-on", 1, NULL, 'x'}, {"tick", 1, NULL, 't'},      {"sleep", 1, NULL, 's'},
        {"die", 1, NULL, 'k'},     {"exit", 1, NULL, 'e'},      {"help", 0, NULL, 'h'},
        {NULL, 0, NULL, 0}};
    struct wishes wishes = {.linger_ms = -1};
    bool behaviour = false;
    sigemptyset(&wishes.ignore);
    for (int option; (option = getopt_long(argc, argv, "+", options, NULL)) != -1;)
        behaviour |= wish(&wishes, option, optarg);
    if (wishes.report || !behaviour)
        report_write(wishes.out, argc, argv);
    return behave(&wishes);
}
