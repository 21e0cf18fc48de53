/*
 * The job that waiters run: writes when it began and when it ended.
 *
 *   stamp LOG ID [HOLD_US | FIFO]
 *
 * Appends "S ID NS" as its first act and "E ID NS" as its last (CLOCK_MONOTONIC), each with one
 * write. In between it sleeps for HOLD_US, or until the other end of FIFO has been opened and closed.
 */
#include "bench.h"

static void record(int log, char what, const char *id)
{
    char line[64];
    int length = snprintf(line, sizeof line, "%c %s %lld\n", what, id, (long long)now_ns());
    if (write(log, line, (size_t)length) != length)
        die("stamp", "cannot write the log: %s", strerror(errno));
}

static void await_gate(const char *fifo)
{
    char byte;
    int fd = open(fifo, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        die("stamp", "%s: %s", fifo, strerror(errno));
    while (read(fd, &byte, 1) > 0)
        continue;
}

int main(int argc, char **argv)
{
    if (argc < 3)
        die("stamp", "usage: stamp LOG ID [HOLD_US | FIFO]");
    int log = open(argv[1], O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (log < 0)
        die("stamp", "%s: %s", argv[1], strerror(errno));
    record(log, 'S', argv[2]);
    if (argc > 3 && argv[3][0] == '/')
        await_gate(argv[3]);
    else if (argc > 3)
        sleep_ns(parse_number("stamp", argv[3], 0, 60000000) * NS_PER_US);
    record(log, 'E', argv[2]);
    return 0;
}
