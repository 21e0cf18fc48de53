#!/usr/bin/env bats
# The exit status: the command's own, always; else one number per reason, and what the number alone
# cannot say the status descriptor says.
# shellcheck disable=SC2030,SC2031 # each test is a process of its own
# shellcheck disable=SC2154 # spawn assigns
# shellcheck disable=SC2016 # the command's shell expands

load lib/common
load lib/one_server
load lib/job

setup() {
    one_server_setup
    EVENTS=$ROOM/events
}

# lock_with_events ARG...: events go to $EVENTS.
lock_with_events() {
    : >"$EVENTS"
    lock --status-fd 9 "$@" 9>>"$EVENTS"
}

# --- the command's own --------------------------------------------------------------------------

@test "row 73: each of the 256 exit statuses of a command is redislock's" {
    local code got wrong=()
    for code in {0..255}; do
        got=0
        lock k -- sh -c "exit $code" || got=$?
        ((got == code)) || wrong+=("$code gave $got")
    done
    ((${#wrong[@]} == 0)) || fail "${wrong[*]}"
    assert_no_keys_left
}

@test "row 73: a command that dies of signal N gives 128+N, for each N" {
    local number got wrong=()
    ulimit -c 0
    for number in {1..16} 24 25 26 27 29 30 31 34 50 64; do
        got=0
        lock k -- sh -c "kill -$number \$\$; sleep 10" || got=$?
        ((got == 128 + number)) || wrong+=("$number gave $got")
    done
    ((${#wrong[@]} == 0)) || fail "${wrong[*]}"
    assert_no_keys_left
}

@test "row 73: signals that kill nobody by themselves leave the status alone" {
    local name
    for name in CHLD CONT URG WINCH; do
        run lock k -- sh -c "kill -$name \$\$; exit 5"
        assert_status 5
    done
}

@test "the command's status stays, though the server is gone at the end" {
    redis_start
    run --separate-stderr lock -t 1 k -- sh -c 'kill -KILL "$0"; while kill -0 "$0"; do :; done; exit 23' \
        "$(redis_pid)"
    assert_status 23
    assert_line_stderr '^redislock: k: cannot release the lock'
}

@test "the command's status stays, though another program has taken the key meanwhile" {
    run --separate-stderr lock k -- sh -c 'redis-cli -s "$SOCK" set lock:k other px 60000; exit 24'
    assert_status 24
    assert_line_stderr 'lost'
    assert_equal "$(rcli get lock:k)" other
    rcli del lock:k
}

@test "the command's status is not mixed up with that of an earlier child of the same process" {
    run bash -c '(exit 9) & sh -c "sleep 0.05; exit 8" & exec "$@"' - "$REDISLOCK_BIN" \
        -u "unix://$SOCK" k -- sh -c 'sleep 0.2; exit 7'
    assert_status 7
}

# --- a command that cannot be started -----------------------------------------------------------

# cannot_run STATUS COMMAND...: that status, one line that names the command, nothing left.
cannot_run() {
    local expected=$1
    shift
    run "-$expected" --separate-stderr lock --min-hold 60 k -- "$@"
    assert_no_output
    assert_one_line "cannot run '${1//[^a-z\/-]/.}'" || return
    assert_no_keys_left
}

@test "row 73: 127 for a command that is not there, and nothing is left locked" {
    cannot_run 127 no-such-command-at-all
    cannot_run 127 /no/such/file
    cannot_run 127 ./no-such-file
    cannot_run 127 ''
    ln -s nowhere "$ROOM/dangling"
    cannot_run 127 "$ROOM/dangling"
    printf '#!/no/such/interpreter\n' >"$ROOM/script"
    chmod +x "$ROOM/script"
    cannot_run 127 "$ROOM/script"
}

@test "row 73: 126 for a command that is there and cannot be executed, and nothing is left locked" {
    echo 'echo no' >"$ROOM/plain"
    cannot_run 126 "$ROOM/plain"
    cannot_run 126 "$ROOM"
    cannot_run 126 /
    ln -s loop "$ROOM/loop"
    cannot_run 126 "$ROOM/loop"
    cannot_run 126 "$ROOM/plain/below"
    PATH=$ROOM cannot_run_here 126 plain
}

# With a PATH of its own only redislock is run under it.
cannot_run_here() {
    local path=$PATH code=0
    PATH=/usr/bin:/bin
    env "PATH=$path" "$REDISLOCK_BIN" -u "unix://$SOCK" k -- "$2" 2>/dev/null || code=$?
    assert_equal "$code" "$1"
    assert_no_keys_left
}

@test "row 73: after 126 and 127 the next run has the lock at once, --min-hold or not" {
    run -127 lock --min-hold 60 k -- no-such-command-at-all
    run lock k -- echo ran
    assert_status 0
    assert_output ran
}

@test "row 73: a command that itself exits with 126 or 127 has run: --min-hold keeps its lock" {
    run -127 lock --min-hold 60 k -- sh -c 'exit 127'
    run lock k -- true
    assert_status 75
    rcli del lock:k
}

@test "126 and 127 are told as such, not as the command's own" {
    run -127 lock_with_events k -- no-such-command-at-all
    refute_line_in "$(<"$EVENTS")" '"(started|exited)"'
    grep -q '"ended".*"status":127' "$EVENTS"
    run -127 lock_with_events k -- sh -c 'exit 127'
    grep -q '"exited".*"status":127' "$EVENTS"
}

@test "71 when the system has no process for the command, and nothing is left locked" {
    redis_start --tcp
    local binary=$ROOM/redislock
    # a user who may have one process, and has it: redislock itself
    local limited=(prlimit --nproc=1 --)
    if ((EUID == 0)); then
        command -v setpriv >/dev/null || skip_or_fail 'no setpriv'
        local user=$((100000000 + (RANDOM << 15) + RANDOM))
        limited=(setpriv --reuid "$user" --regid "$user" --clear-groups -- "${limited[@]}")
        binary=$(mktemp -d /tmp/redislock.XXXXXX)/redislock # others may come in
        chmod 755 "${binary%/*}"
    fi
    install -m 755 "$REDISLOCK_BIN" "$binary"
    without_leak_search
    run --separate-stderr "${limited[@]}" "$binary" -u "redis://127.0.0.1:$(redis_port)" k -- true
    [[ $binary == "$ROOM"/* ]] || rm -r "${binary%/*}"
    assert_status 71
    assert_one_line "cannot start a process for 'true'"
    assert_no_keys_left
}

# --- held ---------------------------------------------------------------------------------------

@test "75 when held, or the number of -E, also 0; the command does not run" {
    rcli set lock:k foreign px 60000
    run lock k -- touch "$ROOM/ran"
    assert_status 75
    local code
    for code in 0 1 2 75 255; do
        run lock -E "$code" k -- touch "$ROOM/ran"
        assert_status "$code"
        run lock --conflict-exit-code="$code" -w 20ms k -- touch "$ROOM/ran"
        assert_status "$code"
    done
    [[ ! -e $ROOM/ran ]]
    assert_equal "$(rcli get lock:k)" foreign
    rcli del lock:k
}

@test "-E changes nothing about a command that runs" {
    run lock -E 9 k -- sh -c 'exit 75'
    assert_status 75
    run lock -E 9 k -- true
    assert_status 0
}

@test "the command's 75 and redislock's are told apart by --status-fd" {
    run lock_with_events k -- sh -c 'exit 75'
    assert_status 75
    grep -q '"exited".*"status":75' "$EVENTS"
    refute_line_in "$(<"$EVENTS")" '"held"'

    rcli set lock:k foreign px 60000
    run lock_with_events k -- sh -c 'exit 75'
    assert_status 75
    grep -q '"held"' "$EVENTS"
    refute_line_in "$(<"$EVENTS")" '"(acquired|started|exited)"'
    grep -q '"ended".*"status":75' "$EVENTS"
    rcli del lock:k
}

@test "the command's 137 by KILL and by exit are told apart by --status-fd" {
    run lock_with_events k -- sh -c 'kill -KILL $$'
    assert_status 137
    grep -q '"exited".*"signal":9' "$EVENTS"
    run lock_with_events k -- sh -c 'exit 137'
    assert_status 137
    grep -q '"exited".*"status":137' "$EVENTS"
}

# --- redislock's own ----------------------------------------------------------------------------

# refuses STATUS REGEX ARG...: that status and one line that matches; no server is asked.
refuses() {
    local expected=$1 pattern=$2
    shift 2
    run --separate-stderr lock "$@"
    if [[ $status != "$expected" ]] || ! assert_one_line "$pattern"; then
        _show_run
        fail "expected $expected and one line like \"$pattern\" from: redislock $*"
        return 1
    fi
    assert_no_output
}

connections_received() {
    rcli info stats | sed -n 's/^total_connections_received:\([0-9]*\).*/\1/p'
}

@test "row 74: 64 for a bad command line, with one line, before any server is asked" {
    local before after
    before=$(connections_received)
    refuses 64 conflict-exit-code.*600 -E 600 k -- true
    refuses 64 conflict-exit-code -E 256 k -- true
    refuses 64 conflict-exit-code -E -1 k -- true
    refuses 64 conflict-exit-code -E '' k -- true
    refuses 64 conflict-exit-code -E 1x k -- true
    refuses 64 conflict-exit-code --conflict-exit-code=0x10 k -- true
    refuses 64 no-such-option --no-such-option k -- true
    refuses 64 "'-Z'" -Z k -- true
    refuses 64 'NAME' # neither NAME nor COMMAND
    refuses 64 '' k
    refuses 64 '' k --
    refuses 64 '' -- k
    refuses 64 '' -c true
    refuses 64 '' k -c
    refuses 64 '' k -c true false
    refuses 64 '' -c true k false
    refuses 64 ttl -t
    refuses 64 nonblock --nonblock=yes k -- true
    refuses 64 ambiguous --con 5 k -- true
    refuses 64 signal --signal NONSENSE k -- true
    refuses 64 signal --signal 0 k -- true
    refuses 64 signal --signal 65 k -- true
    refuses 64 on-lost --on-lost perhaps k -- true
    refuses 64 on-error --on-error perhaps k -- true
    refuses 64 log-format --log-format xml k -- true
    refuses 64 status-fd --status-fd nine k -- true
    refuses 64 status-fd --status-fd -1 k -- true
    refuses 64 status-fd --status-fd 987 k -- true # not open
    refuses 64 prefix --prefix 'a{b}' k -- true
    after=$(connections_received)
    assert_equal "$after" "$((before + 1))" # the question itself
}

@test "row 74: 64 for a bad NAME: empty, too long" {
    refuses 64 '' '' -- true
    refuses 64 '' "$(printf '%513s' x)" -- true
    run lock "$(printf '%512s' x)" -- true
    assert_status 0
}

@test "row 74: 78 for a bad value from environment or file, which names its source" {
    REDISLOCK_CONFLICT_EXIT_CODE=600 refuses 78 REDISLOCK_CONFLICT_EXIT_CODE k -- true
    echo 'REDISLOCK_CONFLICT_EXIT_CODE=600' >"$ROOM/conf"
    refuses 78 "$ROOM/conf" --config "$ROOM/conf" k -- true
    # the command line comes first, and what it overrides need not make sense
    echo 'REDISLOCK_CONFLICT_EXIT_CODE=33' >"$ROOM/conf"
    rcli set lock:k foreign px 60000
    run lock --config "$ROOM/conf" k -- true
    assert_status 33
    REDISLOCK_CONFLICT_EXIT_CODE=34 run lock --config "$ROOM/conf" k -- true
    assert_status 34
    REDISLOCK_CONFLICT_EXIT_CODE=34 run lock -E 35 --config "$ROOM/conf" k -- true
    assert_status 35
    rcli del lock:k
}

@test "69, 77 and 76: no server, no permission, no lock in the key; never 75" {
    URL=unix://$ROOM/nobody run --separate-stderr lock --connect-timeout 50ms k -- true
    assert_status 69
    assert_one_line
    redis_start guarded --requirepass secret
    URL=unix://$(redis_sock guarded) run --separate-stderr lock k -- true
    assert_status 77
    assert_one_line
    rcli rpush lock:list element
    run --separate-stderr lock list -- true
    assert_status 76
    assert_one_line list
    assert_equal "$(rcli lrange lock:list 0 -1)" element
    rcli del lock:list
}

@test "0 and stdout for --help and --version, wherever they stand before NAME" {
    run --separate-stderr "$REDISLOCK_BIN" --help
    assert_status 0
    assert_no_stderr
    assert_line_output NAME
    run --separate-stderr "$REDISLOCK_BIN" -V
    assert_status 0
    assert_no_stderr
    assert_output "redislock $(<"$ROOT/VERSION")"
    run --separate-stderr lock -n -h
    assert_status 0
    assert_no_stderr
}
