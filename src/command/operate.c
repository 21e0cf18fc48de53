/*
 * Owns --status, --list and --unlock. Promises that --unlock removes only what it has shown.
 */
#include "command/operate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "cli/setting.h"
#include "command/names.h"
#include "command/output.h"
#include "command/report.h"
#include "command/show.h"
#include "command/taking.h"
#include "command/view.h"
#include "lock/observe.h"

/* What an operator's command works with. */
struct operation {
    const struct config *config;
    struct observer *observer;
    struct observed *observed;
    bool answered; /* with --json a value is on stdout */
};

static int begin(struct operation *operation, const struct config *config,
                 const struct client_settings *server)
{
    operation->config = config;
    operation->answered = false;
    operation->observer = observer_open(server, config->prefix);
    operation->observed = malloc(sizeof(*operation->observed));
    if (operation->observer != NULL && operation->observed != NULL)
        return STATUS_OK;
    log_error("out of memory");
    return STATUS_OS;
}

static int end(struct operation *operation, int status)
{
    observer_close(operation->observer);
    free(operation->observed);
    return status;
}

static int failed(const struct operation *operation, enum lock_result result)
{
    return report_failure(operation->config, observer_why(operation->observer), result);
}

static enum lock_result look(const struct operation *operation, const char *name)
{
    struct deadline deadline = {clock_boot_ms() + operation->config->connect_timeout_ms, -1};
    return observer_look(operation->observer, name, operation->observed, &deadline);
}

/* Which of several servers what follows is about. */
static void show_server(const struct config *config, size_t index)
{
    char shown[URL_SHOWN_MAX];
    url_show(&config->servers[index], shown, sizeof(shown));
    if (config->json) {
        char storage[6 * URL_SHOWN_MAX];
        struct text quoted = TEXT_OVER(storage);
        text_add_json(&quoted, shown, strlen(shown));
        (void)printf("%s{\"server\":\"%s\",\"locks\":", index == 0 ? "[" : ",\n", quoted.at);
    } else
        (void)printf("%sserver %s\n", index == 0 ? "" : "\n", shown);
}

/*
 * Does it on every server of a quorum. Held is what a majority holds; failed, what a majority could
 * not say.
 */
static int on_every_server(const struct config *config, int (*act)(struct operation *))
{
    struct taking_servers servers;
    size_t count = config->server_count;
    size_t held = 0;
    size_t lost = 0;
    int status = STATUS_OK;
    taking_name_servers(&servers, config);
    for (size_t i = 0; i < count; i++) {
        struct operation operation;
        if (count > 1)
            show_server(config, i);
        int one = begin(&operation, config, &servers.at[i]);
        one = end(&operation, one == STATUS_OK ? act(&operation) : one);
        if (count == 1)
            return one;
        if (config->json)
            (void)fputs(operation.answered ? "}" : "null}", stdout);
        held += one != STATUS_OK && one == config->conflict_status;
        lost += one != STATUS_OK && one != config->conflict_status;
        status = one != STATUS_OK && one != config->conflict_status ? one : status;
    }
    (void)fputs(config->json ? "]\n" : "", stdout);
    if (output_finish() != STATUS_OK)
        return STATUS_OS;
    if (held > count / 2)
        return config->conflict_status;
    return lost > (count - 1) / 2 ? status : STATUS_OK;
}

static int show_status(struct operation *operation, bool first, const char *name)
{
    enum lock_result result = look(operation, name);
    if (result != LOCK_OK)
        return failed(operation, result);
    if (!operation->config->json) {
        (void)fputs(first ? "" : "\n", stdout);
        show_text(name, operation->observed);
    } else {
        (void)fputs(first ? "" : ",\n", stdout);
        show_json(name, operation->observed);
        operation->answered = true;
    }
    return operation->observed->holder_count > 0 ? operation->config->conflict_status : STATUS_OK;
}

/* Their questions go out together. */
static void announce_from(struct observer *observer, char *const *names)
{
    size_t i = observer_announced(observer);
    while (names[i] != NULL && observer_announce(observer, 0, names[i]))
        i++;
}

static int status_there(struct operation *operation)
{
    const struct config *config = operation->config;
    bool several = config->names[1] != NULL;
    int status = STATUS_OK;
    bool failure = false;
    operation->answered = config->json && several;
    (void)fputs(operation->answered ? "[" : "", stdout);
    for (size_t i = 0; config->names[i] != NULL && !failure; i++) {
        if (several)
            announce_from(operation->observer, &config->names[i]);
        int one = show_status(operation, i == 0, config->names[i]);
        failure = one != STATUS_OK && one != config->conflict_status;
        status = one != STATUS_OK ? one : status;
    }
    (void)fputs(!operation->answered ? "" : several ? "]\n" : "\n", stdout);
    return output_finish() != STATUS_OK ? STATUS_OS : status;
}

int command_status(const struct config *config)
{
    return on_every_server(config, status_there);
}

static void show_progress(size_t found)
{
    char storage[64];
    struct text text = TEXT_OVER(storage);
    text_addf(&text, "looking through the keys, %zu found", found);
    log_status(text.at);
}

/* `*shown` counts the locks that were printed. */
static int list_row(const struct operation *operation, size_t *shown, struct names *names, size_t i)
{
    char storage[SHOW_ROW_MAX];
    struct text row = TEXT_OVER(storage);
    const char *name = names->at[i].text;
    enum lock_result result = look(operation, name);
    if (result == LOCK_NOT_A_LOCK)
        return STATUS_OK; /* a key of another program under our prefix is no lock */
    if (result == LOCK_UNAVAILABLE) {
        names_miss(names, i, operation->observer, &names->gaps);
        return STATUS_OK;
    }
    if (result != LOCK_OK)
        return failed(operation, result);
    if (operation->config->json) {
        (void)fputs((*shown)++ == 0 ? "" : ",\n", stdout);
        show_json(name, operation->observed);
        return STATUS_OK;
    }
    const struct show_shape shape = show_shape_for(0);
    show_add_row(&row, &shape, name, operation->observed);
    (void)puts(row.at);
    return STATUS_OK;
}

static void list_head(struct operation *operation)
{
    char storage[SHOW_ROW_MAX];
    struct text head = TEXT_OVER(storage);
    const struct show_shape shape = show_shape_for(0);
    operation->answered = operation->config->json;
    show_add_row_head(&head, &shape);
    (void)fputs(operation->config->json ? "[" : head.at, stdout);
    (void)fputs(operation->config->json ? "" : "\n", stdout);
}

/* The locks that can be told; then, which cannot. */
static int list_names(struct operation *operation, struct names *names)
{
    const struct config *config = operation->config;
    size_t shown = 0;
    int status = STATUS_OK;
    list_head(operation);
    for (size_t i = 0; i < names->count && status == STATUS_OK; i++) {
        if (names->gaps.lost[names->at[i].node])
            continue;
        names_announce(names, i, names->count, &names->gaps, operation->observer);
        status = list_row(operation, &shown, names, i);
    }
    (void)fputs(config->json ? "]\n" : "", stdout);
    if (output_finish() != STATUS_OK)
        return STATUS_OS;
    if (status != STATUS_OK || names->gaps.result == LOCK_OK)
        return status;
    char storage[sizeof(names->gaps.why) + 64];
    struct text why = TEXT_OVER(storage);
    names_add_gaps(&why, &names->gaps);
    return report_failure(config, why.at, names->gaps.result);
}

static int list_once(struct operation *operation)
{
    struct names names;
    const struct config *config = operation->config;
    bool watched = isatty(STDERR_FILENO) == 1;
    observer_ask_once(operation->observer, false);
    enum lock_result result =
        names_collect(&names, operation->observer, config->pattern, watched ? show_progress : NULL,
                      config->connect_timeout_ms);
    if (watched)
        log_status(NULL);
    int status = result == LOCK_OK ? list_names(operation, &names)
                                   : report_failure(config, names.gaps.why, result);
    names_free(&names);
    return status;
}

/* Without a terminal --watch prints the table again and again, until it is stopped. */
static int list_again(struct operation *operation)
{
    for (;;) {
        int status = list_once(operation);
        if (status != STATUS_OK)
            return status;
        struct deadline pause = {clock_boot_ms() + operation->config->watch_ms, -1};
        (void)deadline_wait(-1, 0, &pause);
    }
}

static int list_there(struct operation *operation)
{
    const struct config *config = operation->config;
    if (config->watch_ms == 0)
        return list_once(operation);
    if (config->json || isatty(STDOUT_FILENO) != 1 || isatty(STDIN_FILENO) != 1)
        return list_again(operation);
    return view_run(config, operation->observer, operation->observed);
}

int command_list(const struct config *config)
{
    if (config->watch_ms == 0 || config->server_count == 1)
        return on_every_server(config, list_there);
    char storage[512];
    struct text message = TEXT_OVER(storage);
    text_add(&message, "--watch shows one server; name one in --url");
    setting_add_origin(&message, OPTION_URL, &config->servers_from);
    log_error("%s", message.at);
    return STATUS_USAGE;
}

/* A foreign value that was not kept whole cannot be compared, so it cannot be removed by us. */
static bool is_comparable(const struct observed *observed)
{
    for (size_t i = 0; i < observed->holder_count; i++)
        if (observed->holders[i].value_length > HOLDER_VALUE_MAX)
            return false;
    return true;
}

/* Shows who would lose the lock. */
static void show_victims(const struct config *config, const struct observed *observed)
{
    for (size_t i = 0; i < observed->holder_count; i++) {
        char storage[1024];
        char visible_storage[2048];
        struct text line = TEXT_OVER(storage);
        struct text visible = TEXT_OVER(visible_storage);
        text_addf(&line, "%s: ", config->name);
        show_add_holder(&line, &observed->holders[i]);
        text_add_visible(&visible, line.at, line.length);
        (void)puts(visible.at);
    }
}

/* On a terminal a question; elsewhere --force must have been given. */
static int confirm(const struct config *config)
{
    char answer[16];
    if (config->force)
        return STATUS_OK;
    if (isatty(STDIN_FILENO) != 1) {
        log_error("--unlock needs --force where there is no terminal to ask on");
        return STATUS_USAGE;
    }
    (void)fputs("Take the lock away? The command that holds it will be stopped. [y/N] ", stdout);
    (void)fflush(stdout);
    if (fgets(answer, sizeof(answer), stdin) != NULL && (answer[0] == 'y' || answer[0] == 'Y'))
        return STATUS_OK;
    log_notice("left as it is");
    return config->conflict_status;
}

static int unlock(struct operation *operation)
{
    const struct config *config = operation->config;
    enum lock_result result = look(operation, config->name);
    if (result != LOCK_OK)
        return failed(operation, result);
    if (operation->observed->holder_count == 0) {
        (void)puts("the lock is free; there is nothing to remove");
        return (int)output_finish();
    }
    show_victims(config, operation->observed);
    if (!is_comparable(operation->observed)) {
        log_error(
            "its value is too long to be compared; if it is no longer needed, delete the key");
        return STATUS_NONSENSE;
    }
    int status = confirm(config);
    if (status != STATUS_OK)
        return status;
    int64_t removed = 0;
    struct deadline deadline = {clock_boot_ms() + config->connect_timeout_ms, -1};
    result = observer_unlock(operation->observer, config->name, operation->observed, &removed,
                             &deadline);
    if (result != LOCK_OK)
        return failed(operation, result);
    (void)puts(removed > 0 ? "removed" : "it had ended by itself meanwhile; nothing was removed");
    return (int)output_finish();
}

int command_unlock(const struct config *config)
{
    return on_every_server(config, unlock);
}
