/*
 * crowd: many contenders for a few locks, each with a fate of its own, and a log of what happened.
 *
 * Build: cc -O1 -g -std=c11 -D_GNU_SOURCE tests/tools/crowd.c -o build/tools/crowd
 *
 * Keeps so many contenders alive until enough runs have begun, then lets the rest end. Everything
 * is drawn from one seed. The log is appended to by this tool and by the jobs themselves (the tool
 * again, with --job), one write a line, so its order is the order of events:
 *
 *   come ID NAME MODE FATE   about to be started; MODE is x, s or the number of slots
 *   waits ID                 has said through --status-fd that it stands in line
 *   kill ID                  about to be killed with KILL
 *   start ID FENCE SLOT      its job runs; SLOT is 0 without slots
 *   end ID FENCE SLOT        its job ends: the last that it does
 *   gone ID STATUS           as a shell counts
 *
 * Owns the processes it starts: none outlives it.
 */
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "tool.h"

#define CONTENDERS_MAX 200
#define STATUS_FD      7
#define LEASE_MS       1000 /* the -t of all contenders */

static const char help[] =
    "usage: crowd --program REDISLOCK --url URL --log FILE [OPTION]...\n"
    "       crowd --job FILE ID MS     what a contender runs\n"
    "  --seed N         what is drawn, and when (1)\n"
    "  --contenders N   so many at once (50)\n"
    "  --runs N         until so many jobs have begun (2000)\n"
    "  --seconds N      give up then: exit status 1 (60)\n"
    "  --self PATH      this program, for the jobs (the name it was called by)\n";

enum fate {
    FATE_RUN,
    FATE_TRY,
    FATE_LATE,
    FATE_TERM,
    FATE_INT,
    FATE_FREEZE,
    FATE_KILL,
    FATE_STALL,
    FATE_COUNT
};
static const char *const fate_names[] = {"run", "try",    "late", "term",
                                         "int", "freeze", "kill", "stall"};
static const int fate_weights[] = {56, 6, 12, 7, 6, 5, 7, 1}; /* of 100 */

struct contender {
    pid_t pid; /* 0: the place is free */
    int id;
    enum fate fate;
    int64_t strike_ms; /* when its fate strikes; -1: has struck, or never does */
    int64_t thaw_ms;   /* FATE_FREEZE, once frozen; else -1 */
    int events;        /* the reading end of its --status-fd; -1: read enough */
    size_t kept;       /* bytes in `tail` */
    char tail[8192];   /* what it has said; more than it ever says */
};

struct crowd {
    const char *program, *url, *self, *log_path;
    int log;
    uint64_t random;
    int64_t wanted, begun;
    int id;
    struct contender all[CONTENDERS_MAX];
    size_t count;
};

/* xorshift64*: the same from the same seed everywhere. */
static uint64_t draw(struct crowd *crowd, uint64_t below)
{
    crowd->random ^= crowd->random >> 12;
    crowd->random ^= crowd->random << 25;
    crowd->random ^= crowd->random >> 27;
    return ((crowd->random * UINT64_C(2685821657736338717)) >> 33) % below;
}

static int log_open(const char *path)
{
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0)
        fail("%s: %s", path, strerror(errno));
    return fd;
}

__attribute__((format(printf, 2, 3))) static void note(int fd, const char *format, ...)
{
    char line[256];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    if (write(fd, line, (size_t)length) != length)
        fail("the log: %s", strerror(errno));
}

/* ---- the job ---- */

static const char *variable(const char *name, const char *otherwise)
{
    const char *value = getenv(name);
    return value != NULL ? value : otherwise;
}

/* A signal ends it in order, so that only KILL leaves a start without an end. */
static int job(char **words)
{
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    int fd = log_open(words[0]);
    int64_t hold_ms = number_of(words[2], 60000);
    const char *fence = variable("REDISLOCK_FENCE", "?");
    const char *slot = variable("REDISLOCK_SLOT", "0");
    struct timespec hold = {hold_ms / 1000, hold_ms % 1000 * 1000000};
    sigdelset(&all, SIGCONT); /* one that was frozen */
    note(fd, "start %s %s %s\n", words[1], fence, slot);
    int number = sigtimedwait(&all, NULL, &hold);
    note(fd, "end %s %s %s\n", words[1], fence, slot);
    return number > 0 ? 128 + number : 0;
}

/* ---- one contender ---- */

static enum fate draw_fate(struct crowd *crowd)
{
    int drawn = (int)draw(crowd, 100);
    int fate = 0;
    while (drawn >= fate_weights[fate])
        drawn -= fate_weights[fate++];
    return (enum fate)fate;
}

struct lock_kind {
    const char *name;
    const char *option; /* NULL: none */
    const char *number; /* of -S */
    const char *mode;
};

static const struct lock_kind *draw_kind(struct crowd *crowd)
{
    static const struct lock_kind kinds[] = {
        {"alone", NULL, NULL, "x"}, {"both", "-x", NULL, "x"}, {"both", "-s", NULL, "s"},
        {"both", "-s", NULL, "s"},  {"slots", "-S", "3", "3"},
    };
    static const int of_ten[] = {0, 0, 0, 1, 2, 3, 4, 4, 4, 4};
    return &kinds[of_ten[draw(crowd, sizeof(of_ten) / sizeof(of_ten[0]))]];
}

__attribute__((noreturn)) static void become(const struct crowd *crowd,
                                             const struct lock_kind *kind, const char *wait,
                                             const char *id, const char *hold, int events)
{
    const char *words[24];
    size_t count = 0;
    const char *const first[] = {crowd->program, "-u", crowd->url,    "-t",
                                 "1s",           "-q", "--status-fd", "7"};
    const char *const last[] = {kind->name, "--", crowd->self, "--job", crowd->log_path, id, hold};
    for (size_t i = 0; i < sizeof(first) / sizeof(first[0]); i++)
        words[count++] = first[i];
    words[count++] = wait != NULL ? "-w" : "-n";
    if (wait != NULL)
        words[count++] = wait;
    if (kind->option != NULL)
        words[count++] = kind->option;
    if (kind->number != NULL)
        words[count++] = kind->number;
    for (size_t i = 0; i < sizeof(last) / sizeof(last[0]); i++)
        words[count++] = last[i];
    words[count] = NULL;
    if (events == STATUS_FD ? fcntl(events, F_SETFD, 0) < 0 : dup2(events, STATUS_FD) < 0)
        fail("descriptor %d: %s", STATUS_FD, strerror(errno));
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    execv(crowd->program, (char *const *)(uintptr_t)words);
    fail("%s: %s", crowd->program, strerror(errno));
}

static void contender_start(struct crowd *crowd, struct contender *contender)
{
    char wait[32] = "inf", id[16], hold[16];
    int ends[2];
    const struct lock_kind *kind = draw_kind(crowd);
    enum fate fate = draw_fate(crowd);
    uint64_t strike = draw(crowd, 400), patience = 1 + draw(crowd, 300);
    snprintf(hold, sizeof(hold), "%d", (int)draw(crowd, 6));
    snprintf(id, sizeof(id), "%d", ++crowd->id);
    if (fate == FATE_LATE)
        snprintf(wait, sizeof(wait), "%dms", (int)patience);
    if (pipe2(ends, O_CLOEXEC) != 0)
        fail("pipe: %s", strerror(errno));
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    note(crowd->log, "come %s %s %s %s\n", id, kind->name, kind->mode, fate_names[fate]);
    bool strikes = fate >= FATE_TERM && fate != FATE_STALL;
    *contender = (struct contender){.id = crowd->id,
                                    .fate = fate,
                                    .strike_ms = strikes ? boottime_ms() + (int64_t)strike : -1,
                                    .thaw_ms = -1,
                                    .events = ends[0]};
    contender->pid = fork();
    if (contender->pid == 0)
        become(crowd, kind, fate == FATE_TRY ? NULL : wait, id, hold, ends[1]);
    if (contender->pid < 0)
        fail("fork: %s", strerror(errno));
    close(ends[1]);
}

static void contender_strike(struct crowd *crowd, struct contender *contender, int64_t now)
{
    contender->strike_ms = -1;
    switch (contender->fate) {
    case FATE_TERM:
        kill(contender->pid, SIGTERM);
        break;
    case FATE_INT:
        kill(contender->pid, SIGINT);
        break;
    case FATE_FREEZE:
        kill(contender->pid, SIGSTOP);
        contender->thaw_ms = now + 20 + (int64_t)draw(crowd, 200);
        break;
    case FATE_STALL:
        kill(contender->pid, SIGSTOP);
        contender->thaw_ms = now + LEASE_MS + 100;
        break;
    case FATE_KILL:
        note(crowd->log, "kill %d\n", contender->id);
        kill(contender->pid, SIGKILL);
        break;
    case FATE_RUN:
    case FATE_TRY:
    case FATE_LATE:
    case FATE_COUNT:
    default:
        break;
    }
}

/* Reads its events until it stands in line or has begun. */
static void contender_hear(struct crowd *crowd, struct contender *contender)
{
    size_t room = sizeof(contender->tail) - 1 - contender->kept;
    ssize_t got = read(contender->events, contender->tail + contender->kept, room);
    if (got < 0 && errno == EAGAIN)
        return;
    if (got > 0) {
        contender->kept += (size_t)got;
        contender->tail[contender->kept] = '\0';
        bool waits = strstr(contender->tail, "\"event\":\"waiting\"") != NULL;
        bool begun = strstr(contender->tail, "\"event\":\"started\"") != NULL;
        if (begun)
            crowd->begun++;
        if (begun && contender->fate == FATE_STALL) /* beyond its lease, and before its release */
            contender_strike(crowd, contender, boottime_ms());
        if (waits)
            note(crowd->log, "waits %d\n", contender->id);
        if (waits)
            contender->kept = 0; /* what it said before need not be read again */
        if (!begun)
            return;
    }
    close(contender->events);
    contender->events = -1;
}

/* ---- the crowd ---- */

static void crowd_reap(struct crowd *crowd)
{
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
        for (size_t i = 0; i < crowd->count; i++) {
            struct contender *contender = &crowd->all[i];
            if (contender->pid != pid)
                continue;
            while (contender->events >= 0) /* all has been written, and it is no longer open */
                contender_hear(crowd, contender);
            note(crowd->log, "gone %d %d\n", contender->id,
                 WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
            contender->pid = 0;
        }
}

/* One turn: hears, strikes, thaws, collects, and fills up while more are wanted. */
static size_t crowd_turn(struct crowd *crowd)
{
    struct pollfd set[CONTENDERS_MAX];
    size_t alive = 0;
    for (size_t i = 0; i < crowd->count; i++)
        set[i] = (struct pollfd){crowd->all[i].pid != 0 ? crowd->all[i].events : -1, POLLIN, 0};
    poll(set, crowd->count, 2);
    for (size_t i = 0; i < crowd->count; i++)
        if (set[i].revents != 0)
            contender_hear(crowd, &crowd->all[i]);
    int64_t now = boottime_ms();
    for (size_t i = 0; i < crowd->count; i++) {
        struct contender *contender = &crowd->all[i];
        if (contender->pid != 0 && contender->strike_ms >= 0 && now >= contender->strike_ms)
            contender_strike(crowd, contender, now);
        if (contender->pid != 0 && contender->thaw_ms >= 0 && now >= contender->thaw_ms) {
            kill(contender->pid, SIGCONT);
            contender->thaw_ms = -1;
        }
    }
    crowd_reap(crowd);
    for (size_t i = 0; i < crowd->count; i++) {
        if (crowd->all[i].pid == 0 && crowd->begun < crowd->wanted)
            contender_start(crowd, &crowd->all[i]);
        alive += crowd->all[i].pid != 0;
    }
    return alive;
}

static int crowd_run(struct crowd *crowd, int64_t seconds)
{
    int64_t end = boottime_ms() + seconds * 1000;
    while (crowd_turn(crowd) > 0) {
        if (boottime_ms() < end)
            continue;
        fprintf(stderr, "crowd: %lld of %lld runs in %lld s\n", (long long)crowd->begun,
                (long long)crowd->wanted, (long long)seconds);
        for (size_t i = 0; i < crowd->count; i++)
            if (crowd->all[i].pid != 0)
                kill(crowd->all[i].pid, SIGKILL);
        return 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"program", 1, NULL, 'p'},
                                            {"url", 1, NULL, 'u'},
                                            {"log", 1, NULL, 'l'},
                                            {"seed", 1, NULL, 's'},
                                            {"contenders", 1, NULL, 'c'},
                                            {"runs", 1, NULL, 'r'},
                                            {"seconds", 1, NULL, 't'},
                                            {"self", 1, NULL, 'm'},
                                            {"job", 0, NULL, 'j'},
                                            {"help", 0, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    struct crowd crowd = {.self = argv[0], .random = 1, .wanted = 2000, .count = 50};
    int64_t seconds = 60;
    for (int option; (option = getopt_long(argc, argv, "+", options, NULL)) != -1;)
        switch (option) {
        case 'p':
            crowd.program = optarg;
            break;
        case 'u':
            crowd.url = optarg;
            break;
        case 'l':
            crowd.log_path = optarg;
            break;
        case 's':
            crowd.random = (uint64_t)number_of(optarg, INT64_MAX) * 2 + 1;
            break;
        case 'c':
            crowd.count = (size_t)number_of(optarg, CONTENDERS_MAX);
            break;
        case 'r':
            crowd.wanted = number_of(optarg, 1000000);
            break;
        case 't':
            seconds = number_of(optarg, TOOL_LIFE_SECONDS);
            break;
        case 'm':
            crowd.self = optarg;
            break;
        case 'j':
            if (argc - optind != 3)
                fail("--job FILE ID MS");
            return job(argv + optind);
        case 'h':
            fputs(help, stdout);
            return 0;
        default:
            fail("see --help");
        }
    if (crowd.program == NULL || crowd.url == NULL || crowd.log_path == NULL)
        fail("see --help");
    alarm(TOOL_LIFE_SECONDS);
    crowd.log = log_open(crowd.log_path);
    return crowd_run(&crowd, seconds);
}
