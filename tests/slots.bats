#!/usr/bin/env bats
# -S N: at most N at once, each with a slot of its own.
# shellcheck disable=SC2030,SC2031 # each test is a process of its own
# shellcheck disable=SC2034,SC2154 # spawn, hold and stand assign, or read by reference
# shellcheck disable=SC2016 # what a job expands

load lib/common
load lib/one_server
load lib/locks
load lib/queue

setup() {
    one_server_setup
    export LOGNAME=deploy
}

# The slots that are taken, as the server has them, in order.
slots_taken() {
    places job | cut -d: -f4 | tr -dc '0-9\n' | sort -n | xargs
}

# assert_capacity FILE N: in a log of `start SLOT FENCE` and `end SLOT FENCE` lines never more than N
# are inside, and no two of them in one slot.
assert_capacity() {
    awk -v most="$2" '
        $1 == "start" { if ($2 in taken) { print "slot " $2 " twice: line " NR; bad = 1 }
                        if ($2 < 1 || $2 > most) { print "slot " $2; bad = 1 }
                        taken[$2] = 1; if (++inside > most) { print inside " inside: line " NR; bad = 1 } 
                        if (inside > seen) seen = inside }
        $1 == "end" { delete taken[$2]; inside-- }
        END { if (seen < most) { print "never more than " seen " inside"; bad = 1 } exit bad }' "$1" >&2
}

@test "N hold at once and one more is told; slots are numbered from 1, the lowest free one first" {
    local a b c
    hold a -S 3 job
    hold b --slots 3 job
    hold c -S 3 job
    assert_equal "$(slots_taken)" '1 2 3'
    run --separate-stderr lock -S 3 job -- touch "$ROOM/ran"
    assert_status 75
    assert_one_line "^redislock: job: held by $(hostname) \(pid ($a|$b|$c), deploy\) since .* ago, and 2 more$"
    [[ ! -e $ROOM/ran ]]
    assert_equal "$(witness_env b SLOT)" 2
    let_go b
    assert_status 0
    run --separate-stderr lock -S 3 job -c 'echo "$REDISLOCK_SLOT"'
    assert_output 2
    let_go a
    let_go c
    run --separate-stderr lock -S 3 job -c 'echo "$REDISLOCK_SLOT"'
    assert_output 1
    assert_no_keys_left
}

witness_env() {
    tr '\0' '\n' <"/proc/$(held_pid "$1")/environ" | sed -n "s/^REDISLOCK_$2=//p"
}

@test "30 runs for 4 slots: never more than 4 at once, slots unique, served in order, fences rise" {
    local crowd
    # each logs its slot and fence
    printf '%s\n' 'echo "start $REDISLOCK_SLOT $REDISLOCK_FENCE" >>"$ROOM/slots"' 'sleep 0.05' \
        'echo "end $REDISLOCK_SLOT $REDISLOCK_FENCE" >>"$ROOM/slots"' >"$ROOM/job"
    spawn crowd bash -c 'for i in $(seq 30); do
            "$REDISLOCK_BIN" -u "unix://$SOCK" -w inf -S 4 job sh "$ROOM/job" &
        done
        wait'
    reap crowd 20000
    assert_no_stderr
    assert_equal "$(grep -c ^start "$ROOM/slots")" 30
    assert_capacity "$ROOM/slots" 4
    awk '$1 == "start" { print $3 }' "$ROOM/slots" | sort -n >"$ROOM/fences"
    rises "$ROOM/fences"
    assert_no_keys_left
    assert_equal "$(state_field runs job)" 30
}

@test "waiters for a slot are served in the order in which they came" {
    local a b one two three
    hold a -S 2 job
    hold b -S 2 job
    STAY=200
    stand one -S 2 job
    stand two -S 2 job
    stand three -S 2 job
    run --separate-stderr lock -n -S 2 job -- touch "$ROOM/ran"
    assert_status 75
    let_go a
    wait_until 5000 has_run one
    let_go b
    reap_all one two three
    assert_equal "$(served)" 'one two three'
    [[ ! -e $ROOM/ran ]]
    assert_no_keys_left
}

@test "another N for the same name is 78 and both numbers are said: against holders" {
    local a option
    hold a -S 3 job
    run --separate-stderr lock -S 2 job -- touch "$ROOM/ran"
    assert_status 78
    assert_one_line 'in use with 3 slots, not 2'
    run --separate-stderr lock -S 4 -w inf job -- touch "$ROOM/ran"
    assert_status 78
    assert_one_line 'in use with 3 slots, not 4'
    for option in -x -s '-S 1' '-w 5'; do
        # shellcheck disable=SC2086
        run --separate-stderr lock $option job -- touch "$ROOM/ran"
        assert_status 78
        assert_one_line 'in use with 3 slots, not 1'
    done
    let_go a
    hold a job
    run --separate-stderr lock -S 2 job -- touch "$ROOM/ran"
    assert_status 78
    assert_one_line 'in use with 1 slot, not 2'
    let_go a
    hold a -s job
    run --separate-stderr lock -S 2 job -- touch "$ROOM/ran"
    assert_status 78
    assert_one_line 'in use with 1 slot, not 2'
    [[ ! -e $ROOM/ran ]]
}

@test "another N is 78 while there are only waiters, and free when nobody is left" {
    local one
    rcli set lock:job theirs nx px 60000 >/dev/null
    stand one -S 3 job
    freeze "$one"
    rcli del lock:job >/dev/null
    run --separate-stderr lock -S 2 job -- touch "$ROOM/ran" # and the slot goes to the waiter
    assert_status 78
    assert_one_line 'in use with 3 slots, not 2'
    run --separate-stderr lock job -- touch "$ROOM/ran"
    assert_status 78
    assert_one_line 'in use with 3 slots, not 1'
    thaw "$one"
    reap_all one
    assert_served one
    run --separate-stderr lock -S 2 job -c 'echo "$REDISLOCK_SLOT"'
    assert_output 1
    run --separate-stderr lock job -- true
    assert_status 0
    [[ ! -e $ROOM/ran ]]
}

@test "waiters and holders that died bind no N" {
    local a one
    hold a -S 3 -t 2s job
    hold b -S 3 -t 2s job
    hold c -S 3 -t 2s job
    stand one -S 3 job
    crash "$one" "$a" "$b" "$c"
    wait_until 8000 lock -S 5 job -- true
    run --separate-stderr lock job -- true
    assert_status 0
    assert_no_keys_left
}

@test "-S 1 is a plain lock, with a slot" {
    local a
    hold a -S 1 job
    key_exists lock:job
    assert_equal "$(witness_env a SLOT)" 1
    run --separate-stderr lock job -- true
    assert_status 75
    let_go a
    run --separate-stderr lock job -c 'echo "${REDISLOCK_SLOT-none}"'
    assert_output none
}

@test "-S is 1 to 64, and not to be had with -s: 64" {
    local value
    for value in 0 65 -1 x '' 1.5 99999999999999999999; do
        run --separate-stderr lock -S "$value" job -- true
        assert_status 64
        assert_line_stderr "slots.*"
    done
    run --separate-stderr lock -s -S 2 job -- true
    assert_status 64
    assert_line_stderr '(-s|--shared).*(-S|--slots)|(-S|--slots).*(-s|--shared)'
    run --separate-stderr lock -S 64 job -c 'echo "$REDISLOCK_SLOT"'
    assert_output 1
}

@test "row 52: after a crash of all holders every slot is back within the TTL" {
    local a b c one two three start
    hold a -S 3 -t 2s job
    hold b -S 3 -t 2s job
    hold c -S 3 -t 2s job
    STAY=inf
    stand one -S 3 job
    stand two -S 3 job
    stand three -S 3 job
    crash "$a" "$b" "$c"
    start=$(boottime_ms)
    wait_until 8000 has_run one
    wait_until 8000 has_run two
    wait_until 8000 has_run three
    assert_between $(($(boottime_ms) - start)) 0 7000
    assert_equal "$(slots_taken)" '1 2 3'
    holders_are job 3
}

@test "row 37: a slot that was handed to a waiter which does not come is free again after the grant" {
    local a b one two start
    hold a -S 2 job
    hold b -S 2 job
    stand one -S 2 job
    stand two -S 2 job
    freeze "$one"
    start=$(boottime_ms)
    let_go a
    assert_equal "$(places job | grep ":$one:" | cut -d: -f4)" granted1
    crash "$one"
    reap_all two
    assert_served two
    assert_between $(($(began two) - start)) 0 $((GRANT_MS + 2000))
    let_go b
    assert_no_keys_left
}

@test "a slot that vanished is lost, at once and for good: 79; the others run on" {
    local a b
    hold a -S 2 -t 1s job
    hold b -v -S 2 -t 1s job
    rcli zrem "$(beside holders job)" "$(places job | grep ":$a:")" >/dev/null
    reap a
    assert_status 79
    assert_one_line 'lost the lock: our place among the holders vanished'
    assert_equal "$(slots_taken)" 2
    hold c -S 2 job
    assert_equal "$(witness_env c SLOT)" 1
    let_go b
    assert_status 0
}

@test "a release takes no successor's slot" {
    local a
    hold a -S 1 -t 60s other
    hold a -S 2 -t 60s job
    rcli zrem "$(beside holders job)" "$(places job)" >/dev/null
    hold b -S 2 job # the same slot
    assert_equal "$(witness_env b SLOT)" 1
    let_go a
    assert_status 0
    assert_one_line 'lost while the command ran'
    assert_equal "$(slots_taken)" 1
    assert_equal "$(places job | cut -d: -f9)" "$b"
}

@test "a minimum hold keeps the slot for its rest" {
    local a start
    start=$(boottime_ms)
    run --separate-stderr lock -S 2 --min-hold 3s job -- true
    assert_status 0
    assert_equal "$(places job | cut -d: -f2,4)" ':residue1'
    hold a -S 2 job
    assert_equal "$(witness_env a SLOT)" 2
    run --separate-stderr lock -S 2 job -- true
    assert_status 75
    run --separate-stderr lock -w 20 -S 2 job -- "$WITNESS" --log "$ROOM/log"
    assert_status 0
    assert_between $(($(awk '$1 == "start" { print $2 }' "$ROOM/log") - start)) 2980 20000
    let_go a
    assert_no_keys_left
}

@test "a lost reply takes one slot, not two" {
    local a cut
    proxy_start
    for cut in 0 1 30; do
        proxy_do next cut-after "$cut" s2c
        URL=$PROXY_URL run --separate-stderr lock -S 2 job -c \
            'redis-cli -s "$SOCK" zcard "lock:{lock:job}:holders"'
        assert_status 0
        assert_output 1
        assert_no_key "$(beside holders job)"
    done
}

@test "slots are extended beyond their TTL, each by itself" {
    local a b
    hold a -v -S 2 -t 600ms job
    hold b -v -S 2 -t 60s job
    wait_for_line "$ROOM/a.err" 'extended the lock'
    wait_until 10000 extended a 4
    assert_equal "$(slots_taken)" '1 2'
    let_go a
    assert_status 0
    let_go b
    assert_status 0
    assert_no_keys_left
}

extended() {
    (($(grep -c 'extended the lock' "$ROOM/$1.err") >= $2))
}
