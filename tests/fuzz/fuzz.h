/*
 * What the fuzz targets share: a check that ends the run, the input as a text of its own block, and
 * what the program writes for people.
 */
#ifndef REDISLOCK_TESTS_FUZZ_H
#define REDISLOCK_TESTS_FUZZ_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition))                                                                          \
            abort();                                                                               \
    } while (0)

/* The bytes with a NUL behind them, in a block of exactly that size: a step past its end is seen. */
static inline char *fuzz_text(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    REQUIRE(text != NULL);
    if (size > 0)
        memcpy(text, data, size);
    text[size] = '\0';
    return text;
}

/* What goes to one of the standard descriptors between begin and end. */
struct fuzz_capture {
    int fd;
    int file;  /* -1: not made yet */
    int saved; /* where the descriptor pointed */
    char bytes[65536];
    size_t length;
};

static inline void fuzz_capture_begin(struct fuzz_capture *capture)
{
    if (capture->file < 0) {
        capture->file = memfd_create("capture", MFD_CLOEXEC);
        capture->saved = dup(capture->fd);
        REQUIRE(capture->file >= 0 && capture->saved >= 0);
    }
    if (capture->length > 0)
        REQUIRE(ftruncate(capture->file, 0) == 0 && lseek(capture->file, 0, SEEK_SET) == 0);
    REQUIRE(dup2(capture->file, capture->fd) == capture->fd);
}

static inline void fuzz_capture_end(struct fuzz_capture *capture)
{
    REQUIRE(dup2(capture->saved, capture->fd) == capture->fd);
    ssize_t got = pread(capture->file, capture->bytes, sizeof(capture->bytes) - 1, 0);
    REQUIRE(got >= 0);
    capture->length = (size_t)got;
    capture->bytes[got] = '\0';
}

/* How many bytes the UTF-8 character at `at` has; 0: it is none, or a control character. */
static inline size_t fuzz_character(const unsigned char *at, size_t left)
{
    size_t length = at[0] < 0x80 ? 1 : at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : 4;
    uint32_t code = length == 1 ? at[0] : at[0] & (0xffu >> (length + 1));
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    if (length > left || (at[0] >= 0x80 && at[0] < 0xc2) || at[0] > 0xf4)
        return 0;
    for (size_t i = 1; i < length; i++) {
        if ((at[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (at[i] & 0x3f);
    }
    if (code < least[length] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
        return 0;
    return code < 0x20 || (code >= 0x7f && code < 0xa0) ? 0 : length;
}

/* Whether a terminal and a log can take it: valid UTF-8, no control characters. */
static inline bool fuzz_is_visible(const char *bytes, size_t length)
{
    size_t at = 0;
    while (at < length) {
        size_t step = fuzz_character((const unsigned char *)bytes + at, length - at);
        if (step == 0)
            return false;
        at += step;
    }
    return true;
}

/* Whether it is whole lines, each visible; `*count`: how many. */
static inline bool fuzz_is_lines(const char *bytes, size_t length, size_t *count)
{
    *count = 0;
    while (length > 0) {
        const char *end = memchr(bytes, '\n', length);
        if (end == NULL || !fuzz_is_visible(bytes, (size_t)(end - bytes)))
            return false;
        length -= (size_t)(end - bytes) + 1;
        bytes = end + 1;
        (*count)++;
    }
    return true;
}

#endif
