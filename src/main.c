/*
 * redislock: runs a command while it holds a lock in Redis.
 *
 * The story in short: options make a config, the config names a command, the command returns an
 * exit status. This is the only place that exits.
 */
#include "base/descriptor.h"
#include "cli/config.h"
#include "command/attach.h"
#include "command/doctor.h"
#include "command/help.h"
#include "command/operate.h"
#include "command/run.h"
#include "command/tokens.h"

static int perform(const struct config *config)
{
    static int (*const commands[])(const struct config *) = {
        [MODE_RUN] = command_run,         [MODE_ATTACH] = command_attach,
        [MODE_ACQUIRE] = command_acquire, [MODE_EXTEND] = command_extend,
        [MODE_RELEASE] = command_release, [MODE_CHECK] = command_check,
        [MODE_STATUS] = command_status,   [MODE_LIST] = command_list,
        [MODE_UNLOCK] = command_unlock,   [MODE_DOCTOR] = command_doctor,
        [MODE_HELP] = command_help,       [MODE_VERSION] = command_version,
    };
    if (config->mode != MODE_RUN) /* which sees by its first descriptor whether it must */
        descriptor_fill_standard();
    return commands[config->mode](config);
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
