#!/usr/bin/env bats
# Several servers: a majority of the configured ones decides, whatever the others do.

load lib/common
load lib/locks
load lib/servers

@test "a run takes the lock on all servers under different tokens, and gives it up on all" {
    local i values=()
    servers_start 3
    hold_all job -t 30 job
    for i in 1 2 3; do
        values+=("$(rcli_at s$i get lock:job | cut -d: -f2)")
    done
    assert_equal "$(printf '%s\n' "${values[@]}" | sort -u | grep -c .)" 3
    let_go_quiet job
    all_free 3 job
}

@test "the fence is the same on every server and in the command" {
    local i
    servers_start 3
    rcli_at s2 hset "$(state_key job)" fence 8000000000000 >/dev/null
    run quorum job -c 'echo $REDISLOCK_FENCE; redis-cli -s '"$(redis_sock s1)"' get lock:job | cut -d: -f3'
    assert_equal "$output" $'8000000000001\n8000000000001'
    for i in 1 2 3; do
        assert_equal "$(rcli_at s$i hget "$(state_key job)" fence)" 8000000000001
    done
}

@test "a minority that is down is not noticed" {
    servers_start 5
    redis_kill9 s2
    redis_kill9 s5
    run --separate-stderr quorum job -- echo ran
    assert_status 0
    assert_output ran
    assert_no_stderr
    free_on s1 lock:job
}

@test "a frozen minority costs no more than its time-out, at the start and at the end" {
    local began took
    servers_start 3
    quorum job -- true
    redis_freeze s3
    began=$(boottime_ms)
    run --separate-stderr quorum job -- echo ran
    took=$(($(boottime_ms) - began))
    redis_thaw s3
    assert_status 0
    assert_no_stderr
    assert_between "$took" 400 3500
    echo "# with one of three frozen: $took ms" >&3
    wait_until 10000 free_on s3 lock:job
}

@test "a name that cannot be resolved, and a port that nobody has, cost no more than that either" {
    local began port
    servers_start 3
    free_port port
    URLS+=,redis://nowhere.invalid,redis://127.0.0.1:$port
    began=$(boottime_ms)
    run --separate-stderr quorum job -- echo ran
    assert_between "$(($(boottime_ms) - began))" 0 4000
    assert_status 0
    assert_no_stderr
}

@test "a majority that is down is 69 within --connect-timeout, and says how many answered" {
    local began
    servers_start 3
    redis_kill9 s1
    redis_kill9 s3
    began=$(boottime_ms)
    run --separate-stderr quorum --connect-timeout 1 job -- touch "$ROOM/ran"
    assert_between "$(($(boottime_ms) - began))" 900 4000
    assert_status 69
    assert_one_line '1 of 3 servers answered, 2 are needed'
    [[ ! -e $ROOM/ran ]]
    all_free_where_alive s2
}

all_free_where_alive() {
    local name
    for name in "$@"; do
        free_on "$name" lock:job || fail "$name: $(rcli_at "$name" get lock:job)"
    done
}

@test "row 64: the configured servers count, not the reachable ones" {
    servers_start 5
    redis_kill9 s1
    redis_kill9 s2
    redis_kill9 s3
    run --separate-stderr quorum --connect-timeout 0.5 job -- touch "$ROOM/ran"
    assert_status 69
    [[ ! -e $ROOM/ran ]]
    all_free_where_alive s4 s5
}

@test "a frozen majority is 69, and nothing stays locked when it thaws" {
    servers_start 3
    redis_freeze s1
    redis_freeze s2
    run --separate-stderr quorum --connect-timeout 1 job -- touch "$ROOM/ran"
    redis_thaw s1
    redis_thaw s2
    assert_status 69
    [[ ! -e $ROOM/ran ]]
    wait_until 5000 all_free 3 job
}

@test "a server that comes back within --connect-timeout is waited for" {
    servers_start 3
    redis_kill9 s1
    redis_kill9 s2
    spawn late "$REDISLOCK_BIN" -u "$URLS" --connect-timeout 20 job -- echo ran
    wait_until 5000 has_tried s3
    redis_restart s1
    reap late 20000
    assert_status 0
    assert_output ran
}

has_tried() {
    rcli_at "$1" info commandstats | grep -q '^cmdstat_evalsha\|^cmdstat_eval'
}

@test "held by a majority is 75 at once, with the holder" {
    local began
    servers_start 3
    hold_all job -t 60 job
    began=$(boottime_ms)
    run --separate-stderr quorum job -- true
    assert_between "$(($(boottime_ms) - began))" 0 1500
    assert_status 75
    assert_one_line 'held by .*pid'
    redis_kill9 s1
    run --separate-stderr quorum job -- true
    assert_status 75
    let_go job
    assert_status 0
}

@test "a minority that another program holds does not keep anybody out" {
    servers_start 3
    plain_take s1 job
    run --separate-stderr quorum job -- echo ran
    assert_status 0
    assert_output ran
    assert_equal "$(rcli_at s1 get lock:job)" foreign
    plain_take s2 job
    run --separate-stderr quorum job -- echo ran
    assert_status 75
    assert_equal "$(rcli_at s1 get lock:job)" foreign
    assert_equal "$(rcli_at s2 get lock:job)" foreign
    free_on s3 lock:job
}

@test "row 65: votes that are split end in bounded time, with two and with four servers" {
    local began
    servers_start 4
    plain_take s1 job
    plain_take s2 job
    began=$(boottime_ms)
    run --separate-stderr quorum job -- touch "$ROOM/ran"
    assert_between "$(($(boottime_ms) - began))" 200 6000
    assert_status 75
    assert_line_stderr 'held by another program'
    urls_of 2
    rcli_at s2 del lock:job >/dev/null
    run --separate-stderr quorum job -- touch "$ROOM/ran"
    assert_status 75
    [[ ! -e $ROOM/ran ]]
    free_on s2 lock:job
    free_on s3 lock:job
    free_on s4 lock:job
}

@test "an even number of servers is warned about" {
    servers_start 4
    run --separate-stderr quorum job -- true
    assert_status 0
    assert_one_line '4 servers bear no more failures than 3'
}

@test "many contenders on three servers: one at a time, and somebody always wins" {
    local i wins=0
    servers_start 3
    for i in 1 2 3 4 5 6; do
        spawn "c$i" "$REDISLOCK_BIN" -u "$URLS" -w 60 job -- "$WITNESS" --log "$ROOM/log" --sleep 20
    done
    for i in 1 2 3 4 5 6; do
        reap_quiet "c$i" 60000
    done
    assert_no_overlap "$ROOM/log"
    assert_equal "$(grep -c '^start' "$ROOM/log")" 6
    all_free 3 job
}

@test "contenders that do not wait never both run, and are told held, not an error" {
    local i round runs=0
    servers_start 3
    for round in 1 2 3 4 5; do
        for i in 1 2 3; do
            spawn "c$i" "$REDISLOCK_BIN" -u "$URLS" "job-$round" -- "$WITNESS" --log "$ROOM/log-$round" --sleep 400
        done
        for i in 1 2 3; do
            reap "c$i" 30000
            [[ $status == 0 || $status == 75 ]] || fail "status $status: $stderr"
            [[ $status == 75 ]] || runs=$((runs + 1))
        done
        [[ ! -e $ROOM/log-$round ]] || assert_no_overlap "$ROOM/log-$round"
    done
    ((runs >= 3)) || fail "only $runs runs in five rounds"
}

@test "the same server under one spelling is refused: 64, or 78 from a variable" {
    servers_start 2
    URLS+=,unix://$(redis_sock s1)
    run --separate-stderr quorum job -- touch "$ROOM/ran"
    assert_status 64
    assert_one_line 'named twice'
    REDISLOCK_URL=$URLS run --separate-stderr "$REDISLOCK_BIN" job -- touch "$ROOM/ran"
    assert_status 78
    assert_one_line 'named twice'
    REDISLOCK_URL="redis://127.0.0.1, redis://127.0.0.1:6379/0" run --separate-stderr "$REDISLOCK_BIN" job -- true
    assert_status 78
    run --separate-stderr "$REDISLOCK_BIN" -u "redis://127.0.0.1/1 redis://127.0.0.1/2" job -- true
    assert_status 64
    [[ ! -e $ROOM/ran ]]
}

@test "two names of one server are found out, and nothing stays locked" {
    servers_start 2
    redis_start third --tcp
    URLS=unix://$(redis_sock s1),unix://$(redis_sock third),redis://127.0.0.1:$(redis_port third)
    run --separate-stderr quorum job -- touch "$ROOM/ran"
    assert_status 64
    assert_one_line 'one and the same'
    [[ ! -e $ROOM/ran ]]
    REDISLOCK_URL=$URLS run --separate-stderr "$REDISLOCK_BIN" job -- true
    assert_status 78
    assert_one_line 'one and the same.*; REDISLOCK_URL is set in the environment$'
    free_on s1 lock:job
    free_on third lock:job
}

@test "two databases of one server are found out as well, under any of its names" {
    redis_start s1 --tcp
    redis_start s2
    URLS="unix://$(redis_sock s1)?db=1,unix://$(redis_sock s2),redis://127.0.0.1:$(redis_port s1)/2"
    run --separate-stderr quorum job -- touch "$ROOM/ran"
    assert_status 64
    assert_one_line "unix://.*s1.*db=1 and redis://127.0.0.1:$(redis_port s1)/2 are one and the same"
    run --separate-stderr quorum -w 1 job -- touch "$ROOM/ran"
    assert_status 64
    run --separate-stderr quorum --doctor
    assert_status 64
    assert_line_output '^failure .*one and the same'
    REDISLOCK_URL=$URLS run --separate-stderr "$REDISLOCK_BIN" job -- touch "$ROOM/ran"
    assert_status 78
    [[ ! -e $ROOM/ran ]]
    assert_equal "$(rcli_at s1 -n 1 exists lock:job) $(rcli_at s1 -n 2 exists lock:job)" '0 0'
    # different databases of different servers are no mistake
    redis_start s3
    URLS="unix://$(redis_sock s1)?db=1,unix://$(redis_sock s2),unix://$(redis_sock s3)?db=2"
    run --separate-stderr quorum job -- echo ran
    assert_output ran
    assert_no_stderr
}

@test "servers in one database are not asked who they are" {
    servers_start 3
    quorum job -- true
    assert_equal "$(rcli_at s1 info commandstats | grep -c '^cmdstat_info:')" 0
}

@test "row 30: a replica's vote never counts: a warning beside a majority, 69 without" {
    redis_start s1 --tcp
    redis_start s3
    replica_start s2 s1
    urls_of 3
    run --separate-stderr quorum job -- echo ran # two real ones are a majority
    assert_status 0
    assert_output ran
    assert_one_line "no vote from unix://$(redis_sock s2): read-only, as a replica is; name the master"
    redis_kill9 s3
    run --separate-stderr quorum --connect-timeout 0.5 job -- touch "$ROOM/ran"
    assert_status 69
    assert_one_line "1 of 3 servers answered, 2 are needed; no vote from unix://$(redis_sock s2): read-only"
    [[ ! -e $ROOM/ran ]]
    free_on s1 lock:job
}

@test "a master named with its replicas is no quorum; once they are masters, it is" {
    redis_start s1 --tcp
    replica_start s2 s1
    replica_start s3 s1
    urls_of 3
    run --separate-stderr quorum --connect-timeout 0.5 job -- touch "$ROOM/ran"
    assert_status 69
    assert_one_line "no vote from unix://$(redis_sock s2), unix://$(redis_sock s3): read-only"
    [[ ! -e $ROOM/ran ]]
    spawn late "$REDISLOCK_BIN" -u "$URLS" --connect-timeout 20 job -- echo ran
    rcli_at s2 replicaof no one >/dev/null
    reap late 20000
    assert_status 0
    assert_output ran
    assert_one_line "no vote from unix://$(redis_sock s3): read-only"
}

@test "one server that refuses the login is a failed one; a majority of them is 77" {
    servers_start 2
    redis_start s3 --requirepass secret
    urls_of 3
    run --separate-stderr quorum job -- echo ran
    assert_status 0
    assert_no_stderr
    redis_start s2b --requirepass secret
    URLS=unix://$(redis_sock s1),unix://$(redis_sock s2b),unix://$(redis_sock s3)
    run --separate-stderr quorum --connect-timeout 30 job -- true
    assert_status 77
    assert_line_stderr 'NOAUTH .*; give --password-file, and --user'
    free_on s1 lock:job
}

@test "slots, tokens and --wait-replicas are refused on several servers" {
    servers_start 3
    run --separate-stderr quorum -S 2 job -- true
    assert_status 64
    run --separate-stderr quorum --acquire job
    assert_status 64
    run --separate-stderr quorum --wait-replicas 1 job -- true
    assert_status 64
    assert_one_line '--wait-replicas'
    REDISLOCK_WAIT_REPLICAS=1 REDISLOCK_URL=$URLS run --separate-stderr "$REDISLOCK_BIN" job -- true
    assert_status 78
}

@test "--check in the command, and --status from outside, ask a majority" {
    servers_start 3
    hold_all job -t 60 job
    run --separate-stderr quorum --status job
    assert_status 75
    assert_equal "$(grep -c '^server unix:' <<<"$output")" 3
    run --separate-stderr quorum --status --json job
    assert_status 75
    assert_equal "$(node -e 'let t = ""; process.stdin.on("data", d => t += d).on("end", () => console.log(JSON.parse(t).length))' <<<"$output" 2>/dev/null || python3 -c 'import json, sys; print(len(json.load(sys.stdin)))' <<<"$output")" 3
    let_go job
    run --separate-stderr quorum --status job
    assert_status 0
    URL=$URLS run --separate-stderr quorum job -c "\"$REDISLOCK_BIN\" -u '$URLS' --check job && echo held
        redis-cli -s $(redis_sock s1) del lock:job >/dev/null
        \"$REDISLOCK_BIN\" -u '$URLS' --check job && echo held
        redis-cli -s $(redis_sock s2) del lock:job >/dev/null
        \"$REDISLOCK_BIN\" -u '$URLS' --check job; echo \$?"
    assert_output $'held\nheld\n79'
}

@test "--json of several servers is JSON, also where one fails half-way" {
    servers_start 3
    quorum job -- true
    rcli_at s2 rpush lock:other x >/dev/null
    run --separate-stderr quorum --status --json job other
    assert_status 0
    assert_line_stderr 'other|not a lock|holds a list'
    assert_equal "$(jq -r 'map(.locks | map(.name) | join("+")) | join(" ")' <<<"$output")" \
        'job+other job job+other'
    redis_kill9 s3
    run --separate-stderr quorum --status --json --connect-timeout 0.3 job
    assert_equal "$(jq -r 'map(.locks.name) | join(" ")' <<<"$output")" 'job job '
}

@test "--check with a majority away is an error, not a loss" {
    servers_start 3
    run --separate-stderr quorum job -c "kill -9 $(redis_pid s1) $(redis_pid s2)
        \"$REDISLOCK_BIN\" -u '$URLS' --connect-timeout 0.5 --check job; echo \$?"
    assert_output 69
}

@test "--unlock takes the lock from all servers, and the holder stops" {
    servers_start 3
    hold_all job -t 2 job
    run --separate-stderr quorum --unlock --force job
    assert_status 0
    reap job 15000
    assert_status 79
    all_free 3 job
}

@test "--doctor looks at every server and at the majority" {
    servers_start 3
    run --separate-stderr quorum --doctor
    assert_status 0
    assert_line_output '^ok +3 servers: 1 may fail, 2 must agree'
    assert_line_output 'majority.*acquired, extended and released'
    redis_kill9 s2
    run --separate-stderr quorum --connect-timeout 0.5 --doctor
    assert_status 0
    assert_line_output '^failure'
    assert_line_output 'a majority works without'
    URLS=unix://$(redis_sock s1),unix://$(redis_sock s3)
    run --separate-stderr quorum --doctor
    assert_line_output '^warning +2 servers bear no more'
    assert_equal "$(rcli_at s1 --scan | grep -c .)" 0
}

@test "--attach holds a majority for a script" {
    servers_start 3
    export REDISLOCK_URL=$URLS
    run --separate-stderr bash -c '"$REDISLOCK_BIN" --attach job || exit
        "$REDISLOCK_BIN" job -- true; echo $?'
    assert_output 75
    wait_until 5000 all_free 3 job
}

@test "the npm package redlock excludes redislock on the same servers, and is excluded" {
    command -v npm >/dev/null && command -v node >/dev/null || skip_or_fail 'node or npm is not installed'
    local modules=${REDISLOCK_NODE_MODULES:-$ROOT/build/node}
    mkdir -p "$modules"
    if [[ ! -d $modules/node_modules/redlock ]]; then
        (cd "$modules" && npm install --no-audit --no-fund --silent --prefix "$modules" redlock@5.0.0-beta.2 ioredis@5) \
            >"$ROOM/npm.log" 2>&1 3>&- 4>&- || skip_or_fail "npm cannot install redlock: $(tail -n 1 "$ROOM/npm.log")"
    fi
    servers_start 3
    cat >"$ROOM/other.cjs" <<'SCRIPT'
const Redis = require('ioredis');
const { default: Redlock } = require('redlock');
const clients = process.argv.slice(3).map(path => new Redis(path));
const redlock = new Redlock(clients, { retryCount: 0 });
redlock.on('error', () => {});
(async () => {
    try {
        const lock = await redlock.acquire(['lock:job'], 30000);
        console.log('taken');
        if (process.argv[2] === 'hold')
            await new Promise(done => process.once('SIGTERM', done));
        await lock.release();
    } catch (error) {
        console.log('refused');
    }
    clients.forEach(client => client.disconnect());
})();
SCRIPT
    export NODE_PATH=$modules/node_modules
    hold_all job -t 60 job
    run node "$ROOM/other.cjs" try "$(redis_sock s1)" "$(redis_sock s2)" "$(redis_sock s3)"
    assert_equal "$output" refused
    let_go job
    spawn other node "$ROOM/other.cjs" hold "$(redis_sock s1)" "$(redis_sock s2)" "$(redis_sock s3)"
    wait_for_line "$ROOM/other.out" taken
    run --separate-stderr quorum job -- touch "$ROOM/ran"
    assert_status 75
    assert_one_line 'held by another program'
    kill -TERM "$other"
    reap other
    run --separate-stderr quorum job -- echo free
    assert_output free
}
