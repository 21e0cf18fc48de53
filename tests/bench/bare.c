/*
 * The least that a lock wrapper can be: two preformatted commands over a raw socket, and vfork
 * between them. No options, no extension, no signals, no checks beyond the reply's first bytes:
 * what redislock costs beyond this is the price of what it promises.
 *
 *   bare PORT|/SOCKET KEY COMMAND...             exit status: the command's, 75 if held, 69 without Redis
 *   bare -r ACQUIRE BEFORE AFTER PORT COMMAND... with requests of redislock's own, byte for byte: the
 *                                                second is BEFORE, the value that the first one's reply
 *                                                tells, AFTER; so that the server does the same work
 */
#include "bench.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#define TOKEN_BYTES 16
#define REPLY_BYTES 256
#define RELEASE                                                                                    \
    "if redis.call('GET',KEYS[1])==ARGV[1] then return redis.call('DEL',KEYS[1]) end return 0"

static int connect_to(const char *where)
{
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    struct sockaddr_in remote = {.sin_family = AF_INET};
    bool is_local = where[0] == '/';
    int fd = socket(is_local ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int error;
    if (is_local) {
        snprintf(local.sun_path, sizeof local.sun_path, "%s", where);
        error = connect(fd, (const struct sockaddr *)&local, sizeof local);
    } else {
        remote.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        remote.sin_port = htons((uint16_t)parse_number("bare", where, 1, UINT16_MAX));
        error = connect(fd, (const struct sockaddr *)&remote, sizeof remote);
    }
    return error == 0 ? fd : -1;
}

static void make_token(char token[2 * TOKEN_BYTES + 1])
{
    static const char digits[] = "0123456789abcdef";
    unsigned char bytes[TOKEN_BYTES];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        _exit(71);
    for (size_t i = 0; i < sizeof bytes; i++) {
        token[2 * i] = digits[bytes[i] >> 4];
        token[2 * i + 1] = digits[bytes[i] & 15];
    }
    token[sizeof bytes * 2] = '\0';
}

/* Sends a request; the first bytes of its reply, NUL-terminated. */
static void exchange(int fd, const char *request, int length, char reply[REPLY_BYTES])
{
    if (send(fd, request, (size_t)length, MSG_NOSIGNAL) != length)
        _exit(69);
    ssize_t got = recv(fd, reply, REPLY_BYTES - 1, 0);
    if (got <= 0)
        _exit(69);
    reply[got] = '\0';
}

static int run(char **argv)
{
    int status;
    pid_t child = vfork();
    if (child == 0) {
        execvp(argv[0], argv);
        _exit(127);
    }
    if (child < 0 || waitpid(child, &status, 0) != child)
        return 71;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* The plain recipe. */
static int plain(int fd, const char *key, char **command)
{
    char token[2 * TOKEN_BYTES + 1];
    char request[1024];
    char reply[REPLY_BYTES];
    make_token(token);
    int length = snprintf(request, sizeof request,
                          "*6\r\n$3\r\nSET\r\n$%zu\r\n%s\r\n$%zu\r\n%s\r\n$2\r\nNX\r\n$2\r\nPX\r\n"
                          "$5\r\n60000\r\n",
                          strlen(key), key, strlen(token), token);
    exchange(fd, request, length, reply);
    if (reply[0] != '+')
        return reply[0] == '$' ? 75 : 76;
    int status = run(command);
    length = snprintf(request, sizeof request,
                      "*5\r\n$4\r\nEVAL\r\n$%zu\r\n" RELEASE "\r\n$1\r\n1\r\n$%zu\r\n%s\r\n$%zu\r\n"
                      "%s\r\n",
                      strlen(RELEASE), strlen(key), key, strlen(token), token);
    exchange(fd, request, length, reply);
    return status;
}

/* Requests that were heard of redislock. */
static int repeated(int fd, const char *acquire, const char *before, const char *after,
                    char **command)
{
    char request[1024];
    char reply[REPLY_BYTES];
    char value[REPLY_BYTES];
    make_token(value); /* one as good as the one that is repeated */
    exchange(fd, acquire, (int)strlen(acquire), reply);
    if (sscanf(reply, "*2 $2 OK $%*d %255s", value) != 1)
        return strstr(reply, "HELD") != NULL ? 75 : 76;
    int status = run(command);
    exchange(fd, request, snprintf(request, sizeof request, "%s%s%s", before, value, after), reply);
    return status;
}

int main(int argc, char **argv)
{
    bool repeats = argc > 6 && strcmp(argv[1], "-r") == 0;
    if (argc < 4)
        return 64;
    int fd = connect_to(argv[repeats ? 5 : 1]);
    if (fd < 0)
        return 69;
    return repeats ? repeated(fd, argv[2], argv[3], argv[4], argv + 6)
                   : plain(fd, argv[2], argv + 3);
}
