/*
 * Owns the wire form of a script call. May not retry anything but an unknown hash, which is no
 * attempt: the server has done nothing then.
 */
#include "redis/script.h"

#include <string.h>

#define COUNT_DIGITS 16
#define HOPS_MAX     5 /* redirects in one call; a cluster in order needs one */

/* The words EVALSHA|EVAL, script, number of keys, keys, arguments. */
struct script_words {
    const char *words[CLIENT_WORDS_MAX];
    size_t lengths[CLIENT_WORDS_MAX];
    int count;
    char digits[COUNT_DIGITS];
};

static void add_word(struct script_words *words, const char *bytes, size_t length)
{
    words->words[words->count] = bytes;
    words->lengths[words->count] = length;
    words->count++;
}

static void fill_words(struct script_words *words, const struct script_call *call, bool by_text)
{
    const struct script *script = call->script;
    struct text digits = TEXT_OVER(words->digits);
    text_add_int(&digits, call->key_count);
    words->count = 0;
    add_word(words, by_text ? "EVAL" : "EVALSHA", by_text ? 4 : 7);
    add_word(words, by_text ? script->text : script->sha1,
             by_text ? script->length : strlen(script->sha1));
    add_word(words, words->digits, digits.length);
    for (int i = 0; i < call->key_count; i++)
        add_word(words, call->keys[i].at, call->keys[i].length);
    for (int i = 0; i < call->argument_count; i++)
        add_word(words, call->arguments[i].at, call->arguments[i].length);
}

static enum server_error check_verdict(struct client *client, const struct reply *reply)
{
    if (reply->kind == REPLY_ERROR)
        return client_refused(client, reply);
    if (reply->kind != REPLY_ARRAY || reply->count == 0)
        return client_nonsense(client, "gives an unexpected reply to a script");
    return SERVER_OK;
}

static enum server_error run_once(struct client *client, const struct script_call *call,
                                  bool by_text, const struct reply **reply,
                                  const struct deadline *deadline)
{
    struct script_words words;
    fill_words(&words, call, by_text);
    const char *const probe_words[2] = {"DEL", call->probe != NULL ? call->probe->at : ""};
    const size_t probe_lengths[2] = {3, call->probe != NULL ? call->probe->length : 0};
    const struct client_command commands[2] = {{words.count, words.words, words.lengths},
                                               {2, probe_words, probe_lengths}};
    const struct reply *replies[2];
    int count = call->probe != NULL ? 2 : 1;

    if (call->may_be_late)
        client_may_be_late(client);
    enum server_error error = client_call(client, commands, count, replies, deadline);
    if (error != SERVER_OK)
        return error;
    if (count == 2 && replies[1]->kind == REPLY_ERROR && replies[0]->kind != REPLY_ERROR) {
        error = client_refused(client, replies[1]);
        /* only a master sends on what its slot has lost: while one moves, its verdict counts */
        if (error != SERVER_REDIRECTED)
            return error;
    }
    *reply = replies[0];
    return check_verdict(client, replies[0]);
}

/* A refused login or a wrong role does not mend itself on this connection. */
static void disconnect_if_hopeless(struct client *client, enum server_error error)
{
    if (error == SERVER_DENIED || error == SERVER_READONLY)
        client_disconnect(client);
}

/* No more calls are made: one of another kind, or to another node, would have come to nothing too. */
static void end_try(struct client *client, enum server_error error)
{
    if (error == SERVER_REDIRECTED || error == SERVER_NO_SCRIPT)
        client_keep_why(client);
    if (error == SERVER_BUSY)
        client_leave_node(client);
}

enum server_error script_run(struct client *client, const struct script_call *call,
                             const struct reply **reply, const struct deadline *deadline)
{
    enum server_error error = SERVER_REDIRECTED;
    client_end_visit(client);
    for (int hop = 0; hop <= HOPS_MAX && error == SERVER_REDIRECTED; hop++) {
        if (hop > 0)
            client_follow(client);
        error = run_once(client, call, call->by_text, reply, deadline);
        if (error == SERVER_NO_SCRIPT && !call->by_text)
            error = run_once(client, call, true, reply, deadline);
    }
    disconnect_if_hopeless(client, error);
    end_try(client, error);
    return error;
}

bool script_add(struct client *client, const struct script_call *call)
{
    struct script_words words;
    fill_words(&words, call, false);
    client_end_visit(client);
    return client_add(client, &(struct client_command){words.count, words.words, words.lengths});
}

enum server_error script_next(struct client *client, const struct reply **reply,
                              const struct deadline *deadline)
{
    enum server_error error = client_next(client, reply, deadline);
    if (error == SERVER_OK)
        error = check_verdict(client, *reply);
    disconnect_if_hopeless(client, error);
    return error;
}

/* One word, or two. */
struct short_command {
    const char *words[2];
    size_t lengths[2];
    struct client_command command;
};

static void short_command_fill(struct short_command *made, const char *word,
                               const struct text *operand)
{
    made->words[0] = word;
    made->lengths[0] = strlen(word);
    made->words[1] = operand != NULL ? operand->at : NULL;
    made->lengths[1] = operand != NULL ? operand->length : 0;
    made->command = (struct client_command){operand != NULL ? 2 : 1, made->words, made->lengths};
}

/* MULTI, the script, SUBSCRIBE, EXEC: the last reply has the two that count. */
static enum server_error subscribe_once(struct client *client, const struct script_call *call,
                                        bool by_text, const struct text *channel,
                                        const struct reply **reply, const struct deadline *deadline)
{
    struct script_words words;
    struct short_command multi;
    struct short_command subscribe;
    struct short_command exec;
    fill_words(&words, call, by_text);
    short_command_fill(&multi, "MULTI", NULL);
    short_command_fill(&subscribe, "SUBSCRIBE", channel);
    short_command_fill(&exec, "EXEC", NULL);
    const struct client_command commands[4] = {
        multi.command, {words.count, words.words, words.lengths}, subscribe.command, exec.command};
    const struct reply *replies[4];

    enum server_error error = client_call(client, commands, 4, replies, deadline);
    for (int i = 0; i < 3 && error == SERVER_OK; i++)
        if (replies[i]->kind == REPLY_ERROR)
            error = client_refused(client, replies[i]); /* and EXEC has refused the whole */
    if (error != SERVER_OK)
        return error;
    if (replies[3]->kind == REPLY_ERROR)
        return client_refused(client, replies[3]);
    if (replies[3]->kind != REPLY_ARRAY || replies[3]->count != 2)
        return client_nonsense(client, "gives an unexpected reply to a transaction");
    client_subscribed(client);
    *reply = &replies[3]->items[0];
    return check_verdict(client, *reply);
}

enum server_error script_run_and_subscribe(struct client *client, const struct script_call *call,
                                           const struct text *channel, const struct reply **reply,
                                           const struct deadline *deadline)
{
    enum server_error error = SERVER_REDIRECTED;
    client_end_visit(client);
    for (int hop = 0; hop <= HOPS_MAX && error == SERVER_REDIRECTED; hop++) {
        if (hop > 0)
            client_follow(client);
        error = subscribe_once(client, call, false, channel, reply, deadline);
        if (error == SERVER_NO_SCRIPT)
            error = subscribe_once(client, call, true, channel, reply, deadline);
    }
    end_try(client, error);
    if (error != SERVER_OK)
        client_disconnect(client); /* which of the four took effect is not worth finding out */
    return error;
}
