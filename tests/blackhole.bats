#!/usr/bin/env bats
# A network that swallows packets: no RST, no error, no answer. Everything ends by redislock's own
# deadlines.

load lib/common
load lib/locks
load lib/servers
load lib/namespace

setup() {
    common_setup
    namespace_start
    redis_start main --tcp
    PORT=$(redis_port main)
    URL=redis://127.0.0.1:$PORT
    export URL
}

took_since() {
    assert_between "$(($(boottime_ms) - $1))" "$2" "$3"
}

hold_there() {
    local variable=$1
    shift
    spawn "$variable" bash -c 'exec 5>>"$0" "$@"' "$ROOM/$variable.events" "$REDISLOCK_BIN" -u "$URL" \
        --status-fd 5 "$@" -- "$WITNESS" --out "$ROOM/$variable.ready" --log "$ROOM/log" \
        --signals inf --exit-on TERM --exit 6
    wait_for_line "$ROOM/$variable.ready" '^ready ' || fail "$(cat "$ROOM/$variable.err")"
}

extended_since() {
    (($(grep -c '"event":"extended"' "$ROOM/$1.events") > $2))
}

@test "connecting ends with --connect-timeout, and can be interrupted" {
    local began
    swallow "$PORT"
    began=$(boottime_ms)
    run --separate-stderr lock --connect-timeout 0.7 job -- touch "$ROOM/ran"
    took_since "$began" 600 4000
    assert_status 69
    assert_one_line 'no answer in time'
    spawn job lock --connect-timeout 60 job -- touch "$ROOM/ran"
    wait_until 5000 has_started "$job"
    kill -TERM "$job"
    reap job 5000
    assert_status 143
    [[ ! -e $ROOM/ran ]]
}

# The program itself has blocked the signal that will come; nsenter has not.
has_started() {
    [[ $(readlink "/proc/$1/exe") != */nsenter ]] && grep -q '^SigBlk:.*[1-9a-f]' "/proc/$1/status"
}

@test "a network that comes back within --connect-timeout is waited for" {
    swallow "$PORT"
    spawn job lock --connect-timeout 60 job -- echo ran
    wait_until 5000 has_started "$job"
    heal
    reap job 20000
    assert_status 0
    assert_output ran
    assert_no_stderr
}

@test "a lock is kept while the network is away for less than the lease" {
    local before
    hold_there job -t 9 job
    swallow "$PORT"
    before=$(grep -c '"event":"extended"' "$ROOM/job.events" || true)
    wait_until 10000 lock_is_older_than 3400 # one extension was lost
    heal
    wait_until 10000 extended_since job "$before"
    kill -TERM "$(held_pid job)"
    reap job
    assert_status 6
    assert_no_stderr
    assert_no_key lock:job
}

# What is left of 9 s tells how long the key was not extended.
lock_is_older_than() {
    local left
    left=$(key_pttl lock:job)
    ((left > 0 && 9000 - left >= $1))
}

@test "a lock that cannot be extended ends its command before the key can expire" {
    hold_there job -t 3 job
    swallow "$PORT"
    wait_until 20000 process_gone "$(held_pid job)"
    assert_key lock:job
    reap job 15000
    assert_status 79
    assert_line_stderr 'could not be extended in time'
}

@test "an acquisition that was given up is not delivered when the network is back" {
    run lock other -- true # the server knows the scripts
    swallow_requests "$PORT"
    spawn job lock --connect-timeout 3 job -- touch "$ROOM/ran"
    wait_until 5000 sending "$PORT"
    swallow "$PORT" # the cancellation, on a connection of its own, finds none
    reap job 20000
    assert_status 69
    assert_equal "$(undelivered "$PORT")" ''
    heal
    wait_until 20000 nothing_undelivered "$PORT"
    assert_no_key lock:job
    [[ ! -e $ROOM/ran ]]
}

@test "a release that was given up is delivered when the network is back" {
    run lock other -- true
    hold_there job -t 60 job
    swallow_requests "$PORT"
    kill -TERM "$(held_pid job)"
    reap job 20000
    assert_one_line 'cannot release the lock: .*expires by itself'
    assert_key lock:job
    heal
    wait_until 20000 nothing_undelivered "$PORT"
    assert_no_key lock:job
}

@test "releasing ends by its own deadline and keeps the command's status" {
    local began
    hold_there job -t 30 job
    swallow "$PORT"
    began=$(boottime_ms)
    kill -TERM "$(held_pid job)"
    reap job 20000
    took_since "$began" 1000 9000
    assert_status 6
    assert_one_line 'cannot release the lock: .*expires by itself'
}

@test "a waiter notices that its server is gone, and is 69 after --connect-timeout" {
    hold_there job -t 3 job
    spawn waiter lock -w inf --connect-timeout 1 job -- true
    wait_until 5000 waits
    swallow "$PORT"
    reap waiter 30000
    assert_status 69
    assert_line_stderr 'no working Redis'
    heal
}

waits() {
    [[ $(rcli zcard 'lock:{lock:job}:queue') == 1 ]]
}

@test "a waiter whose network comes back in time gets its turn" {
    hold_there job -t 30 job
    spawn waiter lock -w inf --connect-timeout 30 job -- echo turn
    wait_until 5000 waits
    swallow "$PORT"
    rcli client kill type pubsub >/dev/null # its server has seen it go
    heal
    kill -TERM "$(held_pid job)"
    reap job
    reap waiter 40000
    assert_status 0
    assert_output turn
}

@test "a waiter in a black hole can be interrupted, and its wait ends in time" {
    hold_there job -t 30 job
    spawn one lock -w inf job -- true
    spawn two lock -w 1.5 job -- true
    wait_until 5000 both_wait
    swallow "$PORT"
    kill -INT "$one"
    reap one 5000
    assert_status 130
    reap two 10000
    assert_status 75
}

both_wait() {
    [[ $(rcli zcard 'lock:{lock:job}:queue') == 2 ]]
}

@test "in a quorum one black hole costs no more than its time-out, in the whole run" {
    local began
    redis_start s2 --tcp
    redis_start s3 --tcp
    URL=redis://127.0.0.1:$PORT,redis://127.0.0.1:$(redis_port s2),redis://127.0.0.1:$(redis_port s3)
    swallow "$(redis_port s3)"
    began=$(boottime_ms)
    run --separate-stderr lock job -- echo ran
    took_since "$began" 400 4000
    assert_status 0
    assert_output ran
    assert_no_stderr
    hold_there job -t 3 job
    local so_far
    heal
    wait_until 10000 eval '[[ $(rcli_at s3 exists lock:job) == 1 ]]' # it joins behind an extension
    so_far=$(grep -c '"event":"extended"' "$ROOM/job.events")
    wait_until 10000 extended_since job "$so_far"
    swallow "$(redis_port s2)"
    wait_until 20000 extended_since job "$((so_far + 3))"
    kill -TERM "$(held_pid job)"
    reap job
    assert_status 6
    assert_no_stderr
}

@test "a sentinel in a black hole costs its share of the time" {
    local began
    sentinel_start watch "$PORT" 1
    sentinel_start hole "$PORT" 1
    swallow "$(redis_port hole)"
    URL=redis+sentinel://127.0.0.1:$(redis_port hole),127.0.0.1:$(redis_port watch)/mymaster
    began=$(boottime_ms)
    run --separate-stderr lock job -- echo ran
    took_since "$began" 0 4000
    assert_status 0
    assert_output ran
}

@test "a master in a black hole, and a replica promoted: the job finds it before its lease is over" {
    local before
    replica_start replica1 main
    sentinel_start watch "$PORT" 1
    wait_until 20000 knows_replicas watch 1
    URL=redis+sentinel://127.0.0.1:$(redis_port watch)/mymaster
    hold_there job -t 20 job
    swallow "$PORT"
    wait_until 60000 names_master watch "$(redis_port replica1)"
    wait_until 30000 extended_since job 0
    redis_use replica1
    assert_key lock:job
    kill -TERM "$(held_pid job)"
    reap job 20000
    assert_status 6
    assert_no_stderr
    assert_no_key lock:job
}
