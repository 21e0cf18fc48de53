/*
 * src/cli/config.c: command line, environment and file, alone and against each other, into fields.
 */
#include "cli/config.h"

#include <signal.h>
#include <unistd.h>

#include "check.h"
#include "cli/duration.h"
#include "config_fixture.h"

static void test_defaults(void)
{
    const struct config *c = takes(WORDS("nightly", "echo", "a"), NO_WORDS, "");

    CHECK_STRING(loaded.message, "", "silent when all is well");
    CHECK_INT(c->mode, MODE_RUN, "default: mode");
    CHECK_STRING(c->name, "nightly", "NAME");
    CHECK(c->command == &loaded.words[2], "COMMAND is argv's own end");
    CHECK_INT(c->server_count, 1, "default: one server");
    CHECK_STRING(c->servers[0].host, "127.0.0.1", "default: host");
    CHECK_INT(c->servers[0].port, 6379, "default: port");
    CHECK_INT(c->servers_from.source, SOURCE_DEFAULT, "default: source of the server");
    CHECK(c->user == NULL && c->password.bytes == NULL && c->password_file == NULL,
          "default: no credentials");
    CHECK_STRING(c->prefix, "lock:", "default: prefix");
    CHECK_INT(c->connect_timeout_ms, 10000, "default: connect-timeout");
    CHECK_INT(c->ttl_ms, 60000, "default: ttl");
    CHECK_INT(c->ttl_from.source, SOURCE_DEFAULT, "default: source of the ttl");
    CHECK_INT(c->wait_ms, 0, "default: wait");
    CHECK_INT(c->min_hold_ms, 0, "default: min-hold");
    CHECK_INT(c->jitter_ms, 0, "default: jitter");
    CHECK(c->restore, "default: restore");
    CHECK_INT(c->conflict_status, 75, "default: conflict-exit-code");
    CHECK(!c->quiet, "default: not quiet");
    CHECK_INT(c->quiet_for_ms, 0, "default: quiet-for");
    CHECK_INT(c->max_runtime_ms, 0, "default: max-runtime");
    CHECK_INT(c->stop_signal, SIGTERM, "default: signal");
    CHECK_INT(c->kill_after_ms, -1, "default: kill-after");
    CHECK_INT(c->kill_after_from.source, SOURCE_DEFAULT, "default: source of kill-after");
    CHECK_INT(c->foreground, isatty(STDIN_FILENO), "default: foreground as stdin is a terminal");
    CHECK(!c->wait_descendants, "default: wait-descendants");
    CHECK_INT(c->on_lost, ON_LOST_KILL, "default: on-lost");
    CHECK_INT(c->on_error, ON_ERROR_FAIL, "default: on-error");
    CHECK(!c->verbose, "default: not verbose");
    CHECK_INT(c->log_format, LOG_FORMAT_TEXT, "default: log-format");
    CHECK_INT(c->status_fd, -1, "default: status-fd");
}

static void check_everything(const struct config *c, enum config_source source, const char *from)
{
    CHECK_STRING(c->servers[0].host, "h", "%s: url", from);
    CHECK_INT(c->servers_from.source, source, "%s: source of the server", from);
    CHECK_STRING(c->user, "cron", "%s: user", from);
    CHECK_STRING(c->password.bytes, "pass word", "%s: password-file", from);
    CHECK_STRING(c->password_file, in_folder("password"), "%s: path of it", from);
    CHECK_STRING(c->prefix, "p:", "%s: prefix", from);
    CHECK_INT(c->connect_timeout_ms, 1500, "%s: connect-timeout", from);
    CHECK_INT(c->ttl_ms, 120000, "%s: ttl", from);
    CHECK_INT(c->ttl_from.source, source, "%s: source of the ttl", from);
    CHECK_INT(c->wait_ms, 300000, "%s: wait", from);
    CHECK_INT(c->min_hold_ms, 3000, "%s: min-hold", from);
    CHECK_INT(c->jitter_ms, 4000, "%s: jitter", from);
    CHECK(!c->restore, "%s: no-restore", from);
    CHECK_INT(c->conflict_status, 0, "%s: conflict-exit-code", from);
    CHECK(c->quiet, "%s: quiet", from);
    CHECK_INT(c->quiet_for_ms, 3600000, "%s: quiet-for", from);
    CHECK_INT(c->max_runtime_ms, 7200000, "%s: max-runtime", from);
    CHECK_INT(c->stop_signal, SIGINT, "%s: signal", from);
    CHECK_INT(c->kill_after_ms, 500, "%s: kill-after", from);
    CHECK_INT(c->kill_after_from.source, source, "%s: source of kill-after", from);
    CHECK(c->foreground, "%s: foreground", from);
    CHECK(c->wait_descendants, "%s: wait-descendants", from);
    CHECK_INT(c->on_lost, ON_LOST_WARN, "%s: on-lost", from);
    CHECK_INT(c->on_error, ON_ERROR_RUN, "%s: on-error", from);
    CHECK(c->verbose, "%s: verbose", from);
    CHECK_INT(c->log_format, LOG_FORMAT_JSON, "%s: log-format", from);
    CHECK_INT(c->status_fd, 2, "%s: status-fd", from);
}

static void test_everything(void)
{
    char password[160];
    char text[2048];

    write_text(in_folder("password"), "pass word\nsecond line\n");
    check_everything(
        takes(WORDS("-u", "redis://h", "--user", "cron", "--password-file", in_folder("password"),
                    "--prefix", "p:", "--connect-timeout", "1.5", "-t", "2m", "-w", "5m",
                    "--min-hold", "3", "--jitter", "4", "--no-restore", "-E", "0", "-q",
                    "--quiet-for", "1h", "--max-runtime", "2h", "--signal", "INT", "-k", "500ms",
                    "--foreground", "--wait-descendants", "--on-lost", "warn", "--on-error", "run",
                    "-v", "--log-format", "json", "--status-fd", "2", RUN),
              NO_WORDS, ""),
        SOURCE_COMMAND_LINE, "command line");

    snprintf(password, sizeof password, "REDISLOCK_PASSWORD_FILE=%s", in_folder("password"));
    check_everything(
        takes(WORDS(RUN),
              WORDS("PATH=/bin", "REDISLOCK_URL=redis://h", "REDISLOCK_USER=cron", password,
                    "REDISLOCK_PREFIX=p:", "REDISLOCK_CONNECT_TIMEOUT=1.5", "REDISLOCK_TTL=2m",
                    "REDISLOCK_WAIT=5m", "REDISLOCK_MIN_HOLD=3", "REDISLOCK_JITTER=4",
                    "REDISLOCK_NO_RESTORE=1", "REDISLOCK_CONFLICT_EXIT_CODE=0",
                    "REDISLOCK_QUIET=yes", "REDISLOCK_QUIET_FOR=1h", "REDISLOCK_MAX_RUNTIME=2h",
                    "REDISLOCK_SIGNAL=INT", "REDISLOCK_KILL_AFTER=500ms", "REDISLOCK_FOREGROUND=1",
                    "REDISLOCK_WAIT_DESCENDANTS=yes", "REDISLOCK_ON_LOST=warn",
                    "REDISLOCK_ON_ERROR=run", "REDISLOCK_VERBOSE=1", "REDISLOCK_LOG_FORMAT=json",
                    "REDISLOCK_STATUS_FD=2"),
              ""),
        SOURCE_ENVIRONMENT, "environment");

    snprintf(text, sizeof text, "%s\n%s", password,
             "REDISLOCK_URL=redis://h\nREDISLOCK_USER=cron\nREDISLOCK_PREFIX=p:\n"
             "REDISLOCK_CONNECT_TIMEOUT=1.5\nREDISLOCK_TTL=2m\nREDISLOCK_WAIT=5m\n"
             "REDISLOCK_MIN_HOLD=3\nREDISLOCK_JITTER=4\nREDISLOCK_NO_RESTORE=1\n"
             "REDISLOCK_CONFLICT_EXIT_CODE=0\nREDISLOCK_QUIET=yes\nREDISLOCK_QUIET_FOR=1h\n"
             "REDISLOCK_MAX_RUNTIME=2h\nREDISLOCK_SIGNAL=INT\nREDISLOCK_KILL_AFTER=500ms\n"
             "REDISLOCK_FOREGROUND=1\nREDISLOCK_WAIT_DESCENDANTS=yes\nREDISLOCK_ON_LOST=warn\n"
             "REDISLOCK_ON_ERROR=run\nREDISLOCK_VERBOSE=1\nREDISLOCK_LOG_FORMAT=json\n"
             "REDISLOCK_STATUS_FD=2\n");
    check_everything(takes(WORDS(RUN), NO_WORDS, text), SOURCE_FILE, "file");
}

static void test_waiting(void)
{
    CHECK_INT(takes(WORDS("-w", "inf", RUN), NO_WORDS, "")->wait_ms, DURATION_INFINITE, "-w inf");
    CHECK_INT(takes(WORDS("-w0", RUN), NO_WORDS, "")->wait_ms, 0, "-w 0");
    CHECK_INT(takes(WORDS("-w5", "-n", RUN), NO_WORDS, "")->wait_ms, 0, "-w 5 -n");
    CHECK_INT(takes(WORDS("-n", "-w5", RUN), NO_WORDS, "")->wait_ms, 5000, "-n -w 5");
    CHECK_INT(takes(WORDS("-n", RUN), WORDS("REDISLOCK_WAIT=5"), "")->wait_ms, 0,
              "-n over REDISLOCK_WAIT");
    CHECK_INT(takes(WORDS("-n", RUN), WORDS("REDISLOCK_WAIT=x"), "")->wait_ms, 0,
              "-n over a bad REDISLOCK_WAIT");
    CHECK_INT(takes(WORDS("-w5", RUN), WORDS("REDISLOCK_NONBLOCK=1"), "")->wait_ms, 5000,
              "-w over REDISLOCK_NONBLOCK");
    CHECK_INT(takes(WORDS(RUN), WORDS("REDISLOCK_WAIT=5"), "REDISLOCK_NONBLOCK=1\n")->wait_ms, 5000,
              "REDISLOCK_WAIT over the file's NONBLOCK");
    CHECK_INT(takes(WORDS(RUN), WORDS("REDISLOCK_NONBLOCK=0"), "REDISLOCK_WAIT=5\n")->wait_ms, 5000,
              "REDISLOCK_NONBLOCK=0 says nothing");
    CHECK_INT(takes(WORDS(RUN), WORDS("REDISLOCK_NONBLOCK=1", "REDISLOCK_WAIT=5"), "")->wait_ms, 0,
              "both in the environment: NONBLOCK");
    CHECK_INT(takes(WORDS(RUN), WORDS("REDISLOCK_WAIT=5", "REDISLOCK_NONBLOCK=1"), "")->wait_ms, 0,
              "in either order");
    CHECK_INT(takes(WORDS(RUN), NO_WORDS, "REDISLOCK_NONBLOCK=1\nREDISLOCK_WAIT=5\n")->wait_ms,
              5000, "both in the file: the last");
    refuses(WORDS("-w", "forever", RUN), NO_WORDS, "", STATUS_USAGE, "--wait: 'forever' is not");
}

static void test_precedence(void)
{
    const char *file = "REDISLOCK_TTL=3\nREDISLOCK_URL=redis://file\n";
    const struct config *c = takes(WORDS("-t1", RUN), WORDS("REDISLOCK_TTL=2"), file);

    CHECK_INT(c->ttl_ms, 1000, "the command line comes first");
    CHECK_INT(c->ttl_from.source, SOURCE_COMMAND_LINE, "and is the source");
    c = takes(WORDS(RUN), WORDS("REDISLOCK_TTL=2"), file);
    CHECK_INT(c->ttl_ms, 2000, "then the environment");
    CHECK_INT(c->ttl_from.source, SOURCE_ENVIRONMENT, "which is the source");
    c = takes(WORDS(RUN), WORDS("REDIS_URL=redis://fallback"), file);
    CHECK_INT(c->ttl_ms, 3000, "then the file");
    CHECK_INT(c->ttl_from.source, SOURCE_FILE, "which is the source");
    CHECK_STRING(c->servers[0].host, "file", "REDIS_URL comes last");
    c = takes(WORDS(RUN), WORDS("REDIS_URL=redis://fallback"), "");
    CHECK_STRING(c->servers[0].host, "fallback", "but before the default");
    CHECK_INT(c->servers_from.source, SOURCE_FALLBACK, "as its own source");

    CHECK_INT(takes(WORDS("-t1", RUN), WORDS("REDISLOCK_TTL=x"), "")->ttl_ms, 1000,
              "a bad value that is overridden does not count");
    CHECK_INT(takes(WORDS(RUN), WORDS("REDISLOCK_TTL=1"), "REDISLOCK_TTL=x\n")->ttl_ms, 1000,
              "in the file neither");
    CHECK_STRING(takes(WORDS("-u", "redis://h", RUN), WORDS("REDIS_URL=x"), "")->servers[0].host,
                 "h", "nor a bad REDIS_URL");
    CHECK_INT(takes(WORDS(RUN), WORDS("REDISLOCK_TTL=1", "REDISLOCK_TTL=2"), "")->ttl_ms, 1000,
              "of a variable that is there twice the first counts");
    CHECK_INT(takes(WORDS(RUN), NO_WORDS, "REDISLOCK_TTL=1\nREDISLOCK_TTL=2\n")->ttl_ms, 2000,
              "of a line in the file the last");
    takes(WORDS(RUN),
          WORDS("REDISLOCK_NAME=x", "REDISLOCK_FENCE=x", "REDISLOCK_LOCK_KEY=x", "REDISLOCK_SLOT=x",
                "REDISLOCK_UNKNOWN=x", "REDISLOCK_=x", "REDISLOCK=x", "REDIS=", "REDISLOCK_TTL",
                "="),
          "");
    CHECK_STRING(loaded.message, "", "other REDISLOCK_ variables are ignored");
    CHECK_INT(loaded.config.ttl_ms, 60000, "a variable without = too");
}

static void test_flags(void)
{
    CHECK(!takes(WORDS(RUN), WORDS("REDISLOCK_QUIET=0"), "REDISLOCK_QUIET=1\n")->quiet, "0 is off");
    CHECK(!takes(WORDS(RUN), WORDS("REDISLOCK_QUIET=no"), "")->quiet, "no is off");
    CHECK(takes(WORDS(RUN), WORDS("REDISLOCK_QUIET=yes"), "")->quiet, "yes is on");
    CHECK(takes(WORDS("-q", RUN), WORDS("REDISLOCK_QUIET=0"), "")->quiet, "-q is on");
    CHECK(takes(WORDS(RUN), WORDS("REDISLOCK_NO_RESTORE=0"), "")->restore, "not no-restore");
    CHECK(!takes(WORDS(RUN), WORDS("REDISLOCK_FOREGROUND=no"), "")->foreground, "foreground off");
    refuses(WORDS(RUN), WORDS("REDISLOCK_QUIET=true"), "", STATUS_CONFIG,
            "job: REDISLOCK_QUIET: 'true' is not 1, 0, yes or no\n");
    refuses(WORDS(RUN), WORDS("REDISLOCK_VERBOSE="), "", STATUS_CONFIG, "REDISLOCK_VERBOSE: '' is");
    refuses(WORDS(RUN), WORDS("REDISLOCK_NONBLOCK=2"), "", STATUS_CONFIG,
            "REDISLOCK_NONBLOCK: '2' is");
}

int main(void)
{
    fixture_begin();
    test_defaults();
    test_everything();
    test_waiting();
    test_precedence();
    test_flags();
    fixture_end();
    return check_done();
}
