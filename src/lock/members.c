/*
 * Owns the members and the threads that ask them. Promises that no thread outlives its question, and
 * that the configured N counts, never the reachable ones.
 */
#include "lock/members.h"

#include <stdlib.h>

#include "base/clock.h"
#include "lock/quorum.h"

#define ATTEMPT_MAX_MS  250 /* of one exchange; a member that must connect gets it twice */
#define ATTEMPT_DIVISOR 20  /* or that part of the TTL */
#define STACK_BYTES     ((size_t)256 * 1024)

struct quorum *quorum_open(const struct lock_settings *settings)
{
    int count = settings->server_count;
    struct quorum *quorum = calloc(1, sizeof(*quorum) + (size_t)count * sizeof(struct member));
    if (quorum == NULL)
        return NULL;
    quorum->count = count;
    quorum->majority = count / 2 + 1;
    quorum->lease = settings->lease;
    quorum->restores = !settings->no_restore;
    quorum->attempt_ms = settings->lease.ttl_ms / ATTEMPT_DIVISOR;
    if (quorum->attempt_ms > ATTEMPT_MAX_MS)
        quorum->attempt_ms = ATTEMPT_MAX_MS;
    for (int i = 0; i < count; i++) {
        struct lock_settings own = *settings;
        own.server_count = 1;
        own.server = settings->servers[i];
        quorum->mixed_databases |= own.server.url->db != settings->server.url->db;
        quorum->members[i].quorum = quorum;
        quorum->members[i].lock = lock_open(&own);
        if (quorum->members[i].lock == NULL) {
            quorum_close(quorum);
            return NULL;
        }
        quorum->members[i].lock->cancel_ms = 2 * quorum->attempt_ms;
    }
    return quorum;
}

void quorum_close(struct quorum *quorum)
{
    if (quorum == NULL)
        return;
    for (int i = 0; i < quorum->count; i++)
        lock_close(quorum->members[i].lock);
    free(quorum);
}

static void *ask_one(void *argument)
{
    struct member *member = argument;
    member->quorum->question->ask(member, member->quorum->question);
    return NULL;
}

/* Every member in parallel; the last one in this thread. Without a thread one is asked in turn. */
void members_ask(struct quorum *quorum, const struct question *question)
{
    pthread_attr_t attributes;
    quorum->question = question;
    bool can_start = pthread_attr_init(&attributes) == 0;
    if (can_start)
        pthread_attr_setstacksize(&attributes, STACK_BYTES);
    for (int i = 0; i < quorum->count; i++) {
        struct member *member = &quorum->members[i];
        member->threaded = can_start && i + 1 < quorum->count &&
                           pthread_create(&member->thread, &attributes, ask_one, member) == 0;
        if (!member->threaded)
            ask_one(member);
    }
    for (int i = 0; i < quorum->count; i++)
        if (quorum->members[i].threaded)
            pthread_join(quorum->members[i].thread, NULL);
    if (can_start)
        pthread_attr_destroy(&attributes);
}

struct deadline members_attempt(const struct quorum *quorum, const struct deadline *deadline)
{
    for (int i = 0; i < quorum->count; i++)
        client_tries_until(quorum->members[i].lock->client, deadline);
    return deadline_sooner(*deadline, clock_boot_ms() + 2 * quorum->attempt_ms);
}

int members_count(const struct quorum *quorum, enum lock_result result)
{
    int count = 0;
    for (int i = 0; i < quorum->count; i++)
        count += quorum->members[i].result == result && !quorum->members[i].rejoined;
    return count;
}

int members_find(const struct quorum *quorum, enum lock_result result)
{
    for (int i = 0; i < quorum->count; i++)
        if (quorum->members[i].result == result)
            return i;
    return -1;
}

void members_collect_votes(struct quorum *quorum)
{
    quorum->fence = 0;
    quorum->confirmed_ms = INT64_MAX;
    for (int i = 0; i < quorum->count; i++) {
        const struct lock *lock = quorum->members[i].lock;
        if (quorum->members[i].result != LOCK_OK || quorum->members[i].rejoined)
            continue;
        if (lock->fence > quorum->fence)
            quorum->fence = lock->fence;
        if (lock->confirmed_ms < quorum->confirmed_ms)
            quorum->confirmed_ms = lock->confirmed_ms;
    }
}

enum lock_result members_trouble(struct quorum *quorum)
{
    static const enum lock_result kinds[] = {LOCK_OTHER_SLOTS, LOCK_DENIED,       LOCK_UNTRUSTED,
                                             LOCK_NOT_A_LOCK,  LOCK_BAD_DATABASE, LOCK_NONSENSE,
                                             LOCK_OS};
    enum lock_result first = LOCK_OK;
    int count = 0;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        int member = members_find(quorum, kinds[i]);
        if (member >= 0 && first == LOCK_OK) {
            first = kinds[i];
            quorum->spokesman = member;
        }
        count += members_count(quorum, kinds[i]);
    }
    return count > quorum->count - quorum->majority ? first : LOCK_OK;
}
