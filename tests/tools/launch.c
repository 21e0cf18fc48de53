/*
 * launch: starts a command with exactly the signal set-up and descriptors that a test asks for.
 *
 * Build: cc -O1 -g -std=c11 -D_GNU_SOURCE tests/tools/launch.c -o build/tools/launch
 *
 * A shell starts background commands with INT and QUIT ignored and cannot block a signal at all.
 * This one sets every disposition to the default and empties the mask, applies its options and
 * becomes the command: same pid, so a test can wait for it and signal it. Exits 127 when the
 * command cannot be started.
 */
#include <fcntl.h>
#include <getopt.h>

#include "tool.h"

static const char help[] =
    "usage: launch [OPTION]... [--] COMMAND [ARG]...\n"
    "  --group        a process group of its own\n"
    "  --session      a session of its own (no controlling terminal)\n"
    "  --ignore SIG   start with SIG ignored (may be repeated, as the next three)\n"
    "  --block SIG    start with SIG blocked\n"
    "  --close FD     start with FD closed\n"
    "  --open FD      start with FD open (on /dev/null)\n";

static void open_at(int wanted)
{
    int fd = open("/dev/null", O_RDWR);
    if (fd < 0 || (fd != wanted && dup2(fd, wanted) < 0))
        fail("descriptor %d: %s", wanted, strerror(errno));
    if (fd != wanted)
        close(fd);
}

static void default_dispositions(void)
{
    for (int number = 1; number <= SIGRTMAX; number++)
        signal(number, SIG_DFL); /* KILL, STOP and libc's own refuse, which is right */
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"group", 0, NULL, 'g'},  {"session", 0, NULL, 's'},
                                            {"ignore", 1, NULL, 'i'}, {"block", 1, NULL, 'b'},
                                            {"close", 1, NULL, 'c'},  {"open", 1, NULL, 'o'},
                                            {"help", 0, NULL, 'h'},   {NULL, 0, NULL, 0}};
    sigset_t mask;
    sigemptyset(&mask);
    default_dispositions();
    for (int option; (option = getopt_long(argc, argv, "+", options, NULL)) != -1;)
        switch (option) {
        case 'g':
            setpgid(0, 0);
            break;
        case 's':
            setsid();
            break;
        case 'i':
            signal(signal_of(optarg), SIG_IGN);
            break;
        case 'b':
            sigaddset(&mask, signal_of(optarg));
            break;
        case 'c':
            close((int)number_of(optarg, 65535));
            break;
        case 'o':
            open_at((int)number_of(optarg, 65535));
            break;
        case 'h':
            fputs(help, stdout);
            return 0;
        default:
            fail("see --help");
        }
    if (optind == argc)
        fail("no command; see --help");
    sigprocmask(SIG_SETMASK, &mask, NULL);
    execvp(argv[optind], argv + optind);
    fprintf(stderr, "launch: %s: %s\n", argv[optind], strerror(errno));
    return 127;
}
