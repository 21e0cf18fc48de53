/*
 * Owns the single steps. A token is the key's whole value, so that other programs' compare-and-delete
 * works with it as well.
 */
#include "command/tokens.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "command/output.h"
#include "command/report.h"
#include "command/taking.h"
#include "lock/keys.h"
#include "lock/lock.h"

#define RELEASE_MS 5000

int command_acquire(const struct config *config)
{
    struct taking taking;
    bool skip = false;
    int status = taking_open(&taking, config, getppid(), "redislock --acquire");
    if (status == STATUS_OK)
        status = taking_acquire(&taking, &skip);
    if (status == STATUS_OK && !taking.locked)
        status = STATUS_UNAVAILABLE; /* --on-error run: there is no token to print */
    if (status == STATUS_OK && output_line(lock_value(taking.lock)) != STATUS_OK) {
        taking_release(&taking, NULL, false); /* nobody has got the token */
        status = STATUS_OS;
    }
    taking_close(&taking);
    return status;
}

/* The token on the command line, or else in the environment; NULL: neither. */
static const char *token_of(const struct config *config)
{
    const char *token = config->token != NULL ? config->token : getenv("REDISLOCK_TOKEN");
    return token != NULL && *token != '\0' ? token : NULL;
}

static int bad_token(const char *token)
{
    if (token == NULL)
        log_error("TOKEN is missing, and REDISLOCK_TOKEN is not set; it is what --acquire printed");
    else
        log_error("TOKEN is not what --acquire printed");
    return STATUS_USAGE;
}

/* A lock that is held under `token`; its lease as -t says, or as it was when it was acquired. */
static struct lock *adopt(const struct config *config, const char *token)
{
    struct holder holder;
    struct lease lease = {.ttl_ms = config->ttl_ms};
    holder_parse(token, strlen(token), &holder);
    if (config->ttl_from.source == SOURCE_DEFAULT && holder.ttl_ms > 0)
        lease.ttl_ms = holder.ttl_ms;
    lease.attempt_ms = config->connect_timeout_ms < 2000 ? config->connect_timeout_ms : 2000;
    struct taking_servers servers;
    taking_name_servers(&servers, config);
    struct lock_settings settings = taking_settings(config, &lease, &servers);
    struct lock *lock = lock_open(&settings);
    if (lock != NULL && lock_adopt(lock, token))
        return lock;
    lock_close(lock);
    return NULL;
}

/* What became of a lock that was to be ours. `done`: what to say under -v when all is well. */
static int tell_verdict(const struct config *config, const struct lock *lock,
                        enum lock_result result, const char *done)
{
    char storage[512];
    struct text text = TEXT_OVER(storage);
    switch (result) {
    case LOCK_OK:
        log_info("%s", done);
        return STATUS_OK;
    case LOCK_GONE:
        log_notice("no longer held under this token: it has expired or was removed");
        return STATUS_LOST;
    case LOCK_TAKEN:
        report_add_blocker(&text, lock_blocker(lock));
        log_notice("no longer held under this token: now %s", text.at);
        return STATUS_LOST;
    case LOCK_HELD:
    case LOCK_OTHER_SLOTS:
    case LOCK_DUPLICATE_SERVER:
    case LOCK_INTERRUPTED:
    case LOCK_UNAVAILABLE:
    case LOCK_DENIED:
    case LOCK_UNTRUSTED:
    case LOCK_TOO_FEW_REPLICAS:
    case LOCK_NOT_A_LOCK:
    case LOCK_NONSENSE:
    case LOCK_BAD_DATABASE:
    case LOCK_OS:
    default:
        return report_not_acquired(config, lock, result, 0);
    }
}

static bool try_again(enum lock_result result, int64_t until_ms)
{
    if (result != LOCK_UNAVAILABLE || clock_boot_ms() >= until_ms)
        return false;
    struct deadline pause = {clock_boot_ms() + 100, -1};
    (void)deadline_wait(-1, 0, &pause);
    return true;
}

int command_extend(const struct config *config)
{
    const char *token = token_of(config);
    struct lock *lock = token != NULL ? adopt(config, token) : NULL;
    if (lock == NULL)
        return bad_token(token);
    int64_t until = clock_boot_ms() + config->connect_timeout_ms;
    enum lock_result result;
    do
        result = lock_extend(lock);
    while (try_again(result, until));
    int status = tell_verdict(config, lock, result, "extended");
    lock_close(lock);
    return status;
}

int command_release(const struct config *config)
{
    const char *token = token_of(config);
    struct lock *lock = token != NULL ? adopt(config, token) : NULL;
    if (lock == NULL)
        return bad_token(token);
    struct holder holder;
    holder_parse(token, strlen(token), &holder);
    int64_t duration = clock_wall_ms() - holder.start_ms;
    /* how the work went is not known here: status -1 */
    struct lock_run_record record = {holder.start_ms, duration > 0 ? duration : 0, -1, true};
    enum lock_result result = lock_release(lock, &record, clock_boot_ms() + RELEASE_MS);
    int status = tell_verdict(config, lock, result, "released");
    lock_close(lock);
    return status;
}

/* What a child of a run knows about its lock, from the environment. */
struct own_run {
    const char *name;
    int64_t fence;
    char prefix[KEYS_PREFIX_MAX + 1];
};

/* The prefix is what stands before enc(NAME) in the key. */
static bool read_own_run(struct own_run *own)
{
    own->name = getenv("REDISLOCK_NAME");
    const char *key = getenv("REDISLOCK_LOCK_KEY");
    const char *fence = getenv("REDISLOCK_FENCE");
    if (own->name == NULL || key == NULL || fence == NULL)
        return false;
    size_t encoded = keys_encoded_length(own->name);
    size_t length = strlen(key);
    if (length < encoded || length - encoded > KEYS_PREFIX_MAX)
        return false;
    struct text prefix = TEXT_OVER(own->prefix);
    text_add_bytes(&prefix, key, length - encoded);
    own->fence = strtoll(fence, NULL, 10);
    return own->fence > 0;
}

static int check(const struct config *config, struct lock *lock, int64_t fence)
{
    struct deadline deadline = {clock_boot_ms() + config->connect_timeout_ms, -1};
    enum lock_result result = lock_check(lock, fence, &deadline);
    int status = tell_verdict(config, lock, result, "still held");
    lock_close(lock);
    return status;
}

/* Without a token: asks for the run that the caller belongs to. */
static int check_own_run(const struct config *config)
{
    struct own_run own;
    if (!read_own_run(&own) || (config->name != NULL && strcmp(config->name, own.name) != 0)) {
        log_error("TOKEN is missing, and this is not a command that redislock runs");
        return STATUS_USAGE;
    }
    log_setup(&(const struct log_settings){own.name, config->log_format, config->verbose});
    struct lease lease = {.ttl_ms = config->ttl_ms};
    struct taking_servers servers;
    taking_name_servers(&servers, config);
    struct lock_settings settings = taking_settings(config, &lease, &servers);
    settings.name = own.name;
    settings.prefix = own.prefix;
    struct lock *lock = lock_open(&settings);
    if (lock != NULL)
        return check(config, lock, own.fence);
    log_error("out of memory");
    return STATUS_OS;
}

int command_check(const struct config *config)
{
    const char *token = config->name != NULL ? token_of(config) : NULL;
    if (token == NULL)
        return check_own_run(config);
    struct lock *lock = adopt(config, token);
    return lock != NULL ? check(config, lock, 0) : bad_token(token);
}
