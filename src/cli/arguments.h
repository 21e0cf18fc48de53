/*
 * The command line's options, one setting at a time, with GNU habits: -t30, -t 30, --ttl=30,
 * --ttl 30, bundled letters, unambiguous abbreviations of long names, --. Unlike with GNU, options
 * end at the first operand: what follows NAME is the command's.
 */
#ifndef REDISLOCK_CLI_ARGUMENTS_H
#define REDISLOCK_CLI_ARGUMENTS_H

#include "cli/setting.h"

struct arguments {
    char **rest;   /* the next word; after NEXT_END the operands, NULL-terminated */
    char *letters; /* what is left of a bundle such as -nq, or NULL */
};

/* Begins at the word after the program's own name. argv can be walked more than once. */
struct arguments arguments_begin(int argc, char **argv);

/*
 * The next option into `*setting`. NEXT_BAD (unknown, ambiguous, value missing or not wanted) has
 * printed its line and means STATUS_USAGE.
 */
enum setting_next arguments_next(struct arguments *arguments, struct setting *setting);

#endif
