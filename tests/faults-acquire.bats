#!/usr/bin/env bats
# A connection that fails while the lock is being acquired: what was applied and what was not may
# not be known. Whatever happened, the lock is ours and served, or it is not there.
# shellcheck disable=SC2030,SC2031 # each test is a process of its own
# shellcheck disable=SC2154,SC2153 # spawn, hold and the helpers assign

load lib/common
load lib/locks
load lib/trouble

# A first run, through the proxy: afterwards the server knows the scripts. Sets SENT and ANSWERED,
# the bytes of a whole acquisition and release, and ASKED and TOLD, those of the acquisition alone.
measure() {
    lock job -- true
    URL=$PROXY_URL lock job -- true
    SENT=$(proxy_stat c2s) ANSWERED=$(proxy_stat s2c)
    proxy_do pass
    URL=$PROXY_URL hold measured job
    ASKED=$(($(proxy_stat c2s) - SENT)) TOLD=$(($(proxy_stat s2c) - ANSWERED))
    let_go measured
}

# run_through: a job through the proxy, whose command tells what is left of the lock's expiry. It must
# run exactly once and with a lock that expires, and leave nothing.
run_through() {
    URL=$PROXY_URL run --separate-stderr lock --connect-timeout 60 job -- \
        redis-cli -s "$SOCK" pttl lock:job
    assert_status 0 || return
    assert_between "$output" 1 60000 || return
    assert_no_stderr || return
    assert_no_key lock:job
}

# cut_at WAY BYTE...: such runs, each with its first connection cut at one of these bytes.
cut_at() {
    local way=$1 byte
    shift
    for byte in "$@"; do
        proxy_do next cut-after "$byte" "$way"
        run_through || fail "cut at byte $byte $way"
    done
}

# Each so many bytes of the middle are tried; CUT_STEP=1 takes minutes and leaves out nothing.
CUT_STEP=${CUT_STEP:-13}

@test "row 1: an answer that gets lost is asked for again under the same token" {
    redis_start
    proxy_start
    lock job -- true
    proxy_do next drop s2c
    URL=$PROXY_URL spawn job lock --connect-timeout 60 job -- sh -c \
        'echo $REDISLOCK_FENCE; redis-cli -s "$SOCK" get lock:job'
    wait_until 10000 key_exists lock:job # applied, and redislock does not know
    local fence
    fence=$(holder_field fence lock:job)
    reap job
    assert_status 0
    assert_equal "${lines[0]}" "$fence" # the same acquisition, not a second one
    assert_no_stderr
    assert_free job
}

@test "row 1: an acquisition that is given up with its outcome unknown is taken back" {
    redis_start
    proxy_start
    lock job -- true
    proxy_do next drop s2c
    URL=$PROXY_URL run --separate-stderr lock --connect-timeout 0.3 job -- touch "$ROOM/ran"
    assert_status 69
    assert_one_line "^redislock: job: $PROXY_URL: no answer in time; no working Redis"
    [[ ! -e $ROOM/ran ]]
    assert_free job
}

@test "row 2: cut off between the server's doing and its answer: the command runs, never \"held\"" {
    redis_start
    proxy_start
    lock job -- true
    cut_at s2c 0 0 0 0 0
    assert_free job
}

@test "row 8: cut at any byte of the server's answers, the command runs once and nothing is left" {
    redis_start
    proxy_start
    measure
    cut_at s2c 0 1 2 3 $((TOLD - 1)) "$TOLD" $((TOLD + 1)) $((ANSWERED - 1)) "$ANSWERED"
    # shellcheck disable=SC2046 # words on purpose
    cut_at s2c $(seq 4 "$CUT_STEP" "$ANSWERED")
    assert_free job
}

@test "row 8: cut at any byte of what redislock sends, the command runs once and nothing is left" {
    redis_start
    proxy_start
    measure
    cut_at c2s 0 1 2 $((ASKED - 1)) "$ASKED" $((ASKED + 1)) $((SENT - 1)) "$SENT"
    # shellcheck disable=SC2046 # words on purpose
    cut_at c2s $(seq 3 $((CUT_STEP * 5)) "$SENT")
    assert_free job
}

@test "row 8: killed outright at any moment, redislock leaves no key without an expiry" {
    redis_start
    proxy_start
    lock job -- true
    proxy_do delay 40
    local number
    for number in {1..12}; do
        URL=$PROXY_URL spawn victim lock "job-$number" -- sleep 0.04
        wait_until $((number * 20)) false 2>/dev/null || true # so long it lives
        process_end "$victim" KILL
    done
    assert_free job
}

@test "row 5: a server that answers only after redislock has given up finds no lock to keep" {
    redis_start
    lock job -- true
    rcli client pause 1500 write
    run --separate-stderr lock --connect-timeout 0.2 job -- touch "$ROOM/ran"
    assert_status 69
    assert_one_line "^redislock: job: unix://$SOCK: no answer in time; no working Redis"
    rcli client unpause
    rcli set after pause px 60000 # waits for all that was paused before it
    assert_free job
    [[ ! -e $ROOM/ran ]]
}

@test "row 5: a frozen server that wakes up after redislock has given up ends without a lock" {
    redis_start
    lock job -- true
    redis_freeze
    run --separate-stderr lock --connect-timeout 0.2 job -- touch "$ROOM/ran"
    redis_thaw
    assert_status 69
    wait_until 5000 rcli ping
    assert_free job
    [[ ! -e $ROOM/ran ]]
    run --separate-stderr lock job -- echo ran
    assert_status 0
    assert_output ran
}

@test "row 6: SIGTERM while an acquisition is pending: 143, no command, and no lock later" {
    redis_start
    proxy_start
    lock job -- true
    redis_freeze
    URL=$PROXY_URL spawn job lock job -- touch "$ROOM/ran"
    wait_until 5000 proxy_saw c2s 100 # asked
    kill -TERM "$job"
    reap job
    redis_thaw
    assert_status 143
    assert_no_output
    wait_until 5000 rcli ping
    assert_free job
    [[ ! -e $ROOM/ran ]]
}

@test "row 6: an acquisition that arrives after it was taken back takes nothing" {
    redis_start
    proxy_start
    lock job -- true
    proxy_do next hold c2s
    URL=$PROXY_URL spawn job lock job -- touch "$ROOM/ran"
    wait_until 5000 proxy_saw connections 1
    wait_until 5000 proxy_saw open 1
    kill -TERM "$job"
    reap job
    assert_status 143
    wait_until 5000 tombstone_stands
    local before
    before=$(calls evalsha)
    proxy_do pass # now the old one arrives
    wait_until 5000 called_since evalsha "$before"
    assert_free job
    [[ ! -e $ROOM/ran ]]
}

tombstone_stands() {
    [[ $(rcli keys '*:cancelled:*') == *cancelled* ]]
}

@test "row 13: many short runs over a slow and uneven network leave no key behind" {
    redis_start
    proxy_start
    lock job -- true
    local number
    for _ in 1 2 3; do
        for number in {1..8}; do
            proxy_do delay $((RANDOM % 25))
            URL=$PROXY_URL spawn "run_$number" lock "job-$number" -- true
        done
        for number in {1..8}; do
            reap_quiet "run_$number"
        done
    done
    assert_no_keys_left
}

@test "row 13: commands that end just as an extension goes out leave no key behind" {
    redis_start
    proxy_start
    lock job -- true
    local number
    for number in {1..12}; do
        proxy_do delay $((RANDOM % 25))
        URL=$PROXY_URL spawn "run_$number" lock -t 2 "job-$number" -- \
            "$WITNESS" --sleep $((620 + RANDOM % 60))
    done
    for number in {1..12}; do
        reap_quiet "run_$number"
    done
    assert_no_keys_left
}

@test "row 26: the scripts are forgotten before each run: acquire and release work all the same" {
    redis_start
    for _ in 1 2 3; do
        rcli script flush
        run --separate-stderr lock job -- redis-cli -s "$SOCK" script flush
        assert_status 0
        assert_output OK
        assert_no_stderr
        assert_no_key lock:job
    done
    rcli set lock:job foreign px 60000
    rcli script flush
    run --separate-stderr lock job -- true
    assert_status 75
}

@test "row 26: an acquisition whose answer is lost on a server that has forgotten the scripts since" {
    redis_start
    proxy_start
    lock job -- true
    proxy_do next cut-after 0 s2c
    URL=$PROXY_URL spawn job lock --connect-timeout 60 job -- redis-cli -s "$SOCK" pttl lock:job
    wait_until 5000 proxy_saw connections 1
    rcli script flush
    reap job
    assert_status 0
    assert_between "$output" 1 60000
    assert_free job
}

@test "row 26: a given-up acquisition is taken back on a server that has forgotten the scripts since" {
    redis_start
    proxy_start
    lock job -- true
    proxy_do drop s2c
    URL=$PROXY_URL spawn job lock --connect-timeout 2 job -- true
    wait_until 5000 key_exists lock:job
    rcli script flush
    reap job
    assert_status 69
    wait_until 3000 key_absent lock:job
    assert_free job
}
