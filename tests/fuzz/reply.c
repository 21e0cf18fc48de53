/*
 * libFuzzer target: the reader of replies. `make fuzz` builds and runs it.
 *
 * The first byte says in how small pieces the rest arrives, and when the replies so far are given
 * back. Whatever comes, the reader takes no more memory than it promises, and every reply it hands
 * out is whole: kinds, lengths and items agree.
 */
#include <sanitizer/allocator_interface.h>

#include "fuzz.h"
#include "redis/error.h"
#include "redis/reply.h"

#define MEMORY_MAX                                                                                 \
    ((size_t)20 << 20) /* the reader's 8 MiB of text, its 8 MiB of nodes, some slack */
#define DEPTH_MAX 16

static void check_text(const struct reply *reply)
{
    REQUIRE(reply->bytes != NULL && reply->bytes[reply->length] == '\0');
    REQUIRE(reply->items == NULL && reply->count == 0);
    REQUIRE(server_error_classify(reply->bytes, reply->length) <= SERVER_OS);
}

static void check_reply(const struct reply *reply, int depth)
{
    int64_t number = 4711;
    REQUIRE(depth < DEPTH_MAX && reply->kind <= REPLY_ARRAY);
    bool is_text =
        reply->kind == REPLY_STATUS || reply->kind == REPLY_ERROR || reply->kind == REPLY_STRING;
    if (is_text)
        check_text(reply);
    else
        REQUIRE(reply->bytes == NULL && (reply->count == 0 || reply->items != NULL));
    REQUIRE(reply->kind == REPLY_ARRAY || reply->count == 0);
    for (size_t i = 0; i < reply->count; i++)
        check_reply(&reply->items[i], depth + 1);
    if (reply_number(reply, &number))
        REQUIRE(reply->kind == REPLY_INTEGER || reply->kind == REPLY_STRING);
    else
        REQUIRE(number == 4711);
}

/* All replies that are there. false: the stream is unusable. */
static bool read_all(struct reply_reader *reader)
{
    for (;;) {
        const struct reply *reply = NULL;
        switch (reply_reader_next(reader, &reply)) {
        case REPLY_READER_DONE:
            REQUIRE(reply != NULL);
            check_reply(reply, 0);
            break;
        case REPLY_READER_MORE:
            return true;
        case REPLY_READER_BROKEN:
        default:
            return false;
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    size_t piece = 1 + data[0] % 64 * (data[0] % 64);
    bool gives_back = data[0] >= 128;
    size_t before = __sanitizer_get_current_allocated_bytes();
    struct reply_reader *reader = reply_reader_open();
    REQUIRE(reader != NULL);
    for (size_t at = 1; at < size; at += piece) {
        size_t length = size - at < piece ? size - at : piece;
        char *bytes = fuzz_text(data + at, length);
        bool usable = reply_reader_feed(reader, bytes, length) && read_all(reader);
        free(bytes);
        REQUIRE(__sanitizer_get_current_allocated_bytes() - before <= MEMORY_MAX);
        if (!usable)
            break;
        if (gives_back)
            reply_reader_reset(reader);
    }
    reply_reader_close(reader);
    REQUIRE(__sanitizer_get_current_allocated_bytes() == before);
    return 0;
}
