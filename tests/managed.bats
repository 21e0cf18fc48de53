#!/usr/bin/env bats
# Servers whose owner has taken commands away: a run works without them, or says what it needs.

load lib/common
load lib/locks

# without COMMAND...: a server that does not know these.
without() {
    local arguments=() command
    for command in "$@"; do
        arguments+=(--rename-command "$command" '')
    done
    redis_start main "${arguments[@]}"
}

@test "row 60: without CONFIG, ROLE, CLIENT, DEBUG and KEYS a run, a wait and the operators work" {
    without CONFIG ROLE CLIENT DEBUG KEYS MONITOR ACL
    run --separate-stderr lock job -- echo ran
    assert_status 0
    assert_output ran
    assert_no_stderr
    hold holder -t 30 job
    run --separate-stderr lock --status job
    assert_status 75
    spawn waiter lock -w inf job -- echo turn
    wait_until 5000 waits
    let_go holder
    reap waiter
    assert_output turn
    run --separate-stderr lock --list
    assert_status 0
    run --separate-stderr lock --doctor
    assert_status 0
    assert_line_output '^warning .*ROLE is refused'
}

waits() {
    [[ $(rcli zcard 'lock:{lock:job}:queue') == 1 ]]
}

@test "row 60: without INFO --doctor says what it could not see" {
    redis_start
    rcli acl setuser default -info -config -role -client -acl >/dev/null
    run --separate-stderr lock job -- echo ran
    assert_output ran
    run --separate-stderr lock --doctor
    assert_status 0
    assert_line_output '^warning '
    assert_line_output 'exclusive lock can be acquired, extended and released'
}

@test "row 60: without TIME in scripts a run works by this host's clock" {
    redis_start
    rcli acl setuser default -time >/dev/null
    run --separate-stderr lock job -- echo ran
    assert_status 0
    assert_output ran
    assert_no_stderr
    run --separate-stderr lock -s job -- true
    assert_status 77
    assert_line_stderr TIME
}

@test "row 60: without EVAL nothing works, and the line says which command it is" {
    redis_start
    rcli acl setuser default -eval -evalsha >/dev/null
    run --separate-stderr lock --connect-timeout 30 job -- touch "$ROOM/ran"
    assert_status 77
    assert_one_line "NOPERM.*'evalsha'"
    run --separate-stderr lock --doctor
    assert_status 77
    assert_line_output '^failure .*evalsha'
    [[ ! -e $ROOM/ran ]]
    assert_no_keys_left
}

@test "row 60: EVALSHA without EVAL, and EVAL renamed away, are said as well" {
    redis_start
    rcli acl setuser default -eval >/dev/null
    run --separate-stderr lock --connect-timeout 30 job -- true
    assert_status 77
    assert_one_line "NOPERM.*'eval'"
    without EVAL EVALSHA
    run --separate-stderr lock --connect-timeout 30 job -- true
    [[ $status == 76 || $status == 77 ]] || fail "status $status"
    assert_one_line 'unknown command'
}
