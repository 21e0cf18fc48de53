#!/usr/bin/env bats
# The lock's key vanishes or is taken while the lock is held: put back where nobody has had it since,
# else lost, and then the command is stopped and nothing of anybody else's is touched.
# shellcheck disable=SC2030,SC2031 # each test is a process of its own
# shellcheck disable=SC2154,SC2153 # spawn, hold and the helpers assign

load lib/common
load lib/locks
load lib/trouble

setup() {
    common_setup
    redis_start
    proxy_start
}

@test "row 14: a failed extension, and then another's token in the key: stopped, 79, theirs untouched" {
    hold_through job -v -t "$(lease 4000)" job
    proxy_do blackhole
    fails_to_extend job
    rcli set lock:job theirs px 60000
    proxy_do pass
    reap job
    assert_status 79
    assert_no_output
    assert_line_stderr 'lost the lock: it is now held by another program.*; stopping the command with SIGTERM'
    assert_equal "$(rcli get lock:job)" theirs
    assert_between "$(key_pttl lock:job)" 50000 60000
}

@test "row 14: another redislock's token in the key: stopped, 79, and told who has it" {
    hold_through job -t "$(lease 1500)" job
    rcli del lock:job
    hold other job
    reap job
    assert_status 79
    assert_line_stderr "lost the lock: it is now held by .* \(pid $other, "
    assert_key lock:job
    let_go_quiet other
}

@test "row 14: a failed extension, and the key only deleted: put back under the same fence" {
    local value ttl
    ttl=$(lease 4000)
    hold_through job -v -t "$ttl" job
    value=$(rcli get lock:job)
    proxy_do blackhole
    fails_to_extend job
    rcli del lock:job
    proxy_do pass
    wait_for_line "$ROOM/job.err" 'had vanished .* nobody took the lock since, so it was put back'
    assert_equal "$(rcli get lock:job)" "$value"
    assert_between "$(key_pttl lock:job)" 1 "${ttl%ms}"
    grep -q '"event":"restored"' "$ROOM/job.events"
    let_go job
    assert_status 6
    assert_no_output
    assert_free job
}

@test "row 14: with --no-restore a deleted key is a lost lock: stopped, 79, not put back" {
    hold_through job -t 1.5 --no-restore job
    rcli del lock:job
    reap job
    assert_status 79
    assert_line_stderr 'lost the lock: its key vanished; stopping the command with SIGTERM'
    assert_no_key lock:job
}

@test "row 44: a key that expired too early, as after a step of the server's clock, is put back" {
    hold_through job -t 1.5 job
    rcli pexpire lock:job 1
    wait_for_line "$ROOM/job.err" 'put back'
    assert_key lock:job
    let_go job
    assert_status 6
}

@test "row 44: a key that vanished and was held by others since is lost, though it is free again" {
    hold_through job -t "$(lease 1500)" job
    rcli del lock:job
    run --separate-stderr lock job -- true
    assert_status 0
    reap job
    assert_status 79
    assert_line_stderr 'lost the lock: its key vanished, and it was taken away or held by somebody else since'
    assert_no_key lock:job
}

@test "row 47: an evicted key is put back" {
    hold_through job -t "$(lease 2000)" job
    rcli config set maxmemory-policy volatile-ttl # the lock has the least time left
    rcli config set maxmemory 1
    rcli set filler 1 || true
    wait_until 5000 key_absent lock:job
    rcli config set maxmemory 0
    wait_for_line "$ROOM/job.err" 'put back'
    assert_key lock:job
    let_go job
    assert_status 6
    assert_free job
}

@test "row 27: a server that restarts without its data: put back, and later fences are larger" {
    hold_through job -t "$(lease 2000)" job
    local fence
    fence=$(holder_field fence lock:job)
    redis_kill9
    redis_restart
    wait_for_line "$ROOM/job.err" 'put back'
    assert_equal "$(holder_field fence lock:job)" "$fence"
    run --separate-stderr lock job -- true
    assert_status 75
    let_go job
    assert_status 6
    run --separate-stderr lock job -- sh -c 'echo $REDISLOCK_FENCE'
    assert_between "$output" $((fence + 1)) 9999999999999
    assert_free job
}

@test "row 27: taken over on the new server before the old holder comes: the old one is lost" {
    hold_through job -t "$(lease 2000)" job
    proxy_do blackhole
    rcli flushall
    hold other job
    proxy_do pass
    reap job
    assert_status 79
    assert_line_stderr "lost the lock: it is now held by .* \(pid $other, "
    let_go_quiet other
}
