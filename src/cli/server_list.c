/*
 * Owns which servers a value names, and that a password in it is seen no longer than it must be.
 */
#include "cli/server_list.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/secret.h"
#include "cli/url.h"

static bool can_be_read_by_others(const char *path)
{
    struct stat status;

    return stat(path, &status) == 0 && (status.st_mode & S_IROTH) != 0;
}

/* Everybody who may list processes has seen it; nobody needs to see it for longer. */
static void hide_password(const struct setting *setting, const char *url, size_t at)
{
    size_t length;
    size_t offset = url_find_password(url, &length);

    if (length == 0 || setting->erasable == NULL)
        return;
    memset(setting->erasable + at + offset, '*', length);
    if (setting->from.source == SOURCE_FILE && can_be_read_by_others(setting->from.file))
        log_warning("%s:%d: the URL has a password in it, and every user of this host may read the "
                    "file; chmod 640 it, or use REDISLOCK_PASSWORD_FILE",
                    setting->from.file, setting->from.line);
    if (setting->from.source == SOURCE_COMMAND_LINE)
        log_warning("--url: its password could be seen in the process list until now; give it by "
                    "REDISLOCK_URL or --password-file");
}

static bool is_gap(char c)
{
    return c == ' ' || c == '\t' || c == ',';
}

/* Where the URL that begins at `text` ends: at a blank, or at a comma behind which another URL begins
 * or nothing stands (within an address of sentinels or of a cluster, a comma stands between hosts). */
static size_t url_extent(const char *text)
{
    size_t length = 0;

    for (; text[length] != '\0' && text[length] != ' ' && text[length] != '\t'; length++) {
        const char *behind = text + length + 1;

        if (text[length] != ',')
            continue;
        size_t scheme = strspn(behind, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ+");

        if (is_gap(behind[0]) || behind[0] == '\0')
            break;
        if (scheme > 0 && strncmp(behind + scheme, "://", 3) == 0)
            break;
    }
    return length;
}

static enum exit_status add_server(struct config *config, const struct setting *setting,
                                   const char *text, size_t length)
{
    const char *why = "cannot be kept: out of memory";
    char *one = strndup(text, length);
    struct url *servers = realloc(config->servers, (config->server_count + 1) * sizeof *servers);
    enum exit_status status = STATUS_OK;

    if (servers != NULL)
        config->servers = servers;
    if (one == NULL || servers == NULL ||
        !url_parse(one, &config->servers[config->server_count], &why)) {
        char shown[256] = "";

        if (one != NULL)
            url_redact(one, shown, sizeof shown);
        if (one != NULL && text > setting->value && strstr(one, "://") == NULL)
            why =
                "stands behind a blank or comma but is no address; within one they are %20 and %2C";
        status = setting_refuse(setting, shown, why);
    } else {
        config->server_count++;
        hide_password(setting, one, (size_t)(text - setting->value));
    }
    if (one != NULL && memchr(one, '@', length) != NULL) /* a password may stand before it */
        secret_wipe_bytes(one, length);
    free(one);
    return status;
}

void server_list_wipe(struct config *config)
{
    while (config->server_count > 0)
        url_wipe(&config->servers[--config->server_count]);
}

enum exit_status server_list_store(struct config *config, const struct setting *setting)
{
    const char *at = setting->value;
    enum exit_status status = STATUS_OK;
    bool adds = setting->from.source == SOURCE_COMMAND_LINE &&
                config->servers_from.source == SOURCE_COMMAND_LINE;
    size_t before;

    if (!adds)
        server_list_wipe(config);
    before = config->server_count;
    while (status == STATUS_OK && *at != '\0') {
        if (is_gap(*at)) {
            at++;
            continue;
        }
        size_t length = url_extent(at);

        if (config->server_count == CONFIG_SERVERS_MAX)
            return setting_refuse(setting, NULL, "names more than 15 servers");
        status = add_server(config, setting, at, length);
        at += length;
    }
    if (status != STATUS_OK)
        return status;
    if (config->server_count == before)
        return setting_refuse(setting, setting->value, "names no server");
    config->servers_from = setting->from;
    return STATUS_OK;
}
