/*
 * Owns the names of signals. A table of its own: the C library's tables of names are not in every
 * C library, and those that are print descriptions. Pure.
 */
#include "cli/signal_name.h"

#include <signal.h>
#include <stddef.h>

#include "base/text.h"

#define SIGNAL_MOST 64

static const struct {
    char name[8];
    int number;
} names[] = {
    {"HUP", SIGHUP},       {"INT", SIGINT},   {"QUIT", SIGQUIT},     {"ILL", SIGILL},
    {"TRAP", SIGTRAP},     {"ABRT", SIGABRT}, {"IOT", SIGABRT},      {"BUS", SIGBUS},
    {"FPE", SIGFPE},       {"KILL", SIGKILL}, {"USR1", SIGUSR1},     {"SEGV", SIGSEGV},
    {"USR2", SIGUSR2},     {"PIPE", SIGPIPE}, {"ALRM", SIGALRM},     {"TERM", SIGTERM},
    {"CHLD", SIGCHLD},     {"CLD", SIGCHLD},  {"CONT", SIGCONT},     {"STOP", SIGSTOP},
    {"TSTP", SIGTSTP},     {"TTIN", SIGTTIN}, {"TTOU", SIGTTOU},     {"URG", SIGURG},
    {"XCPU", SIGXCPU},     {"XFSZ", SIGXFSZ}, {"VTALRM", SIGVTALRM}, {"PROF", SIGPROF},
    {"WINCH", SIGWINCH},   {"IO", SIGIO},     {"POLL", SIGIO},       {"PWR", SIGPWR},
    {"SYS", SIGSYS},
#ifdef SIGSTKFLT
    {"STKFLT", SIGSTKFLT},
#endif
};

/* One or two decimal digits; -1 for anything else. */
static int small_number(const char *text)
{
    size_t digits = 0;

    while (digits < 3 && text[digits] >= '0' && text[digits] <= '9')
        digits++;
    if (digits < 1 || digits > 2 || text[digits] != '\0')
        return -1;
    return digits == 1 ? text[0] - '0' : (text[0] - '0') * 10 + text[1] - '0';
}

/* What follows RTMIN or RTMAX: nothing, or `sign` and a number. -1 for anything else. */
static int realtime_distance(const char *text, char sign)
{
    if (text[0] == '\0')
        return 0;
    return text[0] == sign ? small_number(text + 1) : -1;
}

static int realtime_signal(const char *name)
{
    const char *from_least = text_after(name, "RTMIN");
    const char *from_most = text_after(name, "RTMAX");

    if (from_least == NULL && from_most == NULL)
        return -1;

    int distance =
        from_least != NULL ? realtime_distance(from_least, '+') : realtime_distance(from_most, '-');

    if (distance < 0 || distance > SIGRTMAX - SIGRTMIN)
        return -1;
    return from_least != NULL ? SIGRTMIN + distance : SIGRTMAX - distance;
}

static int named_signal(const char *name)
{
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *rest = text_after(name, names[i].name);

        if (rest != NULL && *rest == '\0')
            return names[i].number;
    }
    return realtime_signal(name);
}

bool signal_parse(const char *text, int *number)
{
    int found = small_number(text);

    if (found < 0) {
        const char *name = text_after(text, "SIG");
        found = named_signal(name != NULL ? name : text);
    }
    if (found < 1 || found > SIGNAL_MOST)
        return false;
    *number = found;
    return true;
}
