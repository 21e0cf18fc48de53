#!/usr/bin/env bats
# Users, passwords and what they may do: refused is 77 with one clear line, never a lock left behind
# that nobody serves, and never a secret in a message.
# shellcheck disable=SC2030,SC2031 # each test is a process of its own
# shellcheck disable=SC2154,SC2153 # spawn, hold and the helpers assign

load lib/common
load lib/locks
load lib/trouble

PASSWORD=open-sesame

# acl_user RULE...: the user "job" with $PASSWORD and these rules on top of everything.
acl_user() {
    rcli acl setuser job reset on ">$PASSWORD" '~*' '&*' +@all "$@" >/dev/null
}

# as_user ARG...: redislock as that user.
as_user() {
    REDISLOCK_USER=job REDISCLI_AUTH="$PASSWORD" lock "$@"
}

# refused_without RULE...: a user with these rules is refused and leaves no lock.
refused_without() {
    rcli flushall >/dev/null
    acl_user "$@"
    run --separate-stderr as_user job -- touch "$ROOM/ran"
    assert_status 77
    assert_no_output
    assert_one_line "^redislock: job: unix://$SOCK: [^;]+; check --user, --password-file and the"
    [[ ! -e $ROOM/ran ]]
    assert_free job
}

@test "row 59: without the right to run scripts: 77" {
    redis_start
    refused_without -evalsha
    refused_without -eval # unknown to this server, the script would have to be sent whole
    refused_without -eval -evalsha
    refused_without -@scripting
}

@test "row 60: scripts that the server knows need no EVAL" {
    redis_start
    run --separate-stderr lock job -- true
    acl_user -eval
    run --separate-stderr as_user job -- echo ran
    assert_status 0
    assert_output ran
    assert_no_stderr
    assert_free job
}

@test "row 59: without a command that acquiring, extending or releasing needs: 77, no lock is left" {
    redis_start
    local command
    for command in get set hset hget exists pexpire del; do
        refused_without "-$command"
    done
    refused_without -@write
}

@test "row 59: without the right to the keys: 77" {
    redis_start
    refused_without resetkeys '~other:*'
    refused_without resetkeys '~lock:job' # but not to its state
    refused_without resetkeys '%R~lock:*'
}

@test "row 60: TIME, TYPE, PTTL, counting, CONFIG, INFO, CLIENT and channels may be refused: it still works" {
    redis_start
    acl_user -time -type -pttl -hincrby -config -info -client -role -hello resetchannels
    run --separate-stderr as_user -t 1 job -- "$WITNESS" --sleep 800
    assert_status 0
    assert_no_stderr
    assert_free job
    rcli set lock:job foreign px 60000
    run --separate-stderr as_user job -- touch "$ROOM/ran"
    assert_status 75
    assert_one_line 'held by another program'
    [[ ! -e $ROOM/ran ]]
}

@test "row 59: a user with the documented minimum of rights can do all of it" {
    redis_start
    # shellcheck disable=SC2046 # words on purpose
    rcli acl setuser job $(documented_rights) >/dev/null
    run --separate-stderr as_user -t 1 job -- "$WITNESS" --sleep 800
    assert_status 0
    assert_no_stderr
    assert_free job
}

# The rules that the manual page gives for a user of its own, with a password.
documented_rights() {
    local rules
    rules=$(sed -n '/^ACL SETUSER/,/^\.Ed/p' "$ROOT/man/redislock.1" | sed 's/^\.Ed//' | tr '\n' ' ')
    rules=${rules#ACL SETUSER cron }
    printf '%s\n' "${rules/PASSWORD/$PASSWORD}"
}

@test "row 60: without TIME the fence still rises, by the clock of redislock" {
    redis_start
    acl_user -time
    run as_user job -- sh -c 'echo $REDISLOCK_FENCE'
    local first=$output
    assert_between "$first" 1700000000000 9999999999999
    run as_user job -- sh -c 'echo $REDISLOCK_FENCE'
    assert_between "$output" $((first + 1)) 9999999999999
}

@test "a right taken away while the lock is held: extension goes on trying, and gets through" {
    redis_start
    acl_user
    REDISLOCK_USER=job REDISCLI_AUTH="$PASSWORD" hold job -v -t 2 job
    rcli acl setuser job -pexpire
    fails_to_extend job "unix://$SOCK: "
    local before
    before=$(calls pexpire)
    rcli acl setuser job +pexpire
    wait_until 5000 called_since pexpire "$before"
    let_go job
    assert_status 0
    assert_no_key lock:job
}

@test "a right to release that was taken away: told, and the command's status stays" {
    redis_start
    acl_user
    REDISLOCK_USER=job REDISCLI_AUTH="$PASSWORD" spawn job lock -t 1.5 job -- sh -c \
        'echo started; until [ -e "$0" ]; do sleep 0.02; done; exit 5' "$ROOM/go"
    wait_for_line "$ROOM/job.out" started
    rcli acl setuser job -del
    touch "$ROOM/go"
    reap job
    assert_status 5
    assert_one_line "cannot release the lock: unix://$SOCK: .*expires by itself"
    wait_until 5000 key_absent lock:job
}

@test "a wrong password is 77, the right one works, from each place it can come from" {
    redis_start --requirepass "$PASSWORD"
    printf '%s\n' "$PASSWORD" >"$ROOM/right"
    printf 'shut sesame\n' >"$ROOM/wrong"
    run --separate-stderr lock job -- touch "$ROOM/ran"
    assert_status 77
    assert_one_line "^redislock: job: unix://$SOCK: NOAUTH .*; give --password-file, and --user for an ACL user$"
    run --separate-stderr lock --password-file "$ROOM/wrong" job -- touch "$ROOM/ran"
    assert_status 77
    assert_one_line "^redislock: job: unix://$SOCK: WRONGPASS "
    REDISCLI_AUTH='shut sesame' run --separate-stderr lock job -- touch "$ROOM/ran"
    assert_status 77
    assert_one_line "^redislock: job: unix://$SOCK: WRONGPASS "
    [[ ! -e $ROOM/ran ]]
    run --separate-stderr lock --password-file "$ROOM/right" job -- echo ran
    assert_status 0
    assert_output ran
    REDISCLI_AUTH="$PASSWORD" run --separate-stderr lock job -- echo ran
    assert_status 0
    assert_output ran
    assert_no_stderr
}

@test "a wrong password leaves no lock, though the default user needs none and the scripts are known" {
    redis_start --tcp
    lock job -- true
    rcli acl setuser job on '>right' '~*' +@all
    local url
    for url in "redis://:wrong@127.0.0.1:$(redis_port)" "redis://job:wrong@127.0.0.1:$(redis_port)"; do
        REDISLOCK_URL=$url run --separate-stderr "$REDISLOCK_BIN" job -- touch "$ROOM/ran"
        assert_status 77
        assert_one_line "^redislock: job: redis://127.0.0.1:$(redis_port): "
        [[ ! -e $ROOM/ran ]]
        assert_no_key lock:job
    done
    run --separate-stderr lock job -- echo ran
    assert_status 0
    assert_output ran
}

@test "a password for a server that has none is 77, and leaves no lock" {
    redis_start
    lock job -- true
    REDISCLI_AUTH=secret-4711 run --separate-stderr lock job -- touch "$ROOM/ran"
    assert_status 77
    assert_one_line "^redislock: job: unix://$SOCK: ERR AUTH "
    refute_line_stderr 4711
    [[ ! -e $ROOM/ran ]]
    assert_no_key lock:job
}

@test "a new password in --password-file is used when the connection is lost while a job runs" {
    redis_start --requirepass old
    printf 'old\n' >"$ROOM/password"
    hold job -t 2 --password-file "$ROOM/password" job
    printf 'new\n' >"$ROOM/password"
    rcli -a old --no-auth-warning config set requirepass new
    rcli -a new --no-auth-warning client kill type normal skipme yes
    local before
    before=$(REDISCLI_AUTH=new calls pexpire)
    wait_until 5000 pexpires_with new $((before + 2))
    let_go job
    assert_status 0
    refute_line_stderr 'lost|release'
    assert_equal "$(REDISCLI_AUTH=new rcli exists lock:job)" 0
}

# pexpires_with PASSWORD NUMBER: succeeds once PEXPIRE has been called so often.
pexpires_with() {
    (($(REDISCLI_AUTH=$1 calls pexpire) >= $2))
}

@test "row 83: no message shows a password or the token, whatever the server does with it" {
    redis_start --tcp
    redis_start strange --rename-command AUTH ''
    redis_start stranger --rename-command EVALSHA ''
    talker_start --repeat-last 'garbage 100'
    proxy_start
    proxy_do cut-after 0
    local url
    printf 'sesame-4711\n' >"$ROOM/password"
    for url in "unix://$SOCK" "unix://$(redis_sock strange)" "unix://$(redis_sock stranger)" \
        "$TALKER_URL" "$PROXY_URL" "unix://$ROOM/nothing" "redis://:sesame-4711@127.0.0.1:1" \
        "redis://job:sesame-4711@127.0.0.1:$(redis_port)" "redis://:sesame-4711@[::1:1/x" \
        "rodis://job:sesame-4711@127.0.0.1"; do
        REDISLOCK_URL=$url REDISLOCK_USER=job run --separate-stderr "$REDISLOCK_BIN" -v \
            --connect-timeout 0.1 --password-file "$ROOM/password" --status-fd 1 job -- \
            touch "$ROOM/ran"
        assert_between "$status" 64 78
        refute_line_stderr '4711'
        [[ -n $stderr && $output != *4711* ]]
        refute_line_stderr '[0-9a-f]{33}' # a token, or a good part of one
    done
    [[ ! -e $ROOM/ran ]]
}

@test "row 83: an unknown AUTH is a refused login: 77" {
    redis_start --rename-command AUTH ''
    REDISCLI_AUTH=sesame-4711 run --separate-stderr lock job -- touch "$ROOM/ran"
    assert_status 77
    assert_one_line "unknown command .AUTH"
    refute_line_stderr 4711
    assert_no_key lock:job
}
