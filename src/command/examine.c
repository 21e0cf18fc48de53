/*
 * Owns the questions and what their answers mean. A question that the server refuses (ACL, a managed
 * service) is a warning that says what could not be seen, never a failure.
 */
#include "command/examine.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/text.h"
#include "command/remedy.h"
#include "command/report.h"

#define PINGS             5
#define CLOCK_WARN_MS     1000
#define LATENCY_WARN_US   100000
#define MEMORY_WARN_SHARE 90 /* % of maxmemory */

static void say(const char *verdict, const char *format, va_list arguments)
    __attribute__((format(printf, 2, 0)));

static void say(const char *verdict, const char *format, va_list arguments)
{
    char storage[1024];
    char visible_storage[2048];
    struct text line = TEXT_OVER(storage);
    struct text visible = TEXT_OVER(visible_storage);
    text_addv(&line, format, arguments);
    text_add_visible(&visible, line.at, line.length);
    (void)printf("%-8s  %s\n", verdict, visible.at);
}

void examine_ok(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say("ok", format, arguments);
    va_end(arguments);
}

void examine_warning(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say("warning", format, arguments);
    va_end(arguments);
}

void examine_failure(struct examination *examination, int status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say("failure", format, arguments);
    va_end(arguments);
    if (examination->status == STATUS_OK)
        examination->status = status;
}

void examine_refusal(struct examination *examination, int status, const char *step, const char *why)
{
    const char *remedy = remedy_for(why);
    size_t length = strlen(why);
    if (remedy != NULL && length > 0 && why[length - 1] == '.')
        length--; /* the server's own full stop, in the middle of a line */
    examine_failure(examination, status, "%s%s%.*s%s%s", step != NULL ? step : "",
                    step != NULL ? ": " : "", (int)length, why, remedy != NULL ? "; " : "",
                    remedy != NULL ? remedy : "");
}

/* Asks one command, its words as client_ask wants them. NULL: refused or failed; client_why tells. */
static const struct reply *ask(struct examination *examination, const char *const *words)
{
    const struct reply *reply;
    struct deadline deadline = {clock_boot_ms() + examination->config->connect_timeout_ms, -1};
    if (client_ask(examination->client, words, &reply, &deadline) != SERVER_OK)
        return NULL;
    if (reply->kind != REPLY_ERROR)
        return reply;
    (void)client_refused(examination->client, reply);
    return NULL;
}

static int64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* PING itself may be forbidden: an answer is an answer. */
static bool ping(struct examination *examination, int64_t *took_us, enum server_error *error)
{
    const char *const words[] = {"PING", NULL};
    const struct reply *reply;
    struct deadline deadline = {clock_boot_ms() + examination->config->connect_timeout_ms, -1};
    int64_t began = now_us();
    *error = client_ask(examination->client, words, &reply, &deadline);
    *took_us = now_us() - began;
    if (*error != SERVER_OK)
        return false;
    if (reply->kind == REPLY_ERROR) {
        *error = client_refused(examination->client, reply);
        bool is_login = memmem(reply->bytes, reply->length, "NOAUTH", 6) != NULL;
        return !is_login && *error != SERVER_BUSY;
    }
    return true;
}

static int status_of(const struct config *config, enum server_error error)
{
    if (error == SERVER_DENIED || error == SERVER_UNTRUSTED)
        return STATUS_DENIED;
    if (error == SERVER_BAD_DATABASE)
        return report_servers_status(config);
    return error == SERVER_NONSENSE ? STATUS_NONSENSE : STATUS_UNAVAILABLE;
}

bool examine_connection(struct examination *examination)
{
    int64_t best_us = INT64_MAX;
    for (int i = 0; i < PINGS + 1; i++) {
        int64_t took_us;
        enum server_error error;
        if (!ping(examination, &took_us, &error)) {
            examine_refusal(examination, status_of(examination->config, error), NULL,
                            client_why(examination->client));
            return false;
        }
        if (i > 0 && took_us < best_us) /* the first one connected */
            best_us = took_us;
    }
    const char *address = client_address(examination->client);
    if (best_us > LATENCY_WARN_US)
        examine_warning("%s answers in %.1f ms: choose --ttl well above ten times that", address,
                        (double)best_us / 1000);
    else
        examine_ok("%s answers in %.2f ms", address, (double)best_us / 1000);
    return true;
}

/* The value of a field in INFO's text, as far as the line goes. */
static bool info_field(const struct reply *info, const char *field, char *value, size_t size)
{
    size_t length = strlen(field);
    if (info == NULL || info->kind != REPLY_STRING)
        return false;
    for (const char *line = info->bytes; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, field, length) != 0 || line[length] != ':')
            continue;
        struct text out = text_over(value, size);
        text_add_bytes(&out, line + length + 1, strcspn(line + length + 1, "\r\n"));
        return true;
    }
    return false;
}

static int64_t info_number(const struct reply *info, const char *field)
{
    char value[64];
    return info_field(info, field, value, sizeof(value)) ? strtoll(value, NULL, 10) : -1;
}

static const struct reply *ask_info(struct examination *examination, const char *section)
{
    return ask(examination, (const char *const[]){"INFO", section, NULL});
}

static void examine_role(struct examination *examination)
{
    const struct reply *reply = ask(examination, (const char *const[]){"ROLE", NULL});
    if (reply == NULL || reply->kind != REPLY_ARRAY || reply->count == 0)
        examine_warning("ROLE is refused: whether this is a master is seen only by locking; "
                        "allow +role");
    else if (reply_is(&reply->items[0], "master"))
        examine_ok("it is a master");
    else
        examine_failure(examination, STATUS_UNAVAILABLE,
                        "it is a %s, not a master: name the master in --url",
                        reply->items[0].bytes);
}

static void examine_version(struct examination *examination)
{
    char version[64];
    const struct reply *info = ask_info(examination, "server");
    if (!info_field(info, "redis_version", version, sizeof(version))) {
        examine_warning("INFO is refused: version, memory and persistence cannot be seen; "
                        "allow +info");
        return;
    }
    char *end;
    long major = strtol(version, &end, 10);
    long minor = *end == '.' ? strtol(end + 1, NULL, 10) : 0;
    if (major < 6 || (major == 6 && minor < 2))
        examine_warning("version %s is older than 6.2, the oldest that is tested: use a newer one",
                        version);
    else
        examine_ok("version %s", version);
}

static void examine_user(struct examination *examination)
{
    const struct reply *reply = ask(examination, (const char *const[]){"ACL", "WHOAMI", NULL});
    const struct config *config = examination->config;
    bool has_secret = config->password.bytes != NULL || examination->url->password.bytes != NULL;
    if (reply == NULL || reply->kind != REPLY_STRING)
        examine_ok("logged in (ACL WHOAMI is refused, so the user cannot be shown)");
    else if (!has_secret && examination->url->scheme != URL_UNIX)
        examine_warning(
            "user %s needs no password: whoever reaches this server can take locks away; set one "
            "there (requirepass, ACL SETUSER)",
            reply->bytes);
    else
        examine_ok("logged in as %s", reply->bytes);
}

static void examine_clock(struct examination *examination)
{
    const struct reply *reply = ask(examination, (const char *const[]){"TIME", NULL});
    int64_t seconds;
    if (reply == NULL || reply->kind != REPLY_ARRAY || reply->count != 2 ||
        !reply_number(&reply->items[0], &seconds)) {
        examination->time_refused = true;
        examine_warning("TIME is refused: fences take this host's clock as their floor, and "
                        "--shared and --slots do not work; allow +time");
        return;
    }
    int64_t micros = 0;
    (void)reply_number(&reply->items[1], &micros);
    int64_t apart = clock_wall_ms() - (seconds * 1000 + micros / 1000);
    char storage[32];
    struct text shown = TEXT_OVER(storage);
    text_add_duration(&shown, apart < 0 ? -apart : apart);
    if (apart > CLOCK_WARN_MS || apart < -CLOCK_WARN_MS)
        examine_warning("the clocks of this host and the server are %s apart: locks do not mind, "
                        "but mend it (ntp)",
                        shown.at);
    else
        examine_ok("the clocks of this host and the server are %s apart", shown.at);
}

static void examine_memory(struct examination *examination)
{
    char policy[64];
    const struct reply *info = ask_info(examination, "memory");
    int64_t most = info_number(info, "maxmemory");
    int64_t used = info_number(info, "used_memory");
    if (!info_field(info, "maxmemory_policy", policy, sizeof(policy)))
        return; /* told with the version */
    if (most == 0)
        examine_ok("memory is not limited, so no lock is evicted");
    else if (strcmp(policy, "noeviction") != 0)
        examine_warning(
            "maxmemory-policy %s can evict a lock: set noeviction, or use another server", policy);
    else if (used > most / 100 * MEMORY_WARN_SHARE)
        examine_warning("memory is over %d %% full, and when it is full no lock can be acquired: "
                        "raise maxmemory, or use another server",
                        MEMORY_WARN_SHARE);
    else
        examine_ok("maxmemory-policy noeviction: no lock is evicted");
}

static void examine_persistence(struct examination *examination)
{
    const struct reply *info = ask_info(examination, "persistence");
    int64_t aof = info_number(info, "aof_enabled");
    if (aof < 0)
        return;
    char save[8] = "";
    (void)info_field(info, "rdb_last_bgsave_status", save, sizeof(save));
    if (strcmp(save, "err") == 0)
        examine_warning("the last background save failed, so the server may refuse writes "
                        "(MISCONF): make room on its disk; its log says more");
    if (aof == 1)
        examine_ok("locks survive a restart (append-only file)");
    else
        examine_warning("a restart may lose locks (no append-only file): running jobs put theirs "
                        "back, unless somebody was quicker; set appendonly yes to keep them");
}

static void examine_replicas(struct examination *examination)
{
    const struct reply *info = ask_info(examination, "replication");
    int64_t count = info_number(info, "connected_slaves");
    if (count > 0)
        examine_warning("%lld replica(s): a failover can lose a lock that was not yet replicated; "
                        "fences still rise; use --wait-replicas to make it rarer",
                        (long long)count);
    else if (count == 0)
        examine_ok("no replicas, so no failover can lose a lock");
}

static void examine_encryption(const struct examination *examination)
{
    const struct url *url = examination->url;
    bool local = url->scheme == URL_UNIX || strncmp(url->host, "127.", 4) == 0 ||
                 strcmp(url->host, "::1") == 0 || strcmp(url->host, "localhost") == 0;
    if (url->tls && examination->config->tls.insecure)
        examine_warning(
            "the connection is encrypted, but nobody checks with whom: give --cacert in "
            "place of --insecure");
    else if (url->tls)
        examine_ok("the connection is encrypted, and the server's certificate is good");
    else if (local)
        examine_ok("the connection does not leave this host");
    else
        examine_warning(
            "the connection is not encrypted: use rediss://, unless the network is trusted");
}

void examine_server(struct examination *examination)
{
    examine_role(examination);
    examine_version(examination);
    examine_user(examination);
    examine_clock(examination);
    examine_memory(examination);
    examine_persistence(examination);
    examine_replicas(examination);
    examine_encryption(examination);
}
