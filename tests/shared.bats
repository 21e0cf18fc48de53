#!/usr/bin/env bats
# -s and -x: any number share, or one has it alone; both stand in one line.
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

@test "many share; an exclusive run is told how many; when the last has ended it has the lock alone" {
    local a b c
    hold a -s job
    hold b --shared job
    hold c -s job
    holders_are job 3
    run --separate-stderr lock job -- touch "$ROOM/ran"
    assert_status 75
    assert_one_line "^redislock: job: shared by $(hostname) \(pid ($a|$b|$c), deploy\) since .* ago, and 2 more$"
    let_go a
    let_go b
    run --separate-stderr lock -x job -- touch "$ROOM/ran"
    assert_status 75
    assert_one_line "shared by $(hostname) \(pid $c, deploy\) since [0-9:]{8}, [0-9.]+m?s ago$"
    let_go_quiet c
    [[ ! -e $ROOM/ran ]]
    run --separate-stderr lock -x job -- true
    assert_status 0
    assert_no_keys_left
}

@test "an exclusive holder keeps those out who would share" {
    local holder
    hold holder -x job
    run --separate-stderr lock -s job -- touch "$ROOM/ran"
    assert_status 75
    assert_one_line "held by $(hostname) \(pid $holder, deploy\)"
    [[ ! -e $ROOM/ran ]]
    let_go holder
    run --separate-stderr lock -s job -- true
    assert_status 0
}

@test "of -s and -x the last one counts" {
    local holder
    hold holder -x -s job
    holders_are job 1
    run --separate-stderr lock -s -x job -- true
    assert_status 75
    run --separate-stderr lock -x -s job -- true
    assert_status 0
}

@test "each who shares gets a fence of its own, larger than all before" {
    local holder kind
    hold holder -s job
    for kind in -s -s -s; do
        lock "$kind" job -c 'echo "$REDISLOCK_FENCE" "${REDISLOCK_SLOT-none}"' >>"$ROOM/fences"
    done
    let_go holder
    lock -x job -c 'echo "$REDISLOCK_FENCE" "${REDISLOCK_SLOT-none}"' >>"$ROOM/fences"
    rises "$ROOM/fences"
    assert_equal "$(cut -d' ' -f2 "$ROOM/fences" | sort -u)" none
}

@test "those who share stay in: the lock is extended beyond its TTL" {
    local a b one
    hold a -v -s -t 600ms job
    hold b -v -s -t 900ms job
    stand one -x job
    wait_until 10000 extended a 4
    wait_until 10000 extended b 3
    holders_are job 2
    assert_equal "$(served)" ''
    let_go a
    assert_status 0
    let_go b
    assert_status 0
    reap_all one
    assert_no_keys_left
}

extended() {
    (($(grep -c 'extended the lock' "$ROOM/$1.err") >= $2))
}

@test "a waiting exclusive run is not starved by a stream of those who share" {
    local a writer b c stream
    hold a -s job
    stand writer -x job
    # they come without end, and would always overlap
    spawn stream bash -c 'for i in $(seq 20); do
            "$REDISLOCK_BIN" -u "unix://$SOCK" -s -n job -- true
            echo $? >>"$ROOM/statuses"
        done'
    STAY=300 stand b -s job
    stand c -s job
    reap stream
    assert_equal "$(sort -u "$ROOM/statuses")" 75
    let_go a
    reap_all writer b c
    assert_equal "$(served | cut -d' ' -f1)" writer
    assert_no_keys_left
}

@test "those who share and wait one behind the other are let in together" {
    local holder a b c writer d
    hold holder -x job
    STAY=inf
    stand a -s job
    stand b -s job
    stand c -s job
    STAY=0 stand writer -x job
    STAY=0 stand d -s job
    let_go holder
    wait_until 5000 has_run a
    wait_until 5000 has_run b
    wait_until 5000 has_run c
    holders_are job 3
    line_is job 2
    kill -TERM "$a" "$b"
    reap a
    reap b
    line_is job 2
    kill -TERM "$c"
    reap_all writer d
    assert_equal "$(served | cut -d' ' -f4-)" 'writer d'
    reap c
    assert_no_keys_left
}

@test "one that is let in together with others and does not come loses its turn, and not its place" {
    local holder a b writer
    hold holder -x job
    STAY=inf stand a -s job
    STAY=0 stand b -s job
    stand writer -x job
    freeze "$b"
    let_go holder
    wait_until 5000 has_run a
    holders_are job 2
    wait_until $((GRANT_MS + 2000)) swept
    thaw "$b"
    # its place is in front of the exclusive one, and it fits beside the one that holds
    reap_all b
    assert_served a b
    kill -TERM "$a"
    reap_all writer
    reap a
    assert_served a b writer
}

# The exclusive waiter, or whoever looks, clears away what has expired.
swept() {
    lock -n job -- true 2>/dev/null || true
    holders_are job 1
}

@test "an exclusive waiter waits for the last: ends, crashes and losses of those who share" {
    local a b c writer start
    hold a -s -t 2s job
    hold b -s -t 2s job
    hold c -s -t 60s job
    stand writer -x job
    crash "$a"
    let_go c
    start=$(boottime_ms)
    crash "$b"
    reap_all writer
    assert_between $(($(began writer) - start)) 0 7000
    assert_no_keys_left
}

@test "row 52: crashed ones that shared do not keep an exclusive run out for longer than the TTL" {
    local a b c start
    hold a -s -t 2s job
    hold b -s -t 2s job
    hold c -s -t 2s job
    crash "$a" "$b" "$c"
    start=$(boottime_ms)
    run --separate-stderr lock -w 20 -x job -- true
    assert_status 0
    assert_between $(($(boottime_ms) - start)) 0 7000
}

@test "a place among those who share that vanished is lost, at once and for good: 79" {
    local a b
    hold a -s -t 1s job
    hold b -s -t 1s job
    rcli zrem "$(beside holders job)" "$(places job | grep ":$a:")" >/dev/null
    reap a
    assert_status 79
    assert_one_line '^redislock: job: lost the lock: our place among the holders vanished; stopping the command with SIGTERM$'
    holders_are job 1
    assert_equal "$(places job | cut -d: -f9)" "$b"
    # and all of them with the key
    rcli del "$(beside holders job)" >/dev/null
    reap b
    assert_status 79
    assert_no_keys_left
}

@test "one who shares is not put back after FLUSHALL" {
    local a
    hold a -s -t 1s job
    rcli flushall >/dev/null
    reap a
    assert_status 79
    assert_equal "$(rcli dbsize)" 1 # the state: the run is recorded
    assert_equal "$(state_field losses job)" 1
}

@test "one who shares and cannot reach the server is stopped in time" {
    local a
    proxy_start
    URL=$PROXY_URL hold a -s -t 1s job
    proxy_do blackhole
    reap a
    assert_status 79
    assert_line_stderr 'could not be extended in time'
}

@test "after a short run that shared, the minimum hold keeps an exclusive one out, and not another that shares" {
    local start
    start=$(boottime_ms)
    run --separate-stderr lock -s --min-hold 3s job -- true
    assert_status 0
    run --separate-stderr lock -x job -- true
    assert_status 75
    assert_one_line 'still held for its minimum hold after the run of'
    assert_equal "$(places job | cut -d: -f2,4)" ':residue'
    run --separate-stderr lock -s job -- true
    assert_status 0
    run --separate-stderr lock -w 20 -x job -- "$WITNESS" --log "$ROOM/log"
    assert_status 0
    assert_between $(($(awk '$1 == "start" { print $2 }' "$ROOM/log") - start)) 2980 20000
    assert_no_keys_left
}

@test "one that shares and is killed on the way (before, at and after the grant) takes nobody's place" {
    local holder a b c writer
    hold holder -x job
    stand a -s job
    STAY=inf stand b -s -t 1s job
    stand c -s -t 1s job
    STAY=0 stand writer -x job
    crash "$a" # before
    freeze "$c"
    let_go holder
    wait_until 5000 has_run b
    crash "$b" "$c" # after, at
    reap writer 20000
    assert_status 0
    assert_served b writer
    assert_no_keys_left
}

@test "-s in one line with other programs: a plain SET NX excludes those who share, and does not see them" {
    local a
    hold a -s job
    assert_equal "$(rcli set lock:job theirs nx px 60000)" OK
    run --separate-stderr lock -s job -- true
    assert_status 75
    assert_one_line 'held by another program'
    assert_equal "$(compare_and_delete lock:job theirs)" 1
    let_go a
    assert_status 0
}
