/*
 * Owns the grammar of options on the command line.
 *
 * Its own parser instead of getopt_long: settings come with their row, an unknown word is never
 * printed with the value behind its = (it may be a password), and the same argv can be walked twice.
 * Changes nothing in argv. Promises that no message shows a value.
 */
#include "cli/arguments.h"

#include <string.h>

#include "base/log.h"

#define TRY_HELP "; try 'redislock --help'"

struct arguments arguments_begin(int argc, char **argv)
{
    return (struct arguments){.rest = argc > 0 ? argv + 1 : argv, .letters = NULL};
}

static void set(struct setting *setting, const struct option_row *row, char *value)
{
    *setting = (struct setting){
        .row = row, .value = value, .erasable = value, .from = {.source = SOURCE_COMMAND_LINE}};
}

/* The value is the next word, whatever it looks like. */
static enum setting_next value_from_next_word(struct arguments *arguments, struct setting *setting,
                                              const struct option_row *row)
{
    if (*arguments->rest == NULL) {
        log_error("--%s needs a value (%s)" TRY_HELP, row->name, row->metavar);
        return NEXT_BAD;
    }
    set(setting, row, *arguments->rest++);
    return NEXT_SETTING;
}

/* One letter of -nqt30: the rest of the word is its value, or the next letters. */
static enum setting_next next_letter(struct arguments *arguments, struct setting *setting)
{
    char letter = *arguments->letters++;
    char *behind = *arguments->letters != '\0' ? arguments->letters : NULL;
    const struct option_row *row = option_by_letter(letter);

    arguments->letters = behind;
    if (row == NULL) {
        log_error("unknown option '-%c'" TRY_HELP, letter);
        return NEXT_BAD;
    }
    if (!option_takes_value(row)) {
        set(setting, row, NULL);
        return NEXT_SETTING;
    }
    arguments->letters = NULL;
    if (behind == NULL)
        return value_from_next_word(arguments, setting, row);
    set(setting, row, behind);
    return NEXT_SETTING;
}

/* NAME or NAME=VALUE, the dashes removed. */
static enum setting_next next_long(struct arguments *arguments, struct setting *setting, char *word)
{
    size_t length = strcspn(word, "=");
    char *value = word[length] == '=' ? word + length + 1 : NULL;
    const struct option_row *first;
    const struct option_row *other;
    const struct option_row *row = option_by_name(word, length, &first, &other);

    if (row == NULL && other != NULL) {
        log_error("option '--%.*s' is ambiguous: --%s or --%s" TRY_HELP, (int)length, word,
                  first->name, other->name);
        return NEXT_BAD;
    }
    if (row == NULL) {
        log_error("unknown option '--%.*s'" TRY_HELP, length < 100 ? (int)length : 100, word);
        return NEXT_BAD;
    }
    if (!option_takes_value(row) && value != NULL) {
        log_error("--%s takes no value" TRY_HELP, row->name);
        return NEXT_BAD;
    }
    if (option_takes_value(row) && value == NULL && !(row->flags & VALUE_OPTIONAL))
        return value_from_next_word(arguments, setting, row);
    set(setting, row, value);
    return NEXT_SETTING;
}

enum setting_next arguments_next(struct arguments *arguments, struct setting *setting)
{
    if (arguments->letters != NULL)
        return next_letter(arguments, setting);

    char *word = *arguments->rest;

    if (word == NULL || word[0] != '-' || word[1] == '\0')
        return NEXT_END;
    arguments->rest++;
    if (word[1] != '-') {
        arguments->letters = word + 1;
        return next_letter(arguments, setting);
    }
    if (word[2] == '\0')
        return NEXT_END;
    return next_long(arguments, setting, word + 2);
}
