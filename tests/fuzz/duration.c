/*
 * libFuzzer target: durations. `make fuzz` builds and runs it.
 *
 * What is taken must be the number that a slow and simple reading gives, in its documented range;
 * what is refused must leave its output alone and say why.
 */
#include "base/text.h"
#include "cli/duration.h"
#include "fuzz.h"

__extension__ typedef __int128 wide;

#define DIGITS_MAX 15 /* of either part: more are out of the slow reading's range */

/* Reads digits; `*scale` becomes ten to their number. */
static wide read_digits(const char **at, wide *scale)
{
    wide number = 0;
    for (*scale = 1; **at >= '0' && **at <= '9'; (*at)++, *scale *= 10)
        number = number * 10 + (**at - '0');
    return number;
}

/* How many milliseconds a unit has; 0: it is none. */
static int64_t unit_ms(const char *unit)
{
    static const char *const names[] = {"", "ms", "s", "m", "h", "d"};
    static const int64_t ms[] = {1000, 1, 1000, 60000, 3600000, 86400000};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(unit, names[i]) == 0)
            return ms[i];
    return 0;
}

/* The same grammar without any cleverness: -1 for what is no duration, -2 for what is out of range. */
static int64_t read_slowly(const char *text)
{
    static const char digits[] = "0123456789";
    const char *point = text + strspn(text, digits);
    size_t decimals = *point == '.' ? strspn(point + 1, digits) : 0;
    if (point - text > DIGITS_MAX || decimals > DIGITS_MAX)
        return -2;
    const char *at = text;
    wide scale;
    wide part = 0;
    wide whole = read_digits(&at, &scale);
    scale = 1;
    if (*at == '.') {
        at++;
        part = read_digits(&at, &scale);
    }
    wide unit = unit_ms(at);
    if (unit == 0 || (point == text && decimals == 0) || part * unit % scale != 0)
        return -1;
    wide total = whole * unit + part * unit / scale;
    return total <= DURATION_MAX_MS ? (int64_t)total : -1;
}

/* A number of milliseconds is written and read again without a loss. */
static void check_round_trip(int64_t ms)
{
    char storage[64];
    char shown_storage[64];
    struct text text = TEXT_OVER(storage);
    struct text shown = TEXT_OVER(shown_storage);
    int64_t again = -1;
    const char *why;
    text_addf(&text, "%lldms", (long long)ms);
    REQUIRE(duration_parse(text.at, &again, &why) && again == ms);
    text = TEXT_OVER(storage);
    text_addf(&text, "%lld.%03lld", (long long)(ms / 1000), (long long)(ms % 1000));
    REQUIRE(duration_parse(text.at, &again, &why) && again == ms);
    text_add_duration(&shown, ms);
    REQUIRE(!shown.cut && shown.length > 0 && fuzz_is_visible(shown.at, shown.length));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size);
    int64_t ms = -4711;
    int64_t expected = read_slowly(text);
    const char *why = NULL;
    bool taken = duration_parse(text, &ms, &why);
    REQUIRE(expected == -2 || (taken ? ms : -1) == expected);
    if (taken) {
        REQUIRE(ms >= 0 && ms <= DURATION_MAX_MS);
        check_round_trip(ms);
    } else {
        REQUIRE(ms == -4711 && why != NULL && why[0] != '\0');
    }
    free(text);
    return 0;
}
