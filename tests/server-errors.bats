#!/usr/bin/env bats
# What a server may answer, and what becomes of it: never a crash, never "held" for an error, one
# line that says which server said what.
# shellcheck disable=SC2030,SC2031 # each test is a process of its own
# shellcheck disable=SC2154,SC2153 # spawn, hold and the helpers assign

load lib/common
load lib/locks
load lib/trouble

patiently=(--connect-timeout 60) # longer than a test: what ends with it ended at once

@test "errors that pass are 69 once --connect-timeout is over, and say what the server said" {
    refuse 69 'LOADING Redis is' 'reply -LOADING Redis is loading the dataset in memory'
    refuse 69 'BUSY Redis' 'reply -BUSY Redis is busy running a script. You can only call SCRIPT KILL.'
    refuse 69 TRYAGAIN 'reply -TRYAGAIN Multiple keys request during rehashing of slot'
    refuse 69 CLUSTERDOWN 'reply -CLUSTERDOWN Hash slot not served'
    refuse 69 MASTERDOWN 'reply -MASTERDOWN Link with MASTER is down'
    refuse 69 'max number of clients' 'last -ERR max number of clients reached\r\n'
    refuse 69 READONLY "reply -READONLY You can't write against a read only replica."
    refuse 69 'non local key' 'reply -ERR Script attempted to access a non local key in a cluster node'
    refuse 69 'OOM command' "reply -OOM command not allowed when used memory > 'maxmemory'."
    refuse 69 MISCONF 'reply -MISCONF Redis is configured to save RDB snapshots'
    refuse 69 NOREPLICAS 'reply -NOREPLICAS Not enough good replicas to write.'
    refuse 69 NOSCRIPT 'reply -NOSCRIPT No matching script. Please use EVAL.'
    refused
}

# silent_after ITEM: a server that answers the first question so, and then none. Sets TALKER_URL.
silent_after() {
    # shellcheck disable=SC2086 # no word, or one
    talker_start ${LISTENER-} --repeat-last 'when DEL reply :0' "$1" stall
}

# gives_reason REASON COMMAND...: 69, and the line names the last reason that was seen, not that the last
# try had no time left.
gives_reason() {
    local reason=$1
    shift
    run --separate-stderr "$@"
    assert_status 69
    assert_one_line "$reason" || return
    refute_line_stderr 'no answer in time'
}

@test "the last try is cut short by --connect-timeout: the line gives the reason that was seen before it" {
    local item reason token
    token=redislock1:$(printf '%032d' 1):h:0:1:x:1:9000:1:u:c
    while IFS='|' read -r item reason; do
        silent_after "$item"
        URL=$TALKER_URL gives_reason "$reason" lock --connect-timeout 400ms job -- touch "$ROOM/ran"
        silent_after "$item"
        URL=$TALKER_URL gives_reason "$reason" lock --connect-timeout 400ms --status job
    done <<'END'
reply -LOADING Redis is loading the dataset in memory|LOADING Redis is loading
reply -MASTERDOWN Link with MASTER is down|MASTERDOWN Link
close|the server closed the connection
END
    for item in '-w 20s job -- true' '--acquire job' '--unlock --force job'; do
        silent_after 'reply -LOADING Redis is loading'
        # shellcheck disable=SC2086 # words on purpose
        URL=$TALKER_URL gives_reason LOADING lock --connect-timeout 400ms $item
    done
    [[ ! -e $ROOM/ran ]]
}

@test "the same in a cluster: what one node said stands when the next has no time to answer" {
    local LISTENER=--tcp
    talker_start --tcp --repeat-last stall
    URL=redis+cluster://127.0.0.1:1,${TALKER_URL#redis://} gives_reason \
        '127.0.0.1:1: Connection refused' lock --connect-timeout 400ms job -- true
    silent_after 'reply -CLUSTERDOWN The cluster is down'
    URL=redis+cluster://${TALKER_URL#redis://} gives_reason CLUSTERDOWN \
        lock --connect-timeout 400ms job -- true
}

@test "a whole try without an answer is a reason of its own, and a redirect is none" {
    local LISTENER=--tcp
    silent_after 'reply -LOADING Redis is loading the dataset in memory'
    URL=$TALKER_URL run --separate-stderr lock --connect-timeout 2600ms job -- true
    assert_status 69
    assert_one_line 'no answer in time'
    talker_start --tcp --repeat-last stall
    talker_start --tcp --repeat-last "reply -MOVED 1 ${TALKER_URL#redis://}"
    URL=$TALKER_URL run --separate-stderr lock --connect-timeout 400ms job -- true
    assert_status 69
    assert_one_line 'no answer in time'
}

@test "row 29, row 48: the same errors count when a script wraps them, as Redis 6.2 does" {
    local wrapped='reply -ERR Error running script (call to f_ecd4f76cf20c7c40dd6a7c68fc7924010e1a7f91):'
    wrapped+=' @user_script:34: @user_script: 34: '
    refuse 69 READONLY "$wrapped-READONLY You can't write against a read only replica."
    refuse 69 OOM "$wrapped-OOM command not allowed when used memory > 'maxmemory'."
    refuse 69 MISCONF "$wrapped-MISCONF Redis is configured to save RDB snapshots"
    refuse 69 NOREPLICAS "$wrapped-NOREPLICAS Not enough good replicas to write."
    refuse 69 MASTERDOWN "$wrapped-MASTERDOWN Link with MASTER is down"
    refuse 77 NOPERM "$wrapped-NOPERM this user has no permissions to run the 'hset' command"
    refuse 76 WRONGTYPE "$wrapped-WRONGTYPE Operation against a key holding the wrong kind of value"
    refused
}

@test "row 59: a server that refuses the user is 77 at once, whatever its version calls it" {
    refuse 77 NOAUTH 'reply -NOAUTH Authentication required.'
    refuse 77 NOPERM "reply -NOPERM this user has no permissions to run the 'evalsha' command"
    refuse 77 'protected mode' 'last -DENIED Redis is running in protected mode\r\n'
    refuse 77 NOAUTH 'last -ERR Protocol error: unauthenticated multibulk length\r\n'
    refuse 77 NOAUTH 'last -ERR Protocol error: unauthenticated bulk length\r\n'
    refuse 77 "can't run this command" \
        "reply -ERR The user executing the script can't run this command or subcommand script: ab, on @user_script:3."
    refuse 77 "can't access at least one" \
        "reply -ERR The user executing the script can't access at least one of the keys mentioned in the command"
    refuse 77 'ACL failure' \
        "reply -ERR ACL failure in script: User u has no permissions to run the 'hset' command script: ab, on @user_script:3."
    refused "${patiently[@]}"
}

@test "a server that refuses the login is 77 at once" {
    refuse 77 WRONGPASS 'reply -WRONGPASS invalid username-password pair or user is disabled.'
    refuse 77 'invalid password' 'reply -ERR invalid password'
    refuse 77 'without any password' \
        'reply -ERR AUTH <password> called without any password configured for the default user.'
    refuse 77 'no password is set' 'reply -ERR Client sent AUTH, but no password is set'
    LOGIN=1 refused "${patiently[@]}"
}

@test "trouble in the answer to the login has a status of its own" {
    refuse 69 LOADING 'reply -LOADING Redis is loading the dataset in memory'
    refuse 69 'no answer' stall
    refuse 69 'closed the connection' close
    refuse 76 login 'reply +SURE'
    refuse 76 protocol 'garbage 100'
    LOGIN=1 refused
}

@test "a key that is no lock is 76 at once" {
    refuse 76 lock:job 'reply -WRONGTYPE Operation against a key holding the wrong kind of value'
    refuse 76 'a list' 'reply -NOTALOCK the key holds a list'
    refused "${patiently[@]}"
}

@test "replies without sense are 76 at once, each with a reason" {
    local value=redislock1:0123456789abcdef0123456789abcdef01234567:1:held:1:60000:h:b:1:u:c
    refuse 76 'something unheard of' 'reply -ERR something unheard of'
    refuse 76 'unknown command' 'reply -ERR unknown command `EVALSHA`, with args beginning with: `ab`, '
    refuse 76 '' 'reply +OK'
    refuse 76 '' 'reply :1'
    refuse 76 '' 'raw $2\r\nOK\r\n'
    refuse 76 '' 'raw $-1\r\n'
    refuse 76 '' 'raw *-1\r\n'
    refuse 76 '' 'raw *0\r\n'
    refuse 76 '' 'raw *1\r\n$-1\r\n'
    refuse 76 '' 'raw *1\r\n:1\r\n'
    refuse 76 '' 'raw *1\r\n$5\r\nMAYBE\r\n'
    refuse 76 '' 'raw *1\r\n$9\r\nCANCELLED\r\n'
    # an OK without our own value is no lock
    refuse 76 '' 'raw *1\r\n$2\r\nOK\r\n'
    refuse 76 '' 'raw *2\r\n$2\r\nOK\r\n:5\r\n'
    refuse 76 '' 'raw *2\r\n$2\r\nOK\r\n$5\r\nhello\r\n'
    refuse 76 '' "raw *2\\r\\n\$2\\r\\nOK\\r\\n\$${#value}\\r\\n$value\\r\\n"
    refused "${patiently[@]}"
}

@test "a HELD without a holder's value is not \"held\": 76" {
    refuse 76 '' 'raw *1\r\n$4\r\nHELD\r\n'
    refuse 76 '' 'raw *4\r\n$4\r\nHELD\r\n$-1\r\n:1\r\n:1\r\n'
    refuse 76 '' 'raw *4\r\n$4\r\nHELD\r\n*0\r\n:1\r\n:1\r\n'
    refused "${patiently[@]}"
}

@test "what is no Redis protocol is 76 at once" {
    refuse 76 protocol 'garbage 100000'
    refuse 76 protocol 'raw HTTP/1.1 400 Bad Request\r\n\r\n'
    refuse 76 protocol 'raw SSH-2.0-OpenSSH_9.2\r\n'
    refuse 76 protocol 'raw \x15\x03\x01\x00\x02\x02\x46'
    refuse 76 protocol 'raw $-5\r\n'
    refuse 76 protocol 'raw *-7\r\n'
    refuse 76 protocol 'raw :99999999999999999999999\r\n'
    refuse 76 protocol 'raw *99999999999999999999\r\n'
    refused "${patiently[@]}"
}

@test "a huge or endlessly nested reply costs neither memory nor time: 76 at once" {
    refuse 76 '' 'raw *2147483647\r\n'
    refuse 76 '' 'raw *1000000000\r\n'
    refuse 76 '' "raw $(printf '*1\\r\\n%.0s' {1..2000})"
    refused "${patiently[@]}"
}

@test "a reply that never comes, or never ends, is 69 soon after --connect-timeout" {
    refuse 69 'no answer' stall
    refuse 69 'no answer' 'raw *2\r\n$2\r\nOK\r\n$5\r\nhel'
    refuse 69 'no answer' 'raw -LOADING Redis is'
    refuse 69 'no answer' 'raw $2147483648\r\n'
    refuse 69 'no answer' 'raw $536870912\r\nab'
    refused
    refuse 69 'no answer' 'slow 100 *1\r\n$4\r\nHELD\r\n'
    refused
}

@test "a connection that is closed instead of an answer, or in it, is 69" {
    refuse 69 closed close
    refuse 69 closed 'last *2\r\n$2\r\nOK\r\n$5\r\nhel'
    refuse 69 closed 'last -LOADING Redis'
    refused
    refuse 69 reset reset
    LISTENER=--tcp refused
}

@test "control bytes in a server's answer are escaped" {
    refuse 76 'ERR .x1b\[2Jred' 'reply -ERR \x1b[2Jred\x09'
    refused
}

@test "no server, and nobody at the address: 69, one line, only after --connect-timeout" {
    local before after url
    for url in "unix://$ROOM/nothing" redis://127.0.0.1:1 'redis://[::1]:1' redis://no-such.invalid; do
        before=$(boottime_ms)
        URL=$url run --separate-stderr lock --connect-timeout 0.2 job -- touch "$ROOM/ran"
        after=$(boottime_ms)
        assert_status 69
        assert_one_line '^redislock: job: (unix|redis)://.*: [^;]+; no working Redis$'
        assert_between $((after - before)) 190 5000
        [[ ! -e $ROOM/ran ]]
    done
}

@test "a server that comes up within --connect-timeout is used" {
    redis_start
    talker_start --repeat-last close
    ln -s "${TALKER_URL#unix://}" "$ROOM/server" # what is there at first
    URL=unix://$ROOM/server spawn job lock --connect-timeout 20 job -- echo ran
    wait_until 10000 tried_twice
    rm "$ROOM/server" # then nothing
    ln -s "$SOCK" "$ROOM/server"
    reap job 20000
    assert_status 0
    assert_output ran
    assert_no_stderr
    assert_free job
}

tried_twice() {
    (($(grep -c EVALSHA "$TALKER_LOG") >= 2))
}

@test "a server that is frozen, and thaws within --connect-timeout, is used" {
    redis_start
    proxy_start
    redis_freeze
    URL=$PROXY_URL spawn job lock --connect-timeout 20 job -- echo ran
    wait_until 5000 proxy_saw c2s 1 # it has asked
    redis_thaw
    reap job 20000
    assert_status 0
    assert_output ran
    assert_no_stderr
    assert_free job
}

@test "--on-error: fail is 69, skip is 0 without a run, run is the command's status and a warning" {
    local URL=unix://$ROOM/nothing command=(sh -c 'echo ran; exit 3')
    run --separate-stderr lock --connect-timeout 0.1 --on-error fail job -- "${command[@]}"
    assert_status 69
    assert_no_output
    assert_one_line "$URL: .*no working Redis"
    run --separate-stderr lock --connect-timeout 0.1 --on-error skip job -- "${command[@]}"
    assert_status 0
    assert_no_output
    assert_one_line "$URL: .*skip"
    run --separate-stderr lock --connect-timeout 0.1 --on-error run job -- "${command[@]}"
    assert_status 3
    assert_output ran
    assert_one_line "$URL: .*WITHOUT A LOCK"
}

@test "--on-error is about an unreachable server alone: held, refused and nonsense stay what they are" {
    redis_start --requirepass secret
    redis_start second
    talker_start --repeat-last 'garbage 100'
    redis_use second
    rcli set lock:job foreign px 60000
    local mode
    for mode in skip run; do
        run --separate-stderr lock --on-error "$mode" job -- touch "$ROOM/ran"
        assert_status 75
        URL="unix://$(redis_sock main)" \
            run --separate-stderr lock --on-error "$mode" job -- touch "$ROOM/ran"
        assert_status 77
        URL=$TALKER_URL run --separate-stderr lock --on-error "$mode" job -- touch "$ROOM/ran"
        assert_status 76
    done
    [[ ! -e $ROOM/ran ]]
}

@test "a run without a lock (--on-error run) leaves no lock when the server comes back meanwhile" {
    redis_start
    redis_stop
    spawn job lock -t 1 --connect-timeout 0.1 --on-error run job -- sh -c \
        'echo started; until [ -e "$0" ]; do sleep 0.02; done; exit 4' "$ROOM/go"
    wait_for_line "$ROOM/job.out" started
    redis_restart
    wait_until 5000 test -S "$SOCK"
    touch "$ROOM/go"
    reap job
    assert_status 4
    assert_equal "$(rcli dbsize)" 0
}

@test "real server: too many clients is 69, and the lock is had once there is room" {
    redis_start --maxclients 1
    spawn guest redis-cli -s "$SOCK" subscribe room
    wait_for_line "$ROOM/guest.out" subscribe
    run --separate-stderr lock --connect-timeout 0.2 job -- touch "$ROOM/ran"
    assert_status 69
    assert_one_line "^redislock: job: unix://$SOCK: [^;]+; no working Redis"
    [[ ! -e $ROOM/ran ]]
    spawn job lock --connect-timeout 20 job -- echo ran
    process_end "$guest"
    reap job 20000
    assert_status 0
    assert_output ran
}

@test "real server: busy with somebody's script is 69, and the lock is had once that has ended" {
    redis_start --lua-time-limit 10
    spawn script redis-cli -s "$SOCK" eval 'while true do end' 0
    wait_until 5000 server_is_busy
    run --separate-stderr lock --connect-timeout 0.2 job -- touch "$ROOM/ran"
    assert_status 69
    assert_one_line "^redislock: job: unix://$SOCK: BUSY "
    [[ ! -e $ROOM/ran ]]
    spawn job lock --connect-timeout 20 job -- echo ran
    rcli script kill
    reap job 20000
    assert_status 0
    assert_output ran
    assert_free job
}

server_is_busy() {
    [[ $(rcli ping 2>&1) == BUSY* ]]
}

@test "real server: a database it does not have is 64 by the command line and 78 by the environment" {
    redis_start
    URL="unix://$SOCK?db=99" run --separate-stderr lock job -- touch "$ROOM/ran"
    assert_status 64
    assert_one_line "unix://$SOCK\?db=99: .*index.*; check the database"
    REDISLOCK_URL="unix://$SOCK?db=99" \
        run --separate-stderr "$REDISLOCK_BIN" job -- touch "$ROOM/ran"
    assert_status 78
    assert_one_line "unix://$SOCK\?db=99: .*index.*; check the database .*; REDISLOCK_URL is set in the environment$"
    [[ ! -e $ROOM/ran ]]
    assert_equal "$(rcli dbsize)" 0
}

@test "real server: a lock in another database is a lock in that one alone" {
    redis_start
    URL="unix://$SOCK?db=3" run --separate-stderr lock job -- \
        sh -c 'redis-cli -s "$SOCK" -n 3 exists lock:job; redis-cli -s "$SOCK" exists lock:job'
    assert_status 0
    assert_output $'1\n0'
    assert_equal "$(rcli dbsize)" 0
}

@test "row 49: a key that holds something else is 76 with its type, and is not touched" {
    redis_start
    rcli rpush lock:list a b c
    rcli hset lock:hash field value
    rcli sadd lock:set a b
    rcli zadd lock:zset 1 a
    rcli xadd lock:stream '*' field value
    local kind before
    for kind in list hash set zset stream; do
        before=$(rcli dump "lock:$kind" | cksum)
        run --separate-stderr lock "$kind" -- touch "$ROOM/ran"
        assert_status 76
        assert_one_line "^redislock: $kind: unix://$SOCK: .* $kind; the key 'lock:$kind' belongs"
        run --separate-stderr lock -w 1 "$kind" -- touch "$ROOM/ran"
        assert_status 76
        assert_equal "$(rcli dump "lock:$kind" | cksum)" "$before"
        assert_equal "$(key_pttl "lock:$kind")" -1
    done
    [[ ! -e $ROOM/ran ]]
    assert_equal "$(rcli dbsize)" 5
}

@test "row 49: a key that turns into something else while held is lost, and is not touched" {
    redis_start
    hold job -t 1 job
    rcli eval 'redis.call("del", KEYS[1]); redis.call("rpush", KEYS[1], "a")' 1 lock:job
    reap job
    assert_status 79
    assert_line_stderr 'lost the lock: its key now holds something else; stopping'
    assert_equal "$(rcli lrange lock:job 0 -1)" a
}

@test "row 48: a full memory is 69, and nothing is left" {
    redis_start --maxmemory-policy noeviction
    run --separate-stderr lock other -- true # the server knows the script
    rcli flushall
    rcli config set maxmemory 1
    run --separate-stderr lock --connect-timeout 0.2 job -- touch "$ROOM/ran"
    assert_status 69
    assert_one_line "^redislock: job: unix://$SOCK: .*OOM .*; no working Redis"
    [[ ! -e $ROOM/ran ]]
    assert_equal "$(rcli dbsize)" 0
    spawn job lock --connect-timeout 20 job -- echo ran
    rcli config set maxmemory 0
    reap job 20000
    assert_status 0
    assert_output ran
}

@test "row 48: extension and release work in a full memory" {
    redis_start --maxmemory-policy noeviction
    hold job -t 1 job
    rcli config set maxmemory 1
    local before
    before=$(calls pexpire)
    wait_until 5000 extended_since "$before" 2
    let_go_quiet job
    assert_no_key lock:job
}

# extended_since CALLS NUMBER
extended_since() {
    (($(calls pexpire) >= $1 + $2))
}

# From here on BGSAVE fails and Redis refuses writes: a folder stands where the dump should go.
break_saving() {
    mkdir "$(redis_folder)/dump.rdb"
    rcli config set save '3600 1'
    rcli bgsave
    wait_until 5000 saving_is_broken
}

redis_folder() {
    local sock
    sock=$(redis_sock)
    printf '%s\n' "${sock%/*}"
}

saving_is_broken() {
    rcli info persistence | grep -q '^rdb_last_bgsave_status:err'
}

@test "row 18: a server that cannot save refuses the lock: 69, and nothing is left" {
    redis_start
    break_saving
    run --separate-stderr lock --connect-timeout 0.2 job -- touch "$ROOM/ran"
    assert_status 69
    assert_one_line "^redislock: job: unix://$SOCK: .*MISCONF .*; no working Redis"
    [[ ! -e $ROOM/ran ]]
    assert_equal "$(rcli dbsize)" 0
}

@test "row 18: while a server cannot save the extension goes on trying, and gets through" {
    redis_start
    hold job -v -t "$(lease 2000)" job
    break_saving
    fails_to_extend job MISCONF
    local before
    before=$(calls pexpire)
    rcli config set stop-writes-on-bgsave-error no
    wait_until 5000 called_since pexpire "$before"
    let_go job
    assert_status 0
    assert_no_key lock:job
}

@test "row 18: a release that a server refuses is told, and the command's status stays" {
    redis_start
    hold job -t 1.5 job
    break_saving
    process_end "$(held_pid job)" KILL
    reap job
    assert_status 137
    assert_line_stderr 'cannot release the lock: .*MISCONF.*expires by itself'
}

@test "row 30: a read-only replica is 69 whether the key is there or not, never 75" {
    replica_start
    local wait
    for wait in -n '-w 0.3'; do
        # shellcheck disable=SC2086 # words on purpose
        run --separate-stderr on_replica --connect-timeout 0.3 $wait job -- touch "$ROOM/ran"
        assert_status 69
        assert_one_line "unix://$(redis_sock replica): .*READONLY.*; no working Redis"
    done
    rcli set lock:job foreign px 60000
    wait_until 10000 replica_has_foreign
    for wait in -n '-w 0.3'; do
        # shellcheck disable=SC2086 # words on purpose
        run --separate-stderr on_replica --connect-timeout 0.3 $wait job -- touch "$ROOM/ran"
        assert_status 69
        assert_one_line "unix://$(redis_sock replica): .*READONLY.*; no working Redis"
    done
    [[ ! -e $ROOM/ran ]]
    assert_equal "$(rcli get lock:job)" foreign
}

replica_has_foreign() {
    [[ $(rcli_at replica get lock:job) == foreign ]]
}

replica_start() {
    redis_start --tcp --repl-diskless-sync no
    redis_start replica --replicaof 127.0.0.1 "$(redis_port)"
    wait_until 10000 replica_follows
}

replica_follows() {
    rcli_at replica info replication | grep -q '^master_link_status:up'
}

on_replica() {
    URL=unix://$(redis_sock replica) lock "$@"
}

@test "row 29: a server demoted while the lock is held is no loss, if it is master again in time" {
    redis_start --repl-diskless-sync no
    redis_start empty --tcp --repl-diskless-sync no
    hold job -v -t 4 job
    rcli replicaof 127.0.0.1 "$(redis_port empty)"
    wait_until 10000 key_absent lock:job # what it had is gone: it copies an empty master
    fails_to_extend job READONLY
    rcli replicaof no one
    wait_for_line "$ROOM/job.err" 'put back'
    assert_process "$(held_pid job)"
    assert_key lock:job
    let_go job
    assert_status 0
    assert_no_key lock:job
}

@test "row 29, row 30: bad news from a server that takes no writes is not believed" {
    redis_start --repl-diskless-sync no
    redis_start other --tcp --repl-diskless-sync no
    rcli_at other set lock:job theirs px 60000
    hold job -v --no-restore -t 4 job
    local value before
    value=$(rcli get lock:job)
    rcli replicaof 127.0.0.1 "$(redis_port other)"
    wait_until 10000 value_is theirs # so it says now, but it is no master
    fails_to_extend job READONLY
    rcli_at other set lock:job "$value" px 60000
    wait_until 10000 value_is "$value"
    before=$(calls pexpire)
    rcli replicaof no one
    wait_until 5000 called_since pexpire "$before"
    let_go job
    assert_status 0
    refute_line_stderr 'lost|vanished'
}

value_is() {
    [[ $(rcli get lock:job) == "$1" ]]
}
