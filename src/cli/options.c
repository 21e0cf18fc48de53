/*
 * Owns the option table and the ways to find a row in it. Knows no values and prints nothing.
 */
#include "cli/options.h"

#include <string.h>

#include "cli/config.h"

#define AT(field) ((uint16_t)offsetof(struct config, field))

/* clang-format off */
const struct option_row option_rows[OPTION_COUNT] = {
    [OPTION_URL] = {
        "url", 'u', "URL", "redis://127.0.0.1:6379", KIND_URL, GROUP_SERVER, 0, 0, 0, 0,
        "server: redis://[[user]:password@]host[:port][/db] or unix:///path[?db=N]"},
    [OPTION_USER] = {
        "user", 0, "USER", "", KIND_USER, GROUP_SERVER, 0, AT(user), 0, 0,
        "ACL user to log in as, where URL names none"},
    [OPTION_PASSWORD_FILE] = {
        "password-file", 0, "FILE", "", KIND_PASSWORD_FILE, GROUP_SERVER, ONLY_IN_FULL,
        AT(password_file), 0, 0,
        "read the password from the first line of FILE"},
    [OPTION_PREFIX] = {
        "prefix", 0, "STR", "lock:", KIND_PREFIX, GROUP_SERVER, 0, AT(prefix), 0, 0,
        "what the lock's key in Redis begins with"},
    [OPTION_CONNECT_TIMEOUT] = {
        "connect-timeout", 0, "DUR", "10s", KIND_DURATION, GROUP_SERVER, 0,
        AT(connect_timeout_ms), 1, 0,
        "how long to try to reach a working server"},
    [OPTION_ON_ERROR] = {
        "on-error", 0, "fail|skip|run", "fail", KIND_CHOICE, GROUP_SERVER, 0, AT(on_error), 0, 0,
        "without a working server: exit with 69, exit with 0, or run without a lock"},

    [OPTION_TTL] = {
        "ttl", 't', "DUR", "60s", KIND_DURATION, GROUP_LOCK, 0, AT(ttl_ms), 1, 0,
        "expiry of the lock; extended every third of it"},
    [OPTION_WAIT] = {
        "wait", 'w', "DUR", "", KIND_WAIT, GROUP_LOCK, 0, AT(wait_ms), 0, 0,
        "if held, wait for the lock at most DUR; 'inf' for ever"},
    [OPTION_NONBLOCK] = {
        "nonblock", 'n', "", "", KIND_NO_WAIT, GROUP_LOCK, 0, AT(wait_ms), 0, 0,
        "if held, give up at once (the default)"},
    [OPTION_SHARED] = {
        "shared", 's', "", "", KIND_FLAG, GROUP_LOCK, 0, AT(shared), 0, 0,
        "hold the lock together with other shared holders"},
    [OPTION_EXCLUSIVE] = {
        "exclusive", 'x', "", "", KIND_NO_FLAG, GROUP_LOCK, 0, AT(shared), 0, 0,
        "hold the lock alone (the default)"},
    [OPTION_SLOTS] = {
        "slots", 'S', "N", "", KIND_NUMBER, GROUP_LOCK, 0, AT(slots), 1, 64,
        "at most N holders at once, 1 to 64; the same N everywhere (default 1)"},
    [OPTION_MIN_HOLD] = {
        "min-hold", 0, "DUR", "0", KIND_DURATION, GROUP_LOCK, 0, AT(min_hold_ms), 0, 0,
        "keep the lock at least DUR, also after a short, failed or crashed job"},
    [OPTION_JITTER] = {
        "jitter", 0, "DUR", "0", KIND_DURATION, GROUP_LOCK, 0, AT(jitter_ms), 0, 0,
        "wait a random time up to DUR before the first try"},
    [OPTION_NO_RESTORE] = {
        "no-restore", 0, "", "", KIND_FLAG_OFF, GROUP_LOCK, 0, AT(restore), 0, 0,
        "count a vanished key as lost, even where nobody took the lock since"},
    [OPTION_ON_LOST] = {
        "on-lost", 0, "kill|warn", "kill", KIND_CHOICE, GROUP_LOCK, 0, AT(on_lost), 0, 0,
        "when the lock is or may be lost: stop the command, or let it run and say so"},

    [OPTION_COMMAND] = {
        "command", 'c', "LINE", "", KIND_WORD, GROUP_COMMAND, COMMAND_LINE_ONLY, 0, 0, 0,
        "run LINE with /bin/sh -c; before NAME or right behind it"},
    [OPTION_MAX_RUNTIME] = {
        "max-runtime", 0, "DUR", "", KIND_DURATION, GROUP_COMMAND, 0, AT(max_runtime_ms), 0, 0,
        "stop a command that runs longer; exit with 124"},
    [OPTION_SIGNAL] = {
        "signal", 0, "SIG", "TERM", KIND_SIGNAL, GROUP_COMMAND, 0, AT(stop_signal), 0, 0,
        "signal that asks the command to stop"},
    [OPTION_KILL_AFTER] = {
        "kill-after", 'k', "DUR", "", KIND_DURATION, GROUP_COMMAND, 0, AT(kill_after_ms), 1, 0,
        "send KILL this long after it (default: a quarter of the TTL, 10s at most)"},
    [OPTION_FOREGROUND] = {
        "foreground", 0, "", "", KIND_FLAG, GROUP_COMMAND, 0, AT(foreground), 0, 0,
        "stay in the caller's process group (default: when stdin is a terminal)"},
    [OPTION_WAIT_DESCENDANTS] = {
        "wait-descendants", 0, "", "", KIND_FLAG, GROUP_COMMAND, 0, AT(wait_descendants), 0, 0,
        "hold the lock until every descendant of the command has ended"},

    [OPTION_CONFLICT_EXIT_CODE] = {
        "conflict-exit-code", 'E', "N", "75", KIND_NUMBER, GROUP_MESSAGES, 0,
        AT(conflict_status), 0, 255,
        "exit status when the lock is held, 0 to 255"},
    [OPTION_QUIET] = {
        "quiet", 'q', "", "", KIND_FLAG, GROUP_MESSAGES, 0, AT(quiet), 0, 0,
        "no message when the lock is held"},
    [OPTION_QUIET_FOR] = {
        "quiet-for", 0, "DUR", "", KIND_DURATION, GROUP_MESSAGES, 0, AT(quiet_for_ms), 1, 0,
        "no message until the holder is older than DUR"},
    [OPTION_VERBOSE] = {
        "verbose", 'v', "", "", KIND_FLAG, GROUP_MESSAGES, 0, AT(verbose), 0, 0,
        "say on stderr what is being done"},
    [OPTION_LOG_FORMAT] = {
        "log-format", 0, "text|json", "text", KIND_CHOICE, GROUP_MESSAGES, 0, AT(log_format), 0, 0,
        "form of the messages on stderr"},
    [OPTION_STATUS_FD] = {
        "status-fd", 0, "N", "", KIND_DESCRIPTOR, GROUP_MESSAGES, 0, AT(status_fd), 0, 0,
        "write events, one JSON object a line, to the open descriptor N"},

    [OPTION_CONFIG] = {
        "config", 0, "FILE", "", KIND_WORD, GROUP_OTHER, NOT_FROM_FILE, 0, 0, 0,
        "read FILE in place of " REDISLOCK_CONFIG_FILE},
    [OPTION_HELP] = {
        "help", 'h', "", "", KIND_WORD, GROUP_OTHER, COMMAND_LINE_ONLY, 0, 0, 0,
        "print this help and exit"},
    [OPTION_VERSION] = {
        "version", 'V', "", "", KIND_WORD, GROUP_OTHER, COMMAND_LINE_ONLY, 0, 0, 0,
        "print the version and exit"},
};
/* clang-format on */

static const char variable_prefix[] = "REDISLOCK_";

const struct option_row *option_by_letter(char letter)
{
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        if (option_rows[i].letter == letter && letter != '\0')
            return &option_rows[i];
    }
    return NULL;
}

const struct option_row *option_by_name(const char *name, size_t length,
                                        const struct option_row **first,
                                        const struct option_row **other)
{
    *first = NULL;
    *other = NULL;
    for (size_t i = 0; i < OPTION_COUNT && length > 0; i++) {
        const struct option_row *row = &option_rows[i];

        if (length >= sizeof row->name || strncmp(row->name, name, length) != 0)
            continue;
        if (row->name[length] == '\0')
            return row;
        if (row->flags & ONLY_IN_FULL)
            continue;
        if (*first == NULL)
            *first = row;
        else
            *other = row;
    }
    return *other == NULL ? *first : NULL;
}

static char variable_character(char c)
{
    if (c == '-')
        return '_';
    return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
}

static bool is_variable_of(const struct option_row *row, const char *name, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (row->name[i] == '\0' || variable_character(row->name[i]) != name[i])
            return false;
    }
    return row->name[length] == '\0';
}

const struct option_row *option_by_variable(const char *variable, size_t length)
{
    size_t skip = sizeof variable_prefix - 1;

    if (length <= skip || strncmp(variable, variable_prefix, skip) != 0)
        return NULL;
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        if (is_variable_of(&option_rows[i], variable + skip, length - skip))
            return &option_rows[i];
    }
    return NULL;
}

void option_variable(const struct option_row *row, char *out)
{
    size_t at = sizeof variable_prefix - 1;

    memcpy(out, variable_prefix, at);
    for (const char *c = row->name; *c != '\0'; c++)
        out[at++] = variable_character(*c);
    out[at] = '\0';
}
