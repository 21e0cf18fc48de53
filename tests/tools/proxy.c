/*
 * proxy: a network that misbehaves on command, between a client and a real server.
 *
 * Build: cc -O1 -g -std=c11 -D_GNU_SOURCE tests/tools/proxy.c -o build/tools/proxy
 *
 * Owns one listener, one control socket and the connections through it, in one poll loop. Each
 * connection has two flows, c2s and s2c, and each flow its own rule. Bytes go through a queue in
 * order, and so does the end of a stream, so that a held flow delivers on `pass` what it got, even
 * when the sender has left meanwhile.
 */
#include <getopt.h>
#include <poll.h>
#include <sys/time.h>

#include "tool.h"

#define QUEUE_LIMIT (1024 * 1024)
#define READ_SIZE   16384
#define WORDS_MAX   5

static const char help[] =
    "usage: proxy --listen ADDRESS --target ADDRESS --control PATH [--port-file FILE]\n"
    "       proxy --do PATH COMMAND...      send one command to a proxy, print its answer\n"
    "ADDRESS is unix:PATH, tcp (a free port of 127.0.0.1, printed as a line) or tcp:PORT.\n"
    "Commands; [WAY] is c2s, s2c or nothing for both. They change open connections and later "
    "ones;\n"
    "with `next` in front only the next one to be accepted.\n"
    "  pass [WAY]           everything as it should be; without WAY also undoes refuse and next\n"
    "  delay MS [WAY]       bytes arrive MS later\n"
    "  drop [WAY]           bytes vanish; the end of the stream is passed on\n"
    "  hold [WAY]           bytes and the end are kept, and delivered by `pass`\n"
    "  blackhole [WAY]      bytes vanish, the end is kept: a dead network\n"
    "  cut-after N [WAY]    each connection is closed once N more bytes have passed; with 0 when\n"
    "                       the next byte would have\n"
    "  reset-after N [WAY]  the same with an RST to the client (TCP only)\n"
    "  cut, reset           close, or reset, all open connections now\n"
    "  refuse, accept       stop listening, and listen again\n"
    "  stats                `ok connections N open N c2s BYTES s2c BYTES trips N`: a trip is a\n"
    "                       connection's turn from answer to question\n";

enum way { C2S, S2C };
enum mode { MODE_PASS, MODE_DROP, MODE_HOLD, MODE_BLACKHOLE };

struct rule {
    enum mode mode;
    int64_t delay_ms;
    int64_t budget; /* bytes until the cut; -1: no cut */
    bool reset;     /* the cut is an RST */
};

struct chunk {
    struct chunk *next;
    int64_t due_ms;
    size_t length;
    size_t sent;
    char bytes[];
};

struct flow {
    struct rule rule;
    struct chunk *first, *last;
    size_t queued;
    bool ended;   /* the sender has sent its last */
    bool closed;  /* the receiver knows, or has left */
    bool blocked; /* the receiver takes nothing at the moment */
};

struct link {
    struct link *next;
    int fd[2]; /* by way: fd[C2S] is the client, fd[S2C] the server; a flow reads from its own */
    struct flow flow[2];
    enum way last;
    bool cut, reset;
};

struct proxy {
    struct address listen_at, target;
    int listener; /* -1: refusing */
    int control;
    struct link *links;
    struct rule rules[2], next_rules[2];
    bool next_set;
    uint64_t connections, bytes[2], trips;
};

static const struct rule rule_pass = {MODE_PASS, 0, -1, false};

static void rules_clear(struct rule rules[2])
{
    rules[C2S] = rules[S2C] = rule_pass;
}

/* ---- flows ---- */

static void flow_drop_first(struct flow *flow)
{
    struct chunk *chunk = flow->first;
    flow->first = chunk->next;
    if (flow->first == NULL)
        flow->last = NULL;
    flow->queued -= chunk->length;
    free(chunk);
}

static void flow_read(struct flow *flow, int from)
{
    char bytes[READ_SIZE];
    ssize_t got = recv(from, bytes, sizeof(bytes), MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0) {
        flow->ended = true;
        return;
    }
    struct chunk *chunk = malloc(sizeof(*chunk) + (size_t)got);
    if (chunk == NULL)
        fail("memory");
    *chunk = (struct chunk){.due_ms = boottime_ms() + flow->rule.delay_ms, .length = (size_t)got};
    memcpy(chunk->bytes, bytes, (size_t)got);
    if (flow->last != NULL)
        flow->last->next = chunk;
    else
        flow->first = chunk;
    flow->last = chunk;
    flow->queued += chunk->length;
}

/* Sends what the budget allows of the first chunk. false: no more for now. */
static bool flow_send(struct proxy *proxy, struct link *link, enum way way)
{
    struct flow *flow = &link->flow[way];
    struct chunk *chunk = flow->first;
    size_t length = chunk->length - chunk->sent;
    if (flow->rule.budget >= 0 && (uint64_t)flow->rule.budget < length)
        length = (size_t)flow->rule.budget;
    ssize_t sent = 0;
    if (length > 0)
        sent =
            send(link->fd[!way], chunk->bytes + chunk->sent, length, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0) {
        flow->blocked = errno == EAGAIN || errno == EINTR;
        flow->closed = !flow->blocked;
        return flow->closed;
    }
    if (way == C2S && link->last == S2C && sent > 0)
        proxy->trips++;
    link->last = way;
    proxy->bytes[way] += (uint64_t)sent;
    chunk->sent += (size_t)sent;
    if (chunk->sent == chunk->length)
        flow_drop_first(flow);
    if (flow->rule.budget < 0)
        return true;
    flow->rule.budget -= sent;
    link->cut = flow->rule.budget == 0;
    link->reset = link->cut && flow->rule.reset;
    return !link->cut;
}

/* Moves on what is due, and then the end of the stream. */
static void flow_deliver(struct proxy *proxy, struct link *link, enum way way)
{
    struct flow *flow = &link->flow[way];
    enum mode mode = flow->rule.mode;
    int64_t now = boottime_ms();
    flow->blocked = false;
    while (flow->first != NULL && mode != MODE_HOLD && flow->first->due_ms <= now) {
        if (flow->closed || mode == MODE_DROP || mode == MODE_BLACKHOLE)
            flow_drop_first(flow);
        else if (!flow_send(proxy, link, way))
            return;
    }
    if (flow->first == NULL && flow->ended && !flow->closed &&
        (mode == MODE_PASS || mode == MODE_DROP)) {
        shutdown(link->fd[!way], SHUT_WR);
        flow->closed = true;
    }
}

/* ---- links ---- */

/* A plain close of a socket with unread bytes would be a reset: read them first. */
static void close_gently(int fd)
{
    char bytes[READ_SIZE];
    shutdown(fd, SHUT_WR);
    while (recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
        ;
    close(fd);
}

static void link_free(struct link *link)
{
    struct linger at_once = {1, 0};
    for (int way = C2S; way <= S2C; way++)
        while (link->flow[way].first != NULL)
            flow_drop_first(&link->flow[way]);
    close_gently(link->fd[S2C]);
    if (link->reset) {
        setsockopt(link->fd[C2S], SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
        close(link->fd[C2S]);
    } else {
        close_gently(link->fd[C2S]);
    }
    free(link);
}

static void links_sweep(struct proxy *proxy)
{
    for (struct link **at = &proxy->links; *at != NULL;) {
        struct link *link = *at;
        if (link->cut || (link->flow[C2S].closed && link->flow[S2C].closed &&
                          link->flow[C2S].ended && link->flow[S2C].ended)) {
            *at = link->next;
            link_free(link);
        } else {
            at = &link->next;
        }
    }
}

/* A client that finds no server behind the proxy sees its connection closed. */
static void link_accept(struct proxy *proxy)
{
    int client = accept4(proxy->listener, NULL, NULL, SOCK_CLOEXEC);
    if (client < 0)
        return;
    int server = socket(proxy->target.name.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (server < 0 || connect(server, &proxy->target.name.any, proxy->target.size) != 0) {
        if (server >= 0)
            close(server);
        close_gently(client);
        return;
    }
    struct link *link = calloc(1, sizeof(*link));
    if (link == NULL)
        fail("memory");
    const struct rule *rules = proxy->next_set ? proxy->next_rules : proxy->rules;
    *link = (struct link){.next = proxy->links, .fd = {client, server}, .last = S2C};
    link->flow[C2S].rule = rules[C2S];
    link->flow[S2C].rule = rules[S2C];
    proxy->next_set = false;
    proxy->links = link;
    proxy->connections++;
}

/* ---- commands ---- */

static void rule_apply(struct rule *rule, const char *verb, int64_t number)
{
    if (strcmp(verb, "pass") == 0)
        *rule = rule_pass;
    else if (strcmp(verb, "delay") == 0)
        rule->delay_ms = number;
    else if (strcmp(verb, "drop") == 0)
        rule->mode = MODE_DROP;
    else if (strcmp(verb, "hold") == 0)
        rule->mode = MODE_HOLD;
    else if (strcmp(verb, "blackhole") == 0)
        rule->mode = MODE_BLACKHOLE;
    else {
        rule->budget = number;
        rule->reset = strcmp(verb, "reset-after") == 0;
    }
}

static bool one_of(const char *word, const char *const *list)
{
    for (; *list != NULL; list++)
        if (strcmp(word, *list) == 0)
            return true;
    return false;
}

/* pass, delay, drop …, NULL-terminated in `word`. Returns NULL or what is wrong. */
static const char *command_rule(struct proxy *proxy, char **word, bool next)
{
    static const char *const plain[] = {"pass", "drop", "hold", "blackhole", NULL};
    static const char *const counted[] = {"delay", "cut-after", "reset-after", NULL};
    const char *verb = *word ? *word++ : "";
    int64_t number = 0;
    if (one_of(verb, counted)) {
        char *end = NULL;
        number = *word ? strtoll(*word++, &end, 10) : -1;
        if (number < 0 || *end != '\0')
            return "a number is missing";
    } else if (!one_of(verb, plain)) {
        return "no such command";
    }
    bool up = *word == NULL || strcmp(*word, "c2s") == 0;
    bool down = *word == NULL || strcmp(*word, "s2c") == 0;
    if ((!up && !down) || (*word != NULL && word[1] != NULL))
        return "the way is c2s, s2c or nothing";
    if (next && !proxy->next_set)
        memcpy(proxy->next_rules, proxy->rules, sizeof(proxy->rules));
    proxy->next_set = next || (proxy->next_set && !(up && down && strcmp(verb, "pass") == 0));
    for (int way = C2S; way <= S2C; way++) {
        if (way == C2S ? !up : !down)
            continue;
        rule_apply(next ? &proxy->next_rules[way] : &proxy->rules[way], verb, number);
        for (struct link *link = next ? NULL : proxy->links; link != NULL; link = link->next)
            rule_apply(&link->flow[way].rule, verb, number);
    }
    return NULL;
}

static const char *command_listen(struct proxy *proxy, bool wanted)
{
    if (!wanted && proxy->listener >= 0) {
        close(proxy->listener);
        proxy->listener = -1;
    } else if (wanted && proxy->listener < 0) {
        proxy->listener = address_listen(&proxy->listen_at);
    }
    return wanted && proxy->listener < 0 ? "cannot listen again" : NULL;
}

static void links_cut(struct proxy *proxy, bool reset)
{
    for (struct link *link = proxy->links; link != NULL; link = link->next) {
        link->cut = true;
        link->reset = reset;
    }
}

static const char *command_run(struct proxy *proxy, char **word)
{
    const char *verb = word[0] ? word[0] : "";
    bool alone = word[0] != NULL && word[1] == NULL;
    if (alone && (strcmp(verb, "refuse") == 0 || strcmp(verb, "accept") == 0))
        return command_listen(proxy, verb[0] == 'a');
    if (alone && (strcmp(verb, "cut") == 0 || strcmp(verb, "reset") == 0)) {
        links_cut(proxy, verb[0] == 'r');
        return NULL;
    }
    if (!alone && strcmp(verb, "next") == 0)
        return command_rule(proxy, word + 1, true);
    const char *wrong = command_rule(proxy, word, false);
    if (wrong == NULL && alone && strcmp(verb, "pass") == 0)
        return command_listen(proxy, true);
    return wrong;
}

static void answer_stats(const struct proxy *proxy, char *answer, size_t size)
{
    unsigned int open = 0;
    for (const struct link *link = proxy->links; link != NULL; link = link->next)
        open++;
    snprintf(answer, size, "ok connections %ju open %u c2s %ju s2c %ju trips %ju\n",
             (uintmax_t)proxy->connections, open, (uintmax_t)proxy->bytes[C2S],
             (uintmax_t)proxy->bytes[S2C], (uintmax_t)proxy->trips);
}

/* One command per control connection; it is answered when it is in force. */
static void control_serve(struct proxy *proxy)
{
    struct timeval patience = {2, 0};
    char line[256], answer[256], *rest = NULL, *word[WORDS_MAX + 1] = {NULL};
    int fd = accept4(proxy->control, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        return;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    ssize_t got = recv(fd, line, sizeof(line) - 1, 0); /* --do sends the line in one piece */
    line[got > 0 ? got : 0] = '\0';
    for (int i = 0; i < WORDS_MAX; i++)
        word[i] = strtok_r(i == 0 ? line : NULL, " \n", &rest);
    if (word[0] != NULL && strcmp(word[0], "stats") == 0) {
        answer_stats(proxy, answer, sizeof(answer));
    } else {
        const char *wrong = word[0] ? command_run(proxy, word) : "no command";
        links_sweep(proxy);
        snprintf(answer, sizeof(answer), wrong ? "error: %s\n" : "ok\n", wrong);
    }
    send(fd, answer, strlen(answer), MSG_NOSIGNAL);
    close(fd);
}

static int control_send(const char *path, char **words)
{
    char line[256] = "", where[256], answer[256];
    snprintf(where, sizeof(where), "unix:%s", path);
    struct address address = address_of(where);
    for (; *words != NULL; words++) {
        size_t length = strlen(line);
        snprintf(line + length, sizeof(line) - length, "%s%s", *words, words[1] ? " " : "\n");
    }
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, &address.name.any, address.size) != 0)
        fail("%s: %s", path, strerror(errno));
    send(fd, line, strlen(line), MSG_NOSIGNAL);
    ssize_t got = recv(fd, answer, sizeof(answer) - 1, 0);
    answer[got > 0 ? got : 0] = '\0';
    fputs(answer, stdout);
    return strncmp(answer, "ok", 2) == 0 ? 0 : 1;
}

/* ---- the loop ---- */

static short wanted_events(const struct link *link, enum way side)
{
    const struct flow *from = &link->flow[side], *to = &link->flow[!side];
    return (short)((!from->ended && from->queued < QUEUE_LIMIT ? POLLIN : 0) |
                   (to->blocked ? POLLOUT : 0));
}

/* When the next delayed chunk is due, in ms from now; -1: nothing waits. */
static int time_to_next(const struct proxy *proxy)
{
    int64_t next = INT64_MAX, now = boottime_ms();
    for (const struct link *link = proxy->links; link != NULL; link = link->next)
        for (int way = C2S; way <= S2C; way++) {
            const struct flow *flow = &link->flow[way];
            if (flow->first != NULL && flow->rule.mode != MODE_HOLD && !flow->blocked &&
                flow->first->due_ms < next)
                next = flow->first->due_ms;
        }
    return next == INT64_MAX ? -1 : next <= now ? 0 : (int)(next - now);
}

/* One descriptor per side and link; -1 where nothing is wanted, or a hang-up would spin. */
static struct pollfd *poll_set(const struct proxy *proxy, nfds_t *count)
{
    nfds_t n = 2;
    for (const struct link *link = proxy->links; link != NULL; link = link->next)
        n += 2;
    struct pollfd *set = calloc(n, sizeof(*set));
    if (set == NULL)
        fail("memory");
    set[0] = (struct pollfd){proxy->control, POLLIN, 0};
    set[1] = (struct pollfd){proxy->listener, POLLIN, 0};
    *count = 2;
    for (const struct link *link = proxy->links; link != NULL; link = link->next)
        for (int side = C2S; side <= S2C; side++) {
            short events = wanted_events(link, (enum way)side);
            set[(*count)++] = (struct pollfd){events ? link->fd[side] : -1, events, 0};
        }
    return set;
}

static void proxy_turn(struct proxy *proxy)
{
    nfds_t count, at = 2;
    struct pollfd *set = poll_set(proxy, &count);
    if (poll(set, count, time_to_next(proxy)) < 0 && errno != EINTR)
        fail("poll: %s", strerror(errno));
    for (struct link *link = proxy->links; link != NULL; link = link->next) {
        for (int side = C2S; side <= S2C; side++)
            if (set[at++].revents & ~POLLOUT)
                flow_read(&link->flow[side], link->fd[side]);
        for (int way = C2S; way <= S2C && !link->cut; way++)
            flow_deliver(proxy, link, (enum way)way);
    }
    links_sweep(proxy);
    if (set[0].revents)
        control_serve(proxy);
    else if (set[1].revents)
        link_accept(proxy);
    free(set);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"listen", 1, NULL, 'l'},  {"target", 1, NULL, 't'},
                                            {"control", 1, NULL, 'c'}, {"port-file", 1, NULL, 'p'},
                                            {"do", 1, NULL, 'd'},      {"help", 0, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    struct proxy proxy = {.listener = -1};
    const char *control = NULL, *port_file = NULL;
    for (int option; (option = getopt_long(argc, argv, "+", options, NULL)) != -1;)
        switch (option) {
        case 'l':
            proxy.listen_at = address_of(optarg);
            break;
        case 't':
            proxy.target = address_of(optarg);
            break;
        case 'c':
            control = optarg;
            break;
        case 'p':
            port_file = optarg;
            break;
        case 'd':
            return control_send(optarg, argv + optind);
        case 'h':
            fputs(help, stdout);
            return 0;
        default:
            fail("see --help");
        }
    if (control == NULL || proxy.listen_at.size == 0 || proxy.target.size == 0 || optind < argc)
        fail("--listen, --target and --control are needed; see --help");
    char where[256];
    snprintf(where, sizeof(where), "unix:%s", control);
    struct address control_at = address_of(where);
    proxy.control = address_listen(&control_at);
    proxy.listener = address_listen(&proxy.listen_at);
    if (proxy.control < 0 || proxy.listener < 0)
        fail("listen: %s", strerror(errno));
    rules_clear(proxy.rules);
    address_announce(&proxy.listen_at, port_file);
    alarm(TOOL_LIFE_SECONDS);
    for (;;)
        proxy_turn(&proxy);
}
