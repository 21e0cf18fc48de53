/*
 * src/redis/route.c: what MOVED and ASK say, and where the next connection goes.
 */
#include "redis/route.h"

#include "check.h"

static const struct {
    const char *text;
    bool ask;
    const char *host;
    int port;
} good[] = {
    {"MOVED 3999 127.0.0.1:6381", false, "127.0.0.1", 6381},
    {"ASK 3999 127.0.0.1:6381", true, "127.0.0.1", 6381},
    {"MOVED 0 node-1.example.org:1", false, "node-1.example.org", 1},
    {"MOVED 16383 h:65535", false, "h", 65535},
    {"MOVED 3999 ::1:6381", false, "::1", 6381},
    {"ASK 3999 2001:db8::7:6381", true, "2001:db8::7", 6381},
    {"MOVED 3999 :6381", false, "", 6381}, /* the host that was asked */
};

static const char *const bad[] = {
    "",
    "MOVED",
    "MOVED ",
    "MOVED 3999",
    "MOVED 3999 ",
    "MOVED 3999 h",
    "MOVED 3999 h:",
    "MOVED 3999 h:0",
    "MOVED 3999 h:65536",
    "MOVED 3999 h:99999999999999999999",
    "MOVED 3999 h:-1",
    "MOVED 3999 h:+1",
    "MOVED 3999 h: 1",
    "MOVED 3999 h:1x",
    "MOVED 3999:1 h",
    "ASK",
    "ASK ",
    "ASK 1",
    "ASKING 1 h:1",
    "MOVEDON 1 h:1",
    "moved 1 h:1",
    "ERR MOVED 1 h:1",
};

static void test_parse(void)
{
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        struct redirect redirect;
        if (!CHECK(redirect_parse(good[i].text, strlen(good[i].text), &redirect), "'%s' is taken",
                   good[i].text))
            continue;
        CHECK_INT(redirect.ask, good[i].ask, "'%s': ASK", good[i].text);
        CHECK_STRING(redirect.place.host, good[i].host, "'%s': host", good[i].text);
        CHECK_INT(redirect.place.port, good[i].port, "'%s': port", good[i].text);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct redirect redirect = {.place = {.port = 4711}};
        CHECK(!redirect_parse(bad[i], strlen(bad[i]), &redirect), "'%s' is refused", bad[i]);
        CHECK_INT(redirect.place.port, 4711, "'%s' leaves the output alone", bad[i]);
    }
}

static void test_length_counts(void)
{
    struct redirect redirect;
    char longest[512] = "MOVED 1 ";
    CHECK(redirect_parse("MOVED 1 h:12345", 11, &redirect) && redirect.place.port == 1,
          "what lies behind the reply is not read");
    memset(longest + 8, 'x', URL_HOST_MAX);
    memcpy(longest + 8 + URL_HOST_MAX, ":1", 3);
    CHECK(redirect_parse(longest, strlen(longest), &redirect), "the longest host is taken");
    memcpy(longest + 8 + URL_HOST_MAX, "x:1", 4);
    CHECK(!redirect_parse(longest, strlen(longest), &redirect), "one byte more is refused");
    CHECK(!redirect_parse("MOVED 1 a\0b:1", 13, &redirect), "a NUL byte in the host is refused");
}

static struct redirect to(bool ask, const char *host, int port)
{
    struct redirect redirect = {.ask = ask, .place = {.port = (uint16_t)port}};
    memcpy(redirect.place.host, host, strlen(host) + 1);
    return redirect;
}

static void test_visit(void)
{
    const struct url url = {.scheme = URL_TCP, .host = "home", .port = 1};
    struct route route = {.next = 0};
    struct redirect moved = to(false, "a", 2);
    struct redirect ask = to(true, "b", 3);
    struct redirect further = to(true, "c", 4);

    route_follow(&route, &url, &moved);
    CHECK(route.redirected && !route.visiting, "MOVED holds");
    route_follow(&route, &url, &ask);
    CHECK(route.visiting, "ASK is a visit");
    CHECK_STRING(route.place.host, "b", "to the node that it names");
    route_follow(&route, &url, &further);
    route_return(&route);
    CHECK(route.redirected && !route.visiting, "the visit's end leads back");
    CHECK_STRING(route.place.host, "a", "to where MOVED had sent us, not to the first visit");
    route_follow(&route, &url, &ask);
    route_follow(&route, &url, &moved);
    CHECK(!route.visiting, "MOVED ends a visit");
    route_failed(&route, &url);
    CHECK(!route.redirected, "a node that fails is forgotten");
    route_return(&route);
    CHECK(!route.redirected, "without a visit there is nothing to return from");
}

static void test_empty_host(void)
{
    struct url_place places[] = {{"p", 1}, {"q", 2}};
    const struct url url = {.scheme = URL_CLUSTER, .place_count = 2, .places = places};
    struct route route = {.next = 1};
    struct redirect moved = to(false, "", 7);

    route_follow(&route, &url, &moved);
    CHECK_STRING(route.place.host, "q", "no host means the one that was asked");
    CHECK_INT(route.place.port, 7, "at another port");
    route_follow(&route, &url, &moved);
    CHECK_STRING(route.place.host, "q", "also behind a redirect");
}

static void test_next_place(void)
{
    struct url_place places[] = {{"p", 1}, {"q", 2}};
    const struct url url = {.scheme = URL_CLUSTER, .place_count = 2, .places = places};
    struct route route = {.next = 0};
    struct redirect moved = to(false, "a", 7);

    route_failed(&route, &url);
    CHECK_INT(route.next, 1, "a place that fails is followed by the next");
    route_follow(&route, &url, &moved);
    route_failed(&route, &url);
    CHECK_INT(route.next, 1, "a redirect that fails leads back to the place that knew");
    route_failed(&route, &url);
    CHECK_INT(route.next, 0, "after the last comes the first");
}

int main(void)
{
    test_parse();
    test_length_counts();
    test_visit();
    test_empty_host();
    test_next_place();
    return check_done();
}
