/*
 * Owns the way from argv, environment and file to one struct config: who is asked in which order,
 * what the operands are, and what follows from other fields once all are known.
 *
 * Promises that a failure has printed exactly one line and left nothing allocated. The command line
 * is walked twice: once to know what it gives (and where the file is), once, after file and
 * environment, to store it over what they said. So nothing but `struct config` is needed to merge
 * them, and a value that a higher source overrides is never judged.
 */
#include "cli/config.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/arguments.h"
#include "cli/config_file.h"
#include "cli/credentials.h"
#include "cli/environment.h"
#include "cli/setting.h"

#define TRY_HELP "; try 'redislock --help'"

/* What is known while loading and forgotten after. */
struct load {
    struct config *config;
    struct environment environment;
    enum config_source given_by[OPTION_COUNT]; /* the highest source of each option */
    const char *config_path;                   /* --config on the command line */
    char *shell_line;                          /* -c */
    struct setting password_file;              /* the one that counts; row NULL: none */
    struct log_settings log;
};

/* --- What the command line gives ------------------------------------------------------------ */

/* Messages about later values should already come in the form that was asked for. */
static void note_log_format(struct load *load, const char *value)
{
    load->log.format = strcmp(value, "json") == 0 ? LOG_FORMAT_JSON : LOG_FORMAT_TEXT;
}

static void note(struct load *load, const struct setting *setting)
{
    enum option_id id = option_id(setting->row);

    load->given_by[id] = SOURCE_COMMAND_LINE;
    if (id == OPTION_WAIT || id == OPTION_NONBLOCK) {
        load->given_by[OPTION_WAIT] = SOURCE_COMMAND_LINE; /* they are one field */
        load->given_by[OPTION_NONBLOCK] = SOURCE_COMMAND_LINE;
    } else if (id == OPTION_SHARED || id == OPTION_EXCLUSIVE) {
        load->given_by[OPTION_SHARED] = SOURCE_COMMAND_LINE; /* and so are these */
        load->given_by[OPTION_EXCLUSIVE] = SOURCE_COMMAND_LINE;
    } else if (id == OPTION_CONFIG) {
        load->config_path = setting->value;
    } else if (id == OPTION_COMMAND) {
        load->shell_line = setting->erasable;
    } else if (id == OPTION_LOG_FORMAT) {
        note_log_format(load, setting->value);
    } else if (id == OPTION_HELP) {
        load->config->mode = MODE_HELP;
    } else if (id == OPTION_VERSION) {
        load->config->mode = MODE_VERSION;
    }
}

/* Ends early at -h and -V: they act at once. Leaves the operands in `*operands`. */
static enum exit_status note_command_line(struct load *load, int argc, char **argv,
                                          char ***operands)
{
    struct arguments arguments = arguments_begin(argc, argv);
    struct setting setting;
    enum setting_next next = NEXT_END;

    while (load->config->mode == MODE_RUN &&
           (next = arguments_next(&arguments, &setting)) == NEXT_SETTING)
        note(load, &setting);
    *operands = arguments.rest;
    return next == NEXT_BAD ? STATUS_USAGE : STATUS_OK;
}

/* --- NAME and COMMAND ----------------------------------------------------------------------- */

static enum exit_status usage(const char *what)
{
    log_error("%s" TRY_HELP, what);
    return STATUS_USAGE;
}

static enum exit_status take_name(struct load *load, const char *name)
{
    size_t length = strlen(name);

    if (length == 0)
        return usage("NAME is empty");
    if (length > CONFIG_NAME_MAX)
        return usage("NAME is longer than 512 bytes");
    load->config->name = name;
    return STATUS_OK;
}

/* -c behind NAME, and nothing behind its LINE. `*rest` is left at the end. */
static enum exit_status take_trailing_line(struct load *load, char ***rest)
{
    static const char attached[] = "--command=";
    char **word = *rest;
    bool is_attached = strncmp(word[0], attached, sizeof attached - 1) == 0;

    if (!is_attached && strcmp(word[0], "-c") != 0 && strcmp(word[0], "--command") != 0)
        return STATUS_OK;
    load->shell_line = is_attached ? word[0] + sizeof attached - 1 : *++word;
    if (load->shell_line == NULL)
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

static enum exit_status take_operands(struct load *load, char **rest)
{
    bool line_before = load->shell_line != NULL;
    enum exit_status status;

    if (rest[0] == NULL)
        return usage(line_before ? "NAME is missing" : "NAME and COMMAND are missing");
    status = take_name(load, *rest++);
    if (status == STATUS_OK && rest[0] != NULL && strcmp(rest[0], "--") == 0)
        rest++;
    else if (status == STATUS_OK && rest[0] != NULL && !line_before)
        status = take_trailing_line(load, &rest);
    if (status != STATUS_OK)
        return status;

    if (load->shell_line == NULL && rest[0] == NULL)
        return usage("COMMAND is missing");
    if (load->shell_line != NULL && rest[0] != NULL)
        return usage("--command and a COMMAND exclude each other");
    load->config->command = rest;
    return load->shell_line == NULL ? STATUS_OK
                                    : make_shell_command(load->config, load->shell_line);
}

/* --- Values, from the lowest source to the highest ------------------------------------------ */

static enum exit_status store(struct load *load, const struct setting *setting)
{
    enum option_id id = option_id(setting->row);

    if (setting->source < load->given_by[id])
        return STATUS_OK;
    load->given_by[id] = setting->source;
    if (id == OPTION_PASSWORD_FILE)
        load->password_file = *setting;
    return setting_store(load->config, setting);
}

static enum exit_status store_defaults(struct load *load)
{
    enum exit_status status = STATUS_OK;

    load->config->restore = true;
    load->config->kill_after_ms = -1;
    load->config->status_fd = -1;
    for (size_t i = 0; i < OPTION_COUNT && status == STATUS_OK; i++) {
        const struct option_row *row = &option_rows[i];
        struct setting setting = {.row = row, .value = row->default_value};

        if (row->default_value[0] != '\0')
            status = setting_store(load->config, &setting);
    }
    return status;
}

static enum exit_status store_file(struct load *load)
{
    const char *named =
        load->config_path != NULL ? load->config_path : load->environment.values[OPTION_CONFIG];
    const char *path = named != NULL ? named : REDISLOCK_CONFIG_FILE;
    struct config_file file;
    struct setting setting;
    enum exit_status status = config_file_open(&file, path, named != NULL);
    enum setting_next next = NEXT_END;

    load->config->file_text = file.text;
    while (status == STATUS_OK && (next = config_file_next(&file, &setting)) == NEXT_SETTING)
        status = store(load, &setting);
    return next == NEXT_BAD ? STATUS_CONFIG : status;
}

static enum exit_status store_environment(struct load *load)
{
    enum exit_status status = STATUS_OK;

    for (size_t i = 0; i < OPTION_COUNT && status == STATUS_OK; i++) {
        struct setting setting = {.row = &option_rows[i],
                                  .value = load->environment.values[i],
                                  .source = SOURCE_ENVIRONMENT};

        if (setting.value != NULL)
            status = store(load, &setting);
    }
    return status;
}

static enum exit_status store_command_line(struct load *load, int argc, char **argv)
{
    struct arguments arguments = arguments_begin(argc, argv);
    struct setting setting;
    enum exit_status status = STATUS_OK;

    while (status == STATUS_OK && arguments_next(&arguments, &setting) == NEXT_SETTING)
        status = store(load, &setting);
    return status;
}

/* REDIS_URL, which is not ours alone: only where nothing else names a server. */
static enum exit_status store_fallback(struct load *load)
{
    struct setting setting = {.row = &option_rows[OPTION_URL],
                              .value = load->environment.redis_url,
                              .source = SOURCE_FALLBACK};

    if (setting.value == NULL || load->config->servers_source != SOURCE_DEFAULT)
        return STATUS_OK;
    return setting_store(load->config, &setting);
}

/* A shared lock has no places to count. */
static enum exit_status check_slots(const struct load *load)
{
    const enum config_source *by = load->given_by;

    if (!load->config->shared || load->config->slots == 0)
        return STATUS_OK;
    log_error("--shared and --slots exclude each other");
    return by[OPTION_SHARED] == SOURCE_COMMAND_LINE || by[OPTION_SLOTS] == SOURCE_COMMAND_LINE
               ? STATUS_USAGE
               : STATUS_CONFIG;
}

static enum exit_status store_all(struct load *load, int argc, char **argv)
{
    enum exit_status status = store_defaults(load);

    if (status == STATUS_OK)
        status = store_file(load);
    if (status == STATUS_OK)
        status = store_environment(load);
    if (status == STATUS_OK)
        status = store_command_line(load, argc, argv);
    if (status == STATUS_OK)
        status = store_fallback(load);
    if (status == STATUS_OK)
        status = credentials_load(load->config, &load->password_file, &load->environment);
    if (status == STATUS_OK)
        status = check_slots(load);
    return status;
}

/* --- What follows when all values are known ------------------------------------------------- */

/* The cheap question first: under cron stdin is a pipe or a file. */
static bool stdin_is_terminal(void)
{
    struct stat status;

    return fstat(STDIN_FILENO, &status) == 0 && S_ISCHR(status.st_mode) && isatty(STDIN_FILENO);
}

static void finish(struct load *load)
{
    struct config *config = load->config;

    config->ttl_source = load->given_by[OPTION_TTL];
    config->kill_after_source = load->given_by[OPTION_KILL_AFTER];
    if (load->given_by[OPTION_FOREGROUND] == SOURCE_DEFAULT)
        config->foreground = stdin_is_terminal();
    /* The command does not get it; but its own stdin, stdout and stderr it keeps. */
    if (config->status_fd > STDERR_FILENO)
        fcntl(config->status_fd, F_SETFD, FD_CLOEXEC);
    load->log.format = config->log_format;
    load->log.verbose = config->verbose;
    log_setup(&load->log);
}

/* Everything that a message about a value needs. */
static void begin(struct load *load, char **environment)
{
    const char *format;

    environment_read(environment, &load->environment);
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        if (load->environment.values[i] != NULL && load->given_by[i] < SOURCE_ENVIRONMENT)
            load->given_by[i] = SOURCE_ENVIRONMENT;
    }
    format = load->environment.values[OPTION_LOG_FORMAT];
    if (format != NULL && load->given_by[OPTION_LOG_FORMAT] == SOURCE_ENVIRONMENT)
        note_log_format(load, format);
    load->log.name = load->config->name;
    log_setup(&load->log);
}

static enum exit_status allocate_servers(struct config *config)
{
    config->servers = calloc(1, sizeof *config->servers);
    if (config->servers == NULL) {
        log_error("out of memory");
        return STATUS_OS;
    }
    config->server_count = 1;
    return STATUS_OK;
}

enum exit_status config_load(struct config *config, int argc, char **argv, char **environment)
{
    struct load load = {.config = config};
    char **operands = NULL;

    memset(config, 0, sizeof *config);
    log_setup(&load.log);

    enum exit_status status = note_command_line(&load, argc, argv, &operands);

    if (status != STATUS_OK || config->mode != MODE_RUN)
        return status;
    status = take_operands(&load, operands);
    if (status == STATUS_OK)
        status = allocate_servers(config);
    if (status == STATUS_OK) {
        begin(&load, environment);
        status = store_all(&load, argc, argv);
    }
    if (status == STATUS_OK)
        finish(&load);
    else
        config_release(config);
    return status;
}

void config_release(struct config *config)
{
    for (size_t i = 0; i < config->server_count; i++)
        url_wipe(&config->servers[i]);
    free(config->servers);
    secret_wipe(&config->password);
    free(config->file_text);
    free(config->credential_path);
    if (config->shell_command != NULL)
        free(config->shell_command[0]); /* the three words share one block */
    free(config->shell_command);
    *config = (struct config){.status_fd = -1};
}
