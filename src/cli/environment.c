/*
 * Owns the walk through the environment. Changes nothing, copies nothing, prints nothing.
 */
#include "cli/environment.h"

#include <string.h>

static void keep_first(const char **place, const char *value)
{
    if (*place == NULL)
        *place = value;
}

static bool is_name(const char *name, size_t length, const char *wanted)
{
    return strlen(wanted) == length && memcmp(name, wanted, length) == 0;
}

static void read_option(const char *name, size_t length, const char *value,
                        struct environment *found)
{
    const struct option_row *row = option_by_variable(name, length);

    if (row != NULL && !(row->flags & NOT_FROM_ENVIRONMENT))
        keep_first(&found->values[option_id(row)], value);
}

static void read_variable(const char *variable, struct environment *found)
{
    const char *equals = strchr(variable, '=');
    size_t length = equals != NULL ? (size_t)(equals - variable) : 0;

    if (length == 0)
        return;
    if (is_name(variable, length, "REDIS_URL"))
        keep_first(&found->redis_url, equals + 1);
    else if (is_name(variable, length, "REDISCLI_AUTH"))
        keep_first(&found->rediscli_auth, equals + 1);
    else if (is_name(variable, length, "CREDENTIALS_DIRECTORY"))
        keep_first(&found->credentials_directory, equals + 1);
    else
        read_option(variable, length, equals + 1, found);
}

void environment_read(char **variables, struct environment *found)
{
    memset(found, 0, sizeof *found);
    for (char **variable = variables; *variable != NULL; variable++) {
        /* Two comparisons sort out nearly all of a usual environment. */
        if (strncmp(*variable, "REDIS", 5) == 0 || strncmp(*variable, "CREDEN", 6) == 0)
            read_variable(*variable, found);
    }
}
