#!/usr/bin/env bats
# Servers by every kind of address, and logins: what reaches which server, and where no password
# ever shows up.
# shellcheck disable=SC2030,SC2031 # each test is a process of its own
# shellcheck disable=SC2154 # spawn and hold assign

load lib/common
load lib/locks
load lib/job

# Everything that has a meaning in a URL, and something that is not ASCII.
PASSWORD='@:/#%+ é?'
ENCODED='%40%3A%2F%23%25%2B%20%C3%A9%3F'
BARELY_ENCODED='%40:%2F%23%25+%20%c3%a9%3F' # what need not be encoded is not

setup_file() {
    common_setup_file
    redis_start --tcp
    rcli acl setuser 'crön/job' on ">$PASSWORD" allkeys allchannels allcommands >/dev/null
    rcli acl setuser plain on '>hunter2' allkeys allchannels allcommands >/dev/null
    rcli acl setuser weak on '>hunter2' allkeys allchannels allcommands -eval -evalsha >/dev/null
    redis_start secret --tcp
    rcli_at secret config set requirepass "$PASSWORD" >/dev/null
}

setup() {
    common_setup
    redis_use main
    rcli flushall >/dev/null
    PORT=$(redis_port)
    SECRET_PORT=$(redis_port secret)
}

# at URL ARG...: redislock on that server.
at() {
    quickly "$REDISLOCK_BIN" -u "$@"
}

# at_nobody URL ARG...: the same where nobody is expected to answer.
at_nobody() {
    quickly "$REDISLOCK_BIN" --connect-timeout 100ms -u "$@"
}

# refute_in WORD FILE...
refute_in() {
    local word=$1 found
    shift
    found=$(grep -laF -- "$word" "$@" || true)
    [[ -z $found ]] || fail "\"$word\" stands in $found"
}

# --- Passwords that need encoding ---------------------------------------------------------------

@test "row 53: a password in the URL is decoded once, and a + in it is a plus" {
    local url
    for url in "redis://:$ENCODED@127.0.0.1:$SECRET_PORT" "redis://:$BARELY_ENCODED@127.0.0.1:$SECRET_PORT" \
        "redis://default:$ENCODED@127.0.0.1:$SECRET_PORT/0"; do
        REDISLOCK_URL=$url quickly "$REDISLOCK_BIN" job true
        assert_status 0
        assert_no_stderr
    done
    for url in "redis://:${ENCODED//%/%25}@127.0.0.1:$SECRET_PORT" \
        "redis://:${ENCODED/\%2B/%20}@127.0.0.1:$SECRET_PORT"; do
        REDISLOCK_URL=$url quickly "$REDISLOCK_BIN" job true
        assert_status 77
    done
}

@test "row 53: a user in the URL is decoded as well, and goes before --user" {
    local url=redis://cr%C3%B6n%2Fjob:$ENCODED@127.0.0.1:$PORT
    REDISLOCK_URL=$url quickly "$REDISLOCK_BIN" --user plain job redis-cli -s "$SOCK" client list
    assert_status 0
    assert_line_output 'user=crön/job'
}

@test "row 53: the same password by --password-file, a pipe, the credential and REDISCLI_AUTH" {
    local url=redis://127.0.0.1:$SECRET_PORT
    printf '%s\n' "$PASSWORD" >"$ROOM/password"
    at "$url" --password-file "$ROOM/password" job true
    assert_status 0
    printf '%s\r\nsomething else\n' "$PASSWORD" >"$ROOM/password"
    at "$url" --password-file "$ROOM/password" job true
    assert_status 0
    at "$url" --password-file <(printf %s "$PASSWORD") job true
    assert_status 0
    mkdir "$ROOM/credentials"
    printf %s "$PASSWORD" >"$ROOM/credentials/redislock-password"
    CREDENTIALS_DIRECTORY=$ROOM/credentials at "$url" job true
    assert_status 0
    REDISCLI_AUTH=$PASSWORD at "$url" job true
    assert_status 0
    assert_no_stderr
    at "$url" job true
    assert_status 77
}

@test "row 53: --user takes its password from the same places" {
    printf '%s' "$PASSWORD" >"$ROOM/password"
    at "unix://$SOCK" --user 'crön/job' --password-file "$ROOM/password" job \
        redis-cli -s "$SOCK" client list
    assert_status 0
    assert_line_output 'user=crön/job'
    REDISCLI_AUTH=$PASSWORD at "redis://cr%C3%B6n%2Fjob@127.0.0.1:$PORT" job true
    assert_status 0
}

@test "a password file that is no good is never a login without it" {
    local file
    : >"$ROOM/empty"
    printf '\nsecond\n' >"$ROOM/blank"
    for file in "$ROOM/not-there" "$ROOM" "$ROOM/empty" "$ROOM/blank"; do
        at "unix://$SOCK" --password-file "$file" job touch "$ROOM/ran"
        assert_status 64
        assert_one_line "--password-file: '$file' cannot be used: "
        REDISLOCK_PASSWORD_FILE=$file at "unix://$SOCK" job touch "$ROOM/ran"
        assert_status 78
    done
    [[ ! -e $ROOM/ran ]]
}

@test "a wrong, a missing and a useless login: 77, one line that says what to check, nothing run" {
    local url
    for url in "redis://plain:hunter3@127.0.0.1:$PORT" "redis://nobody:hunter2@127.0.0.1:$PORT" \
        "redis://weak:hunter2@127.0.0.1:$PORT" "redis://127.0.0.1:$SECRET_PORT"; do
        REDISLOCK_URL=$url quickly "$REDISLOCK_BIN" job touch "$ROOM/ran"
        assert_status 77
        assert_one_line "^redislock: job: redis://127.0.0.1:[0-9]+: .*((WRONGPASS|can.t run this|NOPERM).*; check --user|NOAUTH .*; give --password-file)"
        refute_line_stderr hunter
    done
    [[ ! -e $ROOM/ran ]]
    assert_no_key lock:job
    assert_equal "$(immortal_keys)" ''
}

@test "a wrong password leaves no lock where the server would have let anybody in" {
    local url
    lock other true # the server knows ACQUIRE now, and not CANCEL
    for url in "redis://plain:hunter3@127.0.0.1:$PORT" "redis://plain:hunter3@127.0.0.1:$PORT/3"; do
        REDISLOCK_URL=$url quickly "$REDISLOCK_BIN" job touch "$ROOM/ran"
        assert_status 77
        assert_no_key lock:job
        assert_equal "$(rcli -n 3 exists lock:job)" 0
    done
    [[ ! -e $ROOM/ran ]]
    assert_equal "$(immortal_keys)" ''
}

@test "a password that changes while the command runs is read again from its file" {
    redis_start rotating --requirepass first
    printf 'first\n' >"$ROOM/password"
    redis_use rotating
    hold job -v -t 900ms --password-file "$ROOM/password" job
    wait_for_line "$ROOM/job.err" 'extended the lock'
    printf 'second\n' >"$ROOM/password"
    printf 'auth first\nconfig set requirepass second\nclient kill type normal skipme yes\n' |
        rcli >/dev/null
    local before
    before=$(grep -c extended "$ROOM/job.err")
    wait_until 10000 extended_since "$((before + 3))"
    let_go job
    assert_status 0
    refute_line_stderr 'second|lost'
}

extended_since() {
    (($(grep -c extended "$ROOM/job.err") >= $1))
}

# --- Where no password may show up --------------------------------------------------------------

# The pids of this test's processes in whose arguments the word stands.
processes_that_show() {
    local pid
    printf '%s' "$1" >"$ROOM/word" # not an argument of grep itself
    for pid in $(_strays); do
        ! grep -qaF -f "$ROOM/word" "/proc/$pid/cmdline" 2>/dev/null || echo "$pid"
    done
}

@test "row 83: a password in a URL on the command line is wiped from the process list, with a warning" {
    spawn job "$REDISLOCK_BIN" -v --url "redis://plain:hunter2@127.0.0.1:$PORT" --status-fd 1 job -- \
        "$WITNESS" --out "$ROOM/report" --report --signals inf --exit-on TERM
    wait_for_line "$ROOM/report" '^ready'
    wait_until 10000 guard_of "$job" # which shows the same
    assert_equal "$(processes_that_show hunter2)" ''
    assert_equal "$(processes_that_show "redis://plain:*******@127.0.0.1:$PORT" | sort -n)" \
        "$(printf '%s\n' "$job" "$(guard_of "$job")" | sort -n)"
    refute_in hunter2 "$ROOM/report"
    let_go job
    assert_status 0
    assert_equal "$(grep -c -- '--url: its password could be seen in the process list' "$ROOM/job.err")" 1
    refute_in hunter2 "$ROOM/job.err" "$ROOM/job.out"
}

@test "row 83: a short option and an encoded password are wiped as well" {
    spawn job "$REDISLOCK_BIN" "-uredis://:$ENCODED@127.0.0.1:$SECRET_PORT" job -- \
        "$WITNESS" --out "$ROOM/report" --signals inf --exit-on TERM
    wait_for_line "$ROOM/report" '^ready'
    assert_equal "$(processes_that_show "$ENCODED")" ''
    assert_equal "$(processes_that_show "$PASSWORD")" ''
    let_go job
    assert_status 0
}

@test "row 83: a password from a file or credential is in no environment, argument or message" {
    mkdir "$ROOM/credentials"
    printf hunter2 >"$ROOM/credentials/redislock-password"
    local way
    for way in file credential; do
        case $way in
        file) GIVEN=(env "REDISLOCK_PASSWORD_FILE=$ROOM/credentials/redislock-password") ;;
        credential) GIVEN=(env "CREDENTIALS_DIRECTORY=$ROOM/credentials") ;;
        esac
        rm -f "$ROOM/report"
        spawn job "${GIVEN[@]}" "$REDISLOCK_BIN" -v --status-fd 1 --user plain -t "$(lease 900)" \
            -u "redis://127.0.0.1:$PORT" job -- \
            "$WITNESS" --out "$ROOM/report" --report --signals inf --exit-on TERM
        wait_for_line "$ROOM/job.err" 'extended the lock'
        wait_for_line "$ROOM/report" '^ready'
        refute_in hunter2 "/proc/$job/environ" "/proc/$(sed -n 's/^ready //p' "$ROOM/report")/environ"
        assert_equal "$(processes_that_show hunter2)" ''
        let_go job
        assert_status 0
        refute_in hunter2 "$ROOM/report" "$ROOM/job.err" "$ROOM/job.out"
    done
}

@test "row 83: no message shows a password, also when the URL is no good" {
    local url
    for url in "redis://u:hunter2@127.0.0.1:1" 'redis://u:hunter2@h:99999' 'redis://u:hunter2@' \
        'http://u:hunter2@h' 'redis://u:hunter2%zz@h' 'redis://:hunter2@h:x' 'redis:/u:hunter2@h' \
        'redis://u:hunter2@h/x' 'redis://u:hunter2@[::1' 'redis://u:hunter2' 'redis://h,redis://:hunter2@g' \
        'redis://u:hunter2@h?x=1' 'redis://u:hunt er2@h'; do
        at_nobody "$url" -v job true
        assert_between "$status" 64 69
        refute_line_stderr 'hunter2|hunt er2'
        REDISLOCK_URL=$url quickly "$REDISLOCK_BIN" --connect-timeout 50ms job true
        assert_between "$status" 69 78
        refute_line_stderr 'hunter2|hunt er2'
    done
}

@test "a password behind --user is refused unseen" {
    at "redis://127.0.0.1:$PORT" --user plain:hunter2 job true
    assert_status 64
    refute_line_stderr hunter2
}

# --- Addresses ----------------------------------------------------------------------------------

@test "IPv4, by number and by name" {
    at "redis://127.0.0.1:$PORT" job true
    assert_status 0
    getent ahostsv4 localhost >/dev/null || skip 'this host has no name for itself'
    at "redis://localhost:$PORT" job true
    assert_status 0
    assert_equal "$(state_field runs job)" 2
}

has_ipv6() {
    redis-cli -h ::1 -p "$PORT" ping >/dev/null 2>&1
}

@test "row 54: IPv6 in brackets, with a database, a user, and messages that keep the brackets" {
    has_ipv6 || skip 'this host has no IPv6 loopback'
    at "redis://[::1]:$PORT" job true
    assert_status 0
    REDISLOCK_URL="redis://plain:hunter2@[::1]:$PORT/3" quickly "$REDISLOCK_BIN" job true
    assert_status 0
    assert_equal "$(rcli -n 3 exists "$(state_key job)")" 1
    at_nobody 'redis://[::1]:1' job true
    assert_status 69
    assert_one_line '^redislock: job: redis://\[::1\]:1: Connection refused; no working Redis$'
}

@test "row 54: a zone is an interface: both ways to write it reach the connecting" {
    local url
    for url in 'redis://[fe80::1%25lo]:1' 'redis://[fe80::1%lo]:1'; do
        at_nobody "$url" job true
        assert_status 69
        assert_one_line '^redislock: job: redis://\[fe80::1%lo\]:1: '
        refute_line_stderr 'is no address'
    done
    at_nobody 'redis://[fe80::1%25no-such-if]:1' job true
    assert_status 69
    assert_one_line 'is no address'
}

@test "row 54: bad IPv6 addresses: 64" {
    local url
    for url in 'redis://::1:6379' 'redis://[::1' 'redis://[nonsense]' 'redis://[::1]6379' 'redis://[]'; do
        at "$url" job true
        assert_status 64
        assert_one_line '--url: '
    done
}

# with_hosts LINES COMMAND...: COMMAND sees LINES as its /etc/hosts.
with_hosts() {
    printf '%s\n' "$1" >"$ROOM/hosts"
    shift
    # shellcheck disable=SC2016
    quickly unshare --map-root-user --mount \
        sh -c 'mount --bind "$0" /etc/hosts && exec "$@"' "$ROOM/hosts" "$@"
}

@test "row 54: all addresses of a name are tried until one listens" {
    with_hosts '127.0.0.1 x' true
    [[ $status == 0 ]] || skip 'this host does not let us have an /etc/hosts of our own'
    redis_start four --tcp --bind 127.0.0.1
    local hosts=$'::1 many\n127.0.0.2 many\n127.0.0.3 many\n127.0.0.1 many\n127.0.0.4 many'
    with_hosts "$hosts" "$REDISLOCK_BIN" -u "redis://many:$(redis_port four)" job true
    assert_status 0
    assert_no_stderr
    with_hosts "$hosts" "$REDISLOCK_BIN" --connect-timeout 100ms -u "redis://many:1" job true
    assert_status 69
    assert_one_line '^redislock: job: redis://many:1: Connection refused; no working Redis$'
    has_ipv6 || return 0
    redis_start six --tcp --bind ::1
    with_hosts "$hosts" "$REDISLOCK_BIN" -u "redis://many:$(redis_port six)" job true
    assert_status 0
}

@test "a Unix socket, with a path that needs encoding" {
    ln -s "$SOCK" "$ROOM/a socket%"
    at "unix://$ROOM/a%20socket%25" job true
    assert_status 0
    assert_equal "$(state_field runs job)" 1
}

# --- Databases ----------------------------------------------------------------------------------

@test "locks in different databases do not exclude each other" {
    URL="unix://$SOCK?db=3" hold first job
    assert_no_key lock:job
    assert_equal "$(rcli -n 3 exists lock:job)" 1
    at "unix://$SOCK" job true
    assert_status 0
    at "redis://127.0.0.1:$PORT/3" job true
    assert_status 75
    at "redis://127.0.0.1:$PORT/03" job true
    assert_status 75
    let_go first
    assert_equal "$(rcli -n 3 exists lock:job)" 0
}

@test "a database that the server does not have: 64, 78 from the environment, nothing in database 0" {
    at "unix://$SOCK?db=99" job touch "$ROOM/ran"
    assert_status 64
    assert_one_line "unix://$SOCK\?db=99: .*; check the database in the URL"
    REDISLOCK_URL=redis://127.0.0.1:$PORT/99 quickly "$REDISLOCK_BIN" job touch "$ROOM/ran"
    assert_status 78
    [[ ! -e $ROOM/ran ]]
    assert_equal "$(rcli dbsize)" 0
}

# --- Nobody there -------------------------------------------------------------------------------

@test "a name that does not resolve, a refused port, a missing path, a file that is no socket: 69" {
    local url
    : >"$ROOM/file"
    for url in "redis://no-such-host.invalid:6379" "redis://127.0.0.1:1" "redis://localhost:1" \
        "unix://$ROOM/nobody" "unix://$ROOM/file"; do
        at_nobody "$url" job touch "$ROOM/ran"
        assert_status 69
        assert_one_line "^redislock: job: $url: [A-Za-z' ]+; no working Redis$"
    done
    [[ ! -e $ROOM/ran ]]
}

@test "a server that comes while redislock tries is used" {
    redis_start late
    redis_stop late
    spawn job "$REDISLOCK_BIN" --connect-timeout 20s -u "unix://$(redis_sock late)" job true
    assert_process "$job"
    redis_restart late
    reap_quiet job
}
