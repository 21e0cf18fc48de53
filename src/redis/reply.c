/*
 * Owns the memory of replies and the reader of hiredis. Promises a bound of memory and of work:
 * REPLY_BYTES_MAX of text in flight and of nodes, and lines of LINE_BYTES_MAX, whatever a server
 * sends. May not do I/O.
 */
#include "redis/reply.h"

#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

#define REPLY_BYTES_MAX ((size_t)8 << 20)  /* unread text, and nodes; a page of SCAN is far below */
#define LINE_BYTES_MAX  ((size_t)64 << 10) /* of a status, an error, a number or a length */
#define BLOCK_BYTES     ((size_t)2048)

/* Nodes are taken from blocks and freed all at once. */
struct block {
    struct block *next;
    size_t used;
    size_t size;
    _Alignas(max_align_t) char bytes[];
};

struct reply_reader {
    redisReader *parser;
    struct block *blocks;
    size_t taken;   /* bytes of all blocks */
    size_t pending; /* bytes fed since the last whole reply */
};

static void *take(struct reply_reader *reader, size_t count, size_t size)
{
    if (size != 0 && count > REPLY_BYTES_MAX / size)
        return NULL;
    const size_t align = _Alignof(max_align_t);
    size_t wanted = (count * size + align - 1) / align * align;
    struct block *block = reader->blocks;
    if (block == NULL || block->size - block->used < wanted) {
        size_t room = wanted > BLOCK_BYTES ? wanted : BLOCK_BYTES;
        if (reader->taken + room > REPLY_BYTES_MAX)
            return NULL;
        block = malloc(sizeof(*block) + room);
        if (block == NULL)
            return NULL;
        *block = (struct block){.next = reader->blocks, .used = 0, .size = room};
        reader->blocks = block;
        reader->taken += room;
    }
    void *memory = block->bytes + block->used;
    block->used += wanted;
    return memory;
}

/* The node that the parser's task describes: a slot of its parent's array, or a new root. */
static struct reply *node_for(const redisReadTask *task, enum reply_kind kind)
{
    struct reply *node;
    if (task->parent != NULL) {
        struct reply *parent = task->parent->obj;
        node = &parent->items[task->idx];
    } else {
        node = take(task->privdata, 1, sizeof(*node));
    }
    if (node != NULL)
        *node = (struct reply){.kind = kind};
    return node;
}

static void *make_string(const redisReadTask *task, char *bytes, size_t length)
{
    enum reply_kind kind = task->type == REDIS_REPLY_ERROR    ? REPLY_ERROR
                           : task->type == REDIS_REPLY_STATUS ? REPLY_STATUS
                                                              : REPLY_STRING;
    struct reply *node = node_for(task, kind);
    char *copy = take(task->privdata, length + 1, 1);
    if (node == NULL || copy == NULL)
        return NULL;
    memcpy(copy, bytes, length);
    copy[length] = '\0';
    node->bytes = copy;
    node->length = length;
    return node;
}

static void *make_items(const redisReadTask *task, size_t count)
{
    struct reply *node = node_for(task, REPLY_ARRAY);
    if (node == NULL)
        return NULL;
    node->items = take(task->privdata, count, sizeof(*node->items));
    if (node->items == NULL)
        return NULL;
    memset(node->items, 0, count * sizeof(*node->items));
    node->count = count;
    return node;
}

#if HIREDIS_MAJOR >= 1
static void *make_array(const redisReadTask *task, size_t count)
{
    return make_items(task, count);
}
#else
static void *make_array(const redisReadTask *task, int count)
{
    return count < 0 ? NULL : make_items(task, (size_t)count);
}
#endif

static void *make_integer(const redisReadTask *task, long long value)
{
    struct reply *node = node_for(task, REPLY_INTEGER);
    if (node != NULL)
        node->integer = value;
    return node;
}

static void *make_nil(const redisReadTask *task)
{
    return node_for(task, REPLY_NIL);
}

static void free_nothing(void *node)
{
    (void)node; /* the blocks own it */
}

/* Never changed; hiredis wants the pointer without const. */
static redisReplyObjectFunctions make = {
    .createString = make_string,
    .createArray = make_array,
    .createInteger = make_integer,
    .createNil = make_nil,
    .freeObject = free_nothing,
};

static void free_blocks(struct reply_reader *reader)
{
    while (reader->blocks != NULL) {
        struct block *next = reader->blocks->next;
        free(reader->blocks);
        reader->blocks = next;
    }
    reader->taken = 0;
}

void reply_reader_reset(struct reply_reader *reader)
{
    if (reader->parser->ridx < 0) /* else a reply is half read, and its nodes are in use */
        free_blocks(reader);
}

struct reply_reader *reply_reader_open(void)
{
    struct reply_reader *reader = calloc(1, sizeof(*reader));
    if (reader == NULL)
        return NULL;
    reader->parser = redisReaderCreateWithFunctions(&make);
    if (reader->parser == NULL) {
        free(reader);
        return NULL;
    }
    reader->parser->privdata = reader;
    return reader;
}

void reply_reader_close(struct reply_reader *reader)
{
    if (reader == NULL)
        return;
    redisReaderFree(reader->parser);
    free_blocks(reader);
    free(reader);
}

bool reply_reader_feed(struct reply_reader *reader, const char *bytes, size_t length)
{
    reader->pending += length;
    return reader->pending <= REPLY_BYTES_MAX &&
           redisReaderFeed(reader->parser, bytes, length) == REDIS_OK;
}

/* The parser looks for a line's end from its beginning with every feed: seconds for one of 8 MB. */
static bool is_endless(const redisReader *parser)
{
    return parser->len - parser->pos > LINE_BYTES_MAX &&
           memchr(parser->buf + parser->pos, '\n', LINE_BYTES_MAX) == NULL;
}

enum reply_reader_result reply_reader_next(struct reply_reader *reader, const struct reply **reply)
{
    void *root = NULL;
    if (redisReaderGetReply(reader->parser, &root) != REDIS_OK)
        return REPLY_READER_BROKEN;
    if (root == NULL)
        return is_endless(reader->parser) ? REPLY_READER_BROKEN : REPLY_READER_MORE;
    reader->pending = 0;
    *reply = root;
    return REPLY_READER_DONE;
}

bool reply_is(const struct reply *reply, const char *text)
{
    return (reply->kind == REPLY_STRING || reply->kind == REPLY_STATUS) &&
           reply->length == strlen(text) && memcmp(reply->bytes, text, reply->length) == 0;
}

bool reply_number(const struct reply *reply, int64_t *number)
{
    int64_t value = reply->integer;
    if (reply->kind == REPLY_STRING && reply->length > 0) {
        char *end;
        value = strtoll(reply->bytes, &end, 10); /* at a limit where it is larger */
        if (end != reply->bytes + reply->length)
            return false;
    } else if (reply->kind != REPLY_INTEGER) {
        return false;
    }
    if (value > REPLY_NUMBER_MAX || value < -REPLY_NUMBER_MAX)
        return false;
    *number = value;
    return true;
}
