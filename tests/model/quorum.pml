/*
 * The lock on three servers of which a majority decides, as src/lock/quorum.c makes it and
 * quorum_hold.c keeps it: rounds of votes, the fence written back, extensions, members that take the
 * lock up again, a server that restarts without data. README.md says what is left out.
 *
 * The members are asked in any order, and everybody else acts in between; they are given up in one step,
 * as a key of one whose child has ended may run out at any moment anyway. Client 0 runs once, client 1
 * makes up to ROUNDS attempts. In one history there are at most FAULTS troubles: a restart without data,
 * or a message that is delayed: it arrives at any later time or never, and is not answered.
 *
 * There is no time. A key may run out at any moment, but not while its owner's child runs, if it
 * was set or extended in the owner's last round that counted, or later: the child must be dead before.
 * A child may end at any moment.
 */
#ifndef ROUNDS
#define ROUNDS 2
#endif
#ifndef FAULTS
#define FAULTS 1
#endif
#define MAJORITY 2
#define NOBODY 2
#define ORPHAN 3 /* whose owner has given it up: it is released, cancelled or runs out, soon or late */

mtype = { ACQUIRE, RAISE };

/* The servers. */
byte owner[3] = NOBODY;
byte fence_at[3]; /* in the key */
byte last[3];     /* the stored fence; 0: none */
byte clock[3];    /* the floor of fences */

/* The clients. */
bit child[2];
byte fence[2];
bit takes[2]; /* an attempt that is not too late */

/* The message that is under way and that nobody waits for any more. */
mtype late;
byte late_at, late_of, late_value, late_fence;

/* What only the properties and the passing of time look at. */
byte faults, latest;
bit kept[3];   /* the key was set or extended since its owner's last round that counted began */
bit lost[2];   /* the restart has left this one without a majority */
bit passed;    /* another child has started since client 0's did, under a larger fence */
byte highest;  /* nought between steps */

#define may_fail (faults < FAULTS)
#define may_delay (may_fail && late == 0)
#define votes_of(c) ((owner[0] == c) + (owner[1] == c) + (owner[2] == c))
#define larger(a, b) (a > b -> a : b)
#define runs(c) (child[c] && !lost[c])
#define exclusion !(runs(0) && runs(1))

/* --- The servers ------------------------------------------------------------------------------- */

inline clear(m)
{
    owner[m] = NOBODY;
    fence_at[m] = 0;
    kept[m] = 0
}

inline vote(m, c)
{
    last[m] = larger(last[m] + 1, clock[m]);
    owner[m] = c;
    fence_at[m] = last[m];
    kept[m] = 1
}

inline raise(m, number)
{
    last[m] = larger(last[m], number);
    fence_at[m] = number
}

inline forget_late()
{
    late = 0; late_at = 0; late_of = 0; late_value = 0; late_fence = 0
}

inline delay(what, m, value_there)
{
    faults++;
    late = what; late_at = m; late_of = me; late_value = value_there; late_fence = fence[me];
    printf("client %d: %e to server %d is delayed\n", me, what, m)
}

inline arrive()
{
    printf("client %d: %e arrives late at server %d\n", late_of, late, late_at);
    if
    :: late == ACQUIRE && owner[late_at] == NOBODY -> vote(late_at, late_of)
    :: late == RAISE && owner[late_at] == late_of && fence_at[late_at] == late_value ->
        raise(late_at, late_fence)
    :: else
    fi;
    forget_late()
}

/* A member's data is gone; its clock is past every fence that was given. */
inline restart(m)
{
    printf("server %d restarts without data\n", m);
    faults++;
    if
    :: owner[m] < NOBODY -> lost[owner[m]] = lost[owner[m]] || votes_of(owner[m]) <= MAJORITY
    :: else
    fi;
    clear(m);
#ifndef BREAK_CLOCK
    highest = larger(larger(last[0], last[1]), larger(last[2], latest));
    clock[m] = larger(clock[m], highest + 1);
    highest = 0;
#endif
    last[m] = 0
}

#ifdef BREAK_LATE_START
#define is_safe(m) (owner[m] < NOBODY && child[owner[m]] && kept[m])
#else
#define is_safe(m) (owner[m] < NOBODY && (takes[owner[m]] || (child[owner[m]] && kept[m])))
#endif
#define expires(m) \
    :: d_step { owner[m] != NOBODY && !is_safe(m) -> \
            printf("the key of client %d runs out on server %d\n", owner[m], m); clear(m) }
#define restarts(m) :: d_step { may_fail -> restart(m) }

active proctype World()
{
    /* the servers' fences differ */
    last[0] = 2;
end:
    do
    expires(0)
    expires(1)
    expires(2)
    restarts(0)
    restarts(1)
    restarts(2)
    :: d_step { late != 0 -> arrive() }
    od
}

/* --- A client ---------------------------------------------------------------------------------- */

/* What a member said in this phase. */
#define ASK     0 /* nothing yet */
#define YES     1
#define GONE    2 /* our key is not there */
#define NO      3
#define SILENT  4
#define REFUSED 5 /* it was gone, and is not taken up again */
#define DONE    6 /* what followed a yes is done as well */
#define BACK    7 /* took the lock up again: does not count yet */

#define count_of(what) ((said[0] == what) + (said[1] == what) + (said[2] == what))
#define any_of(what) (said[0] == what || said[1] == what || said[2] == what)
#define ask_all said[0] = ASK; said[1] = ASK; said[2] = ASK
#define know_none value[0] = 0; value[1] = 0; value[2] = 0
#define EACH(what) what(0) what(1) what(2)

/* A fence whose raising was not answered is taken for what it is. */
#define is_ours(m) \
    (owner[m] == me && value[m] != 0 && (fence_at[m] == value[m] || fence_at[m] == fence[me]))

/* Steps of a phase; they say `said[m]`, and what follows the last one is part of it. */
#define votes(m) \
    :: atomic { said[m] == ASK && owner[m] == NOBODY -> d_step { \
            vote(m, me); value[m] = fence_at[m]; said[m] = YES; \
            printf("client %d: server %d votes for it, fence %d\n", me, m, value[m]) }; goto voted } \
    :: atomic { said[m] == ASK && owner[m] != NOBODY -> said[m] = NO; goto voted } \
    :: atomic { said[m] == ASK && may_delay -> d_step { delay(ACQUIRE, m, 0); said[m] = NO }; goto voted }

#ifdef BREAK_NO_WRITE_BACK
#define is_raised(m) :: atomic { said[m] == YES -> said[m] = DONE; goto written }
#else
#define is_raised(m) \
    :: atomic { said[m] == YES && owner[m] == me -> d_step { \
            raise(m, fence[me]); value[m] = fence[me]; said[m] = DONE }; goto written } \
    :: atomic { said[m] == YES && owner[m] != me -> said[m] = NO; goto written } \
    :: atomic { said[m] == YES && may_delay -> d_step { delay(RAISE, m, value[m]); said[m] = NO }; goto written }
#endif

#define extends(m) \
    :: atomic { said[m] == ASK -> d_step { \
            if \
            :: is_ours(m) -> value[m] = fence_at[m]; kept[m] = 1; said[m] = (on_trial[m] -> BACK : YES) \
            :: else -> on_trial[m] = 0; said[m] = (value[m] == 0 || owner[m] == NOBODY -> GONE : NO) \
            fi; \
            printf("client %d: extends on server %d: %d\n", me, m, said[m]) }; goto extended } \
    :: atomic { said[m] == ASK && value[m] != 0 && may_fail -> d_step { \
            faults++; said[m] = SILENT; \
            printf("client %d: EXTEND to server %d is lost\n", me, m) }; goto extended }

/* join_late of quorum_hold.c: ACQUIRE, then FENCE. */
#ifdef BREAK_JOIN_ALONE
#define joins(m) (counted || value[m] == 0)
#define trial counted
#else
#define joins(m) counted
#ifdef BREAK_NO_TRIAL
#define trial 0
#else
#define trial 1 /* a member that joins counts once a majority was extended without it */
#endif
#endif
#define comes_back(m) \
    :: atomic { said[m] == GONE && joins(m) && (owner[m] == NOBODY || owner[m] == me) -> d_step { \
            if \
            :: owner[m] == NOBODY -> vote(m, me) \
            :: else \
            fi; \
            raise(m, fence[me]); value[m] = fence[me]; said[m] = BACK; on_trial[m] = trial; \
            printf("client %d: joins server %d\n", me, m) }; goto returned } \
    :: atomic { said[m] == GONE && joins(m) && owner[m] == NOBODY && may_delay -> d_step { \
            vote(m, me); value[m] = fence_at[m]; delay(RAISE, m, fence_at[m]); said[m] = BACK; on_trial[m] = trial; \
            printf("client %d: joins server %d\n", me, m) }; goto returned } \
    :: atomic { said[m] == GONE && joins(m) && owner[m] != NOBODY && owner[m] != me -> \
            value[m] = 0; said[m] = REFUSED; goto returned } \
    :: atomic { said[m] == GONE && joins(m) && may_delay -> d_step { \
            value[m] = 0; delay(ACQUIRE, m, 0); said[m] = REFUSED }; goto returned } \
    :: atomic { said[m] == GONE && !joins(m) -> d_step { \
            if \
            :: value[m] != 0 && owner[m] == NOBODY && may_restore(m) -> \
                last[m] = value[m]; owner[m] = me; fence_at[m] = value[m]; kept[m] = 1; said[m] = BACK; \
                printf("client %d: restores its key on server %d\n", me, m) \
            :: else -> said[m] = REFUSED \
            fi }; goto returned }
#ifdef BREAK_RESTORE_FENCE
#define may_restore(m) true
#else
#define may_restore(m) (last[m] <= value[m])
#endif

/* What was taken stands until a release or a cancellation arrives, or it runs out. */
#define leave(m) \
    if \
    :: owner[m] == me -> clear(m); owner[m] = ORPHAN \
    :: else \
    fi;
inline give_up()
{
    EACH(leave)
    if
    :: late != 0 && late_of == me -> forget_late() /* a tombstone, or a value that is gone */
    :: else
    fi;
    takes[me] = 0; lost[me] = 0; passed = passed && me == 1; fence[me] = 0;
    had = 0; was_passed = 0; counted = 0; stopping = 0;
    on_trial[0] = 0; on_trial[1] = 0; on_trial[2] = 0;
    know_none;
    ask_all
}
#define too_late \
    :: atomic { d_step { give_up(); printf("client %d: it is too late\n", me) }; goto end_attempt }

/* The child may go on: what that means. */
#define keep(m) kept[m] = (owner[m] == me -> said[m] == YES || said[m] == BACK : kept[m]);
inline round_counts()
{
    assert(had);         /* a majority was ours when the round began */
    assert(!was_passed); /* and nobody's child had started since ours did */
    lost[me] = lost[me] && votes_of(me) < MAJORITY;
    assert(exclusion);
    EACH(keep)
    on_trial[0] = 0; on_trial[1] = 0; on_trial[2] = 0
}

#define child_ends \
    :: atomic { d_step { child[me] -> child[me] = 0; give_up(); \
            printf("client %d: its child ends\n", me) }; goto end_attempt }

active [2] proctype Client()
{
    byte me = _pid - 1;
    byte round;
    byte said[3];
    byte value[3]; /* the fence of our key there, as far as we know; 0: none */
    bit on_trial[3];
    bit had, was_passed, counted, stopping;

end_attempt:
    atomic {
        round < (me == 0 -> 1 : ROUNDS);
        d_step { round++; takes[me] = 1; printf("client %d: a new token\n", me) }
    };
voting:
    if
    too_late
    EACH(votes)
    fi;
voted:
    atomic {
        if
        :: any_of(ASK) -> goto voting
        :: !any_of(ASK) && count_of(YES) < MAJORITY -> d_step { give_up() }; goto end_attempt
        :: else -> d_step {
                fence[me] = larger(value[0], value[1]);
                fence[me] = larger(fence[me], value[2]) }
        fi
    };
writing:
    if
    too_late
    EACH(is_raised)
    fi;
written:
    atomic {
        if
        :: any_of(YES) -> goto writing
        :: !any_of(YES) && count_of(DONE) < MAJORITY -> d_step { give_up() }; goto end_attempt
        :: else -> d_step {
                child[me] = 1;
                printf("client %d: its child starts, fence %d\n", me, fence[me]);
                lost[me] = lost[me] && votes_of(me) < MAJORITY;
                passed = (me == 1 && child[0] && !lost[1]);
                assert(lost[me] || fence[me] > latest); /* fences rise */
                latest = larger(latest, fence[me]);
                assert(exclusion);
                takes[me] = 0;
                ask_all }
        fi
    };

hold:
    if
    child_ends
#ifdef BREAK_EARLY_RELEASE
    :: d_step { !stopping -> EACH(leave) stopping = 1 } goto hold
#endif
    :: d_step { me == 0 && !stopping -> had = (votes_of(me) >= MAJORITY); was_passed = passed }
    fi;
extending:
    if
    child_ends
    EACH(extends)
    fi;
extended:
    atomic {
        if
        :: any_of(ASK) -> goto extending
        :: else
        fi;
        d_step {
            counted = (count_of(YES) >= MAJORITY);
            if
            :: counted -> round_counts()
            :: else
            fi
        };
        goto returned
    };
returning:
    if
    child_ends
    EACH(comes_back)
    fi;
returned:
    atomic {
        if
        :: any_of(GONE) -> goto returning
        :: else
        fi;
        d_step {
#ifdef BREAK_COUNT_REJOINED
            if
            :: !counted && count_of(YES) + count_of(BACK) >= MAJORITY -> round_counts()
            :: else
            fi;
#endif
            stopping = !counted && count_of(NO) + count_of(REFUSED) >= MAJORITY;
            had = 0; was_passed = 0; counted = 0;
            ask_all
        };
        goto hold
    };
}
