/*
 * The lock on one server, as src/lua and src/lock make it: acquire, extend, restore, release, cancel,
 * the line with its grants, and whatever can go wrong between the parties. README.md says what is
 * left out, and how to read what spin finds.
 *
 * Each client lives for ever: it runs once under one token, and comes back under another as soon as
 * nothing of the old one is left anywhere. Numbers that only grow (fences, tickets) are squeezed to
 * their order, so the number of runs is not bounded.
 *
 * Time goes in ticks. An attempt is as old as the ticks since it was sent, the key lives for T ticks
 * from when a command was applied, and the child must be dead before its confirmed attempt is older
 * than K. Everything else may take as long as it likes: that is what frozen and delayed means.
 *
 * In one history there are at most FAULTS troubles: a command delayed or lost, a broken connection, a
 * kill, a loss of data.
 *
 * -DLINE: for the liveness property. Then a tick is a trouble as well where somebody is about to act.
 */
#ifndef N
#define N 2
#endif
#ifndef FAULTS
#define FAULTS 1
#endif
#define NONE N
#define T 2
#ifdef BREAK_LATE_KILL
#define K T
#else
#define K (T - 1)
#endif

#if N == 2
#define ANY(condition) (condition(0) || condition(1))
#else
#define ANY(condition) (condition(0) || condition(1) || condition(2))
#endif

#define may_fail (faults < FAULTS)
#define fails faults++
byte faults;

mtype = { TRY, WAIT, EXTEND, RESTORE, RELEASE, CANCEL, BURY }; /* commands; BURY: CANCEL with a tombstone */
mtype = { OK, HELD, GONE, TAKEN, UNKNOWN };                    /* what came of them */

/* The server. */
byte key_token = NONE;
byte key_fence;
byte key_left;
bit key_granted;
byte last;      /* the stored fence; 0: none */
byte clock; /* the floor of fences */
byte place[N];  /* the ticket in the queue; 0: none */
bit listens[N]; /* as far as the server can see */
bit tomb[N];

/* The network: a command under way or its answer, and one that was given up and may still arrive. */
mtype request[N];
mtype answer[N];
bit at_once; /* an answer is read in the next step: a delay of it changes nothing */
mtype late;
byte late_of, late_fence;

/* The clients. */
byte fence[N];
byte ticket[N];
bit child[N];
byte confirmed[N]; /* the age of the last confirmed attempt, while a child runs */
byte sent[N];      /* the age of the attempt that is under way */
bit waiting[N];
#ifdef LINE
bit looked[N]; /* of his own accord, since the last tick or call: once, so that time goes on */
#define has_acted(c) looked[c]
#define acts looked[me] = 1
#else
#define has_acted(c) false
#define acts skip
#endif

/* What only the properties look at. */
byte highest; /* fence ever given */
byte latest;  /* of one who took the lock, not just a grant */
bit lost[N];  /* the server lost the key of this one */
bit forgot;   /* and all fences, since the lock was taken last */

/* Of the step at hand; nought between steps. */
byte first, v, fresh, who, value;
mtype reply, command;

/* --- Properties ------------------------------------------------------------------------------ */

#define runs(c) (child[c] && !lost[c])

/* No two children at once, but for those whose key the server has lost. */
#if N == 2
#define exclusion !(runs(0) && runs(1))
#else
#define exclusion !((runs(0) && runs(1)) || (runs(0) && runs(2)) || (runs(1) && runs(2)))
#endif

/* Whoever takes the lock by himself passes nobody who listens in line, and no grant. */
#define ahead(d) (d != who && place[d] != 0 && listens[d] && (place[who] == 0 || place[d] < place[who]))

#ifdef LINE
ltl moving_line { [] (waiting[0] -> <> !waiting[0]) }
#endif

/* --- Numbers ---------------------------------------------------------------------------------- */

#define has_fence(c) || fence[c] == v
#define less_fence(c) fence[c] = fence[c] - (fence[c] > v);
#define has_ticket(c) || place[c] == v || ticket[c] == v
#define less_ticket(c) place[c] = place[c] - (place[c] > v); ticket[c] = ticket[c] - (ticket[c] > v);
#if N == 2
#define EACH(what) what(0) what(1)
#else
#define EACH(what) what(0) what(1) what(2)
#endif

inline squeeze_fences()
{
    clock = (clock > last -> clock : 0); /* a floor that is passed */
    latest = (forgot -> 0 : latest);
    v = 1;
    do
    :: v > highest && v > clock -> break
    :: else ->
        if
        :: key_fence == v || last == v || clock == v || highest == v || latest == v ||
            late_fence == v EACH(has_fence) -> v++
        :: else ->
            key_fence = key_fence - (key_fence > v);
            last = last - (last > v);
            clock = clock - (clock > v);
            highest = highest - (highest > v);
            latest = latest - (latest > v);
            late_fence = late_fence - (late_fence > v);
            EACH(less_fence)
        fi
    od
}

#define top_ticket(c) fresh = (place[c] > fresh -> place[c] : fresh); fresh = (ticket[c] > fresh -> ticket[c] : fresh);

inline squeeze_tickets()
{
    fresh = 0;
    EACH(top_ticket)
    v = 1;
    do
    :: v >= fresh -> break
    :: else ->
        if
        :: false EACH(has_ticket) -> v++
        :: else -> EACH(less_ticket) fresh--
        fi
    od
}

/* --- The scripts ------------------------------------------------------------------------------ */

inline key_clear()
{
    key_token = NONE;
    key_fence = 0;
    key_left = 0;
    key_granted = 0
}

/* put of lib/line.lua */
inline put(token, granted, ttl)
{
    fresh = last + 1;
#ifndef BREAK_CLOCK
    fresh = (clock > fresh -> clock : fresh);
#endif
    assert(fresh > highest); /* fences rise */
    highest = fresh;
    last = fresh;
    key_token = token;
    key_fence = fresh;
    key_granted = granted;
    key_left = ttl
}

#define earlier(d) first = (place[d] != 0 && (first == NONE || place[d] < place[first]) -> d : first);

inline find_first()
{
    first = NONE;
    EACH(earlier)
}

/* serve of lib/line.lua; `me` helps himself */
inline serve(me)
{
    find_first();
    do
    :: first == NONE || first == me -> break
    :: else ->
        if
        :: listens[first] ->
            if
            :: key_token != NONE -> break
            :: else ->
                put(first, 1, 1);
                place[first] = 0;
#ifdef LINE
                looked[first] = 0;
#endif
            fi
        :: else ->
#ifdef BREAK_DEAD_TICKET
            break
#else
            place[first] = 0
#endif
        fi;
        find_first()
    od
}

inline taken_by(token)
{
    latest = key_fence;
    forgot = 0
}

inline acquire(waits)
{
    if
    :: tomb[who] -> reply = GONE
    :: !tomb[who] && key_token == who ->
        key_left = T;
        if
        :: key_granted -> key_granted = 0; taken_by(who); serve(who)
        :: else
        fi;
        reply = OK
    :: !tomb[who] && key_token != who ->
#ifdef BREAK_BARGE_LINE
        first = NONE;
#else
        serve(who);
#endif
        if
#ifdef BREAK_BARGE_GRANT
        :: (first == NONE || first == who) && (key_token == NONE || key_granted) ->
#else
        :: (first == NONE || first == who) && key_token == NONE ->
#endif
            assert(!key_granted && !ANY(ahead)); /* nobody is passed */
            place[who] = 0;
            put(who, 0, T);
            taken_by(who);
            reply = OK
        :: else ->
            if
            :: waits && ticket[who] != 0 -> place[who] = ticket[who]
            :: waits && ticket[who] == 0 -> squeeze_tickets(); place[who] = fresh + 1
            :: else
            fi;
            reply = HELD
        fi
    fi
}

inline extend()
{
    if
#ifdef BREAK_EXTEND_TOKEN
    :: key_token != NONE ->
#else
    :: key_token == who && key_fence == value && !key_granted ->
#endif
        key_left = T;
        reply = OK
#ifdef BREAK_BLIND_EXTEND
    :: else -> key_token = who; key_fence = value; key_granted = 0; key_left = T; reply = OK
#else
    :: else -> reply = (key_token == NONE -> GONE : TAKEN)
#endif
    fi
}

inline restore()
{
    if
    :: key_token == who && key_fence == value && !key_granted -> key_left = T; reply = OK
    :: key_token != NONE && !(key_token == who && key_fence == value && !key_granted) -> reply = TAKEN
    :: key_token == NONE ->
        if
#ifndef BREAK_RESTORE_FENCE
        :: last > value || tomb[who] -> reply = GONE
#endif
        :: else ->
            last = value;
            key_token = who;
            key_fence = value;
            key_granted = 0;
            key_left = T;
            reply = OK
        fi
    fi
}

/* A confirmed holder is the one who took the lock last, unless the server has lost even the fences. */
inline kept()
{
    assert(reply != OK || latest <= value || forgot)
}

inline release()
{
    if
#ifdef BREAK_RELEASE_TOKEN
    :: key_token != NONE ->
#else
    :: key_token == who && key_fence == value && !key_granted ->
#endif
        key_clear();
        reply = OK
    :: else -> reply = (key_token == NONE -> GONE : TAKEN)
    fi;
    serve(NONE)
}

inline cancel(bury)
{
    tomb[who] = tomb[who] || bury;
    if
    :: key_token == who -> key_clear()
    :: else
    fi;
    place[who] = 0;
    serve(NONE);
    reply = OK
}

inline apply()
{
    if
    :: command == TRY -> acquire(0)
    :: command == WAIT -> acquire(1)
    :: command == EXTEND -> extend(); kept()
    :: command == RESTORE -> restore(); kept()
    :: command == RELEASE -> release()
    :: command == CANCEL -> cancel(0)
    :: command == BURY -> cancel(1)
    fi
}

/* What a client makes of an OK depends on the age of the attempt. */
#define dated(command) (command == TRY || command == WAIT || command == EXTEND || command == RESTORE)

/* A command arrives. SUBSCRIBE goes ahead of WAIT on the same connection. */
#define arrives(c) :: d_step { request[c] != 0 -> who = c; command = request[c]; value = fence[c]; \
        printf("client %d: %e arrives\n", c, command); \
        request[c] = 0; listens[c] = listens[c] || command == WAIT; apply(); \
        lost[c] = lost[c] && !(reply == OK && dated(command)); assert(exclusion); \
        fence[c] = (reply == OK && (command == TRY || command == WAIT) -> key_fence : fence[c]); \
        answer[c] = reply; at_once = (reply != OK || !dated(command)); \
        printf("client %d: is answered %e; key of %d, fence %d\n", c, reply, key_token, key_fence); squeeze() }
/* A command arrives that its client has given up: nobody reads the answer. */
#define arrives_late \
    d_step { late != 0 -> who = late_of; command = late; value = late_fence; \
        printf("client %d: %e arrives late\n", who, command); \
        late = 0; late_of = 0; late_fence = 0; apply(); \
        printf("(answer %e; key of %d, fence %d)\n", reply, key_token, key_fence); squeeze() }
#define never_arrives d_step { late != 0 -> late = 0; late_of = 0; late_fence = 0; squeeze() }

inline squeeze()
{
    squeeze_fences();
    squeeze_tickets();
    done()
}

inline done()
{
    first = 0; v = 0; fresh = 0; reply = 0; command = 0; who = 0; value = 0
}

/* The key vanishes; or everything does: then the clock has gone on since the last fence. */
inline lose_key()
{
    fails;
    if
    :: key_token != NONE -> lost[key_token] = 1
    :: else
    fi;
    key_clear()
}

#define forget(c) place[c] = 0; tomb[c] = 0;

active proctype Server() provided (!at_once)
{
    do
    EACH(arrives)
    :: arrives_late
    :: never_arrives
    :: d_step { may_fail && key_token != NONE -> printf("the key vanishes\n"); lose_key(); squeeze() }
    :: d_step { may_fail -> printf("the server loses all data\n"); lose_key(); last = 0; clock = highest + 1; forgot = 1; EACH(forget) squeeze() }
    od
}

/* --- Time, and the guard ---------------------------------------------------------------------- */

/* Nothing of a child is left when the key could have expired: the supervisor sees to it, or the guard. */
#define overdue(c) (child[c] && confirmed[c] >= K)
#define ages(c) \
    confirmed[c] = (child[c] && confirmed[c] < T -> confirmed[c] + 1 : confirmed[c]); \
    sent[c] = ((dated(request[c]) || answer[c] != 0) && sent[c] < T -> sent[c] + 1 : sent[c]);
#define acting(c) (request[c] != 0 || answer[c] != 0 || (key_token == c && key_granted && waiting[c]))

#define looks_again(c) looked[c] = 0;

inline tick()
{
    printf("a tick\n");
    EACH(ages)
    key_left = key_left - (key_left > 0);
    if
    :: key_left == 0 && key_token != NONE -> printf("the key expires\n"); key_clear(); squeeze()
    :: else
    fi
}

active proctype Clock() provided (!at_once)
{
    do
#ifdef LINE
    :: d_step { !(ANY(overdue) || ANY(acting)) -> tick(); EACH(looks_again) }
    :: d_step { !ANY(overdue) && ANY(acting) && may_fail -> fails; tick(); EACH(looks_again) }
#else
    :: d_step { !ANY(overdue) -> tick() }
#endif
    od
}

#define ends(c) :: d_step { child[c] -> printf("client %d: its child ends\n", c); child[c] = 0; confirmed[c] = 0 }

/* A child ends by itself, is stopped or killed by the supervisor or the guard, or with redislock. */
active proctype Children() provided (!at_once)
{
    do
    EACH(ends)
    od
}

/* --- A client --------------------------------------------------------------------------------- */

#define send(what) atomic { request[me] = what; sent[me] = 0 }

/* got: the answer, or UNKNOWN when the client listens no longer. What it makes of it goes on in the
 * same step, as a pause in between is one before the answer. */
inline listen()
{
    if
    :: answer[me] != 0 -> got = answer[me]; at_once = 0; answer[me] = 0
    :: request[me] != 0 && may_fail -> fails; got = UNKNOWN; late = request[me]; late_of = me;
        late_fence = fence[me]; request[me] = 0
    :: request[me] != 0 && may_fail && late != 0 -> fails; got = UNKNOWN; request[me] = 0
    fi
}

inline end_run()
{
    ticket[me] = 0; fence[me] = 0; waits = 0; loose = 0; stopping = 0; waiting[me] = 0; listens[me] = 0
}

inline done_with_it()
{
    got = 0;
    sent[me] = 0
}

#define nothing_left ((late == 0 || late_of != me) && key_token != me && place[me] == 0)

active [N] proctype Client() provided (!at_once || answer[_pid - 3] != 0)
{
    byte me = _pid - 3;
    mtype got;
    bit waits, loose, stopping;

idle:
    atomic {
        nothing_left && !has_acted(me) -> acts; tomb[me] = 0; lost[me] = 0; listens[me] = 0;
        if
        :: waits = 1
        :: true
        fi
    };

    goto ask;

half_open:
    atomic { listens[me] = 0; goto idle };

ask:
    send((waits -> WAIT : TRY));
    atomic {
        listen();
        if
        :: got == OK && sent[me] <= K ->
            printf("client %d: its child starts\n", me);
            child[me] = 1;
#ifdef BREAK_COUNT_FROM_REPLY
            confirmed[me] = 0;
#else
            confirmed[me] = sent[me];
#endif
            waiting[me] = 0; ticket[me] = 0; listens[me] = 0;
            assert(exclusion);
            done_with_it();
            goto hold
        :: got == OK && sent[me] > K -> done_with_it(); goto too_late
        :: got == HELD && waits ->
            waiting[me] = 1;
            ticket[me] = (place[me] != 0 -> place[me] : ticket[me]);
            done_with_it();
            goto in_line
        :: got == HELD && !waits -> done_with_it(); goto give_up
        :: got == UNKNOWN -> loose = 1; done_with_it(); goto ask
        :: got == UNKNOWN -> loose = 1; done_with_it(); goto give_up
        :: got == UNKNOWN -> waiting[me] = 0; done_with_it(); end_run(); goto idle /* killed */
        fi
    };

in_line:
    if
    :: atomic { !has_acted(me) -> acts; goto ask }
    :: atomic { may_fail -> fails; listens[me] = 0; goto ask } /* the connection broke */
    :: atomic { waiting[me] = 0; goto give_up }
    :: atomic { may_fail -> fails; end_run(); goto idle } /* killed */
    :: atomic { may_fail -> fails; end_run(); listens[me] = 1; goto half_open } /* and the server does not see it */
    fi;

too_late:
    send(RELEASE);
    atomic {
        listen();
        fence[me] = 0; listens[me] = 0;
#ifndef BREAK_SAME_TOKEN
        loose = loose || got == UNKNOWN; /* a RELEASE may still arrive: not under this token again */
#endif
        done_with_it();
        if
        :: loose -> goto give_up
        :: else -> goto ask
        fi
    };

hold:
    if
    :: atomic { !child[me] -> goto let_go }
#ifdef BREAK_EARLY_RELEASE
    :: goto let_go
#endif
    :: atomic { child[me] && !stopping && !has_acted(me) -> acts }
    :: atomic { child[me] && may_fail -> fails; child[me] = 0; confirmed[me] = 0;
            printf("client %d: is killed, and the child with it\n", me); end_run(); goto idle }
    fi;
    send(EXTEND);
    atomic {
        listen();
        if
        :: got == GONE && child[me] -> done_with_it()
        :: else -> goto judge
        fi
    };
    send(RESTORE);
    atomic {
        listen();
        loose = loose || got == UNKNOWN;
judge:
        if
        :: got == OK && child[me] ->
#ifdef BREAK_COUNT_FROM_REPLY
            confirmed[me] = 0
#else
            confirmed[me] = sent[me]
#endif
        :: got == TAKEN || got == GONE -> stopping = 1
        :: else
        fi;
        done_with_it();
        goto hold
    };

let_go:
    send(RELEASE);
    atomic {
        listen();
        if
        :: got == UNKNOWN -> done_with_it(); goto let_go
        :: done_with_it()
        fi;
        if
        :: loose -> goto give_up
        :: else -> end_run(); goto idle
        fi
    };

give_up:
    waiting[me] = 0;
    if
    :: atomic { !loose && !waits -> end_run(); goto idle }
    :: else
    fi;
    send((loose -> BURY : CANCEL));
    atomic { listen(); done_with_it(); end_run(); goto idle }
}
