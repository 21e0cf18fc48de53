#!/usr/bin/env bats
# Outages while the lock is held: what passes in time is survived, what does not ends the command
# before anybody else can have the lock.
# shellcheck disable=SC2030,SC2031 # each test is a process of its own
# shellcheck disable=SC2154,SC2153 # spawn, hold and the helpers assign

load lib/common
load lib/locks
load lib/job
load lib/trouble

setup() {
    common_setup
    redis_start
    proxy_start
}

# When the command of VAR ended, on the clock of boottime_ms.
ended_at() {
    sed -n 's/^end \([0-9]*\) .*/\1/p' "$ROOM/$1.span"
}

@test "row 10: a dead network that heals in time is survived silently, and the extensions go on" {
    hold_through job -t "$(lease 3000)" job
    local before
    proxy_do hold # nothing gets through until it heals
    before=$(proxy_stat connections)
    wait_until 10000 proxy_saw connections $((before + 1)) # an extension has failed
    before=$(extension_count job)
    proxy_do pass
    wait_until 20000 extensions job $((before + 4))
    let_go job
    assert_status 6
    assert_no_output
    assert_no_stderr
    assert_free job
}

@test "row 10: after a cut connection it is extended over a new one, after a refused one again and again" {
    hold_through job -v -t 2 job
    proxy_do cut
    wait_until 10000 extensions job 1
    proxy_do refuse
    proxy_do cut
    fails_to_extend job "$PROXY_URL"
    proxy_do accept
    wait_until 10000 extensions job 2
    let_go job
    assert_status 6
    assert_no_output
    assert_free job
}

@test "outages shorter than the deadline: frozen, killed and restarted with its data; the command's status stays" {
    redis_stop
    redis_start --appendonly yes --appendfsync always
    hold_through job -v -t 3 job
    local fence before
    fence=$(holder_field fence lock:job)
    redis_freeze
    fails_to_extend job
    before=$(extension_count job)
    redis_thaw
    wait_until 10000 extensions job $((before + 1))
    redis_kill9
    redis_restart
    wait_until 10000 extensions job $((before + 2))
    assert_equal "$(holder_field fence lock:job)" "$fence"
    let_go job
    assert_status 6
    assert_no_output
    refute_line_stderr 'lost|vanished'
    assert_free job
}

@test "row 72: an outage longer than the deadline: TERM at the time of the arithmetic, 79" {
    # T 2000: valid 1970 after the last confirmed extension was sent, KILL 200 earlier, TERM 500 before
    hold_through job -t 2 job
    wait_until 10000 extensions job 1
    local expiry stopped
    expiry=$(expiry_of job) # the server received it a little after it was sent
    proxy_do blackhole
    reap job
    assert_status 79
    assert_no_output
    assert_line_stderr 'could not be extended in time and may be lost; stopping the command with SIGTERM'
    stopped=$(ended_at job)
    assert_between "$stopped" $((expiry - 730 - 150)) $((expiry - 230))
}

@test "row 72: what ignores TERM, and what left the group, is dead before the key can expire" {
    local ttl
    ttl=$(lease 1500)
    spawn job "$REDISLOCK_BIN" -u "$PROXY_URL" -t "$ttl" job -- "$WITNESS" --out "$ROOM/ticks" \
        --ignore TERM --fork 2 --daemonize --tick 5 --sleep inf
    wait_until 10000 tickers "$ROOM/ticks" 4
    local before expiry pids
    before=$(calls pexpire)
    wait_until 10000 called_since pexpire "$before"
    mapfile -t pids < <(ticker_pids "$ROOM/ticks")
    expiry=$(expiry_of job)
    proxy_do blackhole
    wait_until 10000 all_gone "${pids[@]}"
    reap job
    assert_status 79
    assert_between "$(last_tick "$ROOM/ticks")" $((expiry - ${ttl%ms})) $((expiry - 1))
}

@test "--on-lost warn: an outage longer than the deadline is told, and the command runs on" {
    hold_through job -t 1 --on-lost warn job
    proxy_do blackhole
    wait_for_line "$ROOM/job.err" 'may be lost; the command runs on all the same'
    wait_until 5000 key_absent lock:job
    assert_process "$(held_pid job)"
    let_go job
    assert_status 6
}

@test "row 26: the scripts are forgotten all the time: extensions and release work all the same" {
    hold_through job -t 1 job
    until extensions job 3; do
        rcli script flush
    done
    rcli script flush
    let_go job
    assert_status 6
    assert_no_stderr
    assert_free job
}

@test "row 26: restore works on a server that has forgotten the scripts" {
    hold_through job -t 1.5 job
    rcli script flush
    rcli del lock:job
    wait_for_line "$ROOM/job.err" 'put back'
    let_go job
    assert_status 6
    assert_free job
}

@test "row 15, row 46: redislock alone is stopped: the command is dead in time, another gets the lock, then 79" {
    spawn job lock -t 2 job -- "$WITNESS" --out "$ROOM/ticks" --ignore TERM --fork 1 --tick 5 --sleep inf
    wait_until 10000 tickers "$ROOM/ticks" 2
    wait_until 10000 guard_of "$job"
    local expiry pids value
    mapfile -t pids < <(ticker_pids "$ROOM/ticks")
    kill -STOP "$job"
    wait_until 5000 process_stopped "$job"
    expiry=$(expiry_of job)
    wait_until 10000 all_gone "${pids[@]}"
    assert_between "$(last_tick "$ROOM/ticks")" 1 $((expiry - 1))
    wait_until 10000 key_absent lock:job
    hold other job
    value=$(rcli get lock:job)
    kill -CONT "$job"
    reap job
    assert_status 79
    assert_equal "$(rcli get lock:job)" "$value"
    let_go_quiet other
}

@test "row 15: a lock that expired while redislock stood still is not taken back, also if it is free" {
    spawn job lock -t 1.5 job -- "$WITNESS" --out "$ROOM/ticks" --tick 50 --sleep inf
    wait_until 10000 guard_of "$job"
    kill -STOP "$job"
    wait_until 10000 key_absent lock:job
    kill -CONT "$job"
    reap job
    assert_status 79
    assert_line_stderr 'could not be extended in time'
    assert_no_key lock:job
}

@test "row 29: a server that cannot take writes for a while (READONLY) is no loss" {
    hold job -v -t 2 job
    rcli replicaof 127.0.0.1 1 # nobody there: it stays a replica that knows the key
    fails_to_extend job READONLY
    local before
    before=$(calls pexpire)
    rcli replicaof no one
    wait_until 5000 called_since pexpire "$before"
    let_go job
    assert_status 0
    refute_line_stderr 'lost|vanished'
    assert_no_key lock:job
}
