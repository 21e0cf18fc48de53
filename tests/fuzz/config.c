/*
 * libFuzzer target: command line, environment and configuration file. `make fuzz` builds and runs it.
 *
 * The input is a text: the words of the command line, a line each; behind an empty line the
 * environment; behind another the file. (In the first two a byte 1 stands for a newline.) What is
 * refused is refused with one visible line and a status of the contract; what is taken keeps to the
 * documented ranges.
 */
#include <fcntl.h>

#include "base/text.h"
#include "cli/config.h"
#include "cli/config_file.h"
#include "cli/duration.h"
#include "fuzz.h"
#include "lock/keys.h"

#define LIST_MAX 64

static int file = -1;

/* Cuts the lines up to an empty one into strings; returns what follows. */
static char *take_list(char *text, char **list, int *count)
{
    while (*text != '\0' && *text != '\n') {
        char *end = strchrnul(text, '\n');
        char *next = *end == '\0' ? end : end + 1;
        *end = '\0';
        for (char *c = text; *c != '\0'; c++)
            if (*c == '\1')
                *c = '\n';
        if (*count < LIST_MAX)
            list[(*count)++] = strdup(text);
        text = next;
    }
    list[*count] = NULL;
    return *text == '\n' ? text + 1 : text;
}

static void free_list(char **list, int count)
{
    for (int i = 0; i < count; i++)
        free(list[i]);
}

/* The rest as a file, which REDISLOCK_CONFIG names. */
static char *make_file(const char *bytes, size_t length)
{
    char *variable = NULL;
    if (file < 0)
        file = memfd_create("config", MFD_CLOEXEC);
    REQUIRE(file >= 0 && ftruncate(file, 0) == 0);
    REQUIRE(pwrite(file, bytes, length, 0) == (ssize_t)length);
    char storage[64];
    struct text text = TEXT_OVER(storage);
    text_addf(&text, "REDISLOCK_CONFIG=/proc/self/fd/%d", file);
    variable = strdup(text.at);
    REQUIRE(variable != NULL);
    return variable;
}

static void check_duration(int64_t ms, int64_t least)
{
    REQUIRE(ms >= least && ms <= DURATION_MAX_MS);
}

static void check_numbers(const struct config *config)
{
    check_duration(config->ttl_ms, 1);
    check_duration(config->min_hold_ms, 0);
    check_duration(config->jitter_ms, 0);
    check_duration(config->connect_timeout_ms, 1);
    check_duration(config->max_runtime_ms, 0);
    check_duration(config->quiet_for_ms, 0);
    check_duration(config->watch_ms, 0);
    check_duration(config->kill_after_ms, -1);
    if (config->wait_ms != DURATION_INFINITE)
        check_duration(config->wait_ms, 0);
    REQUIRE(config->slots >= 0 && config->slots <= 64 && !(config->slots > 0 && config->shared));
    REQUIRE(config->wait_replicas >= 0 && config->wait_replicas <= 64);
    REQUIRE(config->conflict_status >= 0 && config->conflict_status <= 255);
    REQUIRE(config->stop_signal >= 1 && config->stop_signal <= 64);
    REQUIRE(config->attach_pid >= 0 && config->status_fd >= -1);
}

static void check_rest(const struct config *config)
{
    REQUIRE(config->mode <= MODE_VERSION && config->print <= PRINT_FENCE);
    REQUIRE(config->on_lost <= ON_LOST_WARN && config->on_error <= ON_ERROR_RUN);
    REQUIRE(config->server_count >= 1 && config->server_count <= CONFIG_SERVERS_MAX);
    for (size_t i = 0; i < config->server_count; i++)
        REQUIRE(config->servers[i].scheme == URL_UNIX ? config->servers[i].path[0] == '/'
                                                      : config->servers[i].host[0] != '\0');
    REQUIRE(strlen(config->prefix) <= KEYS_PREFIX_MAX && strpbrk(config->prefix, "{}") == NULL);
    if (config->name != NULL)
        REQUIRE(strlen(config->name) >= 1 && strlen(config->name) <= CONFIG_NAME_MAX);
    REQUIRE((config->mode != MODE_RUN) || (config->command != NULL && config->command[0] != NULL));
}

static void load(int argc, char **argv, char **environment)
{
    static struct fuzz_capture err = {.fd = STDERR_FILENO, .file = -1};
    struct config config;
    size_t lines;
    fuzz_capture_begin(&err);
    enum exit_status status = config_load(&config, argc, argv, environment);
    fuzz_capture_end(&err);
    REQUIRE(fuzz_is_lines(err.bytes, err.length, &lines));
    if (status != STATUS_OK) {
        REQUIRE(status == STATUS_USAGE || status == STATUS_CONFIG);
        /* before it may stand what is said of each password on the command line */
        REQUIRE(lines == 1 || strstr(err.bytes, "password") != NULL);
        REQUIRE(strncmp(err.bytes, "redislock: ", 11) == 0 ||
                strncmp(err.bytes, "{\"time\"", 7) == 0);
        return;
    }
    if (config.mode == MODE_HELP || config.mode == MODE_VERSION)
        return;
    check_numbers(&config);
    check_rest(&config);
    config_release(&config);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size);
    char *argv[LIST_MAX + 1] = {strdup("redislock")};
    char *environment[LIST_MAX + 1];
    int argc = 1;
    int variables = 1;
    char *rest = take_list(text, argv, &argc);
    environment[0] = NULL;
    rest = take_list(rest, environment, &variables);
    environment[0] = make_file(rest, size - (size_t)(rest - text));
    load(argc, argv, environment);
    free_list(argv, argc);
    free_list(environment, variables);
    free(text);
    return 0;
}
