#!/usr/bin/env bats
# Several servers, held and waited for: a majority keeps the lock through the trouble of the others.

load lib/common
load lib/locks
load lib/servers
load lib/trouble

@test "a held lock is extended everywhere, and through the death of a minority" {
    servers_start 3
    hold_all job -t 2 job
    wait_until 10000 extended job 2
    redis_kill9 s1
    wait_until 15000 extended job 5
    run --separate-stderr quorum job -- true
    assert_status 75
    let_go_quiet job
}

@test "a lock whose majority cannot be reached any more ends its command before it could expire" {
    servers_start 3
    hold_all job -t 2 job
    wait_until 10000 extended job 1
    redis_freeze s2
    redis_freeze s3
    reap job 15000
    redis_thaw s2
    redis_thaw s3
    assert_status 79
    assert_line_stderr 'may be lost|could not be extended'
}

@test "an outage of a majority that is shorter than the lease is survived" {
    servers_start 3
    hold_all job -v -t 9 job
    wait_until 15000 extended job 1
    redis_freeze s2
    redis_freeze s3
    fails_to_extend job
    redis_thaw s2
    redis_thaw s3
    one_more_extension job
    let_go job
    assert_status 0
    refute_line_stderr 'lost'
}

@test "a minority restarted empty takes the lock up again, and keeps others out" {
    servers_start 3
    hold_all job -t 3 job
    redis_restart s2
    free_on s2 lock:job
    one_more_extension job
    wait_until 15000 holds_on s2 lock:job
    one_more_extension job
    # now the others may go, one after the other
    redis_restart s1
    run --separate-stderr quorum job -- touch "$ROOM/ran"
    assert_status 75
    [[ ! -e $ROOM/ran ]]
    wait_until 15000 holds_on s1 lock:job
    let_go job
    assert_status 0
    all_free 3 job
}

@test "a contender while servers restart empty one by one never overlaps" {
    local server round # not i: bats has an i of its own
    servers_start 3
    hold_all job -t "$(lease 3000)" job
    for server in s1 s2 s3; do
        redis_restart "$server"
        for round in 1 2 3; do
            run --separate-stderr quorum job -- "$WITNESS" --log "$ROOM/log"
            assert_status 75
        done
        wait_until 15000 holds_on "$server" lock:job
        one_more_extension job
    done
    let_go job
    assert_status 0
    assert_no_overlap "$ROOM/log"
}

@test "a server that rejoins does not count in the round in which it does" {
    servers_start 3
    redis_kill9 s3
    hold_all job -t "$(lease 12000)" job
    redis_restart s3
    # s1 and s2 hold. s2 forgets, and another one takes it: with s3 that just came back, s1 is alone.
    rcli_at s2 flushall >/dev/null
    plain_take s2 job
    plain_take s3 job
    reap job 40000
    assert_status 79
    assert_line_stderr 'lost the lock'
    assert_equal "$(rcli_at s2 get lock:job)" foreign
    assert_equal "$(rcli_at s3 get lock:job)" foreign
}

@test "a server that was away at the start does not stand in for one that forgot" {
    servers_start 3
    redis_kill9 s3
    hold_all first -t 30 job
    redis_restart s3
    # s1 and s2 hold. s2 forgets, and another one has its run on s2 and s3 before the first extension.
    redis_restart s2
    run --separate-stderr quorum job -- printenv REDISLOCK_FENCE
    assert_status 0
    assert_equal "$(grep -c '"event":"extended"' "$ROOM/first.events")" 0
    reap first 60000
    assert_status 79
    assert_line_stderr 'lost the lock'
    free_on s3 lock:job
}

@test "a server that joins late does not stand in for one that forgets at that moment" {
    local urls s1
    redis_start main
    proxy_start
    redis_start s2
    redis_start s3
    s1=unix://$(redis_sock main)
    urls=unix://$(redis_sock s2),unix://$(redis_sock s3)
    plain_take main job
    URLS=$PROXY_URL,$urls hold_all first -t 30 job
    # s2 and s3 hold. The first extension has gone through there, its vote for s1 is on the way …
    proxy_do hold c2s
    wait_until 30000 expires_within s2 25000
    wait_until 30000 expires_after s2 27000
    kill -STOP "$first"
    wait_until 5000 process_stopped "$first"
    # … s3 forgets, and another one has its run on s1 and s3 before it arrives
    redis_restart s3
    rcli_at main del lock:job >/dev/null
    run --separate-stderr "$REDISLOCK_BIN" -u "$s1,$urls" job -- true
    assert_status 0
    proxy_do pass
    wait_until 5000 holds_on main lock:job
    kill -CONT "$first"
    reap first 60000
    assert_status 79
    free_on s2 lock:job
}

expires_within() {
    (($(rcli_at "$1" pttl lock:job) < $2))
}

expires_after() {
    (($(rcli_at "$1" pttl lock:job) > $2))
}

@test "a server that forgets again and again never counts, however often it rejoins" {
    servers_start 3
    hold_all job -t 3 job
    redis_freeze s2
    "$REDISLOCK_TOOLS/launch" --group -- bash -c 'while redis-cli -s "$0" flushall; do sleep 0.02; done' \
        "$(redis_sock s3)" </dev/null >/dev/null 2>&1 3>&- 4>&- &
    _process_keep "$!"
    disown "$!"
    reap job 20000
    redis_thaw s2
    assert_status 79
    assert_line_stderr '1 of 3 servers still hold the lock, 2 are needed'
}

@test "a lock that another one has on a majority stops the command at its next extension" {
    servers_start 3
    hold_all job -t "$(lease 4000)" job
    rcli_at s1 del lock:job >/dev/null
    rcli_at s2 del lock:job >/dev/null
    plain_take s1 job
    plain_take s2 job
    reap job 15000
    assert_status 79
    assert_line_stderr 'lost the lock: it is now held by another program'
    free_on s3 lock:job
}

@test "keys that vanish on a majority are put back, unless --no-restore says that they are lost" {
    servers_start 3
    hold_all job -t 3 job
    rcli_at s1 del lock:job >/dev/null
    rcli_at s2 del lock:job >/dev/null
    wait_until 15000 holds_on s1 lock:job
    one_more_extension job
    let_go job
    assert_status 0
    hold_all strict -t 3 --no-restore strict
    rcli_at s1 del lock:strict >/dev/null
    rcli_at s2 del lock:strict >/dev/null
    reap strict 15000
    assert_status 79
}

@test "--min-hold keeps a majority of the servers locked" {
    servers_start 3
    redis_kill9 s3
    quorum --min-hold 60 job -- true
    run --separate-stderr quorum job -- true
    assert_status 75
    assert_line_stderr 'minimum hold'
}

@test "a waiter gets its turn, can be interrupted, and gives up in time" {
    servers_start 3
    hold_all job -t 60 job
    run --separate-stderr quorum -w 0.5 job -- true
    assert_status 75
    assert_one_line 'gave up after waiting'
    spawn stopped "$REDISLOCK_BIN" -u "$URLS" -w inf -v job -- true
    wait_for_line "$ROOM/stopped.err" waiting
    kill -TERM "$stopped"
    reap stopped
    assert_status 143
    spawn next "$REDISLOCK_BIN" -u "$URLS" -w inf -v job -- echo turn
    wait_for_line "$ROOM/next.err" waiting
    let_go job
    reap next 15000
    assert_status 0
    assert_output turn
    all_free 3 job
}

@test "a waiter whose majority is away for --connect-timeout gives up with 69" {
    servers_start 3
    hold_all job -t 60 job
    spawn waiter "$REDISLOCK_BIN" -u "$URLS" -w inf -v --connect-timeout 1 job -- true
    wait_for_line "$ROOM/waiter.err" waiting
    redis_kill9 s1
    redis_kill9 s2
    reap waiter 20000
    assert_status 69
    assert_line_stderr 'servers answered, 2 are needed'
}

@test "redislock killed outright leaves locks that expire, and no command" {
    servers_start 3
    hold_all job -t 1 job
    kill -KILL "$job"
    wait_until 5000 process_gone "$(held_pid job)"
    wait_until 10000 all_free 3 job
}
