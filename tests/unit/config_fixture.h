/*
 * Runs config_load on a command line, an environment and a file, and keeps what came of it: for the
 * tests of all that ends in a struct config.
 */
#ifndef REDISLOCK_TESTS_UNIT_CONFIG_FIXTURE_H
#define REDISLOCK_TESTS_UNIT_CONFIG_FIXTURE_H

#include <stddef.h>

#include "cli/config.h"

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define NO_WORDS   ((const char *const[]){NULL})
#define RUN        "job", "true" /* NAME and COMMAND */
#define TRY_HELP   "; try 'redislock --help'\n"

/* The outcome of the last load. A load releases the config of the one before. */
struct loaded {
    enum exit_status status;
    struct config config;
    char message[65536]; /* what it printed on stderr */
    char *words[64];     /* the argv as it is after the load */
};
extern struct loaded loaded;

/* Makes the folder for files / removes it and forgets the last load. */
void fixture_begin(void);
void fixture_end(void);

/* The path of a file in the folder; good for the next few calls. */
const char *in_folder(const char *name);

void write_bytes(const char *path, const char *bytes, size_t length);
void write_text(const char *path, const char *text);

/* The words behind the program's name, the environment, and descriptor 2 in a file. */
void load_raw(const char *const *arguments, const char *const *environment);

/* The same with `text` as the configuration file, so that no file in /etc counts. */
void load(const char *const *arguments, const char *const *environment, const char *text);

/* load that must succeed: ends the test if it does not. */
const struct config *takes(const char *const *arguments, const char *const *environment,
                           const char *text);

/* The last load must have failed with `expected` and a single line that has `part` in it. */
void refused(enum exit_status expected, const char *part);

void refuses(const char *const *arguments, const char *const *environment, const char *text,
             enum exit_status expected, const char *part);

#endif
