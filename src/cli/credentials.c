/*
 * Owns the search for the password. Promises that a file which was asked for and is no good is an
 * error, never a silent login without it, and that no message shows a password.
 */
#include "cli/credentials.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/text.h"
#include "cli/password.h"

/* A pipe gives its password once: it is not a file to read again later. */
static bool can_be_read_again(const char *path)
{
    struct stat status;

    return stat(path, &status) == 0 && S_ISREG(status.st_mode);
}

static enum exit_status read_given(struct config *config, const struct setting *given)
{
    const char *why;
    char text[128];
    struct text message = TEXT_OVER(text);

    if (!password_read(given->value, &config->password, &why)) {
        text_addf(&message, "cannot be used: %s", why);
        return setting_refuse(given, given->value, message.at);
    }
    config->password_file = can_be_read_again(given->value) ? given->value : NULL;
    return STATUS_OK;
}

static char *path_in(const char *directory, const char *name)
{
    size_t size = strlen(directory) + 1 + strlen(name) + 1;
    char *path = malloc(size);

    if (path != NULL) {
        struct text text = text_over(path, size);

        text_add(&text, directory);
        text_add_char(&text, '/');
        text_add(&text, name);
    }
    return path;
}

/* Leaves config->password unset where there is no such file. */
static enum exit_status read_credential(struct config *config, const char *directory)
{
    const char *why;
    char *path = path_in(directory, "redislock-password");

    if (path == NULL) {
        log_error("CREDENTIALS_DIRECTORY: out of memory");
        return STATUS_OS;
    }
    if (password_read(path, &config->password, &why)) {
        config->credential_path = path;
        config->password_file = path;
        return STATUS_OK;
    }

    bool missing = errno == ENOENT || errno == ENOTDIR;

    if (!missing)
        log_error("CREDENTIALS_DIRECTORY: '%s' cannot be used: %s", path, why);
    free(path);
    return missing ? STATUS_OK : STATUS_CONFIG;
}

static bool every_server_has_password(const struct config *config)
{
    for (size_t i = 0; i < config->server_count; i++) {
        if (config->servers[i].password.bytes == NULL)
            return false;
    }
    return true;
}

enum exit_status credentials_load(struct config *config, const struct setting *given,
                                  const struct environment *environment)
{
    enum exit_status status = STATUS_OK;

    if (given->row != NULL)
        return read_given(config, given);
    if (every_server_has_password(config))
        return STATUS_OK;
    if (environment->credentials_directory != NULL)
        status = read_credential(config, environment->credentials_directory);
    if (status != STATUS_OK || config->password.bytes != NULL)
        return status;

    const char *password = environment->rediscli_auth;

    if (password == NULL || password[0] == '\0')
        return STATUS_OK;
    if (!secret_set(&config->password, password, strlen(password))) {
        log_error("REDISCLI_AUTH: out of memory");
        return STATUS_OS;
    }
    return STATUS_OK;
}
