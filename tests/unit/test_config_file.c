/*
 * src/cli/config_file.c, password.c and credentials.c: the files that a start reads.
 */
#include "cli/config_file.h"

#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "cli/password.h"
#include "config_fixture.h"

static void test_lines(void)
{
    const struct config *c = takes(WORDS(RUN), NO_WORDS,
                                   "# a comment\n"
                                   "\n"
                                   "   \t \n"
                                   "  # one more\n"
                                   " \tREDISLOCK_TTL=5s \t\n"
                                   "REDISLOCK_WAIT = 7 \r\n"
                                   "REDISLOCK_USER=\"two words\"\n"
                                   "REDISLOCK_PREFIX='a\"b\\n$x#y'\n"
                                   "REDISLOCK_QUIET=1");

    CHECK_INT(c->ttl_ms, 5000, "blanks at the ends of a line do not count");
    CHECK_INT(c->wait_ms, 7000, "nor around the =, nor a carriage return");
    CHECK_STRING(c->user, "two words", "double quotes are dropped");
    CHECK_STRING(c->prefix, "a\"b\\n$x#y", "single quotes too; nothing is expanded");
    CHECK(c->quiet, "the last line needs no newline");
    CHECK_STRING(loaded.message, "", "all of it without a word");

    CHECK_STRING(takes(WORDS(RUN), NO_WORDS, "REDISLOCK_PREFIX=''\n")->prefix, "",
                 "empty in quotes");
    CHECK_STRING(takes(WORDS(RUN), NO_WORDS, "REDISLOCK_PREFIX=\n")->prefix, "", "empty without");
    CHECK_STRING(takes(WORDS(RUN), NO_WORDS, "REDISLOCK_USER=a'b'\n")->user, "a'b'",
                 "quotes inside are the value's");
    CHECK_STRING(takes(WORDS(RUN), NO_WORDS, "REDISLOCK_USER=' a '\n")->user, " a ",
                 "quotes keep blanks");
    CHECK_STRING(takes(WORDS(RUN), NO_WORDS, "REDISLOCK_USER=a=b\n")->user, "a=b", "a second =");
    CHECK_STRING(takes(WORDS(RUN), NO_WORDS, "\xef\xbb\xbfREDISLOCK_USER=a\n")->user, "a",
                 "a byte order mark does not count");
}

static void test_bad_lines(void)
{
    refuses(WORDS(RUN), NO_WORDS, "\nREDISLOCK_TTL\n", STATUS_CONFIG,
            "conf:2: is not a line of the form REDISLOCK_<OPTION>=value\n");
    refuses(WORDS(RUN), NO_WORDS, "REDISLOCK_TLL=5\n", STATUS_CONFIG,
            "conf:1: 'REDISLOCK_TLL' is not a setting\n");
    refuses(WORDS(RUN), NO_WORDS, "TTL=5\n", STATUS_CONFIG, "conf:1: 'TTL' is not a setting\n");
    refuses(WORDS(RUN), NO_WORDS, "#\n\xef\xbb\xbfTTL=5\n", STATUS_CONFIG,
            "conf:2: '\\xef\\xbb\\xbfTTL' is not a setting\n");
    refuses(WORDS(RUN), NO_WORDS, "=5\n", STATUS_CONFIG, "conf:1: '' is not a setting\n");
    refuses(WORDS(RUN), NO_WORDS, "export REDISLOCK_TTL=5\n", STATUS_CONFIG, "is not a setting\n");
    refuses(WORDS(RUN), NO_WORDS, "REDISLOCK_NAME=x\n", STATUS_CONFIG,
            "'REDISLOCK_NAME' is not a setting\n");
    refuses(WORDS("-t5", RUN), NO_WORDS, "REDISLOCK_X=5\n", STATUS_CONFIG, "is not a setting\n");

    static const char *const words[] = {"CONFIG", "COMMAND", "HELP", "VERSION"};

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        char line[64];
        char part[96];

        snprintf(line, sizeof line, "REDISLOCK_%s=/x\n", words[i]);
        snprintf(part, sizeof part, "conf:1: 'REDISLOCK_%s' cannot be set in a file\n", words[i]);
        refuses(WORDS(RUN), NO_WORDS, line, STATUS_CONFIG, part);
    }
    refuses(WORDS(RUN), NO_WORDS, "REDISLOCK_USER=\"a\n", STATUS_CONFIG, "has an opening quote");
    refuses(WORDS(RUN), NO_WORDS, "REDISLOCK_USER=\"a'\n", STATUS_CONFIG, "has an opening quote");
    refuses(WORDS(RUN), NO_WORDS, "REDISLOCK_USER='\n", STATUS_CONFIG, "has an opening quote");
    refuses(WORDS(RUN), NO_WORDS, "REDISLOCK_USER='a' # b\n", STATUS_CONFIG, "an opening quote");
}

static void test_which_file(void)
{
    char variable[160];

    write_text(in_folder("other"), "REDISLOCK_TTL=5\n");
    takes(WORDS("--config", in_folder("other"), RUN), NO_WORDS, "REDISLOCK_TTL=6\n");
    CHECK_INT(loaded.config.ttl_ms, 5000, "--config comes before REDISLOCK_CONFIG");
    snprintf(variable, sizeof variable, "REDISLOCK_CONFIG=%s", in_folder("other"));
    load_raw(WORDS(RUN), WORDS(variable));
    CHECK_INT(loaded.status == STATUS_OK ? loaded.config.ttl_ms : -1, 5000, "REDISLOCK_CONFIG");

    refuses(WORDS("--config", in_folder("missing"), RUN), NO_WORDS, "", STATUS_CONFIG,
            "missing: cannot be used as a configuration file: No such file or directory\n");
    snprintf(variable, sizeof variable, "REDISLOCK_CONFIG=%s", in_folder("missing"));
    load_raw(WORDS(RUN), WORDS(variable));
    refused(STATUS_CONFIG, "missing: cannot be used");
    load_raw(WORDS(RUN), WORDS("REDISLOCK_CONFIG="));
    refused(STATUS_CONFIG, "REDISLOCK_CONFIG: '' is not the path of a file\n");
    refuses(WORDS("--config", in_folder("."), RUN), NO_WORDS, "", STATUS_CONFIG,
            "Is a directory\n");
}

static void test_bad_files(void)
{
    static char large[CONFIG_FILE_MAX + 2];

    memset(large, '#', sizeof large - 1);
    refuses(WORDS(RUN), NO_WORDS, large, STATUS_CONFIG, "it is larger than 64 KiB\n");
    large[CONFIG_FILE_MAX] = '\0';
    takes(WORDS(RUN), NO_WORDS, large);
    CHECK_STRING(loaded.message, "", "64 KiB are taken");

    write_bytes(in_folder("nul"), "REDISLOCK_TTL=5\0\n", 17);
    refuses(WORDS("--config", in_folder("nul"), RUN), NO_WORDS, "", STATUS_CONFIG,
            "it holds a NUL byte\n");
    mkfifo(in_folder("fifo"), 0600);
    takes(WORDS("--config", in_folder("fifo"), RUN), NO_WORDS, "");
    CHECK_STRING(loaded.message, "", "a fifo without a writer is empty, and does not hang");

    if (geteuid() == 0)
        return; /* root may read all */
    write_text(in_folder("secret"), "");
    chmod(in_folder("secret"), 0);
    refuses(WORDS("--config", in_folder("secret"), RUN), NO_WORDS, "", STATUS_CONFIG,
            "Permission denied\n");
}

static void password_is(const char *bytes, size_t length, const char *expected, const char *what)
{
    struct secret password = SECRET_NONE;
    const char *why = NULL;

    write_bytes(in_folder("pw"), bytes, length);
    CHECK_INT(password_read(in_folder("pw"), &password, &why), expected != NULL, "password: %s",
              what);
    CHECK_STRING(password.bytes, expected, "its bytes: %s", what);
    secret_wipe(&password);
}

static void test_passwords(void)
{
    char longest[PASSWORD_FILE_MAX + 3];

    password_is("pw", 2, "pw", "no newline");
    password_is("pw\n", 3, "pw", "a newline");
    password_is("pw\r\n", 4, "pw", "a carriage return before it");
    password_is(" p w \nsecond\n", 13, " p w ", "blanks count, other lines do not");
    password_is("", 0, NULL, "an empty file");
    password_is("\npw\n", 4, NULL, "an empty first line");
    password_is("\r\n", 2, NULL, "nothing but a line's end");

    memset(longest, 'p', sizeof longest);
    longest[PASSWORD_FILE_MAX] = '\0';
    password_is(longest, PASSWORD_FILE_MAX, longest, "4096 bytes");
    longest[PASSWORD_FILE_MAX] = '\n';
    write_bytes(in_folder("pw"), longest, PASSWORD_FILE_MAX + 1);
    CHECK_INT(
        strlen(takes(WORDS("--password-file", in_folder("pw"), RUN), NO_WORDS, "")->password.bytes),
        PASSWORD_FILE_MAX, "4096 bytes and a newline");
    longest[PASSWORD_FILE_MAX] = 'p';
    password_is(longest, PASSWORD_FILE_MAX + 1, NULL, "4097 bytes");
    longest[PASSWORD_FILE_MAX + 1] = '\n';
    password_is(longest, PASSWORD_FILE_MAX + 2, NULL, "4097 bytes and a newline");
}

static void test_password_option(void)
{
    char variable[160];

    write_text(in_folder("pw"), "hunter2\n");
    write_text(in_folder("empty"), "\n");
    takes(WORDS("--password-file", in_folder("pw"), RUN), NO_WORDS, "");
    CHECK_STRING(loaded.config.password.bytes, "hunter2", "--password-file is read");
    CHECK_STRING(loaded.config.password_file, in_folder("pw"), "and can be read again");

    refuses(WORDS("--password-file", in_folder("missing"), RUN), NO_WORDS, "", STATUS_USAGE,
            "missing' cannot be used: No such file or directory\n");
    refuses(WORDS("--password-file", in_folder("."), RUN), NO_WORDS, "", STATUS_USAGE,
            "cannot be used: Is a directory\n");
    refuses(WORDS("--password-file", in_folder("empty"), RUN), NO_WORDS, "", STATUS_USAGE,
            "empty' cannot be used: its first line is empty\n");
    refuses(WORDS("--password-file", "-", RUN), NO_WORDS, "", STATUS_USAGE, "'-' cannot be used");
    refuses(WORDS("--password-file", "", RUN), NO_WORDS, "", STATUS_USAGE, "is not the path");
    snprintf(variable, sizeof variable, "REDISLOCK_PASSWORD_FILE=%s", in_folder("empty"));
    refuses(WORDS(RUN), WORDS(variable), "", STATUS_CONFIG, "job: REDISLOCK_PASSWORD_FILE: '");
    takes(WORDS("--password-file", in_folder("pw"), RUN), WORDS(variable), "");
    CHECK_STRING(loaded.config.password.bytes, "hunter2", "a file that is overridden is not read");
    snprintf(variable, sizeof variable, "\n\nREDISLOCK_PASSWORD_FILE=%s\n", in_folder("empty"));
    refuses(WORDS(RUN), NO_WORDS, variable, STATUS_CONFIG, "conf:3: REDISLOCK_PASSWORD_FILE: '");

    takes(WORDS("--password-file", in_folder("pw"), RUN), WORDS("REDISLOCK_URL=redis://:own@h"),
          "");
    CHECK_STRING(loaded.config.servers[0].password.bytes, "own", "a URL keeps its own password");
}

static void test_other_passwords(void)
{
    char directory[160];

    write_text(in_folder("pw"), "from file\n");
    snprintf(directory, sizeof directory, "CREDENTIALS_DIRECTORY=%s", in_folder("."));

    takes(WORDS(RUN), WORDS("REDISCLI_AUTH=from cli", directory), "");
    CHECK_STRING(loaded.config.password.bytes, "from cli",
                 "REDISCLI_AUTH, and no credential there");
    CHECK(loaded.config.password_file == NULL, "which is in no file");
    CHECK(takes(WORDS(RUN), WORDS("REDISCLI_AUTH="), "")->password.bytes == NULL, "empty is none");
    takes(WORDS(RUN), WORDS("REDISCLI_AUTH=x", "CREDENTIALS_DIRECTORY=/nowhere"), "");
    CHECK_STRING(loaded.config.password.bytes, "x", "no credentials directory is no error");

    write_text(in_folder("redislock-password"), "from systemd\n");
    takes(WORDS(RUN), WORDS("REDISCLI_AUTH=x", directory), "");
    CHECK_STRING(loaded.config.password.bytes, "from systemd", "a credential comes before");
    CHECK_CONTAINS(loaded.config.password_file, "/redislock-password", "and can be read again");
    takes(WORDS("--password-file", in_folder("pw"), RUN), WORDS("REDISCLI_AUTH=x", directory), "");
    CHECK_STRING(loaded.config.password.bytes, "from file", "--password-file comes before both");
    takes(WORDS(RUN), WORDS("REDISLOCK_URL=redis://:own@h", "REDISCLI_AUTH=x", directory), "");
    CHECK(loaded.config.password.bytes == NULL, "none of them where the URL has its own");

    write_text(in_folder("redislock-password"), "");
    refuses(WORDS(RUN), WORDS("REDISCLI_AUTH=x", directory), "", STATUS_CONFIG,
            "redislock-password' cannot be used: its first line is empty\n");
}

struct late_writer {
    int fd;
    ssize_t written; /* the checks are the main thread's */
};

static void *write_late(void *context)
{
    struct late_writer *writer = context;

    usleep(50000); /* most likely the reader is there first; right in either order */
    writer->written = write(writer->fd, "from pipe\n", 10);
    close(writer->fd);
    return NULL;
}

/* What <(…) of a shell gives: a path to a pipe whose writer takes its time. */
static void test_password_pipe(void)
{
    int ends[2];
    char path[64];
    pthread_t thread;
    struct late_writer writer;
    struct secret password = SECRET_NONE;
    const char *why = NULL;

    if (!CHECK(pipe(ends) == 0, "a pipe"))
        return;
    writer.fd = ends[1];
    if (!CHECK(pthread_create(&thread, NULL, write_late, &writer) == 0, "a writer"))
        return;
    snprintf(path, sizeof path, "/dev/fd/%d", ends[0]);

    bool good = password_read(path, &password, &why);

    pthread_join(thread, NULL);
    CHECK_INT(writer.written, 10, "the writer writes");
    CHECK(good, "a password from a pipe is waited for");
    CHECK_STRING(password.bytes, "from pipe", "and read");
    secret_wipe(&password);
    close(ends[0]);

    if (!CHECK(pipe(ends) == 0 && write(ends[1], "again\n", 6) == 6, "one more pipe"))
        return;
    close(ends[1]);
    snprintf(path, sizeof path, "/dev/fd/%d", ends[0]);
    takes(WORDS("--password-file", path, RUN), NO_WORDS, "");
    CHECK_STRING(loaded.config.password.bytes, "again", "by the option too");
    CHECK(loaded.config.password_file == NULL, "but it cannot be read again later");
    close(ends[0]);
}

int main(void)
{
    fixture_begin();
    test_lines();
    test_bad_lines();
    test_which_file();
    test_bad_files();
    test_passwords();
    test_password_option();
    test_other_passwords();
    test_password_pipe();
    fixture_end();
    return check_done();
}
