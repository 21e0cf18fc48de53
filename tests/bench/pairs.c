/*
 * Times command lines against each other: in every round each runs once, in shuffled order, so that
 * whatever else the machine does meets all of them alike.
 *
 *   pairs [-n ROUNDS] [-w WARMUPS] [-r REFERENCES] --- LABEL[=STATUS] COMMAND... [--- ...]
 *
 * Prints one line for each, separated by tabs: label, median and 99th percentile of the wall time,
 * median of user + system time (all in microseconds), median of the minor page faults, and for each
 * of the first REFERENCES (default 1) contenders the median over the rounds of the ratio to it: of
 * the wall time, then of the user + system time.
 *
 * User + system time and faults are wait4's: they hold what the command itself has waited for, so a
 * wrapped `true` is in the wrapper's figure; nothing is subtracted. A command that exits with
 * another STATUS than the one expected (0) ends the program: failures are not worth timing.
 * stdin, stdout and stderr are /dev/null.
 */
#include "bench.h"

#include <sys/resource.h>
#include <sys/wait.h>

#define CONTENDERS_MAX 16

enum measure { WALL, CPU, FAULTS, MEASURES };

struct contender {
    char *label;
    char **argv;
    int expected;
    double *samples[MEASURES];
};

struct plan {
    struct contender contenders[CONTENDERS_MAX];
    size_t count;
    size_t rounds;
    size_t warmups;
    size_t references;
    int null;
};

static double microseconds(const struct timeval *time)
{
    return (double)time->tv_sec * 1e6 + (double)time->tv_usec;
}

/* Runs it once; only counted runs leave a sample. */
static void run_once(const struct plan *plan, struct contender *contender, size_t round)
{
    struct rusage usage;
    int status;
    int64_t began = now_ns();
    pid_t pid = vfork();
    if (pid == 0) {
        dup2(plan->null, STDIN_FILENO);
        dup2(plan->null, STDOUT_FILENO);
        dup2(plan->null, STDERR_FILENO);
        execvp(contender->argv[0], contender->argv);
        _exit(127);
    }
    if (pid < 0)
        die("pairs", "vfork: %s", strerror(errno));
    while (wait4(pid, &status, 0, &usage) < 0)
        if (errno != EINTR)
            die("pairs", "wait4: %s", strerror(errno));
    int64_t took = now_ns() - began;
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (code != contender->expected)
        die("pairs", "%s: exit status %d instead of %d", contender->label, code,
            contender->expected);
    if (round < plan->warmups)
        return;
    size_t at = round - plan->warmups;
    contender->samples[WALL][at] = (double)took / 1e3;
    contender->samples[CPU][at] = microseconds(&usage.ru_utime) + microseconds(&usage.ru_stime);
    contender->samples[FAULTS][at] = (double)usage.ru_minflt;
}

/* xorshift: the same order in every run of the bench. */
static size_t random_below(size_t bound)
{
    static uint64_t state = UINT64_C(0x9e3779b97f4a7c15);
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (size_t)(state % bound);
}

static void run_rounds(struct plan *plan)
{
    size_t order[CONTENDERS_MAX];
    for (size_t i = 0; i < plan->count; i++)
        order[i] = i;
    for (size_t round = 0; round < plan->warmups + plan->rounds; round++) {
        for (size_t i = plan->count; i > 1; i--) {
            size_t other = random_below(i);
            size_t moved = order[i - 1];
            order[i - 1] = order[other];
            order[other] = moved;
        }
        for (size_t i = 0; i < plan->count; i++)
            run_once(plan, &plan->contenders[order[i]], round);
    }
}

static double *room_for(size_t count)
{
    double *values = calloc(count, sizeof *values);
    if (values == NULL)
        die("pairs", "out of memory");
    return values;
}

static double median_ratio(const double *values, const double *reference, size_t count)
{
    double *ratios = room_for(count);
    for (size_t i = 0; i < count; i++)
        ratios[i] = reference[i] > 0 ? values[i] / reference[i] : 0;
    sort_doubles(ratios, count);
    double result = median(ratios, count);
    free(ratios);
    return result;
}

static void print_contender(const struct plan *plan, const struct contender *contender)
{
    double *sorted = room_for(plan->rounds);
    size_t bytes = plan->rounds * sizeof *sorted;

    printf("%s", contender->label);
    memcpy(sorted, contender->samples[WALL], bytes);
    sort_doubles(sorted, plan->rounds);
    printf("\t%.0f\t%.0f", median(sorted, plan->rounds), percentile(sorted, plan->rounds, 99));
    for (enum measure measure = CPU; measure <= FAULTS; measure++) {
        memcpy(sorted, contender->samples[measure], bytes);
        sort_doubles(sorted, plan->rounds);
        printf("\t%.0f", median(sorted, plan->rounds));
    }
    for (size_t i = 0; i < plan->references; i++)
        for (enum measure measure = WALL; measure <= CPU; measure++)
            printf("\t%.3f", median_ratio(contender->samples[measure],
                                          plan->contenders[i].samples[measure], plan->rounds));
    putchar('\n');
    free(sorted);
}

static void add_contender(struct plan *plan, char **words)
{
    if (plan->count == CONTENDERS_MAX)
        die("pairs", "more than %d contenders", CONTENDERS_MAX);
    if (words[0] == NULL || words[1] == NULL)
        die("pairs", "a contender needs a label and a command");
    struct contender *contender = &plan->contenders[plan->count++];
    contender->label = words[0];
    contender->argv = words + 1;
    char *equals = strrchr(words[0], '=');
    if (equals != NULL) {
        contender->expected = (int)parse_number("pairs", equals + 1, 0, 255);
        *equals = '\0';
    }
    for (enum measure measure = WALL; measure < MEASURES; measure++)
        contender->samples[measure] = room_for(plan->rounds);
}

int main(int argc, char **argv)
{
    struct plan plan = {.rounds = 200, .warmups = 2, .references = 1};
    int first = 1; /* where the options end: getopt is not to see what follows */
    int option;
    while (first < argc && strcmp(argv[first], "---") != 0)
        first++;
    while ((option = getopt(first, argv, "+n:w:r:")) != -1) {
        if (option == 'n')
            plan.rounds = (size_t)parse_number("pairs", optarg, 1, 1000000);
        else if (option == 'w')
            plan.warmups = (size_t)parse_number("pairs", optarg, 0, 1000000);
        else if (option == 'r')
            plan.references = (size_t)parse_number("pairs", optarg, 0, CONTENDERS_MAX);
        else
            return 2;
    }
    for (int i = first; i < argc; i++) {
        if (strcmp(argv[i], "---") != 0)
            continue;
        argv[i] = NULL;
        add_contender(&plan, &argv[i + 1]);
    }
    if (plan.count == 0)
        die("pairs", "usage: pairs [-n ROUNDS] [-w WARMUPS] [-r REFERENCES] "
                     "--- LABEL[=STATUS] COMMAND... [--- ...]");
    if (plan.references > plan.count)
        plan.references = plan.count;
    plan.null = open_null("pairs");
    run_rounds(&plan);
    for (size_t i = 0; i < plan.count; i++)
        print_contender(&plan, &plan.contenders[i]);
    return 0;
}
