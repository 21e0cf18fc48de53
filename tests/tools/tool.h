/*
 * What the test tools share: failing loudly, the clock, numbers, signal names, escapes, addresses.
 *
 * All of it is static inline, so that each tool stays one file to compile. A tool that is used
 * wrongly says so on stderr and exits 2; a tool never outlives its test by more than
 * TOOL_LIFE_SECONDS, whatever became of the test.
 */
#ifndef REDISLOCK_TESTS_TOOL_H
#define REDISLOCK_TESTS_TOOL_H

#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define TOOL_LIFE_SECONDS 900

/* Prints `TOOL: text` and exits 2. */
__attribute__((format(printf, 1, 2), noreturn)) static inline void fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s: ", program_invocation_short_name);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    _exit(2);
}

/* The clock of the product: it counts suspended time too. */
static inline int64_t boottime_ms(void)
{
    struct timespec now;
    if (clock_gettime(CLOCK_BOOTTIME, &now) != 0)
        fail("clock: %s", strerror(errno));
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* A whole number from 0 to `most`, or the end of the tool. */
static inline int64_t number_of(const char *text, int64_t most)
{
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || value < 0 || value > most)
        fail("\"%s\" is not a number from 0 to %lld", text, (long long)most);
    return value;
}

/* The name of signal `number` without SIG, or NULL. Not every libc has sigabbrev_np. */
static inline const char *signal_name(int number)
{
    static const struct {
        int number;
        const char *name;
    } names[] = {
        {SIGHUP, "HUP"},       {SIGINT, "INT"},   {SIGQUIT, "QUIT"},   {SIGILL, "ILL"},
        {SIGTRAP, "TRAP"},     {SIGABRT, "ABRT"}, {SIGBUS, "BUS"},     {SIGFPE, "FPE"},
        {SIGKILL, "KILL"},     {SIGUSR1, "USR1"}, {SIGSEGV, "SEGV"},   {SIGUSR2, "USR2"},
        {SIGPIPE, "PIPE"},     {SIGALRM, "ALRM"}, {SIGTERM, "TERM"},   {SIGCHLD, "CHLD"},
        {SIGCONT, "CONT"},     {SIGSTOP, "STOP"}, {SIGTSTP, "TSTP"},   {SIGTTIN, "TTIN"},
        {SIGTTOU, "TTOU"},     {SIGURG, "URG"},   {SIGXCPU, "XCPU"},   {SIGXFSZ, "XFSZ"},
        {SIGVTALRM, "VTALRM"}, {SIGPROF, "PROF"}, {SIGWINCH, "WINCH"}, {SIGIO, "IO"},
        {SIGPWR, "PWR"},       {SIGSYS, "SYS"},
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (names[i].number == number)
            return names[i].name;
    return NULL;
}

/* A signal by name (TERM, SIGTERM) or number, or the end of the tool. */
static inline int signal_of(const char *text)
{
    const char *bare = strncasecmp(text, "SIG", 3) == 0 ? text + 3 : text;
    for (int number = 1; number < SIGRTMIN; number++) {
        const char *name = signal_name(number);
        if (name != NULL && strcasecmp(name, bare) == 0)
            return number;
    }
    return (int)number_of(text, SIGRTMAX);
}

/* Replaces \r \n \t \e \\ and \xNN in place; returns the new length (NULs may be inside). */
static inline size_t unescape(char *text)
{
    char *to = text;
    for (const char *from = text; *from != '\0'; from++) {
        unsigned int byte;
        if (*from != '\\') {
            *to++ = *from;
            continue;
        }
        from++;
        if (*from == 'x' && sscanf(from + 1, "%2x", &byte) == 1 && from[2] != '\0') {
            *to++ = (char)byte;
            from += 2;
            continue;
        }
        switch (*from) {
        case 'r':
            *to++ = '\r';
            break;
        case 'n':
            *to++ = '\n';
            break;
        case 't':
            *to++ = '\t';
            break;
        case 'e':
            *to++ = '\033';
            break;
        case '\\':
            *to++ = '\\';
            break;
        default:
            fail("\"\\%s\" is no escape; there are \\r \\n \\t \\e \\\\ and \\xNN", from);
        }
    }
    *to = '\0';
    return (size_t)(to - text);
}

struct address {
    union {
        struct sockaddr any;
        struct sockaddr_un local;
        struct sockaddr_in tcp;
    } name;
    socklen_t size;
};

/* unix:PATH, tcp (a free port) or tcp:PORT, the last two on 127.0.0.1. */
static inline struct address address_of(const char *text)
{
    struct address address;
    memset(&address, 0, sizeof(address));
    if (strncmp(text, "unix:", 5) == 0) {
        size_t length = strlen(text + 5);
        if (length == 0 || length >= sizeof(address.name.local.sun_path))
            fail("\"%s\" is no path for a Unix socket", text + 5);
        address.name.local.sun_family = AF_UNIX;
        memcpy(address.name.local.sun_path, text + 5, length);
        address.size = sizeof(address.name.local);
        return address;
    }
    if (strncmp(text, "tcp", 3) != 0 || (text[3] != '\0' && text[3] != ':'))
        fail("\"%s\" is not unix:PATH, tcp or tcp:PORT", text);
    address.name.tcp.sin_family = AF_INET;
    address.name.tcp.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.name.tcp.sin_port = htons(text[3] ? (uint16_t)number_of(text + 4, 65535) : 0);
    address.size = sizeof(address.name.tcp);
    return address;
}

/* A listening socket at `address` (whose port is filled in), or -1 with errno. */
static inline int address_listen(struct address *address)
{
    int on = 1;
    socklen_t size = sizeof(address->name);
    int fd = socket(address->name.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    if (address->name.any.sa_family == AF_UNIX)
        unlink(address->name.local.sun_path);
    else
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, &address->name.any, address->size) == 0 && listen(fd, 128) == 0 &&
        getsockname(fd, &address->name.any, &size) == 0)
        return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

/*
 * Tells whoever waits that the tool listens: the port (0 for a Unix socket) as one line in `file`,
 * which appears complete or not at all; without a file on stdout.
 */
static inline void address_announce(const struct address *address, const char *file)
{
    bool tcp = address->name.any.sa_family == AF_INET;
    int port = tcp ? ntohs(address->name.tcp.sin_port) : 0;
    if (file == NULL) {
        printf("%d\n", port);
        fflush(stdout);
        return;
    }
    char draft[4096];
    if (snprintf(draft, sizeof(draft), "%s.new", file) >= (int)sizeof(draft))
        fail("%s: the name is too long", file);
    FILE *out = fopen(draft, "we");
    if (out == NULL || fprintf(out, "%d\n", port) < 0 || fclose(out) != 0 ||
        rename(draft, file) != 0)
        fail("%s: %s", file, strerror(errno));
}

#endif
