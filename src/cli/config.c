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
#include <unistd.h>

#include "base/text.h"
#include "cli/arguments.h"
#include "cli/config_file.h"
#include "cli/credentials.h"
#include "cli/environment.h"
#include "cli/operands.h"
#include "cli/password.h"
#include "cli/server_list.h"
#include "cli/setting.h"

/* What is known while loading and forgotten after. */
struct load {
    struct config *config;
    struct environment environment;
    struct config_origin given[OPTION_COUNT]; /* the highest source of each option */
    const char *config_path;                  /* --config on the command line */
    struct operands operands;
    const struct option_row *mode_row; /* the option that chose the mode; NULL: none */
    struct setting password_file;      /* the one that counts; row NULL: none */
    struct setting sentinel_password_file;
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

    load->given[id] = setting->from;
    if (id == OPTION_WAIT || id == OPTION_NONBLOCK) {
        load->given[OPTION_WAIT] = setting->from; /* they are one field */
        load->given[OPTION_NONBLOCK] = setting->from;
    } else if (id == OPTION_SHARED || id == OPTION_EXCLUSIVE) {
        load->given[OPTION_SHARED] = setting->from; /* and so are these */
        load->given[OPTION_EXCLUSIVE] = setting->from;
    } else if (id == OPTION_CONFIG) {
        load->config_path = setting->value;
    } else if (id == OPTION_COMMAND) {
        load->operands.shell_line = setting->erasable;
    } else if (id == OPTION_LOG_FORMAT) {
        note_log_format(load, setting->value);
    }
}

/* The options that say what to do; all but these belong to several ways of use. */
static bool is_mode(enum option_id id, enum config_mode *mode)
{
    static const struct {
        enum option_id id;
        enum config_mode mode;
    } modes[] = {
        {OPTION_ATTACH, MODE_ATTACH},   {OPTION_ACQUIRE, MODE_ACQUIRE},
        {OPTION_EXTEND, MODE_EXTEND},   {OPTION_RELEASE, MODE_RELEASE},
        {OPTION_CHECK, MODE_CHECK},     {OPTION_STATUS, MODE_STATUS},
        {OPTION_LIST, MODE_LIST},       {OPTION_UNLOCK, MODE_UNLOCK},
        {OPTION_DOCTOR, MODE_DOCTOR},   {OPTION_HELP, MODE_HELP},
        {OPTION_VERSION, MODE_VERSION},
    };
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        if (modes[i].id == id) {
            *mode = modes[i].mode;
            return true;
        }
    }
    return false;
}

/* -h and -V act at once; of the others there can be only one. */
static enum exit_status note_mode(struct load *load, const struct setting *setting)
{
    enum config_mode mode;

    if (!is_mode(option_id(setting->row), &mode))
        return STATUS_OK;
    if (load->mode_row != NULL && load->mode_row != setting->row && mode != MODE_HELP &&
        mode != MODE_VERSION) {
        log_error("--%s and --%s exclude each other" OPERANDS_TRY_HELP, load->mode_row->name,
                  setting->row->name);
        return STATUS_USAGE;
    }
    load->mode_row = setting->row;
    load->config->mode = mode;
    return STATUS_OK;
}

/* Ends early at -h and -V: they act at once. Leaves the operands in `*operands`. */
static enum exit_status note_command_line(struct load *load, int argc, char **argv,
                                          char ***operands)
{
    struct arguments arguments = arguments_begin(argc, argv);
    struct setting setting;
    enum setting_next next = NEXT_END;
    enum exit_status status = STATUS_OK;

    while (status == STATUS_OK && load->config->mode != MODE_HELP &&
           load->config->mode != MODE_VERSION &&
           (next = arguments_next(&arguments, &setting)) == NEXT_SETTING) {
        note(load, &setting);
        status = note_mode(load, &setting);
    }
    *operands = arguments.rest;
    return next == NEXT_BAD ? STATUS_USAGE : status;
}

/* --- Values, from the lowest source to the highest ------------------------------------------ */

/* An option without the value that it may have: --watch has one in mind, --attach has not. */
static enum exit_status store_implied(struct load *load, const struct setting *setting)
{
    struct setting implied = *setting;

    if (option_id(setting->row) != OPTION_WATCH)
        return STATUS_OK;
    implied.value = "2s";
    return setting_store(load->config, &implied);
}

static enum exit_status store(struct load *load, const struct setting *setting)
{
    enum option_id id = option_id(setting->row);

    if (setting->from.source < load->given[id].source)
        return STATUS_OK;
    load->given[id] = setting->from;
    if (id == OPTION_PASSWORD_FILE)
        load->password_file = *setting;
    if (id == OPTION_SENTINEL_PASSWORD_FILE)
        load->sentinel_password_file = *setting;
    if (setting->value == NULL && (setting->row->flags & VALUE_OPTIONAL))
        return store_implied(load, setting);
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

        if (row->default_value[0] != '\0' && load->given[i].source == SOURCE_DEFAULT)
            status = setting_store(load->config, &setting);
    }
    return status;
}

static enum exit_status store_file(struct load *load)
{
    const char *named =
        load->config_path != NULL ? load->config_path : load->environment.values[OPTION_CONFIG];
    const char *path = named != NULL ? named : REDISLOCK_CONFIG_FILE;

    if (path[0] == '\0') {
        log_error("%s: '' is not the path of a file",
                  load->config_path != NULL ? "--config" : "REDISLOCK_CONFIG");
        return load->config_path != NULL ? STATUS_USAGE : STATUS_CONFIG;
    }

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
                                  .from = {.source = SOURCE_ENVIRONMENT}};

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
                              .from = {.source = SOURCE_FALLBACK}};

    if (setting.value == NULL || load->config->servers_from.source != SOURCE_DEFAULT)
        return STATUS_OK;
    load->given[OPTION_URL] = setting.from;
    return setting_store(load->config, &setting);
}

static enum exit_status read_sentinel_password(struct load *load)
{
    const struct setting *given = &load->sentinel_password_file;
    char storage[256];
    struct text message = TEXT_OVER(storage);
    const char *why;

    if (given->row == NULL || password_read(given->value, &load->config->sentinel_password, &why))
        return STATUS_OK;
    text_addf(&message, "cannot be used: %s", why);
    return setting_refuse(given, given->value, message.at);
}

/* What a quorum cannot do, and what would be none. */
static enum exit_status check_servers(const struct load *load)
{
    const struct config *config = load->config;
    bool steps =
        config->mode == MODE_ACQUIRE || config->mode == MODE_EXTEND || config->mode == MODE_RELEASE;

    if (config->server_count == 1)
        return STATUS_OK;
    for (size_t i = 1; i < config->server_count; i++) {
        for (size_t j = 0; j < i; j++) {
            if (url_same_server(&config->servers[i], &config->servers[j]))
                return setting_refuse_pair(
                    load->given, OPTION_URL, OPTION_URL,
                    "--url: a server is named twice; a quorum needs independent servers");
        }
    }
    if (config->slots > 1)
        return setting_refuse_pair(load->given, OPTION_SLOTS, OPTION_URL,
                                   "--slots counts on one server, not on a quorum of several");
    if (config->wait_replicas > 0)
        return setting_refuse_pair(
            load->given, OPTION_WAIT_REPLICAS, OPTION_URL,
            "--wait-replicas is for one server; those of a quorum vouch for each other");
    if (steps)
        return setting_refuse_pair(
            load->given, option_id(load->mode_row), OPTION_URL,
            "a token is of one server; with several use a command or --attach");
    return STATUS_OK;
}

/* A shared lock has no places to count. */
static enum exit_status check_slots(const struct load *load)
{
    if (!load->config->shared || load->config->slots == 0)
        return STATUS_OK;
    return setting_refuse_pair(load->given, OPTION_SHARED, OPTION_SLOTS,
                               "--shared and --slots exclude each other");
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
        status = read_sentinel_password(load);
    if (status == STATUS_OK)
        status = check_slots(load);
    if (status == STATUS_OK)
        status = check_servers(load);
    return status;
}

/* --- What follows when all values are known ------------------------------------------------- */

static void finish(struct load *load)
{
    struct config *config = load->config;

    config->ttl_from = load->given[OPTION_TTL];
    config->kill_after_from = load->given[OPTION_KILL_AFTER];
    if (load->given[OPTION_FOREGROUND].source == SOURCE_DEFAULT)
        config->foreground = isatty(STDIN_FILENO) == 1;
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
        if (load->environment.values[i] != NULL && load->given[i].source < SOURCE_ENVIRONMENT)
            load->given[i].source = SOURCE_ENVIRONMENT;
    }
    format = load->environment.values[OPTION_LOG_FORMAT];
    if (format != NULL && load->given[OPTION_LOG_FORMAT].source == SOURCE_ENVIRONMENT)
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

    if (status != STATUS_OK || config->mode == MODE_HELP || config->mode == MODE_VERSION)
        return status;
    status = operands_check_words(load.given, config->mode);
    if (status == STATUS_OK)
        status = operands_take(&load.operands, config, operands);
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
    server_list_wipe(config);
    free(config->servers);
    secret_wipe(&config->password);
    secret_wipe(&config->sentinel_password);
    free(config->file_text);
    free(config->credential_path);
    if (config->shell_command != NULL)
        free(config->shell_command[0]); /* the three words share one block */
    free(config->shell_command);
    *config = (struct config){.status_fd = -1};
}
