/*
 * src/cli/url.c: every form of a server's address, what is refused and why, and what is shown.
 */
#include "cli/url.h"

#include <stdlib.h>

#include "check.h"

/* What an address should come to; port 0 stands for a Unix socket. */
struct expected {
    const char *text;
    const char *host_or_path;
    int port;
    int db;
    const char *user;
    const char *password; /* NULL: none */
    const char *shown;
};

static const struct expected good[] = {
    {"redis://h", "h", 6379, 0, "", NULL, "redis://h:6379"},
    {"redis://h/", "h", 6379, 0, "", NULL, "redis://h:6379"},
    {"REDIS://h", "h", 6379, 0, "", NULL, "redis://h:6379"},
    {"redis://cache.example.org:6380/2", "cache.example.org", 6380, 2, "", NULL,
     "redis://cache.example.org:6380/2"},
    {"redis://127.0.0.1:1", "127.0.0.1", 1, 0, "", NULL, "redis://127.0.0.1:1"},
    {"redis://h:65535/1000000", "h", 65535, 1000000, "", NULL, "redis://h:65535/1000000"},
    {"redis://h/99", "h", 6379, 99, "", NULL, "redis://h:6379/99"},
    {"redis://h/007", "h", 6379, 7, "", NULL, "redis://h:6379/7"},
    {"redis://a%2Db", "a-b", 6379, 0, "", NULL, "redis://a-b:6379"},
    /* IPv6 */
    {"redis://[::1]", "::1", 6379, 0, "", NULL, "redis://[::1]:6379"},
    {"redis://[::1]:6380/3", "::1", 6380, 3, "", NULL, "redis://[::1]:6380/3"},
    {"redis://[::ffff:192.0.2.1]:7", "::ffff:192.0.2.1", 7, 0, "", NULL,
     "redis://[::ffff:192.0.2.1]:7"},
    {"redis://[fe80::1%lo]:6380", "fe80::1%lo", 6380, 0, "", NULL, "redis://[fe80::1%lo]:6380"},
    {"redis://[fe80::1%25lo]", "fe80::1%lo", 6379, 0, "", NULL, "redis://[fe80::1%lo]:6379"},
    {"redis://[fe80::1%25eth%2D0]", "fe80::1%eth-0", 6379, 0, "", NULL,
     "redis://[fe80::1%eth-0]:6379"},
    {"redis://[fe80::1%2]", "fe80::1%2", 6379, 0, "", NULL, "redis://[fe80::1%2]:6379"},
    {"redis://[fe80::1%25]", "fe80::1%25", 6379, 0, "", NULL, "redis://[fe80::1%25]:6379"},
    /* Credentials */
    {"redis://:pw@h", "h", 6379, 0, "", "pw", "redis://h:6379"},
    {"redis://u:pw@h:1/2", "h", 1, 2, "u", "pw", "redis://h:1/2"},
    {"redis://u@h", "h", 6379, 0, "u", NULL, "redis://h:6379"},
    {"redis://u:@h", "h", 6379, 0, "u", NULL, "redis://h:6379"},
    {"redis://@h", "h", 6379, 0, "", NULL, "redis://h:6379"},
    {"redis://:pw@[::1]:6", "::1", 6, 0, "", "pw", "redis://[::1]:6"},
    {"redis://u:a:b:c@h", "h", 6379, 0, "u", "a:b:c", "redis://h:6379"},
    {"redis://u:a@b@h", "h", 6379, 0, "u", "a@b", "redis://h:6379"},
    {"redis://u:a+b@h", "h", 6379, 0, "u", "a+b", "redis://h:6379"},
    {"redis://u:%40%3A%2F%23%25%2B%20%C3%A9%3F@h", "h", 6379, 0, "u", "@:/#%+ \xc3\xa9?",
     "redis://h:6379"},
    {"redis://%40%3A%2F%23%25%2B%20%C3%A9%3F:x@h", "h", 6379, 0, "@:/#%+ \xc3\xa9?", "x",
     "redis://h:6379"},
    {"redis://u:\xc3\xa9@h", "h", 6379, 0, "u", "\xc3\xa9", "redis://h:6379"},
    {"redis://u:%2540@h", "h", 6379, 0, "u", "%40", "redis://h:6379"}, /* decoded once */
    {"redis://u:%0a%ff@h", "h", 6379, 0, "u", "\n\xff", "redis://h:6379"},
    /* Unix sockets */
    {"unix:///run/redis.sock", "/run/redis.sock", 0, 0, "", NULL, "unix:///run/redis.sock"},
    {"unix:///run/redis.sock?db=3", "/run/redis.sock", 0, 3, "", NULL,
     "unix:///run/redis.sock?db=3"},
    {"unix:///a%20b%3F", "/a b?", 0, 0, "", NULL, "unix:///a b?"},
    {"unix:///a+b@c:d", "/a+b@c:d", 0, 0, "", NULL, "unix:///a+b@c:d"},
};

static void check_good(const struct expected *expected)
{
    struct url url;
    const char *why = "nothing";
    char shown[URL_HOST_MAX + 64];
    bool parsed = url_parse(expected->text, &url, &why);
    bool unix_socket = expected->port == 0;

    if (!CHECK(parsed, "%s is taken", expected->text)) {
        check_note("why not", why);
        return;
    }
    CHECK_INT(url.scheme, unix_socket ? URL_UNIX : URL_TCP, "%s: scheme", expected->text);
    CHECK_STRING(unix_socket ? url.path : url.host, expected->host_or_path, "%s: host or path",
                 expected->text);
    if (!unix_socket)
        CHECK_INT(url.port, expected->port, "%s: port", expected->text);
    CHECK_INT(url.db, expected->db, "%s: database", expected->text);
    CHECK_STRING(url.user, expected->user, "%s: user", expected->text);
    CHECK_STRING(url.password.bytes, expected->password, "%s: password", expected->text);
    CHECK_INT(url.password.length, expected->password != NULL ? strlen(expected->password) : 0,
              "%s: length of the password", expected->text);
    url_show(&url, shown, sizeof shown);
    CHECK_STRING(shown, expected->shown, "%s: as shown", expected->text);
    url_wipe(&url);
    CHECK(url.password.bytes == NULL, "%s: wiped", expected->text);
}

/* Addresses of several hosts: the places as host:port, blanks between. */
static const struct {
    const char *text;
    enum url_scheme scheme;
    bool tls;
    const char *places;
    const char *master;
    int db;
    const char *shown;
} several[] = {
    {"redis+sentinel://h/m", URL_SENTINEL, false, "h:26379", "m", 0, "redis+sentinel://h:26379/m"},
    {"redis+sentinel://a,b:1,[::1]:2/my-master/3", URL_SENTINEL, false, "a:26379 b:1 ::1:2",
     "my-master", 3, "redis+sentinel://a:26379,b:1,[::1]:2/my-master/3"},
    {"rediss+sentinel://a,[fe80::1%25lo]/m", URL_SENTINEL, true, "a:26379 fe80::1%lo:26379", "m", 0,
     "rediss+sentinel://a:26379,[fe80::1%lo]:26379/m"},
    {"redis+sentinel://h/m/", URL_SENTINEL, false, "h:26379", "m", 0, "redis+sentinel://h:26379/m"},
    {"REDIS+SENTINEL://a,b,c,d,e,f,g,h,i/m", URL_SENTINEL, false,
     "a:26379 b:26379 c:26379 d:26379 e:26379 f:26379 g:26379 h:26379 i:26379", "m", 0,
     "redis+sentinel://a:26379,b:26379,c:26379,d:26379,e:26379,f:26379,g:26379,h:26379,i:26379/m"},
    {"redis+cluster://a", URL_CLUSTER, false, "a:6379", "", 0, "redis+cluster://a:6379"},
    {"redis+cluster://a,b:7/0", URL_CLUSTER, false, "a:6379 b:7", "", 0,
     "redis+cluster://a:6379,b:7"},
    {"rediss+cluster://[::1]/", URL_CLUSTER, true, "::1:6379", "", 0,
     "rediss+cluster://[::1]:6379"},
    {"rediss://h", URL_TCP, true, "", "", 0, "rediss://h:6379"},
    {"RedisS://h:1/2", URL_TCP, true, "", "", 2, "rediss://h:1/2"},
};

static void check_several(size_t index)
{
    struct url url;
    const char *why = "nothing";
    char places[512] = "";
    char shown[URL_SHOWN_MAX];
    const char *text = several[index].text;

    if (!CHECK(url_parse(text, &url, &why), "%s is taken", text)) {
        check_note("why not", why);
        return;
    }
    for (int i = 0; i < url.place_count; i++) {
        size_t length = strlen(places);

        (void)snprintf(places + length, sizeof places - length, "%s%s:%d", i > 0 ? " " : "",
                       url.places[i].host, (int)url.places[i].port);
    }
    CHECK_INT(url.scheme, several[index].scheme, "%s: scheme", text);
    CHECK_INT(url.tls, several[index].tls, "%s: TLS", text);
    CHECK_STRING(places, several[index].places, "%s: places", text);
    CHECK_STRING(url.master, several[index].master, "%s: master", text);
    CHECK_INT(url.db, several[index].db, "%s: database", text);
    url_show(&url, shown, sizeof shown);
    CHECK_STRING(shown, several[index].shown, "%s: as shown", text);
    url_wipe(&url);
}

static void test_password_of_several(void)
{
    struct url url;
    const char *why;

    if (!CHECK(url_parse("redis+sentinel://u:p%2C%40@a,b/m", &url, &why), "a password is taken"))
        return;
    CHECK_STRING(url.user, "u", "the user before several hosts");
    CHECK_STRING(url.password.bytes, "p,@", "the password before several hosts");
    CHECK_STRING(url.places[1].host, "b", "the second host behind a password");
    url_wipe(&url);
}

static const struct {
    const char *text;
    const char *why; /* a part of it */
} bad[] = {
    {"", "does not begin with redis://, rediss:// or unix://"},
    {"h:6379", "does not begin with"},
    {"redis:h", "does not begin with"},
    {"redis:/h", "does not begin with"},
    {"http://h", "does not begin with"},
    {"rediss+unix://h", "does not begin with"},
    {"redis+sentinel://h", "names no master"},
    {"redis+tls://h", "does not begin with"},
    {"unixs:///s", "does not begin with"},
    {"redis://h,i", "has a host with a character"},
    {"rediss://", "has no host"},
    {"rediss://h:0", "has port 0"},
    {"rediss://h?x=1", "has a ? or #"},
    {"redis+sentinel://h/", "names no master"},
    {"redis+sentinel://h//1", "names no master"},
    {"redis+sentinel:///m", "has no host"},
    {"redis+sentinel://h,/m", "has no host"},
    {"redis+sentinel://,h/m", "has no host"},
    {"redis+sentinel://h1,,h2/m", "has no host"},
    {"redis+sentinel://h:0/m", "has port 0"},
    {"redis+sentinel://h:1,i:x/m", "has a port"},
    {"redis+sentinel://h/m/1/2", "has a database"},
    {"redis+sentinel://h/m%", "has a %"},
    {"redis+sentinel://h/m%00", "holds a NUL byte"},
    {"redis+sentinel://::1/m", "without its brackets"},
    {"redis+cluster://", "has no host"},
    {"redis+cluster://h/x", "has a database other than 0"},
    {"redis+sentinel://h/m/x", "has a database that is not a number"},
    {"redis+sentinel://a,b,c,d,e,f,g,h,i,j/m", "names more than 9 hosts"},
    {"redis+cluster://h/1", "a cluster does not have"},
    {"redis+cluster://h1,h2?x", "that such an address does not take"},
    {"redis://", "has no host"},
    {"redis:///1", "has no host"},
    {"redis://:6379", "has no host"},
    {"redis://u:p@", "has no host"},
    {"redis://u:p@:6379", "has no host"},
    {"redis://[]", "has no host"},
    {"redis://h:0", "has port 0; ports are 1 to 65535"},
    {"redis://h:000", "has port 0"},
    {"redis://h:70000", "has a port that is not a number from 1 to 65535"},
    {"redis://h:65536", "has a port"},
    {"redis://h:99999999999999999999", "has a port"},
    {"redis://h:", "has a port"},
    {"redis://h:-1", "has a port"},
    {"redis://h:+1", "has a port"},
    {"redis://h:63x", "has a port"},
    {"redis://h:6379x/1", "has a port"},
    {"redis://[::1]:", "has a port"},
    {"redis://::1", "has an IPv6 address without its brackets"},
    {"redis://::1:6379", "has an IPv6 address without its brackets"},
    {"redis://[::1", "has a [ without its ]"},
    {"redis://[::1]6379", "has something other than :PORT after the ]"},
    {"redis://[h]", "not an IPv6 address"},
    {"redis://[127.0.0.1]", "not an IPv6 address"},
    {"redis://[1:2]", "not an IPv6 address"},
    {"redis://[fe80::1%]", "not an IPv6 address"},
    {"redis://[%25lo]", "not an IPv6 address"},
    {"redis://[fe80::1%25l%2]", "has a % that is not followed"},
    {"redis://[11111:22222:33333:44444:55555:66666:77777:88888:99999]", "not an IPv6 address"},
    {"redis://h/-1", "has a database that is not a number from 0 to 1000000"},
    {"redis://h/x", "has a database"},
    {"redis://h/1x", "has a database"},
    {"redis://h/1/", "has a database"},
    {"redis://h//1", "has a database"},
    {"redis://h/1000001", "has a database"},
    {"redis://h/4294967296", "has a database"},
    {"redis://h?db=1", "has a ? or #"},
    {"redis://h/1#x", "has a ? or #"},
    {"redis://u:p#w@h", "has a ? or #"},
    {"redis://u:p%@h", "has a % that is not followed by two hexadecimal digits"},
    {"redis://u:p%4@h", "has a %"},
    {"redis://u:p%zz@h", "has a %"},
    {"redis://u:p%4g@h", "has a %"},
    {"redis://u%:p@h", "has a %"},
    {"redis://h%", "has a %"},
    {"redis://u:p%00@h", "holds a NUL byte"},
    {"redis://u%00:p@h", "holds a NUL byte"},
    {"redis://h%00", "holds a NUL byte"},
    {"redis://h%20x", "has a host with a character"},
    {"redis://h%3A1", "has a host with a character"},
    {"redis://h%2F1", "has a host with a character"},
    {"redis://h h", "holds a blank or a control byte"},
    {"redis://h\n", "holds a blank or a control byte"},
    {" redis://h", "holds a blank or a control byte"},
    {"redis://u:p w@h", "holds a blank or a control byte"},
    {"unix://", "needs an absolute path, as in unix:///run/redis.sock"},
    {"unix:///", "needs an absolute path"},
    {"unix://run/redis.sock", "needs an absolute path"},
    {"unix://u:p@/run/redis.sock", "needs an absolute path"},
    {"unix:///s?db=", "has a database"},
    {"unix:///s?db=-1", "has a database"},
    {"unix:///s?db=1&x=2", "has a database"},
    {"unix:///s?", "has something other than ?db=N after the path"},
    {"unix:///s?x=1", "has something other than ?db=N"},
    {"unix:///s#x", "has something other than ?db=N"},
    {"unix:///s%2", "has a %"},
    {"unix:///s%00", "holds a NUL byte"},
};

static void check_bad(const char *text, const char *expected_why)
{
    struct url url = {.host = "as before", .port = 4711};
    const char *why = "nothing";

    CHECK(!url_parse(text, &url, &why), "'%s' is refused", text);
    CHECK_CONTAINS(why, expected_why, "'%s' says why", text);
    CHECK(url.port == 4711 && strcmp(url.host, "as before") == 0 && url.password.bytes == NULL,
          "'%s' leaves the output alone", text);
}

/* BEFORE, `count` times x, AFTER. */
static char *stretched(const char *before, size_t count, const char *after)
{
    size_t head = strlen(before);
    char *text = malloc(head + count + strlen(after) + 1);

    if (text == NULL)
        abort();
    memcpy(text, before, head);
    memset(text + head, 'x', count);
    memcpy(text + head + count, after, strlen(after) + 1);
    return text;
}

static void check_length(const char *before, size_t most, const char *after, const char *why)
{
    struct url url;
    const char *unused;
    char *fits = stretched(before, most, after);
    char *longer = stretched(before, most + 1, after);

    if (CHECK(url_parse(fits, &url, &unused), "%s…%s with %zu bytes is taken", before, after, most))
        url_wipe(&url);
    CHECK(!url_parse(longer, &url, &unused), "with one more it is refused");
    CHECK_CONTAINS(unused, why, "and says why");
    free(fits);
    free(longer);
}

static void check_password_place(const char *text, const char *expected)
{
    size_t length = 99;
    size_t offset = url_find_password(text, &length);

    CHECK(length == strlen(expected) && strncmp(text + offset, expected, length) == 0,
          "the password of %s is found", text);
}

static void check_redacted(const char *text, const char *expected)
{
    char out[256];

    url_redact(text, out, sizeof out);
    CHECK_STRING(out, expected, "%s in a message", text);
}

static void test_redacted(void)
{
    check_redacted("redis://h:70000", "redis://h:70000");
    check_redacted("redis://h:6379/x", "redis://h:6379/x");
    check_redacted("redis://[::1", "redis://***");
    check_redacted("redis://[::1]:0", "redis://[::1]:0");
    check_redacted("http://h/x", "http://h/x");
    check_redacted("", "");
    check_redacted("redis://:secret@h/x", "redis://***@h/x");
    check_redacted("redis://u:secret@h:0", "redis://***@h:0");
    check_redacted("redis://u:se@cret@h/x", "redis://***@h/x");
    check_redacted("redis://u:se/cret@h/x", "redis://***@h/x");
    check_redacted("u:secret@h", "***@h");
    check_redacted("redis://:secret", "redis://***");
    check_redacted("redis://:123456", "redis://***");
    check_redacted("redis://u:secret", "redis://***");
    check_redacted("redis://u:12345678", "redis://***");
    check_redacted("redis://u:se@cret:word", "redis://***@***");
    check_redacted("redis+sentinel://u:secret@a,b", "redis+sentinel://***@a,b");
    check_redacted("rediss://u:secret@h:x", "rediss://***@***");
    check_redacted("unix:///s?password=secret", "unix://***");
    check_redacted("unix:///s?db=x", "unix:///s?db=x");
}

int main(void)
{
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        check_good(&good[i]);
    for (size_t i = 0; i < sizeof several / sizeof several[0]; i++)
        check_several(i);
    test_password_of_several();
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        check_bad(bad[i].text, bad[i].why);

    check_length("redis://", URL_HOST_MAX, "", "has a host of more than 255 bytes");
    check_length("redis://", URL_USER_MAX, ":p@h", "has a user of more than 255 bytes");
    check_length("redis://u:", URL_PASSWORD_MAX, "@h", "has a password of more than 4096 bytes");
    check_length("redis+sentinel://h/", URL_MASTER_MAX, "", "has a master's name of more than 127");
    check_length("redis+sentinel://a,", URL_HOST_MAX, "/m", "has a host of more than 255 bytes");
    check_length("unix:///", URL_PATH_MAX - 1, "", "has a socket path of more than 107 bytes");

    check_password_place("redis://u:pw@h", "pw");
    check_password_place("redis://:a@b:c@h:1/2", "a@b:c");
    check_password_place("redis://u:%40@h", "%40");
    check_password_place("redis://u@h", "");
    check_password_place("redis://h:1", "");
    check_password_place("redis://h/1@2", "");
    check_password_place("unix:///a:b@c", "");
    check_password_place("rediss://u:pw@h", "pw");
    check_password_place("redis+sentinel://u:pw@a,b/m", "pw");
    check_password_place("rediss+cluster://:p,w@a,b", "p,w");
    test_redacted();

    char small[8];
    struct url url;
    const char *why;

    CHECK(url_parse("redis://cache", &url, &why), "a short storage for showing");
    url_show(&url, small, sizeof small);
    CHECK_STRING(small, "redis:/", "cuts what is shown");
    return check_done();
}
