/*
 * Owns nothing: every byte goes into storage of the caller's.
 *
 * Promises: always NUL-terminated, never past the capacity; escapes and UTF-8 characters are added
 * whole or not at all, and text_add_visible and text_add_json stop at the first that does not fit.
 * Does no I/O, takes no memory, looks at no locale or time zone; stdio is used by text_addv alone.
 */
#include "base/text.h"

#include <stdio.h>
#include <string.h>

struct text text_over(char *storage, size_t capacity)
{
    storage[0] = '\0';
    return (struct text){.at = storage, .length = 0, .capacity = capacity, .cut = false};
}

static size_t text_room(const struct text *text)
{
    return text->capacity - 1 - text->length;
}

void text_add_bytes(struct text *text, const char *bytes, size_t length)
{
    size_t room = text_room(text);

    if (length > room) {
        length = room;
        text->cut = true;
    }
    if (length > 0) {
        memcpy(text->at + text->length, bytes, length);
        text->length += length;
        text->at[text->length] = '\0';
    }
}

/* All of it or, where it does not fit, nothing: for what must not be torn apart. */
static bool text_add_whole(struct text *text, const char *bytes, size_t length)
{
    if (length > text_room(text)) {
        text->cut = true;
        return false;
    }
    text_add_bytes(text, bytes, length);
    return true;
}

void text_add(struct text *text, const char *string)
{
    text_add_bytes(text, string, strlen(string));
}

void text_add_char(struct text *text, char c)
{
    text_add_bytes(text, &c, 1);
}

void text_add_int(struct text *text, int64_t number)
{
    char digits[20];
    size_t at = sizeof digits;
    uint64_t rest = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;

    do {
        digits[--at] = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest > 0);
    if (number < 0)
        digits[--at] = '-';
    text_add_bytes(text, digits + at, sizeof digits - at);
}

void text_addf(struct text *text, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    text_addv(text, format, arguments);
    va_end(arguments);
}

void text_addv(struct text *text, const char *format, va_list arguments)
{
    size_t space = text->capacity - text->length;
    int written = vsnprintf(text->at + text->length, space, format, arguments);

    if (written < 0) {
        text->at[text->length] = '\0';
        text->cut = true;
    } else if ((size_t)written >= space) {
        text->length = text->capacity - 1;
        text->cut = true;
    } else {
        text->length += (size_t)written;
    }
}

/* Bytes that follow a UTF-8 lead byte; 0 for one that stands alone, -1 for one that never leads. */
static int utf8_followers(unsigned char lead)
{
    if (lead < 0x80)
        return 0;
    if (lead < 0xc2) /* a follower, or C0/C1: overlong */
        return -1;
    if (lead < 0xe0)
        return 1;
    if (lead < 0xf0)
        return 2;
    return lead < 0xf5 ? 3 : -1;
}

/*
 * Length of the valid UTF-8 character at `bytes` (Unicode 15, table 3-7: no overlong forms, no
 * surrogates, nothing above U+10FFFF); 0 where there is none.
 */
static size_t utf8_length(const char *bytes, size_t available)
{
    unsigned char lead = (unsigned char)bytes[0];
    int followers = utf8_followers(lead);

    if (followers < 0 || (size_t)followers >= available)
        return 0;
    for (int i = 1; i <= followers; i++) {
        if (((unsigned char)bytes[i] & 0xc0) != 0x80)
            return 0;
    }
    if (followers < 2)
        return (size_t)followers + 1;

    unsigned char second = (unsigned char)bytes[1];

    if ((lead == 0xe0 && second < 0xa0) || (lead == 0xed && second > 0x9f) ||
        (lead == 0xf0 && second < 0x90) || (lead == 0xf4 && second > 0x8f))
        return 0;
    return (size_t)followers + 1;
}

/* The number of a valid character; of those of four bytes, none of which is a control, 0x10000. */
static unsigned code_of(const char *character, size_t length)
{
    unsigned first = (unsigned char)character[0];

    if (length == 1)
        return first;
    if (length == 2)
        return (first & 0x1f) << 6 | ((unsigned char)character[1] & 0x3f);
    if (length > 3)
        return 0x10000;
    return (first & 0xf) << 12 | ((unsigned)(unsigned char)character[1] & 0x3f) << 6 |
           ((unsigned char)character[2] & 0x3f);
}

/*
 * C0, DEL and C1; what separates lines, turns the direction of what follows, or is not to be seen at
 * all, so that a name could look like another's. Not the joiners of scripts and of emoji.
 */
static bool is_control(unsigned code)
{
    static const struct {
        unsigned first;
        unsigned last;
    } unseen[] = {{0, 0x1f},        {0x7f, 0x9f},     {0x61c, 0x61c},   {0x200b, 0x200b},
                  {0x200e, 0x200f}, {0x2028, 0x202e}, {0x2060, 0x206f}, {0xfeff, 0xfeff}};

    for (size_t i = 0; i < sizeof unseen / sizeof unseen[0]; i++) {
        if (code >= unseen[i].first && code <= unseen[i].last)
            return true;
    }
    return false;
}

static char hex_digit(unsigned value)
{
    return "0123456789abcdef"[value & 15];
}

static bool add_hex_escapes(struct text *text, const char *bytes, size_t length)
{
    bool fits = true;

    for (size_t i = 0; i < length && fits; i++) {
        unsigned byte = (unsigned char)bytes[i];
        char escape[4] = {'\\', 'x', hex_digit(byte >> 4), hex_digit(byte)};

        fits = text_add_whole(text, escape, sizeof escape);
    }
    return fits;
}

void text_add_visible(struct text *text, const char *bytes, size_t length)
{
    bool fits = true;

    for (size_t i = 0; i < length && fits;) {
        size_t character = utf8_length(bytes + i, length - i);
        size_t step = character > 0 ? character : 1;

        if (character == 0 || bytes[i] == '\\' || is_control(code_of(bytes + i, character)))
            fits = add_hex_escapes(text, bytes + i, step);
        else
            fits = text_add_whole(text, bytes + i, step);
        i += step;
    }
}

/* The letter of a two-character JSON escape, or 0. */
static char json_letter(char c)
{
    static const char plain[] = "\"\\\b\f\n\r\t";
    static const char letters[] = "\"\\bfnrt";
    const char *found = c != '\0' ? strchr(plain, c) : NULL;

    return found != NULL ? letters[found - plain] : '\0';
}

/* All of them are escaped: events end up on terminals. */
static bool add_json_control(struct text *text, unsigned code)
{
    char letter = code < 0x80 ? json_letter((char)code) : '\0';
    char escape[6] = {
        '\\',           'u', hex_digit(code >> 12), hex_digit(code >> 8), hex_digit(code >> 4),
        hex_digit(code)};

    if (letter != '\0')
        return text_add_whole(text, (const char[]){'\\', letter}, 2);
    return text_add_whole(text, escape, sizeof escape);
}

void text_add_json(struct text *text, const char *bytes, size_t length)
{
    bool fits = true;

    for (size_t i = 0; i < length && fits;) {
        size_t character = utf8_length(bytes + i, length - i);
        size_t step = character > 0 ? character : 1;

        if (character == 0)
            fits = text_add_whole(text, "\xef\xbf\xbd", 3); /* U+FFFD */
        else if (json_letter(bytes[i]) != '\0' || is_control(code_of(bytes + i, character)))
            fits = add_json_control(text, code_of(bytes + i, character));
        else
            fits = text_add_whole(text, bytes + i, character);
        i += step;
    }
}

/* `number` with zeros in front up to `width` digits. */
static void add_padded(struct text *text, int64_t number, int width)
{
    int64_t limit = 10;

    for (int i = 1; i < width; i++, limit *= 10) {
        if (number < limit)
            text_add_char(text, '0');
    }
    text_add_int(text, number);
}

/*
 * The date of a day counted from 1970-01-01. Counted in 400-year cycles of 146097 days from a
 * 1 March, so that the leap day is a year's last and the months before it repeat as 153 days in 5.
 */
static void add_date(struct text *text, int64_t day)
{
    int64_t since_march = day + 719468; /* from 0000-03-01 */
    int64_t cycle = since_march / 146097;
    int64_t in_cycle = since_march % 146097;
    int64_t year = (in_cycle - in_cycle / 1460 + in_cycle / 36524 - in_cycle / 146096) / 365;
    int64_t in_year = in_cycle - (365 * year + year / 4 - year / 100);
    int64_t month = (5 * in_year + 2) / 153; /* 0 is March */
    int64_t in_month = in_year - (153 * month + 2) / 5 + 1;

    add_padded(text, cycle * 400 + year + (month >= 10 ? 1 : 0), 4);
    text_add_char(text, '-');
    add_padded(text, month < 10 ? month + 3 : month - 9, 2);
    text_add_char(text, '-');
    add_padded(text, in_month, 2);
}

void text_add_timestamp(struct text *text, int64_t wall_ms)
{
    int64_t ms = wall_ms > 0 ? wall_ms : 0;
    int64_t in_day = ms % (24 * 60 * 60 * 1000);

    add_date(text, ms / (24 * 60 * 60 * 1000));
    text_add_char(text, 'T');
    add_padded(text, in_day / (60 * 60 * 1000), 2);
    text_add_char(text, ':');
    add_padded(text, in_day / (60 * 1000) % 60, 2);
    text_add_char(text, ':');
    add_padded(text, in_day / 1000 % 60, 2);
    text_add_char(text, '.');
    add_padded(text, in_day % 1000, 3);
    text_add_char(text, 'Z');
}

/* `large` of one unit and `small`, two digits wide, of the next. */
static void add_two_units(struct text *text, int64_t large, char large_unit, int64_t small,
                          char small_unit)
{
    text_add_int(text, large);
    text_add_char(text, large_unit);
    add_padded(text, small, 2);
    text_add_char(text, small_unit);
}

void text_add_duration(struct text *text, int64_t duration_ms)
{
    int64_t ms = duration_ms > 0 ? duration_ms : 0;
    int64_t seconds = ms / 1000;
    int64_t minutes = seconds / 60;
    int64_t hours = minutes / 60;

    if (ms > 0 && seconds == 0) {
        text_add_int(text, ms);
        text_add(text, "ms");
    } else if (minutes == 0) {
        text_add_int(text, seconds);
        text_add_char(text, 's');
    } else if (hours == 0) {
        add_two_units(text, minutes, 'm', seconds % 60, 's');
    } else if (hours < 24) {
        add_two_units(text, hours, 'h', minutes % 60, 'm');
    } else {
        add_two_units(text, hours / 24, 'd', hours % 24, 'h');
    }
}

int text_hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

const char *text_after(const char *string, const char *word)
{
    for (; *word != '\0'; string++, word++) {
        if (lower(*string) != lower(*word))
            return NULL;
    }
    return string;
}
