/*
 * Owns the form of the lock's value. Promises that no byte of a foreign value is taken for a field.
 */
#include "lock/holder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "base/clock.h"

#define MAGIC       "redislock1"
#define FIELD_COUNT 11
#define WORD_SHOWN  64 /* bytes of a host's, user's or command's name that are kept */

static bool is_plain(unsigned char byte)
{
    return byte > 0x20 && byte < 0x7f && byte != ':' && byte != '%';
}

static void add_field(struct text *text, const char *bytes)
{
    size_t length = strnlen(bytes, WORD_SHOWN);
    for (size_t i = 0; i < length; i++) {
        unsigned char byte = (unsigned char)bytes[i];
        if (is_plain(byte))
            text_add_char(text, bytes[i]);
        else
            text_addf(text, "%%%02X", byte);
    }
}

/* Decodes a field into `out`. false: not as add_field writes it, or too long. */
static bool read_field(const char *bytes, size_t length, char out[HOLDER_FIELD_MAX + 1])
{
    size_t used = 0;
    for (size_t i = 0; i < length; i++) {
        char c = bytes[i];
        if (c == '%') {
            if (i + 2 >= length || text_hex_value(bytes[i + 1]) < 0 ||
                text_hex_value(bytes[i + 2]) < 0)
                return false;
            c = (char)(text_hex_value(bytes[i + 1]) * 16 + text_hex_value(bytes[i + 2]));
            i += 2;
            if (c == '\0')
                return false;
        } else if (!is_plain((unsigned char)c)) {
            return false;
        }
        if (used == HOLDER_FIELD_MAX)
            return false;
        out[used++] = c;
    }
    out[used] = '\0';
    return true;
}

static bool read_number(const char *bytes, size_t length, int64_t *number)
{
    if (length == 0 || length > 18) /* below 10^18: never overflows */
        return false;
    int64_t value = 0;
    for (size_t i = 0; i < length; i++) {
        if (bytes[i] < '0' || bytes[i] > '9')
            return false;
        value = value * 10 + (bytes[i] - '0');
    }
    *number = value;
    return true;
}

/* A word, and for a place among N the number of the slot: held, shared, slot3, granted3 … */
static bool read_kind(const char *bytes, size_t length, struct holder *holder)
{
    static const struct {
        const char *word;
        enum holder_kind kind;
    } kinds[] = {{"held", HOLDER_HELD},
                 {"shared", HOLDER_SHARED},
                 {"slot", HOLDER_SLOT},
                 {"granted", HOLDER_GRANTED},
                 {"residue", HOLDER_RESIDUE}};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        size_t word = strlen(kinds[i].word);
        if (length < word || memcmp(kinds[i].word, bytes, word) != 0)
            continue;
        int64_t slot = 0;
        if (length > word && !read_number(bytes + word, length - word, &slot))
            return false;
        if (slot > HOLDER_SLOTS_MAX)
            return false;
        holder->kind = kinds[i].kind;
        holder->slot = (int)slot;
        return true;
    }
    return false;
}

struct span {
    const char *at;
    size_t length;
};

static bool split(const char *value, size_t length, struct span fields[FIELD_COUNT])
{
    size_t count = 0;
    size_t start = 0;
    for (size_t i = 0; i <= length; i++) {
        if (i < length && value[i] != ':')
            continue;
        if (count == FIELD_COUNT)
            return false;
        fields[count++] = (struct span){value + start, i - start};
        start = i + 1;
    }
    return count == FIELD_COUNT && fields[0].length == strlen(MAGIC) &&
           memcmp(fields[0].at, MAGIC, strlen(MAGIC)) == 0;
}

static bool read_token(const struct span *field, enum holder_kind kind, char *token)
{
    char decoded[HOLDER_FIELD_MAX + 1];
    if (!read_field(field->at, field->length, decoded))
        return false;
    if (strlen(decoded) != (kind == HOLDER_RESIDUE ? 0 : TOKEN_LENGTH))
        return false;
    memcpy(token, decoded, strlen(decoded) + 1);
    return true;
}

static bool read_fields(const struct span f[FIELD_COUNT], struct holder *holder)
{
    return read_number(f[2].at, f[2].length, &holder->fence) &&
           read_kind(f[3].at, f[3].length, holder) &&
           read_token(&f[1], holder->kind, holder->token) &&
           read_number(f[4].at, f[4].length, &holder->start_ms) &&
           read_number(f[5].at, f[5].length, &holder->ttl_ms) &&
           read_field(f[6].at, f[6].length, holder->host) &&
           read_field(f[7].at, f[7].length, holder->boot) &&
           read_number(f[8].at, f[8].length, &holder->pid) &&
           read_field(f[9].at, f[9].length, holder->user) &&
           read_field(f[10].at, f[10].length, holder->command);
}

void holder_parse(const char *value, size_t length, struct holder *holder)
{
    struct span fields[FIELD_COUNT];
    memset(holder, 0, sizeof(*holder));
    if (length > HOLDER_VALUE_MAX || !split(value, length, fields))
        return;
    if (!read_fields(fields, holder))
        memset(holder, 0, sizeof(*holder)); /* HOLDER_FOREIGN is 0 */
}

static void read_host(char host[HOLDER_FIELD_MAX + 1])
{
    if (gethostname(host, HOLDER_FIELD_MAX) != 0 || host[0] == '\0')
        memcpy(host, "unknown", sizeof("unknown"));
    host[HOLDER_FIELD_MAX] = '\0'; /* a name that was cut need not have one */
}

/*
 * When this host was booted, in seconds since the epoch by its own clock: tells its boots apart. Not
 * the kernel's random id of a boot: to read that file costs more than all the rest of the value.
 */
static void add_boot(struct text *text)
{
    text_add_int(text, (clock_wall_ms() - clock_boot_ms()) / 1000);
}

/*
 * The user's name as the session knows it, else the number. Not getpwuid(3): it may ask a directory
 * server and hang; and this is for people to read, not for a decision.
 */
static void add_user(struct text *text)
{
    unsigned long uid = getauxval(AT_EUID); /* as at our start: without a system call */
    const char *name = getenv("LOGNAME");
    if (name == NULL || *name == '\0')
        name = getenv("USER");
    if (name != NULL && *name != '\0')
        add_field(text, name);
    else if (uid == 0)
        add_field(text, "root");
    else
        text_addf(text, "uid%%20%lu", uid);
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL && slash[1] != '\0' ? slash + 1 : path;
}

void holder_add_head(struct text *text, const char *token)
{
    text_add(text, MAGIC ":");
    text_add(text, token);
    text_add_char(text, ':');
}

void holder_add_tail(struct text *text, int64_t ttl_ms, pid_t pid, const char *command)
{
    char host[HOLDER_FIELD_MAX + 1];
    read_host(host);
    text_add_int(text, ttl_ms);
    text_add_char(text, ':');
    add_field(text, host);
    text_add_char(text, ':');
    add_boot(text);
    text_add_char(text, ':');
    text_add_int(text, pid);
    text_add_char(text, ':');
    add_user(text);
    text_add_char(text, ':');
    add_field(text, base_name(command));
}

void holder_add_with_fence(struct text *text, const struct text *value, int64_t fence)
{
    struct span fields[FIELD_COUNT];
    if (!split(value->at, value->length, fields))
        return;
    const char *tail = fields[2].at + fields[2].length;
    text_add_bytes(text, value->at, (size_t)(fields[2].at - value->at));
    text_add_int(text, fence);
    text_add_bytes(text, tail, value->length - (size_t)(tail - value->at));
}

void holder_add_residue(struct text *text, const struct holder *holder)
{
    text_add(text, MAGIC "::");
    text_add_int(text, holder->fence);
    text_add(text, ":residue");
    if (holder->slot > 0)
        text_add_int(text, holder->slot);
    text_add_char(text, ':');
    text_add_int(text, holder->start_ms);
    text_add_char(text, ':');
    text_add_int(text, holder->ttl_ms);
    const char *const words[] = {holder->host, holder->boot};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        text_add_char(text, ':');
        add_field(text, words[i]);
    }
    text_add_char(text, ':');
    text_add_int(text, holder->pid);
    text_add_char(text, ':');
    add_field(text, holder->user);
    text_add_char(text, ':');
    add_field(text, holder->command);
}
