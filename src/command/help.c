/*
 * Owns nothing: the texts follow from the option table, and so live beside it.
 */
#include "command/help.h"

int command_help(const struct config *config)
{
    (void)config;
    return (int)config_print_help();
}

int command_version(const struct config *config)
{
    (void)config;
    return (int)config_print_version();
}
