#!/usr/bin/env bats
# --doctor: each finding is a line with a remedy, the exit status is that of the worst failure, and every
# feature that a server refuses either does without or is named.
# shellcheck disable=SC2154 # spawn and hold assign

load lib/common
load lib/one_server
load lib/locks
load lib/namespace
load lib/queue
load lib/trouble
load lib/scripts

setup() {
    one_server_setup
    export REDISLOCK_CONNECT_TIMEOUT=5
}

# doctor [OPTION]...: and whatever it finds wrong, it says what to do.
doctor() {
    run --separate-stderr lock "$@" --doctor
    every_finding_has_a_remedy
}

REMEDY='(allow|ask|bring|choose|give|install|leave|let|look|make|mend|name|raise|renew|see|set|use|wait) '
every_finding_has_a_remedy() {
    if grep -E '^(warning|failure) ' <<<"$output" | grep -vE "(: |; |, but )(.*: )?$REMEDY" >&2; then
        fail "that says nothing of what to do"
    fi
}

# verdict WORD REGEX: a line of it.
verdict() {
    assert_line_output "^$1 {$((10 - ${#1}))}.*($2)"
}

no_verdict() {
    if grep -E "^$1 " <<<"$output" >&2; then
        fail "there is a $1"
    fi
}

# Nothing is left, of whatever it has tried; not even what is remembered of a name.
nothing_left() {
    wait_until 2000 empty || fail "left: $(rcli keys '*')"
}

empty() {
    [[ $(rcli dbsize) == 0 ]]
}

# as_user RULE... -- COMMAND...: COMMAND as a user of everything but these rules.
acl_user() {
    rcli acl setuser job reset on '>open sesame' '~*' '&*' +@all "$@" >/dev/null
}

as_user() {
    REDISLOCK_USER=job REDISCLI_AUTH='open sesame' "$@"
}

# works: as that user, a job runs, a second is refused, and a waiter gets its turn.
works() {
    local answer=0
    REDISLOCK_USER=job REDISCLI_AUTH='open sesame' hold one -t 20 works || return
    as_user lock -q works -- touch "$ROOM/ran" || answer=$?
    assert_equal "$answer" 75 || return
    REDISLOCK_USER=job REDISCLI_AUTH='open sesame' spawn two lock -w 5 works -- true
    wait_until 5000 line_is works 1 || return
    let_go one
    assert_status 0 || return
    reap two
    assert_status 0 || return
    [[ ! -e $ROOM/ran ]]
    rcli flushall >/dev/null
}

@test "--doctor of a good server: every line ok but what is true of a server without persistence" {
    doctor
    assert_status 0
    assert_no_stderr
    no_verdict failure
    verdict ok "unix://$SOCK answers in [0-9.]+ ms"
    verdict ok 'it is a master'
    verdict ok "version $(rcli info server | sed -n 's/^redis_version:\([0-9.]*\).*/\1/p')"
    verdict ok 'logged in as default'
    verdict ok 'the clocks of this host and the server are [0-9.]+m?s apart'
    verdict ok 'memory is not limited'
    verdict ok 'no replicas'
    verdict ok 'the connection does not leave this host'
    verdict ok 'an exclusive lock can be acquired, extended and released'
    verdict ok 'a shared lock can be'
    verdict ok 'waiting in line works, by pub/sub'
    assert_equal "$(grep -c '^warning' <<<"$output")" 1
    verdict warning 'a restart may lose locks \(no append-only file\)'
    grep -vqE '^(ok      |warning |failure )  [^ ]' <<<"$output" && fail "a line of another form: $output"
    nothing_left
}

@test "where no server is named, a job that finds none and --doctor say so, and nobody else" {
    namespace_start # where certainly nobody listens on the default port
    export REDISLOCK_CONNECT_TIMEOUT=0.2 REDISLOCK_CONFIG=/dev/null
    local unnamed='^redislock: job: redis://127.0.0.1:6379: Connection refused; no working Redis'
    run --separate-stderr "$REDISLOCK_BIN" job -- true
    assert_status 69
    assert_one_line "$unnamed \\(no server was named by --url, REDISLOCK_URL or the configuration file\\)\$"
    run --separate-stderr "$REDISLOCK_BIN" --doctor
    assert_status 69
    verdict warning 'no server is named, so each host asks one of its own: '
    verdict failure 'Connection refused'

    REDISLOCK_URL=redis://127.0.0.1 run --separate-stderr "$REDISLOCK_BIN" job -- true
    assert_status 69
    assert_one_line "$unnamed\$"
    REDIS_URL=redis://127.0.0.1 run --separate-stderr "$REDISLOCK_BIN" --doctor
    assert_status 69
    no_verdict warning
}

@test "--doctor takes no operand, and a full disk behind it is an error" {
    run --separate-stderr lock --doctor job
    assert_status 64
    assert_one_line 'takes no operand'
    run bash -c '"$REDISLOCK_BIN" -u "unix://$SOCK" --doctor >/dev/full'
    assert_status 71
    nothing_left
}

@test "an append-only file is fine; a save that failed is a warning" {
    redis_start own --appendonly yes
    redis_use own
    doctor
    assert_status 0
    no_verdict warning
    verdict ok 'locks survive a restart'
    redis_start second
    redis_use second
    mkdir "$ROOM/redis-second/dump.rdb" # in the way of the file that is to be renamed to it
    rcli set x y >/dev/null
    rcli bgsave >/dev/null
    wait_until 5000 save_failed
    rcli config set save '3600 1' >/dev/null
    doctor --connect-timeout 300ms
    verdict warning 'the last background save failed'
    verdict failure 'cannot acquire an exclusive lock: .*MISCONF'
    assert_status 69
}

save_failed() {
    rcli info persistence | grep -q 'rdb_last_bgsave_status:err'
}

@test "eviction policies and full memory are warned about" {
    redis_start own --maxmemory 100mb
    redis_use own
    doctor
    assert_status 0
    verdict ok 'maxmemory-policy noeviction'
    local policy
    for policy in allkeys-lru volatile-lru volatile-ttl; do
        rcli config set maxmemory-policy "$policy" >/dev/null
        doctor
        assert_status 0
        verdict warning "maxmemory-policy $policy can evict a lock: set noeviction"
    done
    rcli config set maxmemory-policy noeviction >/dev/null
    rcli config set maxmemory 1mb >/dev/null
    doctor --connect-timeout 300ms
    assert_status 69
    verdict warning 'memory is over 90 % full'
    verdict failure 'cannot acquire an exclusive lock: .*OOM'
}

@test "a replica is a failure: name the master; a master with replicas is a warning" {
    redis_start own --tcp --repl-diskless-sync no
    redis_start replica --replicaof "127.0.0.1 $(redis_port own)"
    wait_until 10000 replicates
    redis_use replica
    doctor --connect-timeout 300ms
    assert_status 69
    verdict failure 'it is a slave, not a master: name the master in --url'
    verdict failure 'cannot acquire an exclusive lock: .*READONLY'
    redis_use own
    doctor
    assert_status 0
    verdict warning '1 replica\(s\): a failover can lose a lock'
}

replicates() {
    rcli_at own info replication | grep -q '^slave0:.*state=online'
}

@test "no server, a frozen one, a wrong password, a wrong database: the failure and its status" {
    URL=unix://$ROOM/nobody doctor --connect-timeout 200ms
    assert_status 69
    verdict failure 'nobody: No such file or directory|nobody: .*'
    assert_equal "${#lines[@]}" 1

    redis_start own --requirepass 'hunter2 secret'
    redis_use own
    doctor
    assert_status 77
    verdict failure NOAUTH
    REDISCLI_AUTH=hunter3 doctor
    assert_status 77
    verdict failure WRONGPASS
    [[ $output != *hunter* ]]
    REDISCLI_AUTH='hunter2 secret' doctor
    assert_status 0
    verdict ok 'logged in as default'
    [[ $output != *hunter* ]]
    rcli -a 'hunter2 secret' --no-auth-warning config set requirepass '' >/dev/null
    URL="unix://$SOCK?db=99" doctor
    assert_status 64
    verdict failure 'DB index'
    REDISLOCK_URL="unix://$SOCK?db=99" run --separate-stderr "$REDISLOCK_BIN" --doctor
    assert_status 78
    verdict failure 'DB index'

    redis_freeze own
    doctor --connect-timeout 300ms
    redis_thaw own
    assert_status 69
    verdict failure 'no answer|timed out|Timeout|answer'
}

@test "refused logins and rights: each failure says what to do" {
    redis_start own --requirepass other
    redis_use own
    export REDISCLI_AUTH=other
    rcli acl setuser cron on '>sesame' '~lock:*' '&lock:*' +@all >/dev/null
    rcli acl setuser off off '>sesame' '~*' '&*' +@all >/dev/null
    rcli acl setuser narrow on '>sesame' '~x:*' '&x:*' +@all >/dev/null
    unset REDISCLI_AUTH
    local user password says
    while IFS='|' read -r user password says; do
        unset REDISLOCK_USER REDISCLI_AUTH
        [[ $user == - ]] || export REDISLOCK_USER=$user
        [[ $password == - ]] || export REDISCLI_AUTH=$password
        doctor
        assert_status 77
        verdict failure "$says"
    done <<'END'
-|-|NOAUTH .*; give a password by --password-file, and with an ACL user its name by --user$
-|wrong|WRONGPASS .*; look at the name \(--user\) and the password \(--password-file\), and whether ACL LIST shows
nobody|sesame|WRONGPASS .*; look at the name
off|sesame|WRONGPASS .*; look at the name
cron|wrong|WRONGPASS .*; look at the name
narrow|sesame|cannot acquire an exclusive lock: .*NOPERM.*; give the user the rights that redislock\(1\) lists
END
    unset REDISLOCK_USER
    redis_use main
    REDISCLI_AUTH=sesame doctor
    assert_status 77
    verdict failure 'AUTH <password> called without any password .*; leave the password out, or name the ACL user'
}

@test "a server that is not as it should be: each failure says what to do" {
    redis_start own --tcp --maxclients 10 --cluster-enabled yes
    local tcp
    tcp=127.0.0.1:$(redis_port own)

    URL=redis://$tcp doctor --connect-timeout 300ms
    assert_status 69
    verdict failure 'CLUSTERDOWN .*; look at the cluster'
    URL=redis://$tcp/1 doctor --connect-timeout 300ms
    verdict failure 'SELECT is not allowed .*; leave the number out of --url'
    URL=redis+sentinel://$tcp/mymaster doctor --connect-timeout 300ms
    verdict failure "unknown command .SENTINEL.*; name sentinels in --url"
    URL=rediss://$tcp doctor --connect-timeout 300ms --insecure
    verdict failure '; look at host and port in --url.* TLS is spoken|; use redis:// here'
    URL=redis://no-such-host.invalid doctor --connect-timeout 300ms
    verdict failure "; look at the host's name in --url, and at this host's DNS"
    URL=redis://127.0.0.1:1 doctor --connect-timeout 300ms
    verdict failure 'Connection refused; look at host and port in --url, whether the server runs'
    URL=unix://$ROOM/nobody doctor --connect-timeout 300ms
    verdict failure 'No such file or directory; look at the path in --url'

    redis_start few --min-replicas-to-write 1
    redis_use few
    doctor --connect-timeout 300ms
    verdict failure 'NOREPLICAS .*; bring its replicas back, or lower min-replicas-to-write'
    rcli config set min-replicas-to-write 0 >/dev/null
    doctor --connect-timeout 300ms --wait-replicas 1
    verdict failure '0 of 1 replicas acknowledged .*; bring its replicas back, or lower --wait-replicas'
    nothing_left
}

# The lines of the display in the manual page, each whole again.
lines_of_page() {
    awk '/^ok        it is a master/ { inside = 1 }
        inside && /^\.Ed/ { exit }
        inside { begins = /^[a-z]/; sub(/^ +/, ""); printf "%s%s", begins ? sep : " ", $0; sep = "\n" }
        END { print "" }' "$ROOT/man/redislock.1"
}

@test "what the manual page shows of --doctor is what it says" {
    lines_of_page >"$ROOM/page"
    assert_equal "$(wc -l <"$ROOM/page")" 3
    doctor
    grep -qxF -- "$(sed -n 1p "$ROOM/page")" <<<"$output"
    URL=redis://127.0.0.1:1 doctor --connect-timeout 300ms
    assert_equal "$(sed -n 3p "$ROOM/page" | sed 's/cache.internal:6379/127.0.0.1:1/')" "$output"
    grep -qF "$(sed -n '2s/^warning *//p' "$ROOM/page")" "$ROOT/src/command/examine.c"
}

@test "a user without a password on TCP, and a connection without TLS, are warned about" {
    redis_start own --tcp
    URL=redis://127.0.0.1:$(redis_port own) doctor
    assert_status 0
    verdict warning 'user default needs no password'
    verdict ok 'the connection does not leave this host'
}

@test "a clock that differs is a warning" {
    local library
    ! is_static || skip 'optional: nothing is preloaded into a static program'
    library=$(faketime_library) || skip_or_fail 'libfaketime is not installed'
    # the client's: redis-server's jemalloc and libfaketime wait for each other
    export ASAN_OPTIONS=${ASAN_OPTIONS-}:verify_asan_link_order=0 # it would rather be preloaded first
    run --separate-stderr env LD_PRELOAD="$library" FAKETIME=+90s "$REDISLOCK_BIN" \
        -u "unix://$SOCK" --doctor
    assert_status 0
    verdict warning 'the clocks of this host and the server are 1m(29|30|31)s apart'
    verdict ok 'an exclusive lock can be acquired'
}

@test "row 60: whatever may be refused is tried: the lines of --doctor, and jobs that run all the same" {
    local -A says=(
        [-time]='TIME is refused: fences take this host.s clock as their floor, and --shared and --slots'
        [-info]='INFO is refused: version, memory and persistence cannot be seen'
        [-role]='ROLE is refused: whether this is a master is seen only by locking'
        [-subscribe]='waiting works by polling only: allow .*\+subscribe'
        [-multi]='waiting works by polling only: allow \+multi'
        [resetchannels]='waiting works by polling only: allow .* and the channels lock:\*'
        [-publish]='waiting works by polling only: allow .*\+publish'
        [-pubsub]='waiting works by polling only: allow .*\+pubsub'
    )
    local rule
    for rule in "${!says[@]}"; do
        acl_user "$rule"
        as_user doctor
        assert_status 0
        verdict warning "${says[$rule]}"
        no_verdict failure
        nothing_left
        works || fail "with $rule jobs do not work"
    done
}

@test "row 60: PING, ACL WHOAMI, CONFIG, CLIENT, HELLO, TYPE and EVAL of a known script may be refused unnoticed" {
    as_user true
    acl_user
    as_user doctor # the server knows the scripts now
    acl_user -ping -acl -config -client -hello -type -eval -script -exists +exists
    as_user doctor
    assert_status 0
    no_verdict failure
    verdict ok 'logged in \(ACL WHOAMI is refused'
    nothing_left
    works
}

@test "rows 59 and 60: what locking needs is named as a failure: 77, and nothing is left behind" {
    local rule
    for rule in -get -set -del -hset -hget -pexpire -exists '-eval -evalsha' -@write '-@all +ping'; do
        acl_user
        # shellcheck disable=SC2086 # words on purpose
        acl_user $rule
        as_user doctor
        assert_status 77
        verdict failure 'cannot (acquire|extend|refuse|release) an exclusive lock: .*(NOPERM|can.t run|permissions|ACL)'
        immortal=$(immortal_keys)
        [[ -z $immortal ]] || fail "with $rule left without expiry: $immortal"
        rcli flushall >/dev/null
    done
    acl_user resetkeys '~other:*'
    as_user doctor
    assert_status 77
    verdict failure 'cannot acquire an exclusive lock: .*(NOPERM|keys)'
}

@test "--doctor tries the prefix and the TTL that jobs would use" {
    acl_user resetkeys '~cron:*'
    as_user doctor --prefix cron:
    assert_status 0
    no_verdict failure
    as_user doctor
    assert_status 77
    doctor -t 100ms
    assert_status 64
    assert_equal "$(grep -c -- '--ttl is too short' <<<"$output")" 1
    verdict failure '--ttl is too short'
    verdict ok 'it is a master'
    REDISLOCK_TTL=100ms doctor
    assert_status 78
    verdict failure '--ttl is too short: .*; REDISLOCK_TTL is set in the environment$'
    redis_start second
    redis_start third
    URL="unix://$SOCK,unix://$(redis_sock second),unix://$(redis_sock third)" doctor -t 100ms
    assert_status 64
    assert_equal "$(grep -c -- '--ttl is too short' <<<"$output")" 1
    [[ $output != *'a majority works'* ]]
    nothing_left
}

@test "--doctor beside a real job disturbs nothing" {
    hold one job
    local before
    before=$(rcli get lock:job)
    doctor
    assert_status 0
    assert_equal "$(rcli get lock:job)" "$before"
    assert_equal "$(rcli keys '*' | sort | xargs)" "lock:job lock:{lock:job}:state"
    let_go one
}
