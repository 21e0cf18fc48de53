/*
 * talker: a server that answers what a script says, whatever it is asked.
 *
 * Build: cc -O1 -g -std=c11 -D_GNU_SOURCE tests/tools/talker.c -o build/tools/talker
 *
 * Owns one listener and its connections, in one poll loop. It takes RESP commands apart (and lines
 * without RESP, as a real server does) and answers each with the next item of the script; the
 * script's position is common to all connections, so that a client that reconnects meets the next
 * item. Past the end every command closes its connection, unless --repeat-last.
 */
#include <ctype.h>
#include <getopt.h>
#include <poll.h>

#include "tool.h"

#define ITEMS_MAX       256
#define CONNECTIONS_MAX 64
#define COMMAND_MAX     (1024 * 1024)

static const char help[] =
    "usage: talker --listen ADDRESS --script FILE [--port-file FILE] [--log FILE]\n"
    "              [--repeat-last] [--per-connection]\n"
    "ADDRESS is unix:PATH, tcp (a free port of 127.0.0.1, printed as a line) or tcp:PORT.\n"
    "  --log FILE        each command as a line, words in double quotes, control bytes as \\xNN\n"
    "  --repeat-last     answer with the last item for ever\n"
    "  --per-connection  each connection starts the script anew\n"
    "The script has one item per line; blank lines and those with # are skipped. TEXT knows the\n"
    "escapes \\r \\n \\t \\e \\\\ \\xNN.\n"
    "  reply TEXT        TEXT and \\r\\n\n"
    "  raw TEXT          TEXT as it is: half a reply, two replies, nonsense\n"
    "  last TEXT         TEXT as it is, then close\n"
    "  slow MS TEXT      TEXT byte by byte, MS apart\n"
    "  garbage N         N bytes without sense, the same each time\n"
    "  close, reset      close the connection; reset it (TCP only)\n"
    "  stall             no answer, to this and all later commands of the connection\n"
    "  skip              no answer to this command\n"
    "  when WORD ITEM    commands named WORD always get ITEM and use up nothing\n"
    "  about WORD ITEM   the same for commands with an argument WORD\n";

enum kind {
    ITEM_RAW,
    ITEM_LAST,
    ITEM_SLOW,
    ITEM_GARBAGE,
    ITEM_CLOSE,
    ITEM_RESET,
    ITEM_STALL,
    ITEM_SKIP
};

struct item {
    enum kind kind;
    const char *when; /* NULL: one of the sequence */
    bool about;       /* `when` is an argument, not the command's name */
    char *bytes;      /* RAW, LAST, SLOW */
    size_t length;
    int64_t number; /* SLOW: ms, GARBAGE: bytes */
};

struct connection {
    int fd; /* -1: free */
    bool stalled;
    size_t next; /* position in the script, with --per-connection */
    char *bytes; /* COMMAND_MAX, as far as `length` */
    size_t length;
};

struct talker {
    struct item items[ITEMS_MAX]; /* the sequence */
    struct item rules[ITEMS_MAX]; /* the `when` and `about` ones */
    size_t item_count, rule_count, next;
    bool repeat_last, per_connection;
    FILE *log; /* or NULL */
    struct connection connections[CONNECTIONS_MAX];
};

/* ---- the script ---- */

/* Cuts the first word off `*text`. */
static char *word_of(char **text)
{
    char *word = *text;
    word += strspn(word, " \t");
    *text = word + strcspn(word, " \t");
    if (**text != '\0')
        *(*text)++ = '\0';
    return word;
}

/* `rest` is kept: it belongs to the item from here on. */
static struct item item_parse(char *rest)
{
    static const struct {
        const char *word;
        enum kind kind;
    } kinds[] = {{"raw", ITEM_RAW},     {"reply", ITEM_RAW},       {"last", ITEM_LAST},
                 {"slow", ITEM_SLOW},   {"garbage", ITEM_GARBAGE}, {"close", ITEM_CLOSE},
                 {"reset", ITEM_RESET}, {"stall", ITEM_STALL},     {"skip", ITEM_SKIP}};
    struct item item = {.kind = ITEM_RAW};
    const char *word = word_of(&rest);
    if (strcmp(word, "when") == 0 || strcmp(word, "about") == 0) {
        const char *when = word_of(&rest);
        item = item_parse(rest);
        item.when = when;
        item.about = strcmp(word, "about") == 0;
        return item;
    }
    size_t i = 0;
    while (i < sizeof(kinds) / sizeof(kinds[0]) && strcmp(kinds[i].word, word) != 0)
        i++;
    if (i == sizeof(kinds) / sizeof(kinds[0]))
        fail("\"%s\" is no item; see --help", word);
    item.kind = kinds[i].kind;
    if (item.kind == ITEM_SLOW || item.kind == ITEM_GARBAGE)
        item.number = number_of(word_of(&rest), INT32_MAX);
    item.length = unescape(rest);
    item.bytes = malloc(item.length + 2);
    if (item.bytes == NULL)
        fail("memory");
    memcpy(item.bytes, rest, item.length);
    if (strcmp(word, "reply") == 0) {
        memcpy(item.bytes + item.length, "\r\n", 2);
        item.length += 2;
    }
    return item;
}

static void script_read(struct talker *talker, const char *path)
{
    char *line = NULL;
    size_t size = 0;
    FILE *script = fopen(path, "re");
    if (script == NULL)
        fail("%s: %s", path, strerror(errno));
    while (getline(&line, &size, script) > 0) {
        line[strcspn(line, "\n")] = '\0';
        if (line[0] == '\0' || line[0] == '#')
            continue;
        struct item item = item_parse(line);
        size_t *count = item.when ? &talker->rule_count : &talker->item_count;
        if (*count == ITEMS_MAX)
            fail("%s: more than %d items", path, ITEMS_MAX);
        if (item.when != NULL && (item.when = strdup(item.when)) == NULL)
            fail("memory");
        (item.when ? talker->rules : talker->items)[(*count)++] = item;
    }
    free(line);
    fclose(script);
}

/* Whether one of the words of a RESP command is `word`. */
static bool has_word(const char *command, size_t length, const char *word)
{
    char line[128];
    int size = snprintf(line, sizeof(line), "\r\n%s\r\n", word);
    return memmem(command, length, line, (size_t)size) != NULL;
}

static const struct item *item_for(struct talker *talker, struct connection *connection,
                                   const char *name, size_t length)
{
    static const struct item over = {.kind = ITEM_CLOSE};
    for (size_t i = 0; i < talker->rule_count; i++) {
        const struct item *rule = &talker->rules[i];
        if (rule->about ? has_word(connection->bytes, length, rule->when)
                        : strcasecmp(rule->when, name) == 0)
            return rule;
    }
    size_t *next = talker->per_connection ? &connection->next : &talker->next;
    if (*next < talker->item_count)
        return &talker->items[(*next)++];
    return talker->repeat_last && talker->item_count > 0 ? &talker->items[talker->item_count - 1]
                                                         : &over;
}

/* ---- answers ---- */

static void connection_close(struct connection *connection, bool reset)
{
    struct linger at_once = {1, 0};
    if (reset)
        setsockopt(connection->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    close(connection->fd);
    free(connection->bytes);
    *connection = (struct connection){.fd = -1};
}

static bool send_all(int fd, const char *bytes, size_t length)
{
    while (length > 0) {
        ssize_t sent = send(fd, bytes, length, MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        bytes += sent;
        length -= (size_t)sent;
    }
    return true;
}

static void send_slowly(int fd, const struct item *item)
{
    struct timespec pause = {item->number / 1000, item->number % 1000 * 1000000};
    for (size_t i = 0; i < item->length && send_all(fd, item->bytes + i, 1); i++)
        nanosleep(&pause, NULL);
}

static void send_garbage(int fd, int64_t count)
{
    uint32_t state = 88675123U; /* starts with a byte that no reply has */
    char bytes[4096];
    while (count > 0) {
        size_t length = count < (int64_t)sizeof(bytes) ? (size_t)count : sizeof(bytes);
        for (size_t i = 0; i < length; i++) {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            bytes[i] = (char)(state >> 24);
        }
        if (!send_all(fd, bytes, length))
            return;
        count -= (int64_t)length;
    }
}

/* false: the connection is closed. */
static bool answer(struct connection *connection, const struct item *item)
{
    switch (item->kind) {
    case ITEM_RAW:
        send_all(connection->fd, item->bytes, item->length);
        break;
    case ITEM_SLOW:
        send_slowly(connection->fd, item);
        break;
    case ITEM_GARBAGE:
        send_garbage(connection->fd, item->number);
        break;
    case ITEM_STALL:
        connection->stalled = true;
        break;
    case ITEM_SKIP:
        break;
    case ITEM_LAST:
        send_all(connection->fd, item->bytes, item->length);
        connection_close(connection, false);
        return false;
    case ITEM_CLOSE:
        connection_close(connection, false);
        return false;
    case ITEM_RESET:
        connection_close(connection, true);
        return false;
    }
    return true;
}

/* ---- commands ---- */

static void log_word(FILE *log, const char *bytes, size_t length)
{
    fputc('"', log);
    for (size_t i = 0; i < length; i++) {
        unsigned char byte = (unsigned char)bytes[i];
        fprintf(log, isprint(byte) && byte != '"' && byte != '\\' ? "%c" : "\\x%02x", byte);
    }
    fputc('"', log);
}

/* The line at `bytes` as a number behind `mark`. Returns the line's length, 0 if incomplete. */
static size_t header_parse(const char *bytes, size_t length, char mark, long *number)
{
    const char *end = memchr(bytes, '\n', length);
    if (end == NULL)
        return 0;
    if (bytes[0] != mark)
        fail("a client sent byte 0x%02x instead of %c", (unsigned char)bytes[0], mark);
    *number = strtol(bytes + 1, NULL, 10);
    return (size_t)(end - bytes) + 1;
}

/*
 * Finds one whole command at `bytes`, logs it and copies its first word to `name`.
 * Returns the command's length, 0 while it is incomplete. With `log` NULL it only looks.
 */
static size_t command_parse(const char *bytes, size_t length, FILE *log, char *name, size_t size)
{
    long words = 1, word_length = 0;
    bool plain = length > 0 && bytes[0] != '*';
    size_t at = plain ? 0 : header_parse(bytes, length, '*', &words);
    name[0] = '\0';
    if (at == 0 && !plain)
        return 0;
    for (long i = 0; i < words; i++) {
        const char *end = memchr(bytes + at, '\n', length - at);
        if (end == NULL)
            return 0;
        if (plain)
            word_length = (long)strcspn(bytes + at, "\r\n");
        else
            at += header_parse(bytes + at, length - at, '$', &word_length);
        if (!plain && length - at < (size_t)word_length + 2)
            return 0;
        if (i == 0)
            snprintf(name, size, "%.*s", (int)strcspn(bytes + at, " \r\n"), bytes + at);
        if (log != NULL) {
            fputs(i ? " " : "", log);
            log_word(log, bytes + at, (size_t)word_length);
        }
        at = plain ? (size_t)(end - bytes) + 1 : at + (size_t)word_length + 2;
    }
    return at;
}

static void connection_serve(struct talker *talker, struct connection *connection)
{
    char name[64];
    ssize_t got = recv(connection->fd, connection->bytes + connection->length,
                       COMMAND_MAX - connection->length, 0);
    if (got <= 0) {
        connection_close(connection, false);
        return;
    }
    connection->length += (size_t)got;
    connection->bytes[connection->length] = '\0';
    for (size_t used; (used = command_parse(connection->bytes, connection->length, NULL, name,
                                            sizeof(name))) > 0;) {
        if (talker->log != NULL) {
            command_parse(connection->bytes, connection->length, talker->log, name, sizeof(name));
            fputc('\n', talker->log);
            fflush(talker->log);
        }
        const struct item *item = item_for(talker, connection, name, used);
        connection->length -= used;
        memmove(connection->bytes, connection->bytes + used, connection->length + 1);
        if (!connection->stalled && !answer(connection, item))
            return;
    }
}

static void connection_accept(struct talker *talker, int listener)
{
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    for (int i = 0; fd >= 0 && i < CONNECTIONS_MAX; i++)
        if (talker->connections[i].fd < 0) {
            talker->connections[i] =
                (struct connection){.fd = fd, .bytes = malloc(COMMAND_MAX + 1)};
            if (talker->connections[i].bytes == NULL)
                fail("memory");
            return;
        }
    if (fd >= 0)
        close(fd);
}

__attribute__((noreturn)) static void serve(struct talker *talker, int listener)
{
    for (;;) {
        struct pollfd set[CONNECTIONS_MAX + 1] = {{listener, POLLIN, 0}};
        for (int i = 0; i < CONNECTIONS_MAX; i++)
            set[i + 1] = (struct pollfd){talker->connections[i].fd, POLLIN, 0};
        if (poll(set, CONNECTIONS_MAX + 1, -1) < 0 && errno != EINTR)
            fail("poll: %s", strerror(errno));
        for (int i = 0; i < CONNECTIONS_MAX; i++)
            if (set[i + 1].revents)
                connection_serve(talker, &talker->connections[i]);
        if (set[0].revents)
            connection_accept(talker, listener);
    }
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"listen", 1, NULL, 'l'},      {"script", 1, NULL, 's'},
        {"port-file", 1, NULL, 'p'},   {"log", 1, NULL, 'o'},
        {"repeat-last", 0, NULL, 'r'}, {"per-connection", 0, NULL, 'c'},
        {"help", 0, NULL, 'h'},        {NULL, 0, NULL, 0}};
    struct talker *talker = calloc(1, sizeof(*talker));
    struct address listen_at = {.size = 0};
    const char *script = NULL, *port_file = NULL;
    if (talker == NULL)
        fail("memory");
    for (int option; (option = getopt_long(argc, argv, "+", options, NULL)) != -1;)
        switch (option) {
        case 'l':
            listen_at = address_of(optarg);
            break;
        case 's':
            script = optarg;
            break;
        case 'p':
            port_file = optarg;
            break;
        case 'o':
            if ((talker->log = fopen(optarg, "ae")) == NULL)
                fail("%s: %s", optarg, strerror(errno));
            break;
        case 'r':
            talker->repeat_last = true;
            break;
        case 'c':
            talker->per_connection = true;
            break;
        case 'h':
            fputs(help, stdout);
            exit(0);
        default:
            fail("see --help");
        }
    if (listen_at.size == 0 || script == NULL || optind < argc)
        fail("--listen and --script are needed; see --help");
    script_read(talker, script);
    for (int i = 0; i < CONNECTIONS_MAX; i++)
        talker->connections[i].fd = -1;
    int listener = address_listen(&listen_at);
    if (listener < 0)
        fail("listen: %s", strerror(errno));
    address_announce(&listen_at, port_file);
    alarm(TOOL_LIFE_SECONDS);
    serve(talker, listener);
}
