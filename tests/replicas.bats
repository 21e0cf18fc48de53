#!/usr/bin/env bats
# --wait-replicas: so many replicas have the lock before the command runs, or it does not run.

load lib/common
load lib/locks
load lib/servers
load lib/trouble

world() {
    redis_start main --tcp --repl-diskless-sync no
    replica_start replica1 main
    redis_use main
}

@test "row 28: with the replicas there the command runs" {
    world
    run --separate-stderr lock --wait-replicas 1 job -c "redis-cli -s $(redis_sock replica1) exists lock:job"
    assert_status 0
    assert_output 1
    assert_no_stderr
    (($(calls wait) == 1))
}

@test "row 28: a shortfall gives up the own token and is 69" {
    local began
    world
    began=$(boottime_ms)
    run --separate-stderr lock -t 6 --wait-replicas 2 job -- touch "$ROOM/ran"
    assert_between "$(($(boottime_ms) - began))" 500 6000
    assert_status 69
    assert_one_line '1 of 2 replicas acknowledged the lock in time'
    [[ ! -e $ROOM/ran ]]
    assert_no_key lock:job
    assert_no_keys_left
    run --separate-stderr lock -t 1 --wait-replicas 2 job -- true
    assert_status 69
    assert_line_stderr '1 of 2'
}

@test "row 28: without replicas at all it is 69 as well, and others are not kept out" {
    redis_start
    run --separate-stderr lock -t 2 --wait-replicas 1 job -- true
    assert_status 69
    assert_one_line '0 of 1 replicas'
    run --separate-stderr lock job -- echo ran
    assert_output ran
}

@test "a frozen replica does not acknowledge" {
    world
    redis_freeze replica1
    run --separate-stderr lock -t 3 --wait-replicas 1 job -- true
    redis_thaw replica1
    assert_status 69
    assert_no_key lock:job
}

@test "a waiter too waits for the replicas when its turn comes" {
    world
    hold holder -t 30 job
    spawn waiter lock -w inf -t 3 --wait-replicas 1 job -- echo turn
    wait_until 5000 waits
    let_go holder
    reap waiter
    assert_status 0
    assert_output turn
    hold holder -t 30 job
    spawn waiter lock -w inf -t 3 --wait-replicas 2 job -- echo turn
    wait_until 5000 waits
    let_go holder
    reap waiter
    assert_status 69
    assert_no_output
    assert_no_key lock:job
}

waits() {
    [[ $(rcli zcard 'lock:{lock:job}:queue') == 1 ]]
}

@test "a signal while the replicas are waited for: 128+N, and no lock is left" {
    world
    spawn job lock -t 60 --wait-replicas 2 job -- touch "$ROOM/ran"
    wait_until 5000 key_exists lock:job
    kill -TERM "$job"
    reap job
    assert_status 143
    refute_line_stderr replica
    wait_until 3000 key_absent lock:job
    [[ ! -e $ROOM/ran ]]
}

@test "a server that dies while its replicas are waited for is tried again, not reported as a shortfall" {
    world
    spawn job lock -t 20 --wait-replicas 2 --connect-timeout 1 job -- true
    wait_until 5000 key_exists lock:job
    redis_kill9 main
    reap job 20000
    assert_status 69
    refute_line_stderr 'acknowledged'
}

@test "a lock that was given back without an answer is taken anew under another token" {
    world
    proxy_start
    lock job -- true # afterwards the server knows the scripts
    redis_freeze replica1
    URL=$PROXY_URL spawn job lock -t 60 --wait-replicas 1 job -- "$WITNESS" --out "$ROOM/job.ready" \
        --signals inf --exit-on TERM
    wait_until 5000 key_exists lock:job
    local before token
    token=$(holder_field token lock:job)
    proxy_do hold c2s
    proxy_do cut # WAIT has failed, and the RELEASE gets no further than the proxy
    wait_until 5000 proxy_saw connections 2
    proxy_do next pass
    redis_thaw replica1
    wait_for_line "$ROOM/job.ready" '^ready '
    [[ $(holder_field token lock:job) != "$token" ]]
    before=$(calls evalsha)
    proxy_do pass # now the RELEASE arrives, while the command runs
    wait_until 5000 called_since evalsha "$before"
    key_exists lock:job
    let_go job
    assert_status 0
    assert_no_stderr
    assert_no_key lock:job
}

@test "a user who may not WAIT is told so, with 77" {
    world
    rcli acl setuser limited on '>secret' '~lock:*' '&lock:*' +@all -wait >/dev/null
    run --separate-stderr env REDISCLI_AUTH=secret "$REDISLOCK_BIN" -u "unix://$SOCK" --user limited \
        --wait-replicas 1 job -- true
    assert_status 77
    assert_line_stderr "NOPERM.*wait"
    assert_no_key lock:job
}

@test "--on-error run goes on without the lock, and says so" {
    redis_start
    run --separate-stderr lock -t 2 --wait-replicas 1 --on-error skip job -- true
    [[ $status == 69 || $status == 0 ]] || fail "status $status"
    assert_no_key lock:job
}

@test "the number has bounds" {
    redis_start
    run --separate-stderr lock --wait-replicas -1 job -- true
    assert_status 64
    run --separate-stderr lock --wait-replicas x job -- true
    assert_status 64
    run --separate-stderr lock --wait-replicas 0 job -- echo none
    assert_output none
    assert_equal "$(calls wait)" 0
}
