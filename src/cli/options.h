/*
 * The option table: the one place where an option is declared. Parser, variable names, the
 * configuration file and --help all follow from its rows.
 *
 * A new option is a line in `enum option_id`, a row in options.c and, where it has a kind of value
 * that no other option has, a case in setting.c.
 */
#ifndef REDISLOCK_CLI_OPTIONS_H
#define REDISLOCK_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* In the order in which --help shows them. Of two that write one field, the later row has the last
 * word where their source has no order of its own (the environment). */
enum option_id {
    OPTION_URL,
    OPTION_USER,
    OPTION_PASSWORD_FILE,
    OPTION_SENTINEL_USER,
    OPTION_SENTINEL_PASSWORD_FILE,
    OPTION_CACERT,
    OPTION_CAPATH,
    OPTION_CERT,
    OPTION_KEY,
    OPTION_SNI,
    OPTION_INSECURE,
    OPTION_PREFIX,
    OPTION_CONNECT_TIMEOUT,
    OPTION_ON_ERROR,
    OPTION_TTL,
    OPTION_WAIT,
    OPTION_NONBLOCK,
    OPTION_SHARED,
    OPTION_EXCLUSIVE,
    OPTION_SLOTS,
    OPTION_MIN_HOLD,
    OPTION_WAIT_REPLICAS,
    OPTION_JITTER,
    OPTION_NO_RESTORE,
    OPTION_ON_LOST,
    OPTION_COMMAND,
    OPTION_MAX_RUNTIME,
    OPTION_SIGNAL,
    OPTION_KILL_AFTER,
    OPTION_FOREGROUND,
    OPTION_WAIT_DESCENDANTS,
    OPTION_CONFLICT_EXIT_CODE,
    OPTION_QUIET,
    OPTION_QUIET_FOR,
    OPTION_VERBOSE,
    OPTION_LOG_FORMAT,
    OPTION_STATUS_FD,
    OPTION_ATTACH,
    OPTION_PRINT,
    OPTION_ACQUIRE,
    OPTION_EXTEND,
    OPTION_RELEASE,
    OPTION_CHECK,
    OPTION_STATUS,
    OPTION_LIST,
    OPTION_WATCH,
    OPTION_JSON,
    OPTION_UNLOCK,
    OPTION_FORCE,
    OPTION_DOCTOR,
    OPTION_CONFIG,
    OPTION_HELP,
    OPTION_VERSION,
    OPTION_COUNT
};

/* What the value is; setting.c turns it into the field at `offset` of struct config. */
enum option_kind {
    KIND_WORD,          /* config.c acts on it: modes, -h, -V, -c, --config; no field */
    KIND_FLAG,          /* bool: true when given */
    KIND_FLAG_OFF,      /* bool: false when given */
    KIND_NO_WAIT,       /* a flag that sets the int64_t of another option to 0 */
    KIND_NO_FLAG,       /* a flag that sets the bool of another option to false */
    KIND_DURATION,      /* int64_t in ms, at least `least` */
    KIND_WAIT,          /* the same, or `inf` */
    KIND_NUMBER,        /* int, `least` to `most`; without its optional value: as it is */
    KIND_CHOICE,        /* an enum: the position of the word in `metavar` */
    KIND_SIGNAL,        /* int: a signal's number */
    KIND_DESCRIPTOR,    /* int: an open descriptor that can be written */
    KIND_USER,          /* const char *: not empty, without a colon */
    KIND_PREFIX,        /* const char *: fit to begin a key */
    KIND_FILE,          /* const char *: a file or folder that can be read */
    KIND_HOST,          /* const char *: a host's name */
    KIND_PASSWORD_FILE, /* const char *: a path; its first line becomes the password */
    KIND_URL            /* the array of servers */
};

enum option_group {
    GROUP_SERVER,
    GROUP_LOCK,
    GROUP_COMMAND,
    GROUP_MESSAGES,
    GROUP_SCRIPTS,
    GROUP_OPERATORS,
    GROUP_OTHER,
    GROUP_COUNT
};

/* Flags of a row. */
#define NOT_FROM_ENVIRONMENT 1U
#define NOT_FROM_FILE        2U
#define COMMAND_LINE_ONLY    (NOT_FROM_ENVIRONMENT | NOT_FROM_FILE)
#define ONLY_IN_FULL         4U /* no abbreviation */
#define VALUE_OPTIONAL       8U /* --name or --name=VALUE */

/*
 * Arrays instead of pointers: a row needs no relocation, so a start that prints no help does not
 * pay for the texts.
 */
struct option_row {
    char name[28];          /* long, without the dashes */
    char letter;            /* short; '\0': none */
    char metavar[16];       /* "": takes no value; for KIND_CHOICE the words themselves */
    char default_value[24]; /* what is stored when nobody gives it; "": none */
    uint8_t kind;
    uint8_t group;
    uint8_t flags;
    uint16_t offset; /* of the field in struct config */
    int32_t least;
    int32_t most;
    char help[160];
};

extern const struct option_row option_rows[OPTION_COUNT];

/* Long enough for REDISLOCK_<OPTION> of every row. */
#define OPTION_VARIABLE_MAX 40

/* The row of a short option, or NULL. */
const struct option_row *option_by_letter(char letter);

/*
 * The row of a long option: `length` bytes that name it in full or, where no other begins so, in
 * part. NULL: none, or several (`*other` is then one more of them, and NULL otherwise), with the
 * first in `*first`.
 */
const struct option_row *option_by_name(const char *name, size_t length,
                                        const struct option_row **first,
                                        const struct option_row **other);

/* The row whose variable has this name (`length` bytes, REDISLOCK_ included), or NULL. */
const struct option_row *option_by_variable(const char *variable, size_t length);

/* Writes REDISLOCK_<OPTION> of a row into `out`, OPTION_VARIABLE_MAX bytes. */
void option_variable(const struct option_row *row, char *out);

static inline enum option_id option_id(const struct option_row *row)
{
    return (enum option_id)(row - option_rows);
}

static inline bool option_takes_value(const struct option_row *row)
{
    return row->metavar[0] != '\0';
}

#endif
