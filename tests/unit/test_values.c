/*
 * src/cli/setting.c and signal_name.c: what each option takes and refuses, and that the line names
 * option, value and source. And what becomes of a password that was in sight.
 */
#include "cli/setting.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "check.h"
#include "cli/signal_name.h"
#include "config_fixture.h"

/* A bad value says the same from all three sources, but for its origin and its status. */
static void refused_everywhere(const char *option, const char *variable, const char *value,
                               const char *why)
{
    char line[512];
    char part[600];

    snprintf(part, sizeof part, "job: --%s: '%s' %s\n", option, value, why);
    snprintf(line, sizeof line, "--%s=%s", option, value);
    refuses(WORDS(line, RUN), NO_WORDS, "", STATUS_USAGE, part);

    snprintf(part, sizeof part, "job: %s: '%s' %s\n", variable, value, why);
    snprintf(line, sizeof line, "%s=%s", variable, value);
    refuses(WORDS(RUN), WORDS(line), "", STATUS_CONFIG, part);

    snprintf(part, sizeof part, "conf:3: %s: '%s' %s\n", variable, value, why);
    snprintf(line, sizeof line, "# first\n\n%s=\"%s\"\n", variable, value);
    refuses(WORDS(RUN), NO_WORDS, line, STATUS_CONFIG, part);
}

static void test_durations(void)
{
    static const char no_duration[] = "is not a duration such as 90s, 1.5h or 500ms";
    static const char too_short[] = "is too short: it must be longer than 0";

    refused_everywhere("ttl", "REDISLOCK_TTL", "5 m", no_duration);
    refused_everywhere("ttl", "REDISLOCK_TTL", "", no_duration);
    refused_everywhere("ttl", "REDISLOCK_TTL", "inf", no_duration);
    refused_everywhere("ttl", "REDISLOCK_TTL", "0", too_short);
    refused_everywhere("ttl", "REDISLOCK_TTL", "0.0004", "is not a whole number of milliseconds");
    refused_everywhere("ttl", "REDISLOCK_TTL", "9223372036854775808", "is longer than 3650d");
    refused_everywhere("wait", "REDISLOCK_WAIT", "INF", no_duration);
    refused_everywhere("kill-after", "REDISLOCK_KILL_AFTER", "0ms", too_short);
    refused_everywhere("connect-timeout", "REDISLOCK_CONNECT_TIMEOUT", "0", too_short);
    refused_everywhere("quiet-for", "REDISLOCK_QUIET_FOR", "0", too_short);
    refused_everywhere("min-hold", "REDISLOCK_MIN_HOLD", "-1", no_duration);
    refused_everywhere("jitter", "REDISLOCK_JITTER", "1e3", no_duration);
    refused_everywhere("max-runtime", "REDISLOCK_MAX_RUNTIME", "x", no_duration);

    CHECK_INT(takes(WORDS("-t1ms", "-k1ms", RUN), NO_WORDS, "")->ttl_ms, 1, "the shortest TTL");
    const struct config *c =
        takes(WORDS("--min-hold=0", "--jitter=0", "--max-runtime=0", RUN), NO_WORDS, "");
    CHECK(c->min_hold_ms == 0 && c->jitter_ms == 0 && c->max_runtime_ms == 0, "0 where it is none");
}

static void test_numbers(void)
{
    static const char *const bad[] = {
        "256", "300", "-1", "+1", "0x10", "7.0", "", " 7", "7\\,", "1e1", "99999999999999999999"};

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char line[64];

        snprintf(line, sizeof line, "-E%s", bad[i]);
        if (bad[i][0] == '\0')
            load(WORDS("-E", "", RUN), NO_WORDS, "");
        else
            load(WORDS(line, RUN), NO_WORDS, "");
        refused(STATUS_USAGE, "is not a number from 0 to 255\n");
    }
    refused_everywhere("conflict-exit-code", "REDISLOCK_CONFLICT_EXIT_CODE", "300",
                       "is not a number from 0 to 255");
    CHECK_INT(takes(WORDS("-E255", RUN), NO_WORDS, "")->conflict_status, 255, "-E 255");
    CHECK_INT(takes(WORDS("-E007", RUN), NO_WORDS, "")->conflict_status, 7, "-E 007");
}

static void test_choices(void)
{
    refused_everywhere("on-lost", "REDISLOCK_ON_LOST", "stop", "is not one of kill|warn");
    refused_everywhere("on-lost", "REDISLOCK_ON_LOST", "kill|warn", "is not one of kill|warn");
    refused_everywhere("on-lost", "REDISLOCK_ON_LOST", "kil", "is not one of kill|warn");
    refused_everywhere("on-lost", "REDISLOCK_ON_LOST", "", "is not one of kill|warn");
    refused_everywhere("on-error", "REDISLOCK_ON_ERROR", "FAIL", "is not one of fail|skip|run");
    CHECK_INT(takes(WORDS("--on-error=skip", RUN), NO_WORDS, "")->on_error, ON_ERROR_SKIP, "skip");
    CHECK_INT(takes(WORDS("--on-error=fail", RUN), NO_WORDS, "")->on_error, ON_ERROR_FAIL, "fail");

    refuses(WORDS("--log-format=xml", RUN), NO_WORDS, "", STATUS_USAGE,
            "--log-format: 'xml' is not one of text|json\n");
    refuses(WORDS("--log-format=json", "-t0", RUN), NO_WORDS, "", STATUS_USAGE,
            "\"message\":\"--ttl: '0' ");
    refuses(WORDS(RUN), WORDS("REDISLOCK_LOG_FORMAT=json", "REDISLOCK_TTL=0"), "", STATUS_CONFIG,
            "\"message\":\"REDISLOCK_TTL: '0' ");
}

static void signal_is(const char *text, int expected)
{
    int number = -1;

    CHECK_INT(signal_parse(text, &number), expected > 0, "signal '%s'", text);
    CHECK_INT(number, expected > 0 ? expected : -1, "number of signal '%s'", text);
}

static void test_signals(void)
{
    signal_is("TERM", SIGTERM);
    signal_is("SIGTERM", SIGTERM);
    signal_is("sigterm", SIGTERM);
    signal_is("Hup", SIGHUP);
    signal_is("USR2", SIGUSR2);
    signal_is("VTALRM", SIGVTALRM);
    signal_is("15", 15);
    signal_is("1", 1);
    signal_is("64", 64);
    signal_is("RTMIN", SIGRTMIN);
    signal_is("SIGRTMIN+3", SIGRTMIN + 3);
    signal_is("rtmax-1", SIGRTMAX - 1);
    signal_is("RTMAX", SIGRTMAX);

    static const char *const bad[] = {"",        "0",      "65",       "-1",         "015x",
                                      "TER",     "TERMX",  "SIG",      "SIGSIGTERM", "RTMIN-1",
                                      "RTMAX+1", "RTMIN+", "RTMIN+99", "RTMIN+x",    " TERM",
                                      "15 ",     "100"};

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        signal_is(bad[i], 0);

    refused_everywhere("signal", "REDISLOCK_SIGNAL", "NOPE",
                       "is not a signal such as TERM, SIGINT or 15");
    refused_everywhere("signal", "REDISLOCK_SIGNAL", "0",
                       "is not a signal such as TERM, SIGINT or 15");
    refused_everywhere("signal", "REDISLOCK_SIGNAL", "STOP",
                       "is a signal that stops a command without ending it");
    CHECK_INT(takes(WORDS("--signal=KILL", RUN), NO_WORDS, "")->stop_signal, SIGKILL,
              "KILL is taken");
}

static void test_descriptors(void)
{
    int ends[2];
    char writable[16];
    char readable[16];

    if (!CHECK(pipe(ends) == 0, "a pipe"))
        return;
    snprintf(readable, sizeof readable, "%d", ends[0]);
    snprintf(writable, sizeof writable, "%d", ends[1]);

    CHECK_INT(takes(WORDS("--status-fd", writable, RUN), NO_WORDS, "")->status_fd, ends[1],
              "an open descriptor");
    CHECK(fcntl(ends[1], F_GETFD) & FD_CLOEXEC, "is not kept by the command");
    CHECK_INT(takes(WORDS("--status-fd", "1", RUN), NO_WORDS, "")->status_fd, 1, "stdout");
    CHECK_INT(fcntl(1, F_GETFD) & FD_CLOEXEC, 0, "stays the command's");

    refused_everywhere("status-fd", "REDISLOCK_STATUS_FD", readable,
                       "is a descriptor that cannot be written");
    close(ends[0]);
    close(ends[1]);
    refused_everywhere("status-fd", "REDISLOCK_STATUS_FD", "987", "is not an open descriptor");
    refused_everywhere("status-fd", "REDISLOCK_STATUS_FD", "99999999999",
                       "is not the number of a descriptor");
    refused_everywhere("status-fd", "REDISLOCK_STATUS_FD", "-1",
                       "is not the number of a descriptor");
    refused_everywhere("status-fd", "REDISLOCK_STATUS_FD", "stderr",
                       "is not the number of a descriptor");
}

static void test_prefixes(void)
{
    static const char no_prefix[] = "holds a brace, a blank or a control byte";
    char longest[130];

    refused_everywhere("prefix", "REDISLOCK_PREFIX", "{a}", no_prefix);
    refused_everywhere("prefix", "REDISLOCK_PREFIX", "a}", no_prefix);
    refused_everywhere("prefix", "REDISLOCK_PREFIX", "a b", no_prefix);
    refuses(WORDS("--prefix=a\n", RUN), NO_WORDS, "", STATUS_USAGE, no_prefix);
    refuses(WORDS("--prefix=a\x7f", RUN), NO_WORDS, "", STATUS_USAGE, no_prefix);
    CHECK_STRING(takes(WORDS("--prefix=", RUN), NO_WORDS, "")->prefix, "", "an empty prefix");
    CHECK_STRING(takes(WORDS(RUN), WORDS("REDISLOCK_PREFIX="), "")->prefix, "", "by its variable");

    memset(longest, 'p', sizeof longest);
    longest[129] = '\0';
    refuses(WORDS("--prefix", longest, RUN), NO_WORDS, "", STATUS_USAGE,
            "is longer than 128 bytes");
    longest[128] = '\0';
    CHECK_STRING(takes(WORDS("--prefix", longest, RUN), NO_WORDS, "")->prefix, longest,
                 "a prefix of 128 bytes");
}

static void test_users(void)
{
    refused_everywhere("user", "REDISLOCK_USER", "", "is not a user of 1 to 255 bytes");
    refuses(WORDS("--user", "cron:hunter2", RUN), NO_WORDS, "", STATUS_USAGE,
            "job: --user: takes a user without a colon");
    CHECK(strstr(loaded.message, "hunter2") == NULL, "what may be a password is not printed");
    CHECK_STRING(takes(WORDS("--user", "cron", "-u", "redis://u@h", RUN), NO_WORDS, "")->user,
                 "cron", "--user stands beside the URL's");
    CHECK_STRING(loaded.config.servers[0].user, "u", "which is kept");
}

static void test_urls(void)
{
    refused_everywhere("url", "REDISLOCK_URL", "redis://h:0", "has port 0; ports are 1 to 65535");
    refused_everywhere("url", "REDISLOCK_URL", "", "names no server");
    refused_everywhere("url", "REDISLOCK_URL", "http://h",
                       "does not begin with redis://, rediss:// or unix://");
    refuses(WORDS(RUN), WORDS("REDIS_URL=h"), "", STATUS_CONFIG,
            "job: REDIS_URL: 'h' does not begin with");

    static const char *const several[] = {"redis://a,redis://b", "redis://a redis://b",
                                          "redis://a\tredis://b", "redis://a, unix:///b"};

    for (size_t i = 0; i < sizeof several / sizeof several[0]; i++)
        CHECK_INT(takes(WORDS("-u", several[i], RUN), NO_WORDS, "")->server_count, 2,
                  "'%s' names two servers", several[i]);
    CHECK_INT(takes(WORDS(RUN), WORDS("REDISLOCK_URL=redis://a redis://b"), "")->server_count, 2,
              "the variable may name two");
    const struct config *c = takes(WORDS("-u", "redis://a", "-u", "redis://b", RUN),
                                   WORDS("REDISLOCK_URL=redis://c"), "");
    CHECK_INT(c->server_count, 2, "a repeated -u adds, and hides the variable");
    CHECK_STRING(c->servers[1].host, "b", "in order");
    c = takes(WORDS("-u", "redis+sentinel://a,b:1,c/m,redis://d", RUN), NO_WORDS, "");
    CHECK_INT(c->server_count, 2, "a comma between the hosts of an address does not end it");
    CHECK_INT(c->servers[0].place_count, 3, "which has three");
    refuses(WORDS("-u", "redis://a redis://a:6379", RUN), NO_WORDS, "", STATUS_USAGE,
            "a server is named twice");
    refuses(WORDS(RUN), WORDS("REDISLOCK_URL=redis://a redis://a"), "", STATUS_CONFIG,
            "a server is named twice");
}

static void test_secrets_out_of_sight(void)
{
    const struct config *c = takes(WORDS("-u", "redis://u:hunter2@h/1", RUN), NO_WORDS, "");

    CHECK_STRING(c->servers[0].password.bytes, "hunter2", "the password is kept");
    CHECK_STRING(loaded.words[2], "redis://u:*******@h/1", "and wiped from the process list");
    CHECK_CONTAINS(loaded.message, "--url: its password could be seen", "with a warning");
    CHECK_CONTAINS(loaded.message, "REDISLOCK_URL or --password-file", "that names better ways");
    CHECK(strstr(loaded.message, "hunter2") == NULL, "and not the password");

    takes(WORDS("-nuredis://:hunter2@h", RUN), NO_WORDS, "");
    CHECK_STRING(loaded.words[1], "-nuredis://:*******@h", "in a bundle too");
    takes(WORDS("--url=redis://:hunter2@h", RUN), NO_WORDS, "");
    CHECK_STRING(loaded.words[1], "--url=redis://:*******@h", "behind = too");

    takes(WORDS("-u", "redis://u@h", RUN), NO_WORDS, "");
    CHECK_STRING(loaded.words[2], "redis://u@h", "a user alone stays");
    CHECK_STRING(loaded.message, "", "without a warning");
    takes(WORDS(RUN), WORDS("REDISLOCK_URL=redis://:hunter2@h"), "");
    CHECK_STRING(loaded.message, "", "the environment is not in sight of others");
    takes(WORDS(RUN), NO_WORDS, "REDISLOCK_URL=redis://:hunter2@h\n");
    CHECK_STRING(loaded.message, "", "nor is the file");
    CHECK_STRING(loaded.config.servers[0].password.bytes, "hunter2", "whose password counts");

    refuses(WORDS("-u", "redis://u:hunter2@h/x", RUN), NO_WORDS, "", STATUS_USAGE,
            "--url: 'redis://***@h/x' has a database");
    CHECK(strstr(loaded.message, "hunter2") == NULL, "a bad address is shown without its password");
    refuses(WORDS("-u", "redis://:hunter2", RUN), NO_WORDS, "", STATUS_USAGE, "'redis://***' has");
    c = takes(WORDS("-u", "redis://:hunter2,@h", RUN), NO_WORDS, "");
    CHECK_STRING(c->servers[0].password.bytes, "hunter2,", "a comma in a password is its own");
    CHECK(strstr(loaded.message, "hunter2") == NULL, "and is not printed");
}

int main(void)
{
    fixture_begin();
    test_durations();
    test_numbers();
    test_choices();
    test_signals();
    test_descriptors();
    test_prefixes();
    test_users();
    test_urls();
    test_secrets_out_of_sight();
    fixture_end();
    return check_done();
}
