/*
 * Owns the meaning of the words behind the options: NAME and COMMAND, or what another mode takes.
 */
#include "cli/operands.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "cli/options.h"

static enum exit_status usage(const char *what)
{
    log_error("%s" OPERANDS_TRY_HELP, what);
    return STATUS_USAGE;
}

static enum exit_status take_name(struct config *config, const char *name)
{
    size_t length = strlen(name);

    if (length == 0)
        return usage("NAME is empty");
    if (length > CONFIG_NAME_MAX)
        return usage("NAME is longer than 512 bytes");
    config->name = name;
    return STATUS_OK;
}

/* -c behind NAME, and nothing behind its LINE. `*rest` is left at the end. */
static enum exit_status take_trailing_line(struct operands *operands, char ***rest)
{
    static const char attached[] = "--command=";
    char **word = *rest;
    bool is_attached = strncmp(word[0], attached, sizeof attached - 1) == 0;

    if (!is_attached && strcmp(word[0], "-c") != 0 && strcmp(word[0], "--command") != 0)
        return STATUS_OK;
    operands->shell_line = is_attached ? word[0] + sizeof attached - 1 : *++word;
    if (operands->shell_line == NULL)
        return usage("--command needs a value (LINE)");
    if (word[1] != NULL)
        return usage("--command takes one LINE, and there is more behind it");
    *rest = word + 1;
    return STATUS_OK;
}

/* /bin/sh -c LINE. -- only where LINE could pass for an option: not every old shell takes it. */
static enum exit_status make_shell_command(struct config *config, char *line)
{
    static const char *const words[] = {"/bin/sh", "-c", "--"};
    char **command = calloc(5, sizeof *command);
    char *storage = malloc(sizeof "/bin/sh" + sizeof "-c" + sizeof "--");
    size_t count = line[0] == '-' || line[0] == '+' ? 3 : 2;

    if (command == NULL || storage == NULL) {
        free(command);
        free(storage);
        log_error("--command: out of memory");
        return STATUS_OS;
    }
    for (size_t i = 0; i < count; i++) {
        command[i] = storage;
        storage = stpcpy(storage, words[i]) + 1;
    }
    command[count] = line;
    config->shell_command = command;
    config->command = command;
    return STATUS_OK;
}

static enum exit_status take_command(struct operands *operands, struct config *config, char **rest)
{
    bool line_before = operands->shell_line != NULL;
    enum exit_status status;

    if (rest[0] == NULL)
        return usage(line_before ? "NAME is missing" : "NAME and COMMAND are missing");
    status = take_name(config, *rest++);
    if (status == STATUS_OK && rest[0] != NULL && strcmp(rest[0], "--") == 0)
        rest++;
    else if (status == STATUS_OK && rest[0] != NULL && !line_before)
        status = take_trailing_line(operands, &rest);
    if (status != STATUS_OK)
        return status;

    if (operands->shell_line == NULL && rest[0] == NULL)
        return usage("COMMAND is missing");
    if (operands->shell_line != NULL && rest[0] != NULL)
        return usage("--command and a COMMAND exclude each other");
    config->command = rest;
    return operands->shell_line == NULL ? STATUS_OK
                                        : make_shell_command(config, operands->shell_line);
}

/* The NAMEs of --status. */
static enum exit_status take_names(struct config *config, char **rest)
{
    enum exit_status status = STATUS_OK;

    if (rest[0] == NULL)
        return usage("NAME is missing");
    config->names = rest;
    for (size_t i = 0; rest[i] != NULL && status == STATUS_OK; i++)
        status = take_name(config, rest[i]);
    config->name = rest[1] == NULL ? rest[0] : NULL; /* stands in front of messages */
    return status;
}

/* NAME, which may be left out unless `needs_name`; and one word more, where `word` takes it. */
static enum exit_status take_words(struct config *config, char **rest, bool needs_name,
                                   const char **word)
{
    enum exit_status status = STATUS_OK;

    if (rest[0] == NULL)
        return needs_name ? usage("NAME is missing") : STATUS_OK;
    status = take_name(config, *rest++);
    if (status == STATUS_OK && word != NULL && rest[0] != NULL)
        *word = *rest++;
    if (status == STATUS_OK && rest[0] != NULL)
        return usage("there is one operand too many");
    return status;
}

static enum exit_status take_pattern(struct config *config, char **rest)
{
    config->pattern = rest[0];
    return rest[0] != NULL && rest[1] != NULL ? usage("--list takes one GLOB") : STATUS_OK;
}

enum exit_status operands_take(struct operands *operands, struct config *config, char **rest)
{
    if (config->mode != MODE_RUN && operands->shell_line != NULL)
        return usage("--command goes with no other way of use");
    switch (config->mode) {
    case MODE_STATUS:
        return take_names(config, rest);
    case MODE_LIST:
        return take_pattern(config, rest);
    case MODE_DOCTOR:
        return rest[0] != NULL ? usage("--doctor takes no operand") : STATUS_OK;
    case MODE_EXTEND:
    case MODE_RELEASE:
        return take_words(config, rest, true, &config->token);
    case MODE_CHECK:
        return take_words(config, rest, false, &config->token);
    case MODE_ATTACH:
    case MODE_ACQUIRE:
    case MODE_UNLOCK:
        return take_words(config, rest, true, NULL);
    case MODE_RUN:
    case MODE_HELP:
    case MODE_VERSION:
    default:
        return take_command(operands, config, rest);
    }
}

enum exit_status operands_check_words(const struct config_origin *given, enum config_mode mode)
{
    static const struct {
        enum option_id id;
        enum config_mode mode;
        enum config_mode other;
        const char *where;
    } words[] = {{OPTION_JSON, MODE_STATUS, MODE_LIST, "--status and --list"},
                 {OPTION_WATCH, MODE_LIST, MODE_LIST, "--list"},
                 {OPTION_FORCE, MODE_UNLOCK, MODE_UNLOCK, "--unlock"},
                 {OPTION_PRINT, MODE_ATTACH, MODE_ATTACH, "--attach"}};

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (given[words[i].id].source == SOURCE_DEFAULT || mode == words[i].mode ||
            mode == words[i].other)
            continue;
        log_error("--%s goes with %s only" OPERANDS_TRY_HELP, option_rows[words[i].id].name,
                  words[i].where);
        return STATUS_USAGE;
    }
    return STATUS_OK;
}
