/*
 * job: what a contender of the chaos run does under its lock. It writes down when it is alive.
 *
 * usage: job MS STATUS FAMILY
 *
 * Stays for MS (or until the file CHAOS_DRAIN exists, or TERM comes) and ends with STATUS; 1000 + N
 * ends by signal N. FAMILY 1 has a second process in the same group. Every line goes to the end of
 * CHAOS_LOG in one write, behind the CLOCK_BOOTTIME in ns at which the process was certainly alive.
 * A process that is killed leaves no `end`: then its last `tick` tells how long it lived at least.
 */
#include <fcntl.h>
#include <sys/wait.h>

#include "../tools/tool.h"

#define TICK_MS   20
#define ORPHAN_MS 3000 /* how much longer the second process would live, if nobody ended it */

static int log_fd = -1;
static const char *id;
static int part = 0;

static const char *variable(const char *name, const char *otherwise)
{
    const char *value = getenv(name);
    return value != NULL ? value : otherwise;
}

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
    char line[512];
    char rest[384];
    struct timespec now;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(rest, sizeof(rest), format, arguments);
    va_end(arguments);
    clock_gettime(CLOCK_BOOTTIME, &now);
    int length = snprintf(line, sizeof(line), "%lld %s id=%s part=%d\n",
                          (long long)now.tv_sec * 1000000000 + now.tv_nsec, rest, id, part);
    if (length < 0 || (size_t)length >= sizeof(line) ||
        write(log_fd, line, (size_t)length) != length)
        fail("cannot write the log: %s", strerror(errno));
}

/* true: TERM came. */
static bool stay(int64_t ms, const sigset_t *blocked)
{
    const char *drain = variable("CHAOS_DRAIN", "/nonexistent");
    const struct timespec tick = {0, TICK_MS * 1000000L};
    int64_t end = boottime_ms() + ms;
    while (boottime_ms() < end && access(drain, F_OK) != 0) {
        int signal = sigtimedwait(blocked, NULL, &tick);
        if (signal > 0) {
            say("term signal=%d", signal);
            return true;
        }
        say("tick");
    }
    return false;
}

static _Noreturn void end(int status, const sigset_t *blocked)
{
    int number = status - 1000;
    say("end status=%d", number > 0 ? 128 + number : status);
    if (number > 0) {
        sigprocmask(SIG_UNBLOCK, blocked, NULL);
        kill(getpid(), number);
    }
    _exit(status);
}

int main(int argc, char **argv)
{
    sigset_t blocked;
    if (argc != 4)
        fail("usage: job MS STATUS FAMILY");
    int64_t ms = number_of(argv[1], TOOL_LIFE_SECONDS * 1000);
    int status = (int)number_of(argv[2], 1064);
    id = variable("CHAOS_ID", "0");
    log_fd = open(variable("CHAOS_LOG", "/dev/stdout"), O_WRONLY | O_APPEND | O_CLOEXEC);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGTERM);
    sigprocmask(SIG_BLOCK, &blocked, NULL);

    say("start pid=%d host=%s name=%s fence=%s slot=%s", (int)getpid(), variable("CHAOS_HOST", "-"),
        variable("CHAOS_NAME", "-"), variable("REDISLOCK_FENCE", "0"),
        variable("REDISLOCK_SLOT", "0"));
    pid_t second = *argv[3] == '1' ? fork() : 0;
    if (second == 0 && *argv[3] == '1') {
        part = 1;
        stay(ms + ORPHAN_MS, &blocked);
        _exit(0);
    }
    stay(ms, &blocked);
    if (second > 0) {
        kill(second, SIGKILL);
        waitpid(second, NULL, 0);
    }
    end(status, &blocked);
}
