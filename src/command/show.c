/*
 * Owns the forms in which a lock is shown. Everything that came from the server is made visible
 * before it is printed: names and values may hold anything.
 */
#include "command/show.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/text.h"
#include "command/report.h"

static bool is_foreign(const struct observed_holder *holder)
{
    return holder->holder.kind == HOLDER_FOREIGN;
}

void show_add_holder(struct text *text, const struct observed_holder *holder)
{
    struct lock_blocker blocker = {.holder = holder->holder,
                                   .age_ms = holder->age_ms,
                                   .left_ms = holder->left_ms,
                                   .holders = 1};
    report_add_blocker(text, &blocker);
    if (holder->holder.slot > 0)
        text_addf(text, ", slot %d", holder->holder.slot);
}

/* --- Text ----------------------------------------------------------------------------------- */

static void put(const struct text *text)
{
    char visible_storage[4096];
    struct text visible = TEXT_OVER(visible_storage);
    text_add_visible(&visible, text->at, text->length);
    (void)puts(visible.at);
}

static void put_label(const char *label, const struct text *value)
{
    char storage[2048];
    struct text line = TEXT_OVER(storage);
    text_addf(&line, "  %-10s  ", label);
    text_add(&line, value->at);
    put(&line);
}

/* What is left is of the TTL: not of a minimum hold, which may be longer. */
static bool shows_lease(const struct observed_holder *holder)
{
    return !is_foreign(holder) && holder->holder.kind != HOLDER_RESIDUE &&
           holder->left_ms <= holder->holder.ttl_ms;
}

static void put_holder_details(const struct observed_holder *holder)
{
    char storage[512];
    struct text value = TEXT_OVER(storage);
    if (!is_foreign(holder)) {
        text_add(&value, holder->holder.command);
        put_label("command", &value);
        value = TEXT_OVER(storage);
        text_addf(&value, "%lld", (long long)holder->holder.fence);
        put_label("fence", &value);
        value = TEXT_OVER(storage);
    }
    if (holder->left_ms < 0) {
        text_add(&value, "for ever: the key has no expiry");
    } else {
        text_add_duration(&value, holder->left_ms);
        if (shows_lease(holder)) {
            text_add(&value, " of ");
            text_add_duration(&value, holder->holder.ttl_ms);
        }
    }
    put_label("time left", &value);
}

static void put_waiters(const struct observed *observed)
{
    static const char *const modes[] = {"", ", shared", ", slot"};
    char storage[2048];
    struct text value = TEXT_OVER(storage);
    text_add_int(&value, observed->waiting);
    for (size_t i = 0; i < observed->waiter_count; i++) {
        const struct observed_waiter *waiter = &observed->waiters[i];
        text_addf(&value, "%s%s (pid %lld, %s%s)", i == 0 ? ": " : ", ", waiter->who.host,
                  (long long)waiter->who.pid, waiter->who.user, modes[waiter->mode]);
    }
    if (observed->waiting > (int64_t)observed->waiter_count && observed->waiter_count > 0)
        text_add(&value, ", …");
    put_label("waiting", &value);
}

/* A moment by the server's clock, in local time. */
static void add_moment(struct text *text, int64_t wall_ms)
{
    time_t then = (time_t)(wall_ms / 1000);
    struct tm local;
    char shown[64];
    if (localtime_r(&then, &local) != NULL &&
        strftime(shown, sizeof(shown), "%Y-%m-%d %H:%M:%S", &local) > 0)
        text_add(text, shown);
}

static void add_status(struct text *text, int64_t status)
{
    if (status < 0)
        text_add(text, "not told");
    else
        text_add_int(text, status);
}

static void put_record(const struct observed *observed)
{
    char storage[512];
    struct text value = TEXT_OVER(storage);
    if (observed->has_run) {
        text_addf(&value, "%s, ", observed->run_host);
        add_moment(&value, observed->run_start_ms);
        text_add(&value, ", for ");
        text_add_duration(&value, observed->run_duration_ms);
        text_add(&value, ", exit status ");
        add_status(&value, observed->run_status);
        int64_t ago = observed->now_ms - observed->run_start_ms - observed->run_duration_ms;
        text_add(&value, ", ended ");
        text_add_duration(&value, ago > 0 ? ago : 0);
        text_add(&value, " ago");
    } else {
        text_add(&value, "none is known");
    }
    put_label("last run", &value);
    value = TEXT_OVER(storage);
    text_addf(&value, "%lld, skipped %lld, lost %lld", (long long)observed->runs,
              (long long)observed->skips, (long long)observed->losses);
    put_label("runs", &value);
}

void show_text(const char *name, const struct observed *observed)
{
    char storage[2048];
    struct text line = TEXT_OVER(storage);
    if (observed->holder_count == 0) {
        text_addf(&line, "%s: free", name);
        put(&line);
    }
    for (size_t i = 0; i < observed->holder_count; i++) {
        line = TEXT_OVER(storage);
        text_addf(&line, "%s: ", name);
        show_add_holder(&line, &observed->holders[i]);
        put(&line);
        put_holder_details(&observed->holders[i]);
    }
    if (observed->slots > 1) {
        line = TEXT_OVER(storage);
        text_addf(&line, "%zu of %lld in use", observed->holder_count, (long long)observed->slots);
        put_label("slots", &line);
    }
    put_waiters(observed);
    put_record(observed);
}

/* --- JSON ----------------------------------------------------------------------------------- */

static void json_string(const char *key, const char *value)
{
    char storage[4096]; /* a NAME of 512 bytes, each of them \u00NN */
    struct text text = TEXT_OVER(storage);
    text_add_json(&text, value, strlen(value));
    (void)printf("\"%s\":\"%s\"", key, text.at);
}

static void json_number(const char *key, int64_t value)
{
    (void)printf("\"%s\":%lld", key, (long long)value);
}

/* ,"key":… with null for what is not known */
static void json_known(const char *key, int64_t value)
{
    (void)putchar(',');
    if (value >= 0)
        json_number(key, value);
    else
        (void)printf("\"%s\":null", key);
}

static void json_who(const struct holder *who)
{
    (void)putchar(',');
    json_string("host", who->host);
    (void)putchar(',');
    json_number("pid", who->pid);
    (void)putchar(',');
    json_string("user", who->user);
    (void)putchar(',');
    json_string("command", who->command);
}

static const char *kind_word(enum holder_kind kind)
{
    static const char *const words[] = {"foreign", "held", "shared", "slot", "granted", "residue"};
    return words[kind];
}

static void json_holder(const struct observed_holder *holder)
{
    (void)putchar('{');
    json_string("kind", kind_word(holder->holder.kind));
    json_known("left_ms", holder->left_ms);
    if (!is_foreign(holder)) {
        json_known("age_ms", holder->age_ms);
        json_known("fence", holder->holder.fence);
        json_known("slot", holder->holder.slot > 0 ? holder->holder.slot : -1);
        json_known("ttl_ms", holder->holder.ttl_ms);
        json_who(&holder->holder);
    }
    (void)putchar('}');
}

static void json_waiter(const struct observed_waiter *waiter)
{
    static const char *const modes[] = {"exclusive", "shared", "slots"};
    (void)putchar('{');
    json_string("mode", modes[waiter->mode]);
    json_who(&waiter->who);
    (void)putchar('}');
}

static void json_last_run(const struct observed *observed)
{
    char storage[64];
    struct text moment = TEXT_OVER(storage);
    (void)fputs(",\"last_run\":", stdout);
    if (!observed->has_run) {
        (void)fputs("null", stdout);
        return;
    }
    text_add_timestamp(&moment, observed->run_start_ms);
    (void)putchar('{');
    json_string("host", observed->run_host);
    (void)putchar(',');
    json_string("start", moment.at);
    json_known("duration_ms", observed->run_duration_ms);
    json_known("status", observed->run_status);
    (void)putchar('}');
}

void show_json(const char *name, const struct observed *observed)
{
    (void)putchar('{');
    json_string("name", name);
    (void)printf(",\"held\":%s", observed->holder_count > 0 ? "true" : "false");
    json_known("slots", observed->slots);
    json_known("fence", observed->fence > 0 ? observed->fence : -1);
    (void)fputs(",\"holders\":[", stdout);
    for (size_t i = 0; i < observed->holder_count; i++) {
        (void)fputs(i > 0 ? "," : "", stdout);
        json_holder(&observed->holders[i]);
    }
    (void)putchar(']');
    json_known("waiting", observed->waiting);
    (void)fputs(",\"waiters\":[", stdout);
    for (size_t i = 0; i < observed->waiter_count; i++) {
        (void)fputs(i > 0 ? "," : "", stdout);
        json_waiter(&observed->waiters[i]);
    }
    (void)putchar(']');
    json_last_run(observed);
    json_known("runs", observed->runs);
    json_known("skips", observed->skips);
    json_known("losses", observed->losses);
    (void)putchar('}');
}

/* --- Rows ----------------------------------------------------------------------------------- */

#define NAME_WIDTH   28
#define HOLDER_WIDTH 30
#define NARROWEST    8
#define OTHERS_WIDTH 23 /* age, left, waiters, and the blanks between all of them */
#define LAST_WIDTH   30 /* "2026-01-31 02:00:00 status 137" */
#define BRIEF_WIDTH  22 /* "status 137, 12d05h ago" */

struct show_shape show_shape_for(size_t width)
{
    struct show_shape shape = {NAME_WIDTH, HOLDER_WIDTH, false};
    if (width == 0 || width >= NAME_WIDTH + HOLDER_WIDTH + OTHERS_WIDTH + LAST_WIDTH)
        return shape;
    size_t rest = width > OTHERS_WIDTH + BRIEF_WIDTH ? width - OTHERS_WIDTH - BRIEF_WIDTH : 0;
    shape.brief = true;
    if (rest >= NAME_WIDTH + HOLDER_WIDTH)
        return shape;
    shape.name = rest / 2 > NARROWEST ? rest / 2 : NARROWEST;
    shape.holder = shape.name;
    return shape;
}

size_t show_fit(const char *words, size_t width, size_t *columns)
{
    size_t length = 0;
    *columns = 0;
    for (;; (*columns)++) {
        size_t end = length;
        if (words[end] == '\0' || *columns == width)
            return length;
        do
            end++; /* over the bytes that follow the first of a UTF-8 character */
        while (((unsigned char)words[end] & 0xc0) == 0x80);
        length = end;
    }
}

/* Adds `words` in `width` columns, cut where they are longer. */
static void add_column(struct text *row, const char *words, size_t width)
{
    char storage[SHOW_ROW_MAX];
    struct text visible = TEXT_OVER(storage);
    size_t columns;
    text_add_visible(&visible, words, strlen(words));
    size_t length = show_fit(visible.at, width, &columns);
    text_add_bytes(row, visible.at, length);
    for (; columns < width + 1; columns++)
        text_add_char(row, ' ');
}

void show_add_row_head(struct text *row, const struct show_shape *shape)
{
    add_column(row, "NAME", shape->name);
    add_column(row, "HOLDER", shape->holder);
    add_column(row, "AGE", 7);
    add_column(row, "LEFT", 7);
    add_column(row, "WAIT", 4);
    text_add(row, "LAST RUN");
}

static void add_who(struct text *who, const struct observed *observed)
{
    const struct holder *holder = &observed->holders[0].holder;
    if (observed->holder_count == 0)
        text_add(who, "-");
    else if (holder->kind == HOLDER_FOREIGN)
        text_add(who, "(another program)");
    else if (holder->kind == HOLDER_RESIDUE)
        text_addf(who, "(minimum hold of %s)", holder->host);
    else
        text_addf(who, "%s %lld %s", holder->host, (long long)holder->pid, holder->command);
    if (observed->holder_count > 1)
        text_addf(who, " +%zu", observed->holder_count - 1);
}

static void add_duration_column(struct text *row, int64_t ms)
{
    char storage[32];
    struct text words = TEXT_OVER(storage);
    if (ms < 0)
        text_add(&words, "-");
    else
        text_add_duration(&words, ms);
    add_column(row, words.at, 7);
}

static void add_last_run(struct text *row, const struct observed *observed, bool brief)
{
    if (!observed->has_run) {
        text_add(row, "-");
    } else if (brief) {
        int64_t ago = observed->now_ms - observed->run_start_ms - observed->run_duration_ms;
        text_add(row, "status ");
        add_status(row, observed->run_status);
        text_add(row, ", ");
        text_add_duration(row, ago);
        text_add(row, " ago");
    } else {
        add_moment(row, observed->run_start_ms);
        text_add(row, " status ");
        add_status(row, observed->run_status);
    }
}

void show_add_row(struct text *row, const struct show_shape *shape, const char *name,
                  const struct observed *observed)
{
    char storage[SHOW_ROW_MAX];
    struct text words = TEXT_OVER(storage);
    bool held = observed->holder_count > 0;
    add_column(row, name, shape->name);
    add_who(&words, observed);
    add_column(row, words.at, shape->holder);
    add_duration_column(row, held ? observed->holders[0].age_ms : -1);
    add_duration_column(row, held ? observed->holders[0].left_ms : -1);
    words = TEXT_OVER(storage);
    text_add_int(&words, observed->waiting);
    add_column(row, words.at, 4);
    add_last_run(row, observed, shape->brief);
}
