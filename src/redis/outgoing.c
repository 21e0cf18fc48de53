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
 * Not hiredis' formatting, which counts digits with printf and grows with realloc: that is slow, and
 * leaves passwords behind where it has been.
 */
bool outgoing_add(struct outgoing *outgoing, const struct client_command *command)
{
    size_t most = outgoing->text.length + FRAME_BYTES;
    for (int i = 0; i < command->count; i++)
        most += command->lengths[i] + FRAME_BYTES;
    char *storage = malloc(most);
    if (storage == NULL)
        return false;
    struct text text = text_over(storage, most);
    text_add_bytes(&text, outgoing->text.at, outgoing->text.length);
    add_frame(&text, '*', (size_t)command->count);
    for (int i = 0; i < command->count; i++) {
        add_frame(&text, '$', command->lengths[i]);
        text_add_bytes(&text, command->words[i], command->lengths[i]);
        text_add_bytes(&text, "\r\n", 2);
    }
    bool secret = outgoing->secret;
    outgoing_wipe(outgoing);
    *outgoing = (struct outgoing){text, secret};
    return true;
}
