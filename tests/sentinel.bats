#!/usr/bin/env bats
# redis+sentinel://: the master is found, found again after it moved, and a failover is nobody's loss.

load lib/common
load lib/locks
load lib/servers

# world [REPLICAS]: a master, REPLICAS (1) replicas in step and one sentinel that knows all; sets URL.
world() {
    local i
    redis_start master --tcp --repl-diskless-sync no
    for ((i = 1; i <= ${1:-1}; i++)); do
        replica_start "replica$i" master
    done
    sentinel_start watch "$(redis_port master)" 1
    [[ ${1:-1} == 0 ]] || wait_until 20000 knows_replicas watch "${1:-1}"
    URL=redis+sentinel://127.0.0.1:$(redis_port watch)/mymaster
    redis_use master
    export URL
}

# moved_to NAME: the sentinel names it, and it is a master; for wait_until.
moved_to() {
    names_master watch "$(redis_port "$1")" && role_is "$1" master
}

@test "a run goes to the master that the sentinel names, and a database there" {
    world 0
    run --separate-stderr lock job -c 'redis-cli -s '"$(redis_sock master)"' exists lock:job'
    assert_output 1
    assert_no_stderr
    URL+=/3
    run --separate-stderr lock job -c 'redis-cli -s '"$(redis_sock master)"' -n 3 exists lock:job'
    assert_output 1
    assert_no_keys_left
}

@test "a name that no sentinel knows is 69, and says so" {
    world 0
    URL=${URL%/*}/othermaster
    run --separate-stderr lock --connect-timeout 0.5 job -- touch "$ROOM/ran"
    assert_status 69
    assert_one_line 'knows no such master'
    [[ ! -e $ROOM/ran ]]
}

@test "a sentinel that is down, and one that says nothing, are passed over" {
    local port began
    world 0
    free_port port
    talker_start --tcp --repeat-last stall
    URL=redis+sentinel://127.0.0.1:$port,${TALKER_URL#redis://},127.0.0.1:$(redis_port watch)/mymaster
    began=$(boottime_ms)
    run --separate-stderr lock job -- echo ran
    assert_status 0
    assert_output ran
    assert_no_stderr
    assert_between "$(($(boottime_ms) - began))" 0 5000
}

@test "no sentinel at all is 69 within --connect-timeout" {
    local port other began
    free_port port
    free_port other
    began=$(boottime_ms)
    URL=redis+sentinel://127.0.0.1:$port,127.0.0.1:$other/mymaster run --separate-stderr lock \
        --connect-timeout 0.5 job -- true
    assert_status 69
    assert_one_line 'refused; no working Redis'
    assert_between "$(($(boottime_ms) - began))" 400 4000
}

@test "row 30: a sentinel that names a replica is not believed; the next one may know better" {
    world 1
    sentinel_start stale "$(redis_port replica1)" 1 'sentinel down-after-milliseconds mymaster 60000'
    # it would find out by itself in time: what it says is pinned by a talker that repeats it
    talker_start --tcp --repeat-last \
        "raw *2\r\n\$9\r\n127.0.0.1\r\n\$5\r\n$(redis_port replica1)\r\n"
    URL=redis+sentinel://${TALKER_URL#redis://}/mymaster run --separate-stderr lock \
        --connect-timeout 0.7 job -- touch "$ROOM/ran"
    assert_status 69
    assert_one_line 'no master'
    [[ ! -e $ROOM/ran ]]
    URL=redis+sentinel://${TALKER_URL#redis://},127.0.0.1:$(redis_port watch)/mymaster run \
        --separate-stderr lock job -- echo ran
    assert_status 0
    assert_output ran
}

@test "a sentinel that talks nonsense is passed over" {
    world 0
    talker_start --tcp --repeat-last 'raw *2\r\n$3\r\nabc\r\n$5\r\n99999\r\n'
    URL=redis+sentinel://${TALKER_URL#redis://},127.0.0.1:$(redis_port watch)/mymaster run \
        --separate-stderr lock job -- echo ran
    assert_output ran
}

@test "the sentinel has a user and password of its own, and so has the master" {
    redis_start master --tcp --requirepass 'for the master'
    sentinel_start watch "$(redis_port master)" 1 'sentinel auth-pass mymaster "for the master"' \
        'user guard on >for-the-sentinel allcommands allchannels allkeys' 'user default off'
    printf 'for-the-sentinel\n' >"$ROOM/sentinel-password"
    printf 'for the master\n' >"$ROOM/password"
    URL=redis+sentinel://127.0.0.1:$(redis_port watch)/mymaster
    run --separate-stderr lock --sentinel-user guard --sentinel-password-file "$ROOM/sentinel-password" \
        --password-file "$ROOM/password" job -- echo both
    assert_output both
    assert_no_stderr
    REDISLOCK_SENTINEL_USER=guard REDISLOCK_SENTINEL_PASSWORD_FILE=$ROOM/sentinel-password \
        REDISLOCK_PASSWORD_FILE=$ROOM/password run --separate-stderr lock job -- echo variables
    assert_output variables
    run --separate-stderr lock --connect-timeout 30 --password-file "$ROOM/password" job -- true
    assert_status 77
    assert_one_line 'NOAUTH .*; give --password-file, or --sentinel-password-file for the sentinels$'
    run --separate-stderr lock --connect-timeout 30 --sentinel-user guard \
        --sentinel-password-file "$ROOM/sentinel-password" job -- true
    assert_status 77
    run --separate-stderr lock --sentinel-password-file "$ROOM/nowhere" job -- true
    assert_status 64
    assert_one_line 'sentinel-password-file'
}

@test "rediss+sentinel:// is TLS to the sentinel and to the master" {
    local port sentinel
    export CERTS=$ROOM/certs
    mkdir "$CERTS"
    authority ca
    certificate good ca IP:127.0.0.1
    tls_start master good
    port=$(tls_port master)
    free_port sentinel
    sentinel_start watch "$port" 1 "tls-port $sentinel" "tls-cert-file $CERTS/good.crt" \
        "tls-key-file $CERTS/good.key" "tls-ca-cert-file $CERTS/ca.crt" 'tls-auth-clients no' \
        'tls-replication yes'
    URL=rediss+sentinel://127.0.0.1:$sentinel/mymaster
    run --separate-stderr lock --cacert "$CERTS/ca.crt" job -- echo secret
    assert_output secret
    assert_no_stderr
    run --separate-stderr lock --connect-timeout 30 job -- true
    assert_status 77
    assert_line_stderr 'not trusted'
}

@test "row 29: a master that is demoted under a job: the job runs on at the new one" {
    world 1
    hold_there job -t 6 job
    scli watch sentinel failover mymaster >/dev/null
    wait_until 30000 moved_to replica1
    # as the sentinel would a little later; its connections stay, and its answers are READONLY
    rcli_at master replicaof 127.0.0.1 "$(redis_port replica1)" >/dev/null
    one_more_extension job
    one_more_extension job
    redis_use replica1
    assert_key lock:job
    run --separate-stderr lock job -- true
    assert_status 75
    assert_one_line 'held by .*pid'
    # a failover may lose what was not replicated: then it is put back, with a word
    let_go job
    assert_status 0
    [[ -z $stderr ]] || assert_one_line 'nobody took the lock since, so it was put back'
    assert_no_key lock:job
}

# The old master of SENTINEL FAILOVER learns of it some ten seconds later, and grants locks until then.
@test "row 29: SENTINEL FAILOVER: the job goes to the new master before the old one has heard of it" {
    world 1
    hold_there job -t 3 job
    spawn waiter lock -w inf job -- "$WITNESS" --log "$ROOM/log"
    wait_until 10000 in_line_on replica1 job 1
    scli watch sentinel failover mymaster >/dev/null
    wait_until 30000 moved_to replica1
    one_more_extension job
    one_more_extension job
    role_is master master || fail 'the old master has heard of it already: nothing was tried'
    redis_use replica1
    (($(key_pttl lock:job) > 0)) || fail 'the new master has no lock'
    run --separate-stderr lock job -- touch "$ROOM/ran"
    assert_status 75
    let_go_quiet job
    assert_no_output
    [[ ! -e $ROOM/ran ]]
    reap waiter 60000
    assert_status 0
    assert_no_overlap "$ROOM/log"
    wait_until 5000 key_absent lock:job
}

@test "sentinels that are gone, silent or stale do not take a running job from its master" {
    local said
    world 1
    for said in stall "raw *2\r\n\$9\r\n127.0.0.1\r\n\$5\r\n$(redis_port replica1)\r\n"; do
        talker_start --tcp --repeat-last "$said"
        URL=redis+sentinel://127.0.0.1:$(redis_port watch),${TALKER_URL#redis://}/mymaster
        hold_there job -t 3 job
        redis_kill9 watch
        one_more_extension job
        one_more_extension job
        grep -q '"SENTINEL"' "$TALKER_LOG" || fail 'the other sentinel was not asked'
        let_go_quiet job
        redis_use master
        assert_no_key lock:job
        rm "$ROOM/job.ready" "$ROOM/job.events"
        sentinel_start watch "$(redis_port master)" 1
    done
}

@test "row 27: the master is killed under a job and waiters: the job runs on, the waiters get their turn" {
    world 1
    hold_there job -t 30 job
    spawn first lock -w inf job -- "$WITNESS" --log "$ROOM/log"
    wait_until 10000 in_line_on master job 1
    spawn second lock -w inf job -- "$WITNESS" --log "$ROOM/log"
    wait_until 10000 in_line_on master job 2
    wait_until 10000 in_line_on replica1 job 2
    redis_kill9 master
    wait_until 60000 moved_to replica1
    redis_use replica1
    assert_key lock:job
    wait_until 30000 in_line_on replica1 job 2
    run --separate-stderr lock job -- true
    assert_status 75
    let_go job
    assert_status 0
    refute_line_stderr 'lost|held'
    reap_quiet first 60000
    reap_quiet second 60000
    assert_no_overlap "$ROOM/log"
    assert_equal "$(grep -c '^start' "$ROOM/log")" 3
}

# Takes the link to the master away from the replica: what is locked now, it will not hear of.
forget_from_here() {
    rcli_at replica1 replicaof 127.0.0.1 1 >/dev/null
    wait_until 5000 link_is_down replica1
}

link_is_down() {
    ! link_is_up "$1"
}

# The replica becomes the master, and the sentinel's word.
promote_replica() {
    rcli_at replica1 replicaof no one >/dev/null
    scli watch sentinel remove mymaster >/dev/null
    scli watch sentinel monitor mymaster 127.0.0.1 "$(redis_port replica1)" 1 >/dev/null
    wait_until 5000 moved_to replica1
}

@test "row 27: a failover that lost the lock, and nobody took it: it is put back, the job runs on" {
    world 1
    forget_from_here
    hold_there job -t 12 job
    redis_kill9 master
    promote_replica
    redis_use replica1
    wait_until 30000 key_exists lock:job
    one_more_extension job
    let_go job
    assert_status 0
    assert_line_stderr 'put back'
    assert_no_key lock:job
}

@test "row 27: a failover that lost the lock, and somebody took it: the first job is stopped, fences rise" {
    local fence
    world 1
    forget_from_here
    hold_there job -t 12 job
    fence=$(holder_field fence lock:job)
    redis_kill9 master
    promote_replica
    redis_use replica1
    # before the first job finds its way here
    hold_there other -t 30 job
    (($(holder_field fence lock:job) > fence))
    reap job 20000
    assert_status 79
    assert_line_stderr 'lost the lock: it is now held by'
    let_go_quiet other
}

@test "a failover shorter than the lease is silent, and never held or lost" {
    world 1
    hold_there job -t 20 job
    redis_kill9 master
    wait_until 60000 moved_to replica1
    redis_use replica1
    let_go_quiet job
    assert_no_key lock:job
}

@test "an acquisition that starts during a failover waits for the new master" {
    world 1
    redis_kill9 master
    spawn run lock --connect-timeout 60 job -- echo ran
    wait_until 60000 moved_to replica1
    reap run 60000
    assert_status 0
    assert_output ran
    assert_no_stderr
}

@test "--status and --doctor go to the master too" {
    world 1
    run --separate-stderr lock --status job
    assert_status 0
    run --separate-stderr lock --doctor
    assert_status 0
    assert_line_output '^ok .*it is a master'
    assert_line_output '^warning .*1 replica'
}

@test "--list goes through a failover: each list is whole, and each lock in it once" {
    world 1
    other_keys 20000
    rcli eval 'for i = 1, 100 do redis.call("HSET", "lock:{lock:job-" .. i .. "}:state", "runs", i) end' 0 >/dev/null
    wait_until 20000 has_all replica1
    spawn watch lock --connect-timeout 60s --list --json --watch=1ms
    wait_until 10000 lists_are 2
    scli watch sentinel failover mymaster >/dev/null
    wait_until 40000 moved_to replica1
    wait_until 20000 lists_are $(($(grep -c '^\[' "$ROOM/watch.out") + 3))
    process_end "$watch"
    assert_equal "$(<"$ROOM/watch.err")" ''
    # but the last, which may have been cut
    run sh -c "jq -c 'map(.runs) | sort == [range(1; 101)]' '$ROOM/watch.out' 2>/dev/null | sort | uniq -c"
    assert_line_output '^ *[0-9]+ true$'
    assert_equal "${#lines[@]}" 1
}

# has_all NODE: what was written is there; for wait_until.
has_all() {
    [[ $(rcli_at "$1" dbsize) == 20100 ]]
}
