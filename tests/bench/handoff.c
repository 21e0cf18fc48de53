/*
 * Lets waiters stand in line behind a holder, then opens the gate and watches the lock go from hand
 * to hand. Knows nothing of the wrapper but that `WRAPPER... COMMAND...` waits, and then runs COMMAND.
 *
 *   handoff [OPTIONS] ROOM STAMP WRAPPER...
 *
 *   -n WAITERS    how many stand in line (100)
 *   -g US         the next waiter comes when the last has slept undisturbed for so long (3000)
 *   -s MS         pause before the gate is opened, so that all stand in line (300)
 *   -m US         how long each job sleeps (0)
 *   -t            the jobs are `true`: no log, the time to drain alone
 *   -k DEAD       DEAD waiters stand in line first and are killed before the others come
 *   -b, -a LINE   shell line run before the gate is opened, and when all have ended
 *   -T S          give up after so long (60)
 *
 * ROOM is a folder (absolute) for the log and the gate, STAMP the path of stamp. Prints, separated by tabs:
 * hand-offs seen, their median, 99th percentile and maximum in microseconds (from a job's last act to
 * the next one's first), order violations (jobs that began before one that had come earlier),
 * overlaps (jobs that began before another had ended), the time from the gate to the end of the last
 * waiter in microseconds, the waiters' CPU time in microseconds, and the first hand-off.
 */
#include "bench.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>

#define WRAPPER_WORDS_MAX 32
#define POLL_NS           NS_PER_MS

struct plan {
    long waiters;
    long stagger_us;
    long settle_ms;
    const char *hold_us;
    bool plain; /* -t */
    long dead;
    const char *before;
    const char *after;
    long limit_s;
    const char *stamp;
    char **wrapper;
    int wrapper_words;
    int null;
    int64_t give_up_at;
    char log[512];
    char gate[512];
};

struct line {
    pid_t *pids;
    long count;
    long ended;
    double cpu_us;
};

static void stop_all(const struct line *line)
{
    for (long i = 0; i < line->count; i++)
        if (line->pids[i] > 0)
            kill(line->pids[i], SIGTERM);
    sleep_ns(NS_PER_S);
    for (long i = 0; i < line->count; i++)
        if (line->pids[i] > 0)
            kill(line->pids[i], SIGKILL);
}

static _Noreturn void give_up(const struct line *line, const char *what)
{
    stop_all(line);
    die("handoff", "%s", what);
}

/* Starts the wrapper with a job of its own. */
static pid_t start(const struct plan *plan, const char *id, const char *hold)
{
    char *argv[WRAPPER_WORDS_MAX + 6];
    char *const job[] = {(char *)(uintptr_t)plan->stamp, (char *)(uintptr_t)plan->log,
                         (char *)(uintptr_t)id, (char *)(uintptr_t)hold};
    static char true_word[] = "true";
    int words = 0;
    for (; words < plan->wrapper_words; words++)
        argv[words] = plan->wrapper[words];
    bool is_gate = hold == plan->gate;
    for (size_t i = 0; i < 4 && (is_gate || !plan->plain); i++)
        argv[words++] = job[i];
    if (!is_gate && plan->plain)
        argv[words++] = true_word;
    argv[words] = NULL;
    pid_t pid = vfork();
    if (pid == 0) {
        dup2(plan->null, STDIN_FILENO);
        dup2(plan->null, STDOUT_FILENO);
        execvp(argv[0], argv);
        _exit(127);
    }
    if (pid < 0)
        die("handoff", "vfork: %s", strerror(errno));
    return pid;
}

static void add(struct line *line, pid_t pid)
{
    line->pids[line->count++] = pid;
}

/* Reaps one that has ended. false: interrupted. */
static bool reap(struct line *line)
{
    struct rusage usage;
    int status;
    pid_t pid = wait4(-1, &status, 0, &usage);
    if (pid < 0)
        return false;
    for (long i = 0; i < line->count; i++)
        if (line->pids[i] == pid)
            line->pids[i] = 0;
    line->ended++;
    line->cpu_us += (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e6 +
                    (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (code != 0) {
        stop_all(line);
        die("handoff", "a wrapper ended with status %d", code);
    }
    return true;
}

static void await_log(const struct plan *plan, const struct line *line)
{
    struct stat status;
    while (stat(plan->log, &status) != 0 || status.st_size == 0) {
        if (now_ns() > plan->give_up_at)
            give_up(line, "the first holder did not get the lock");
        sleep_ns(POLL_NS);
    }
}

/* The dead stand at the head of the line. They get no job: the line has not moved yet. */
static void kill_some(const struct plan *plan)
{
    struct line dead = {.pids = calloc((size_t)plan->dead + 1, sizeof *dead.pids)};
    if (dead.pids == NULL)
        die("handoff", "out of memory");
    for (long i = 0; i < plan->dead; i++) {
        add(&dead, start(plan, "dead", "0"));
        sleep_ns(plan->stagger_us * NS_PER_US);
    }
    sleep_ns(plan->settle_ms * NS_PER_MS);
    for (long i = 0; i < dead.count; i++)
        kill(dead.pids[i], SIGKILL);
    /* the holder lives: waiting for exactly as many as were killed does not touch it */
    for (long i = 0; i < dead.count; i++)
        waitpid(dead.pids[i], NULL, 0);
    free(dead.pids);
}

/* How often it has gone to sleep of itself; -1 while it is not asleep. */
static long sleeps_of(pid_t pid)
{
    static const char state[] = "State:";
    static const char switches[] = "voluntary_ctxt_switches:";
    char line[256];
    bool asleep = false;
    long count = -1;
    snprintf(line, sizeof line, "/proc/%d/status", (int)pid);
    FILE *stream = fopen(line, "re");
    if (stream == NULL)
        return -1;
    while (fgets(line, sizeof line, stream) != NULL) {
        if (strncmp(line, state, sizeof state - 1) == 0)
            asleep = line[sizeof state] == 'S';
        else if (strncmp(line, switches, sizeof switches - 1) == 0)
            count = strtol(line + sizeof switches - 1, NULL, 10);
    }
    fclose(stream);
    return asleep ? count : -1;
}

/* Returns when it has stood in line: it sleeps, and has not moved for a while. Bounded. */
static void await_stillness(const struct plan *plan, pid_t pid)
{
    int64_t until = now_ns() + NS_PER_S;
    long before = -2;
    while (now_ns() < until) {
        sleep_ns(plan->stagger_us * NS_PER_US);
        long sleeps = sleeps_of(pid);
        if (sleeps >= 0 && sleeps == before)
            return;
        before = sleeps;
    }
}

static void line_up(const struct plan *plan, struct line *line)
{
    char id[24];
    for (long i = 0; i < plan->waiters; i++) {
        snprintf(id, sizeof id, "%ld", i);
        add(line, start(plan, id, plan->hold_us));
        await_stillness(plan, line->pids[line->count - 1]);
        if (now_ns() > plan->give_up_at)
            give_up(line, "out of time while the line formed");
    }
    sleep_ns(plan->settle_ms * NS_PER_MS);
}

static void run_hook(const char *hook)
{
    if (hook != NULL && system(hook) != 0)
        die("handoff", "'%s' failed", hook);
}

/* Opens and closes the gate; from then on the time runs. */
static int64_t open_gate(const struct plan *plan, const struct line *line)
{
    int fd = open(plan->gate, O_WRONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        give_up(line, "the first holder does not wait at the gate");
    int64_t opened = now_ns();
    close(fd);
    return opened;
}

static void on_tick(int signal)
{
    (void)signal; /* only interrupts a wait */
}

/* Blocks in wait4, so that the last end is seen when it happens; a tick looks at the clock. */
static int64_t drain(const struct plan *plan, struct line *line)
{
    const struct sigaction action = {.sa_handler = on_tick};
    const struct itimerval tick = {{1, 0}, {1, 0}};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &tick, NULL);
    while (line->ended < line->count)
        if (!reap(line) && now_ns() > plan->give_up_at)
            give_up(line, "the line did not move on in time");
    int64_t ended = now_ns();
    setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 0}}, NULL);
    return ended;
}

/* What the log says. */
struct story {
    double *gaps_us;
    size_t hand_offs;
    long disorder;
    long overlaps;
};

static void read_story(const struct plan *plan, struct story *story)
{
    FILE *log = fopen(plan->log, "re");
    char what;
    char id[24];
    long long at;
    long long ended = -1;
    long last = -1;
    story->gaps_us = calloc((size_t)plan->waiters + 1, sizeof *story->gaps_us);
    if (log == NULL || story->gaps_us == NULL)
        die("handoff", "cannot read %s", plan->log);
    while (fscanf(log, "%c %23s %lld\n", &what, id, &at) == 3) {
        if (what == 'E') {
            ended = at;
            continue;
        }
        if (strcmp(id, "gate") == 0)
            continue;
        long number = parse_number("handoff", id, 0, plan->waiters - 1);
        story->overlaps += ended < 0;
        story->disorder += number < last;
        last = number > last ? number : last;
        if (ended >= 0)
            story->gaps_us[story->hand_offs++] = (double)(at - ended) / 1e3;
        ended = -1;
    }
    fclose(log);
}

static void run(const struct plan *plan)
{
    struct line line = {.pids = calloc((size_t)plan->waiters + 1, sizeof *line.pids)};
    struct story story = {0};
    if (line.pids == NULL)
        die("handoff", "out of memory");
    unlink(plan->log);
    unlink(plan->gate);
    if (mkfifo(plan->gate, 0600) != 0)
        die("handoff", "%s: %s", plan->gate, strerror(errno));
    add(&line, start(plan, "gate", plan->gate));
    await_log(plan, &line);
    if (plan->dead > 0)
        kill_some(plan);
    line_up(plan, &line);
    run_hook(plan->before);
    int64_t opened = open_gate(plan, &line);
    int64_t took = drain(plan, &line) - opened;
    run_hook(plan->after);
    read_story(plan, &story);
    double first = story.hand_offs > 0 ? story.gaps_us[0] : 0;
    sort_doubles(story.gaps_us, story.hand_offs);
    printf("%zu\t%.0f\t%.0f\t%.0f\t%ld\t%ld\t%.0f\t%.0f\t%.0f\n", story.hand_offs,
           median(story.gaps_us, story.hand_offs), percentile(story.gaps_us, story.hand_offs, 99),
           percentile(story.gaps_us, story.hand_offs, 100), story.disorder, story.overlaps,
           (double)took / 1e3, line.cpu_us, first);
    free(story.gaps_us);
    free(line.pids);
}

static void take_option(struct plan *plan, int option)
{
    switch (option) {
    case 'n':
        plan->waiters = parse_number("handoff", optarg, 1, 100000);
        break;
    case 'g':
        plan->stagger_us = parse_number("handoff", optarg, 0, 10000000);
        break;
    case 's':
        plan->settle_ms = parse_number("handoff", optarg, 0, 60000);
        break;
    case 'm':
        plan->hold_us = optarg;
        break;
    case 't':
        plan->plain = true;
        break;
    case 'k':
        plan->dead = parse_number("handoff", optarg, 0, 100000);
        break;
    case 'b':
        plan->before = optarg;
        break;
    case 'a':
        plan->after = optarg;
        break;
    case 'T':
        plan->limit_s = parse_number("handoff", optarg, 1, 3600);
        break;
    default:
        die("handoff", "unknown option");
    }
}

int main(int argc, char **argv)
{
    struct plan plan = {
        .waiters = 100, .stagger_us = 3000, .settle_ms = 300, .hold_us = "0", .limit_s = 60};
    int option;
    while ((option = getopt(argc, argv, "+n:g:s:m:tk:b:a:T:")) != -1)
        take_option(&plan, option);
    if (argc - optind < 3 || argc - optind - 2 > WRAPPER_WORDS_MAX || argv[optind][0] != '/')
        die("handoff", "usage: handoff [OPTIONS] ROOM STAMP WRAPPER...");
    snprintf(plan.log, sizeof plan.log, "%s/log", argv[optind]);
    snprintf(plan.gate, sizeof plan.gate, "%s/gate", argv[optind]);
    plan.stamp = argv[optind + 1];
    plan.wrapper = argv + optind + 2;
    plan.wrapper_words = argc - optind - 2;
    plan.null = open_null("handoff");
    plan.give_up_at = now_ns() + plan.limit_s * NS_PER_S;
    run(&plan);
    return 0;
}
