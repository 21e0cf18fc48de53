/*
 * pty: runs a command on a pseudo-terminal of its own and talks to it as a person would.
 *
 * Build: cc -O1 -g -std=c11 -D_GNU_SOURCE tests/tools/pty.c -o build/tools/pty
 *
 * The command leads a session whose controlling terminal is the new pseudo-terminal (24x80). A
 * script from stdin or --script FILE drives it; all that the terminal shows goes to stdout. At the
 * end every process that came out of the command is killed, also those that left its session: this
 * tool adopts orphans (subreaper) and goes on until it has no children.
 *
 * Exit status: 0 all expectations met, 1 one failed (stderr says which), 2 wrong use.
 */
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "tool.h"

static const char help[] =
    "usage: pty [--script FILE] [--] COMMAND [ARG]...\n"
    "The script has one step per line; blank lines and those with # are skipped. TEXT knows the\n"
    "escapes \\r \\n \\t \\e \\\\ \\xNN; what is sent comes back as echo, so expect something "
    "that\n"
    "was not typed: line echo is-$((6*7)), expect is-42.\n"
    "  send TEXT       type TEXT (\\x03 is ^C, \\x1a ^Z, \\x1c ^\\)\n"
    "  line TEXT       type TEXT and Return\n"
    "  eof             type ^D\n"
    "  expect TEXT     wait for TEXT behind the last one found\n"
    "  foreground NAME wait until a process NAME leads the terminal's foreground group: ^C and ^Z\n"
    "                  reach it from then on\n"
    "  never MS TEXT   fail if TEXT shows behind the last one found within MS\n"
    "  timeout MS      patience of later expect, foreground and wait; first 5000\n"
    "  size ROWS COLS  resize the terminal\n"
    "  hangup          take the terminal away\n"
    "  wait [STATUS]   wait for the command to end, with STATUS (128+N for signal N)\n";

struct session {
    int master; /* -1: hung up */
    pid_t child;
    bool ended;
    int status; /* once ended, as a shell counts */
    int64_t timeout_ms;
    char *shown;         /* all that the terminal showed */
    size_t length, seen; /* `seen`: behind the last text found */
};

/* ---- the command ---- */

__attribute__((noreturn)) static void become(int master, char **command)
{
    sigset_t none;
    sigemptyset(&none);
    setsid();
    int slave = open(ptsname(master), O_RDWR);
    if (slave < 0 || ioctl(slave, TIOCSCTTY, 0) != 0)
        fail("the terminal: %s", strerror(errno));
    for (int fd = 0; fd < 3; fd++)
        dup2(slave, fd);
    if (slave > 2)
        close(slave);
    for (int number = 1; number <= SIGRTMAX; number++)
        signal(number, SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execvp(command[0], command);
    fprintf(stderr, "pty: %s: %s\n", command[0], strerror(errno));
    _exit(127);
}

static struct session session_start(char **command)
{
    struct winsize size = {.ws_row = 24, .ws_col = 80};
    struct session session = {.timeout_ms = 5000};
    session.master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (session.master < 0 || grantpt(session.master) != 0 || unlockpt(session.master) != 0)
        fail("no pseudo-terminal: %s", strerror(errno));
    ioctl(session.master, TIOCSWINSZ, &size);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    session.child = fork();
    if (session.child < 0)
        fail("fork: %s", strerror(errno));
    if (session.child == 0)
        become(session.master, command);
    return session;
}

/* Collects who has ended, adopted ones too. */
static void session_reap(struct session *session)
{
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
        if (pid == session->child) {
            session->ended = true;
            session->status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
        }
}

/* Waits at most `most_ms` for output and takes it. false: there was none. */
static bool session_read(struct session *session, int most_ms)
{
    struct pollfd set = {session->master, POLLIN, 0};
    char bytes[4096];
    if (poll(&set, 1, most_ms) <= 0)
        return false;
    ssize_t got = read(session->master, bytes, sizeof(bytes));
    if (got <= 0) { /* EIO: nobody has the other side open at the moment */
        struct timespec pause = {0, 1000000L * (most_ms < 10 ? most_ms : 10)};
        nanosleep(&pause, NULL);
        return false;
    }
    if (write(STDOUT_FILENO, bytes, (size_t)got) < 0)
        fail("stdout: %s", strerror(errno));
    session->shown = realloc(session->shown, session->length + (size_t)got);
    if (session->shown == NULL)
        fail("memory");
    memcpy(session->shown + session->length, bytes, (size_t)got);
    session->length += (size_t)got;
    return true;
}

static void children_kill(void)
{
    char path[64];
    long pid;
    snprintf(path, sizeof(path), "/proc/self/task/%d/children", getpid());
    FILE *children = fopen(path, "re");
    if (children == NULL)
        return;
    while (fscanf(children, "%ld", &pid) == 1)
        kill((pid_t)pid, SIGKILL);
    fclose(children);
}

static void session_end(struct session *session)
{
    struct timespec pause = {0, 1000000};
    if (!session->ended)
        kill(session->child, SIGKILL);
    for (;;) {
        children_kill();
        pid_t pid = waitpid(-1, NULL, WNOHANG);
        if (pid < 0 && errno == ECHILD)
            break;
        if (pid == 0)
            nanosleep(&pause, NULL);
    }
    if (session->master >= 0)
        close(session->master);
    free(session->shown);
}

/* ---- the steps: each returns false when an expectation failed ---- */

static bool step_send(struct session *session, const char *bytes, size_t length)
{
    while (length > 0) {
        ssize_t sent = write(session->master, bytes, length);
        if (sent <= 0)
            return false;
        bytes += sent;
        length -= (size_t)sent;
    }
    return true;
}

static bool step_find(struct session *session, const char *text, size_t length, int64_t within_ms)
{
    int64_t end = boottime_ms() + within_ms;
    for (;;) {
        const char *found = NULL;
        if (session->length > session->seen)
            found = memmem(session->shown + session->seen, session->length - session->seen, text,
                           length);
        if (found != NULL) {
            session->seen = (size_t)(found - session->shown) + length;
            return true;
        }
        session_reap(session);
        if (!session_read(session, 20) && boottime_ms() >= end)
            return false;
    }
}

/* Succeeds when the leader of the terminal's foreground group is called `name`. */
static bool foreground_is(const struct session *session, const char *name)
{
    char path[64], leader[64] = "";
    snprintf(path, sizeof(path), "/proc/%d/comm", tcgetpgrp(session->master));
    FILE *comm = fopen(path, "re");
    if (comm == NULL)
        return false;
    bool same = fgets(leader, sizeof(leader), comm) != NULL;
    fclose(comm);
    leader[strcspn(leader, "\n")] = '\0';
    return same && strcmp(leader, name) == 0;
}

static bool step_foreground(struct session *session, const char *name)
{
    int64_t end = boottime_ms() + session->timeout_ms;
    while (!foreground_is(session, name)) {
        session_read(session, 5);
        session_reap(session);
        if (boottime_ms() >= end)
            return false;
    }
    return true;
}

static bool step_wait(struct session *session, const char *wanted)
{
    int64_t end = boottime_ms() + session->timeout_ms;
    while (!session->ended && boottime_ms() < end) {
        session_read(session, 10);
        session_reap(session);
    }
    while (session_read(session, 0))
        ;
    if (!session->ended) {
        fprintf(stderr, "pty: the command has not ended\n");
        return false;
    }
    if (*wanted != '\0' && number_of(wanted, 255) != session->status) {
        fprintf(stderr, "pty: the command ended with %d instead of %s\n", session->status, wanted);
        return false;
    }
    return true;
}

static bool step_size(struct session *session, const char *text)
{
    struct winsize size = {.ws_row = 0};
    if (sscanf(text, "%hu %hu", &size.ws_row, &size.ws_col) != 2)
        fail("size: ROWS COLS instead of \"%s\"", text);
    return ioctl(session->master, TIOCSWINSZ, &size) == 0;
}

static bool step_hangup(struct session *session)
{
    close(session->master);
    session->master = -1;
    return true;
}

static bool step_never(struct session *session, char *text)
{
    char *rest = text + strcspn(text, " ");
    if (*rest != '\0')
        *rest++ = '\0';
    return !step_find(session, rest, unescape(rest), number_of(text, 60000));
}

/* `text` is the step's argument, "" without one; it may be changed. */
static bool step_run(struct session *session, const char *verb, char *text)
{
    if (strcmp(verb, "send") == 0)
        return step_send(session, text, unescape(text));
    if (strcmp(verb, "line") == 0)
        return step_send(session, text, unescape(text)) && step_send(session, "\r", 1);
    if (strcmp(verb, "eof") == 0)
        return step_send(session, "\x04", 1);
    if (strcmp(verb, "expect") == 0)
        return step_find(session, text, unescape(text), session->timeout_ms);
    if (strcmp(verb, "foreground") == 0)
        return step_foreground(session, text);
    if (strcmp(verb, "never") == 0)
        return step_never(session, text);
    if (strcmp(verb, "size") == 0)
        return step_size(session, text);
    if (strcmp(verb, "hangup") == 0)
        return step_hangup(session);
    if (strcmp(verb, "wait") == 0)
        return step_wait(session, text);
    if (strcmp(verb, "timeout") != 0)
        fail("\"%s\" is no step; see --help", verb);
    session->timeout_ms = number_of(text, 600000);
    return true;
}

static bool script_run(struct session *session, FILE *script)
{
    char *line = NULL, *copy = NULL;
    size_t size = 0;
    bool good = true;
    while (good && getline(&line, &size, script) > 0) {
        line[strcspn(line, "\n")] = '\0';
        if (line[0] == '\0' || line[0] == '#')
            continue;
        free(copy);
        copy = strdup(line); /* the step takes the line apart */
        char *text = line + strcspn(line, " ");
        if (*text != '\0')
            *text++ = '\0';
        good = step_run(session, line, text);
    }
    if (!good)
        fprintf(stderr, "pty: failed: %s\n", copy);
    free(copy);
    free(line);
    return good;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"script", 1, NULL, 's'}, {"help", 0, NULL, 'h'}, {NULL, 0, NULL, 0}};
    FILE *script = stdin;
    for (int option; (option = getopt_long(argc, argv, "+", options, NULL)) != -1;)
        switch (option) {
        case 's':
            if ((script = fopen(optarg, "re")) == NULL)
                fail("%s: %s", optarg, strerror(errno));
            break;
        case 'h':
            fputs(help, stdout);
            return 0;
        default:
            fail("see --help");
        }
    if (optind == argc)
        fail("no command; see --help");
    alarm(TOOL_LIFE_SECONDS);
    signal(SIGPIPE, SIG_IGN);
    struct session session = session_start(argv + optind);
    bool good = script_run(&session, script);
    session_end(&session);
    if (script != stdin)
        fclose(script);
    return good ? 0 : 1;
}
