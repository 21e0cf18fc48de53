/*
 * What the user asked for: command line, environment and file, checked and merged into one struct
 * that nobody changes afterwards.
 *
 * Order of precedence: command line, environment, file, default. The option table in options.c is
 * the one place where an option is declared; it makes the parser, the variable names and --help.
 */
#ifndef REDISLOCK_CLI_CONFIG_H
#define REDISLOCK_CLI_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/log.h"
#include "base/secret.h"
#include "base/status.h"
#include "cli/tls.h"
#include "cli/url.h"

enum config_mode {
    MODE_RUN,
    MODE_ATTACH,
    MODE_ACQUIRE,
    MODE_EXTEND,
    MODE_RELEASE,
    MODE_CHECK,
    MODE_STATUS,
    MODE_LIST,
    MODE_UNLOCK,
    MODE_DOCTOR,
    MODE_HELP,
    MODE_VERSION
};

enum config_print { PRINT_NOTHING, PRINT_FENCE };

enum config_on_lost { ON_LOST_KILL, ON_LOST_WARN };
enum config_on_error { ON_ERROR_FAIL, ON_ERROR_SKIP, ON_ERROR_RUN };

/* Where a value came from: decides its precedence, and 64 or 78 for a bad one. */
enum config_source {
    SOURCE_DEFAULT,
    SOURCE_FALLBACK,    /* REDIS_URL, REDISCLI_AUTH, CREDENTIALS_DIRECTORY */
    SOURCE_FILE,        /* /etc/redislock.conf or --config */
    SOURCE_ENVIRONMENT, /* REDISLOCK_… */
    SOURCE_COMMAND_LINE
};

/* The same in full. */
struct config_origin {
    enum config_source source;
    const char *file; /* SOURCE_FILE: its path and the line */
    int line;
};

#define CONFIG_SERVERS_MAX 15
#define CONFIG_NAME_MAX    512 /* bytes in a lock's NAME */

/* Read where --config names no other; a packager may move it. */
#ifndef REDISLOCK_CONFIG_FILE
#define REDISLOCK_CONFIG_FILE "/etc/redislock.conf"
#endif

struct config {
    enum config_mode mode;
    const char *name;     /* NAME, 1..CONFIG_NAME_MAX bytes; NULL where the mode goes without */
    char *const *command; /* COMMAND and its arguments, NULL-terminated; for -c: /bin/sh -c LINE */

    char *const *names;  /* --status: one or more, NULL-terminated */
    const char *pattern; /* --list; NULL: all */
    const char *token;   /* --extend, --release, --check; NULL: not given */
    int attach_pid;      /* --attach=PID; 0: the caller */
    enum config_print print;
    bool json;
    bool force;
    int64_t watch_ms; /* --list --watch; 0: once */

    struct url *servers; /* server_count of them, owned */
    size_t server_count; /* 1, or the N of a quorum */
    struct config_origin servers_from;
    const char *user;          /* --user, for a URL without one; NULL: not given */
    struct secret password;    /* for a URL without one; bytes NULL: none */
    const char *password_file; /* path it came from, to be read again after a refusal; or NULL */
    const char *prefix;        /* "lock:" */
    int64_t connect_timeout_ms;
    int wait_replicas;
    const char *sentinel_user; /* for sentinels, which have users of their own */
    const char *sentinel_password_file;
    struct secret sentinel_password;

    struct tls_settings tls; /* for servers with rediss:// */

    int64_t ttl_ms;
    struct config_origin ttl_from;
    int64_t wait_ms; /* 0: give up at once; DURATION_INFINITE: no limit */
    bool shared;
    int slots; /* 1..64; 0: not given */
    int64_t min_hold_ms;
    int64_t jitter_ms;
    bool restore;

    int conflict_status; /* -E, 0..255 */
    bool quiet;
    int64_t quiet_for_ms; /* 0: not given */

    int64_t max_runtime_ms; /* 0: no limit */
    int stop_signal;        /* --signal; SIGTERM by default */
    int64_t kill_after_ms;  /* --kill-after; -1: not given, the lease chooses its grace */
    struct config_origin kill_after_from;
    bool foreground; /* as given, else whether stdin is a terminal */
    bool wait_descendants;
    enum config_on_lost on_lost;
    enum config_on_error on_error;

    bool verbose;
    enum log_format log_format;
    int status_fd; /* -1: none; close-on-exec unless it is one of the standard three */

    /* What the pointers above may point into, or NULL; owned. */
    char *file_text;
    char *credential_path;
    char **shell_command;
};

/*
 * Fills `*config` from argv, the environment and the file. `argv` strings that hold a password are
 * wiped in place (the process list shows them) after they were copied.
 *
 * STATUS_OK: `*config` is complete; strings point into argv, the environment or memory that
 * config_release frees. Anything else (STATUS_USAGE, STATUS_CONFIG, STATUS_OS) has printed its one
 * line, and `*config` needs no release.
 */
enum exit_status config_load(struct config *config, int argc, char **argv, char **environment);

void config_release(struct config *config);

/* --help and --version, on stdout. STATUS_OK, or STATUS_OS when stdout cannot be written. */
enum exit_status config_print_help(void);
enum exit_status config_print_version(void);

#endif
