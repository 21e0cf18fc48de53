/*
 * Owns the folder, the files and the last outcome of config_load in a unit test.
 */
#include "config_fixture.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"

/* A folder of this run; the file that REDISLOCK_CONFIG names, so that no file in /etc counts. */
static char folder[] = "/tmp/redislock-unit.XXXXXX";
static char conf[64];

struct loaded loaded;

const char *in_folder(const char *name)
{
    static char paths[4][128];
    static int turn;
    char *path = paths[turn++ % 4];

    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

void write_bytes(const char *path, const char *bytes, size_t length)
{
    FILE *file = fopen(path, "w");

    if (file == NULL || fwrite(bytes, 1, length, file) != length || fclose(file) != 0)
        abort();
}

void write_text(const char *path, const char *text)
{
    write_bytes(path, text, strlen(text));
}

/* Copies `from` behind place `at` of `to`; the strings can be written, as those of a process. */
static size_t copy_words(char **to, size_t at, const char *const *from)
{
    for (; *from != NULL; from++)
        to[at++] = strdup(*from);
    to[at] = NULL;
    return at;
}

static void free_words(char **list)
{
    for (; *list != NULL; list++) {
        free(*list);
        *list = NULL;
    }
}

/* config_load with descriptor 2 in a file; releases what the load before has left. */
void load_raw(const char *const *arguments, const char *const *environment)
{
    static char *variables[32];
    int saved = dup(STDERR_FILENO);
    int file = open(in_folder("stderr"), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    if (saved < 0 || file < 0)
        abort();
    if (loaded.status == STATUS_OK)
        config_release(&loaded.config);
    free_words(loaded.words);
    free_words(variables);

    size_t count = copy_words(loaded.words, 0, WORDS("redislock"));

    count = copy_words(loaded.words, count, arguments);
    copy_words(variables, 0, environment);
    dup2(file, STDERR_FILENO);
    loaded.status = config_load(&loaded.config, (int)count, loaded.words, variables);
    dup2(saved, STDERR_FILENO);
    close(saved);

    ssize_t length = pread(file, loaded.message, sizeof loaded.message - 1, 0);

    loaded.message[length > 0 ? length : 0] = '\0';
    close(file);
}

/* The same, with `text` as the configuration file. */
void load(const char *const *arguments, const char *const *environment, const char *text)
{
    char config_variable[96];
    const char *merged[32];
    size_t count = 0;

    write_text(conf, text);
    for (; *environment != NULL; environment++)
        merged[count++] = *environment;
    snprintf(config_variable, sizeof config_variable, "REDISLOCK_CONFIG=%s", conf);
    merged[count++] = config_variable;
    merged[count] = NULL;
    load_raw(arguments, merged);
}

const struct config *takes(const char *const *arguments, const char *const *environment,
                           const char *text)
{
    load(arguments, environment, text);
    if (loaded.status != STATUS_OK) {
        CHECK_INT(loaded.status, STATUS_OK, "taken: %s", loaded.message);
        exit(check_done()); /* nothing that follows would make sense */
    }
    return &loaded.config;
}

static size_t count_lines(const char *text)
{
    size_t count = 0;

    for (; *text != '\0'; text++)
        count += *text == '\n';
    return count;
}

/* The last load failed with `expected` and one line that has `part` in it. */
void refused(enum exit_status expected, const char *part)
{
    CHECK_INT(loaded.status, expected, "status of: %s", part);
    CHECK_CONTAINS(loaded.message, part, "line: %s", part);
    CHECK_INT(count_lines(loaded.message), 1, "one line: %s", part);
}

void refuses(const char *const *arguments, const char *const *environment, const char *text,
             enum exit_status expected, const char *part)
{
    load(arguments, environment, text);
    refused(expected, part);
}

void fixture_begin(void)
{
    if (mkdtemp(folder) == NULL)
        abort();
    umask(077); /* a file with a password that others may read has a warning of its own */
    snprintf(conf, sizeof conf, "%s/conf", folder);
    loaded.status = STATUS_USAGE; /* nothing to release yet */
}

void fixture_end(void)
{
    char command[128];

    load_raw(NO_WORDS, NO_WORDS);
    free_words(loaded.words);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    if (system(command) != 0)
        abort();
}
