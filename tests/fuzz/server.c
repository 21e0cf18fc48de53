/*
 * libFuzzer target: a hostile server, against everything that talks to one. `make fuzz` builds and
 * runs it.
 *
 * The first byte chooses what is asked of the program; the rest is what the server says, cut by '~'
 * into what each new connection gets, with the end of the stream behind it. The program is whole, from
 * the configuration to the words on stdout; only what would make a run slow or unlike the next one is
 * replaced at link time: the way to a socket, the clocks, waiting, and randomness.
 *
 * Whatever the server says: a status of the contract, and nothing for a terminal but visible text.
 */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "base/clock.h"
#include "base/deadline.h"
#include "base/log.h"
#include "base/token.h"
#include "cli/config.h"
#include "command/doctor.h"
#include "command/operate.h"
#include "command/tokens.h"
#include "fuzz.h"
#include "redis/socket.h"

#define BEGIN_MS  INT64_C(1000000000)
#define WALL_MS   INT64_C(1795917600000)
#define WORDS_MAX 16
#define TOKEN     "00112233445566778899aabbccddeeff00112233"
#define VALUE     "redislock1:" TOKEN ":7:held:1795917600000:60000:web-2:0badcafe:4711:deploy:report.sh"
#define PLACE                                                                                      \
    "redislock1:" TOKEN ":7:slot2:1795917600000:60000:web-2:0badcafe:4711:deploy:report.sh"

static const char *const questions[][WORDS_MAX] = {
    {"--acquire", "job"},
    {"--acquire", "-w", "20s", "job"},
    {"--acquire", "-s", "-w", "20s", "job"},
    {"--acquire", "-S", "3", "job"},
    {"--acquire", "--wait-replicas", "1", "job"},
    {"--acquire", "--log-format", "json", "-v", "--user", "me", "-u", "redis://:hush@h/3", "job"},
    {"--acquire", "-u", "redis+cluster://a,b", "-w", "1s", "job"},
    {"--acquire", "-u", "redis+sentinel://a,b/master", "job"},
    {"--extend", "job", VALUE},
    {"--extend", "job", PLACE},
    {"--release", "-v", "job", VALUE},
    {"--release", "--min-hold", "1h", "job", PLACE},
    {"--check", "job", VALUE},
    {"--status", "job", "other"},
    {"--status", "--json", "job"},
    {"--list"},
    {"--list", "--json"},
    {"--unlock", "--force", "job"},
    {"--doctor"},
    {"--doctor", "-u", "redis+cluster://a,b"},
};

#define QUESTIONS (sizeof(questions) / sizeof(questions[0]))

/* --- What is replaced ------------------------------------------------------------------------- */

static struct {
    const uint8_t *bytes; /* what has not been said yet */
    size_t left;
    bool ended;
    int peer; /* the server's end; -1: nobody is connected */
    int64_t now_ms;
} world;

enum server_error __wrap_socket_connect(const struct url *url, const struct deadline *deadline,
                                        int *fd, struct text *why);
int64_t __wrap_clock_boot_ms(void);
int64_t __wrap_clock_wall_ms(void);
enum deadline_result __wrap_deadline_wait(int fd, short events, const struct deadline *deadline);
void __wrap_token_make(char token[TOKEN_LENGTH + 1]);
uint32_t __wrap_token_random_below(uint32_t bound);

static void hang_up(void)
{
    if (world.peer >= 0)
        close(world.peer);
    world.peer = -1;
}

enum server_error __wrap_socket_connect(const struct url *url, const struct deadline *deadline,
                                        int *fd, struct text *why)
{
    int ends[2];
    const uint8_t *cut = world.left > 0 ? memchr(world.bytes, '~', world.left) : NULL;
    size_t length = cut != NULL ? (size_t)(cut - world.bytes) : world.left;
    (void)url;
    (void)deadline;
    hang_up();
    if (world.ended) {
        text_add(why, "Connection refused");
        return SERVER_UNREACHABLE;
    }
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0);
    REQUIRE(length == 0 || write(ends[1], world.bytes, length) == (ssize_t)length);
    REQUIRE(shutdown(ends[1], SHUT_WR) == 0);
    world.ended = cut == NULL;
    world.bytes += length + (cut != NULL);
    world.left -= length + (cut != NULL);
    world.peer = ends[1];
    *fd = ends[0];
    return SERVER_OK;
}

int64_t __wrap_clock_boot_ms(void)
{
    return world.now_ms;
}

int64_t __wrap_clock_wall_ms(void)
{
    return WALL_MS + world.now_ms - BEGIN_MS;
}

/* What is not there by now will never come. */
enum deadline_result __wrap_deadline_wait(int fd, short events, const struct deadline *deadline)
{
    struct pollfd waits[2] = {{deadline->wake_fd, POLLIN, 0}, {fd, events, 0}};
    int ready = poll(waits, 2, 0);
    if (ready > 0)
        return waits[0].revents != 0 ? DEADLINE_WOKEN : DEADLINE_READY;
    REQUIRE(deadline->at_ms != CLOCK_NEVER);
    if (deadline->at_ms > world.now_ms)
        world.now_ms = deadline->at_ms;
    return DEADLINE_PASSED;
}

void __wrap_token_make(char token[TOKEN_LENGTH + 1])
{
    memcpy(token, TOKEN, TOKEN_LENGTH + 1);
}

uint32_t __wrap_token_random_below(uint32_t bound)
{
    return bound / 2;
}

/* --- A run ------------------------------------------------------------------------------------ */

/* Read once for each question: reading it is what the target config is about. */
static const struct config *config_of(size_t question)
{
    static struct config configs[QUESTIONS];
    static bool read[QUESTIONS];
    static char no_file[] = "REDISLOCK_CONFIG=/dev/null";
    static char url[] = "REDISLOCK_URL=redis://h";
    static char program[] = "redislock";
    static char *argv[QUESTIONS][WORDS_MAX + 2];
    char *environment[] = {no_file, url, NULL};
    int argc = 0;
    if (read[question])
        return &configs[question];
    argv[question][argc++] = program;
    for (size_t i = 0; i < WORDS_MAX && questions[question][i] != NULL; i++)
        argv[question][argc++] = strdup(questions[question][i]);
    REQUIRE(config_load(&configs[question], argc, argv[question], environment) == STATUS_OK);
    read[question] = true;
    return &configs[question];
}

static int ask(size_t question)
{
    static int (*const commands[])(const struct config *) = {
        [MODE_ACQUIRE] = command_acquire, [MODE_EXTEND] = command_extend,
        [MODE_RELEASE] = command_release, [MODE_CHECK] = command_check,
        [MODE_STATUS] = command_status,   [MODE_LIST] = command_list,
        [MODE_UNLOCK] = command_unlock,   [MODE_DOCTOR] = command_doctor,
    };
    const struct config *config = config_of(question);
    log_setup(&(struct log_settings){config->name, config->log_format, config->verbose});
    return commands[config->mode](config);
}

static bool is_of_contract(int status)
{
    static const int all[] = {STATUS_OK,       STATUS_UNAVAILABLE, STATUS_HELD,
                              STATUS_NONSENSE, STATUS_DENIED,      STATUS_CONFIG,
                              STATUS_LOST,     STATUS_OS,          STATUS_USAGE};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (status == all[i])
            return true;
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct fuzz_capture out = {.fd = STDOUT_FILENO, .file = -1};
    static struct fuzz_capture err = {.fd = STDERR_FILENO, .file = -1};
    static int first_free = -1;
    sigset_t mask;
    size_t lines;
    if (size == 0)
        return 0;
    world.bytes = data + 1;
    world.left = size - 1;
    world.ended = false;
    world.peer = -1;
    world.now_ms = BEGIN_MS;
    REQUIRE(sigprocmask(SIG_SETMASK, NULL, &mask) == 0);
    fuzz_capture_begin(&out);
    fuzz_capture_begin(&err);
    if (first_free < 0)
        first_free = dup(STDIN_FILENO);
    int status = ask(data[0] % QUESTIONS);
    (void)fflush(stdout);
    fuzz_capture_end(&err);
    fuzz_capture_end(&out);
    hang_up();
    /* a process that ends leaves the rest, such as its signalfd, to the system */
    REQUIRE(syscall(SYS_close_range, first_free + 1, ~0U, 0) == 0);
    REQUIRE(sigprocmask(SIG_SETMASK, &mask, NULL) == 0);
    REQUIRE(is_of_contract(status));
    REQUIRE(fuzz_is_lines(err.bytes, err.length, &lines));
    REQUIRE(status == STATUS_OK || lines + out.length > 0);
    REQUIRE(strstr(err.bytes, "hush") == NULL || memmem(data, size, "hush", 4) != NULL);
    /* where the server fails half-way, so does a list */
    bool whole = status == STATUS_OK || status == STATUS_HELD;
    if (!whole && out.length > 0 && out.bytes[out.length - 1] != '\n')
        out.bytes[out.length++] = '\n';
    REQUIRE(out.length >= sizeof(out.bytes) - 1 || fuzz_is_lines(out.bytes, out.length, &lines));
    return 0;
}
