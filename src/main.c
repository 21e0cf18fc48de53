/*
 * redislock: runs a command while it holds a lock in Redis.
 *
 * The story in short: options make a config, the config names a command, the command returns an
 * exit status. This is the only place that exits.
 */
#include "cli/config.h"
#include "command/run.h"

static int perform(const struct config *config)
{
    switch (config->mode) {
    case MODE_HELP:
        return (int)config_print_help();
    case MODE_VERSION:
        return (int)config_print_version();
    case MODE_RUN:
    default:
        return command_run(config);
    }
}

int main(int argc, char **argv, char **environment)
{
    struct config config;
    int status = (int)config_load(&config, argc, argv, environment);
    if (status == STATUS_OK) {
        status = perform(&config);
        config_release(&config);
    }
    return status;
}
