/*
 * Owns the wire form of commands. Promises that no copy of a password outlives its sending.
 */
#include "redis/outgoing.h"

#include <stdlib.h>

#include "base/secret.h"
#include "redis/client.h"

#define FRAME_BYTES 32 /* "$", a length and two line ends, with room to spare */

void outgoing_wipe(struct outgoing *outgoing)
{
    if (outgoing->secret)
        secret_wipe_bytes(outgoing->text.at, outgoing->text.length);
    free(outgoing->text.at);
    *outgoing = OUTGOING_NONE;
}

static void add_frame(struct text *text, char kind, size_t number)
{
    text_add_char(text, kind);
    text_add_int(text, (int64_t)number);
    text_add_bytes(text, "\r\n", 2);
}

/*
 * Room for `more` bytes and the NUL; twice as much as before at least, so that many commands are not
 * copied over and over. false: no memory, nothing has changed. Not realloc, which leaves passwords
 * behind where it has been.
 */
static bool reserve(struct outgoing *outgoing, size_t more)
{
    size_t needed = outgoing->text.length + more + 1;
    if (needed <= outgoing->text.capacity)
        return true;
    size_t twice = 2 * outgoing->text.capacity;
    size_t size = needed > twice ? needed : twice;
    char *storage = malloc(size);
    if (storage == NULL)
        return false;
    struct text text = text_over(storage, size);
    bool secret = outgoing->secret;
    text_add_bytes(&text, outgoing->text.at, outgoing->text.length);
    outgoing_wipe(outgoing);
    *outgoing = (struct outgoing){text, secret};
    return true;
}

/* Not hiredis' formatting, which counts digits with printf: that is slow. */
bool outgoing_add(struct outgoing *outgoing, const struct client_command *command)
{
    size_t most = FRAME_BYTES;
    for (int i = 0; i < command->count; i++)
        most += command->lengths[i] + FRAME_BYTES;
    if (!reserve(outgoing, most))
        return false;
    struct text *text = &outgoing->text;
    add_frame(text, '*', (size_t)command->count);
    for (int i = 0; i < command->count; i++) {
        add_frame(text, '$', command->lengths[i]);
        text_add_bytes(text, command->words[i], command->lengths[i]);
        text_add_bytes(text, "\r\n", 2);
    }
    return true;
}

bool outgoing_add_all(struct outgoing *outgoing, const struct outgoing *more)
{
    if (!reserve(outgoing, more->text.length))
        return false;
    text_add_bytes(&outgoing->text, more->text.at, more->text.length);
    return true;
}
