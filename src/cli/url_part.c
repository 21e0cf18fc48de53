/*
 * Owns the seams of a server address: which schemes there are, what separates its parts, and how a
 * part is decoded. What a part may be is url.c's.
 *
 * Pure: no look-up, no I/O, no message, no copy but the caller's.
 */
#include "cli/url_part.h"

#include <string.h>

#include "base/text.h"

static const char bad_percent[] = "has a % that is not followed by two hexadecimal digits";
static const char has_nul[] = "holds a NUL byte";

const struct url_scheme_row url_schemes[URL_SCHEME_COUNT] = {
    {"redis://", URL_TCP, false},
    {"rediss://", URL_TCP, true},
    {"redis+sentinel://", URL_SENTINEL, false},
    {"rediss+sentinel://", URL_SENTINEL, true},
    {"redis+cluster://", URL_CLUSTER, false},
    {"rediss+cluster://", URL_CLUSTER, true},
};

static bool refuse(const char **why, const char *text)
{
    *why = text;
    return false;
}

/* not strcspn: it would load two pages */
size_t url_length_before(const char *text, const char *marks)
{
    size_t length = 0;

    while (text[length] != '\0' && strchr(marks, text[length]) == NULL)
        length++;
    return length;
}

/* In a URL the letters may be small ones too. */
static int hex_value(char c)
{
    return text_hex_value(c >= 'a' && c <= 'f' ? (char)(c - 'a' + 'A') : c);
}

bool url_decode(struct url_part part, char *out, size_t size, const char *too_long,
                const char **why)
{
    size_t length = 0;

    for (size_t i = 0; i < part.length; i++) {
        char c = part.at[i];

        if (c == '%') {
            int high = i + 2 < part.length ? hex_value(part.at[i + 1]) : -1;
            int low = i + 2 < part.length ? hex_value(part.at[i + 2]) : -1;

            if (high < 0 || low < 0)
                return refuse(why, bad_percent);
            c = (char)(high * 16 + low);
            i += 2;
        }
        if (c == '\0')
            return refuse(why, has_nul);
        if (length + 1 >= size)
            return refuse(why, too_long);
        out[length++] = c;
    }
    out[length] = '\0';
    return true;
}

bool url_split_at(struct url_part *rest, char mark, struct url_part *before)
{
    const char *found = memchr(rest->at, mark, rest->length);

    if (found == NULL)
        return false;
    before->at = rest->at;
    before->length = (size_t)(found - rest->at);
    rest->length -= before->length + 1;
    rest->at = found + 1;
    return true;
}

void url_take_login(struct url_part *authority, struct url_part *user, struct url_part *password)
{
    const char *end = memrchr(authority->at, '@', authority->length);

    *user = (struct url_part){authority->at, 0};
    *password = *user;
    if (end == NULL)
        return;

    *password = (struct url_part){authority->at, (size_t)(end - authority->at)};
    if (!url_split_at(password, ':', user)) {
        *user = *password;
        password->length = 0;
    }
    authority->length -= (size_t)(end + 1 - authority->at);
    authority->at = end + 1;
}
