#!/usr/bin/env bats
# What the command sees: what it would have seen without redislock, three variables more, and
# nothing of redislock's own. The witness tells it; most tests compare it with a witness that was
# started in the same way without redislock.
# shellcheck disable=SC2030,SC2031 # each test is a process of its own
# shellcheck disable=SC2154 # spawn assigns
# shellcheck disable=SC2016 # the command's shell expands

load lib/common
load lib/one_server
load lib/job

setup() {
    one_server_setup
    REPORT=$ROOM/report
}

# A report without what must differ: ids, the death signal and our variables.
report_as_without() {
    grep -vE '^(pid|ppid|pgid|pdeathsig) |^env REDISLOCK_(NAME|LOCK_KEY|FENCE)=' "$1"
}

# same_as_without [LAUNCH-OPTION...]: a witness through redislock reports what one without it does.
same_as_without() {
    rm -f "$REPORT"
    spawn job "$@" "$WITNESS" --out "$REPORT" one -v
    reap job
    assert_status 0
    mv "$REPORT" "$REPORT.plain"
    spawn job "$@" lock k -- "$WITNESS" --out "$REPORT" one -v
    reap job
    assert_status 0
    diff <(report_as_without "$REPORT.plain") <(report_as_without "$REPORT") ||
        fail "with redislock (>) it differs from without (<); started with: $*"
}

# --- stdin, stdout, stderr ----------------------------------------------------------------------

@test "row 79: stdin passes through to the command, byte by byte" {
    run lock k -- cat < <(echo x)
    assert_status 0
    assert_output x
    head -c 300000 /dev/urandom >"$ROOM/in"
    lock k -- cat <"$ROOM/in" >"$ROOM/out"
    cmp "$ROOM/in" "$ROOM/out"
    lock k -- cat <"$ROOM/in" | cat >"$ROOM/out"
    cmp "$ROOM/in" "$ROOM/out"
}

@test "row 79: nothing of stdin is read ahead: who comes after redislock finds the rest" {
    printf 'one\ntwo\nthree\n' >"$ROOM/in"
    {
        read -r first
        second=$(lock k -- head -c 4)
        # head reads blocks of a file; from a pipe that is written in pieces it is exact
    } <"$ROOM/in"
    assert_equal "$first $second" 'one two'
    {
        lock k -- true
        read -r first
    } <"$ROOM/in"
    assert_equal "$first" one
}

@test "row 79: the end of stdin, and /dev/null, are the command's" {
    run lock k -- cat </dev/null
    assert_status 0
    assert_no_output
    run lock k -- readlink /proc/self/fd/0
    assert_output /dev/null
}

@test "row 79: a closed stdin, stdout or stderr is closed for the command as well" {
    local closed
    for closed in '0' '1' '2' '0 1' '0 2' '1 2' '0 1 2'; do
        local options=() fd
        for fd in $closed; do
            options+=(--close "$fd")
        done
        same_as_without "${options[@]}"
        for fd in $closed; do
            refute_line_in "$(<"$REPORT")" "^fd $fd "
        done
    done
    assert_no_keys_left
}

@test "row 79: where stderr is closed no message gets into the connection instead" {
    local before closed
    before=$(errors_told)
    for closed in '2' '0 2' '1 2' '0 1 2'; do
        local options=() fd
        for fd in $closed; do
            options+=(--close "$fd")
        done
        spawn job "${options[@]}" lock -v k -- true
        reap job
        assert_status 0
        assert_no_keys_left
    done
    assert_equal "$(errors_told)" "$before"
}

# How many errors the server has told its clients.
errors_told() {
    rcli info stats | sed -n 's/^total_error_replies:\([0-9]*\).*/\1/p'
}

@test "row 79: without stdout and stderr a held lock is told by the status alone" {
    rcli set lock:k foreign px 60000
    spawn job --close 0 --close 1 --close 2 lock k -- true
    reap job
    assert_status 75
    rcli del lock:k
}

@test "redislock itself writes nothing to stdout: not when it runs, waits, is held or is talkative" {
    run --separate-stderr lock -v k -- true
    assert_status 0
    assert_no_output
    rcli set lock:k foreign px 60000
    run --separate-stderr lock -v k -- true
    assert_status 75
    assert_no_output
    run --separate-stderr lock -v -w 50ms k -- true
    assert_status 75
    assert_no_output
    rcli del lock:k
    run --separate-stderr lock -v --log-format json k -- echo only this
    assert_output 'only this'
}

@test "redislock is silent on success" {
    run --separate-stderr lock k -- true
    assert_status 0
    assert_no_stderr
    run --separate-stderr lock k -- sh -c 'echo mine >&2; exit 3'
    assert_status 3
    assert_equal "$stderr" mine
}

@test "a full stdout is the command's affair" {
    run bash -c '"$REDISLOCK_BIN" -u "unix://$SOCK" k -- sh -c "echo x || exit 6" >/dev/full'
    assert_status 6
    run bash -c '"$REDISLOCK_BIN" -u "unix://$SOCK" k -- true >/dev/full'
    assert_status 0
}

# --- descriptors --------------------------------------------------------------------------------

@test "a message beyond the limit of a file's size ends nothing, and the command has the limit and its signal" {
    run bash -c 'ulimit -f 0; "$REDISLOCK_BIN" -v -u "unix://$SOCK" k -- sh -c "ulimit -f; exit 5" 2>"$ROOM/log"'
    assert_status 5
    assert_output 0
    assert_equal "$(stat -c %s "$ROOM/log")" 0
    assert_no_key lock:k
    run bash -c 'ulimit -f 0; "$REDISLOCK_BIN" -u "unix://$SOCK" k -- cp /proc/self/status "$ROOM/log"'
    assert_status $((128 + $(kill -l XFSZ)))
}

@test "row 81: the command has the caller's descriptors and no other" {
    same_as_without
    same_as_without --open 9 --open 200
    assert_equal "$(witness_field "$REPORT" 'fd 9')" /dev/null
    assert_equal "$(witness_field "$REPORT" 'fd 200')" /dev/null
}

@test "row 81: the descriptor of --status-fd is not the command's" {
    "$REDISLOCK_BIN" -u "unix://$SOCK" --status-fd 9 k -- "$WITNESS" --out "$REPORT" 9>"$ROOM/events"
    refute_line_in "$(<"$REPORT")" '^fd 9 '
    grep -q '"started"' "$ROOM/events"
}

@test "row 81: with --status-fd 1 or 2 the command keeps its stdout and stderr" {
    run --separate-stderr lock --status-fd 2 k -- sh -c 'echo mine >&2; echo out'
    assert_status 0
    assert_output out
    assert_line_stderr '^mine$'
    assert_line_stderr '"exited"'
    run --separate-stderr lock --status-fd 1 k -- sh -c 'echo mine'
    assert_status 0
    assert_line_output '^mine$'
    assert_line_output '"exited"'
}

@test "row 81: a daemon that the command leaves behind holds neither lock nor connection" {
    spawn job lock k -- "$WITNESS" --daemonize --out "$REPORT"
    reap job
    assert_status 0
    wait_for_line "$REPORT" '^tick'
    assert_no_keys_left
    assert_equal "$(rcli client list | wc -l)" 1
    assert_process "$(ticker_pids "$REPORT")"
}

@test "row 81: after kill -9 of redislock nothing keeps its connection open" {
    spawn job lock -t 2 k -- "$WITNESS" --daemonize --sleep inf --out "$REPORT"
    wait_for_line "$REPORT" '^tick'
    assert_equal "$(rcli client list | wc -l)" 2
    kill -KILL "$job"
    reap job
    assert_process "$(ticker_pids "$REPORT")"
    wait_until 3000 only_one_client
    rcli del lock:k
}

# --- signals ------------------------------------------------------------------------------------

@test "row 76: mask and dispositions are those that redislock was started with" {
    same_as_without
    assert_equal "$(witness_field "$REPORT" SigBlk)" 0000000000000000
    same_as_without --ignore HUP --ignore INT --ignore QUIT --ignore TERM
    same_as_without --ignore USR1 --ignore USR2 --ignore PIPE --ignore TSTP --ignore TTOU
    same_as_without --block HUP --block TERM --block CHLD --block USR1 --block TSTP
    same_as_without --block PIPE --block ALRM --ignore ALRM --block CONT --block WINCH
}

@test "row 76: each signal, ignored and blocked, one at a time" {
    local blocked=ALRM ignored
    for ignored in HUP INT QUIT TERM USR1 USR2 PIPE CHLD TSTP TTIN TTOU CONT WINCH ALRM; do
        spawn job --ignore "$ignored" --block "$blocked" lock k -- "$WITNESS" --out "$REPORT"
        reap job
        assert_status 0
        assert_equal "$(witness_field "$REPORT" SigIgn)" "$(mask_of "$ignored")"
        assert_equal "$(witness_field "$REPORT" SigBlk)" "$(mask_of "$blocked")"
        rm "$REPORT"
        blocked=$ignored
    done
}

# The mask with only this signal, as /proc shows it.
mask_of() {
    printf '%016x\n' "$((1 << ($(kill -l "$1") - 1)))"
}

@test "row 76: with SIGCHLD ignored by the caller redislock still waits for the command" {
    spawn job --ignore CHLD lock k -- sh -c 'exit 42'
    reap job
    assert_status 42
    assert_no_keys_left
    spawn job --ignore CHLD --block CHLD lock k -- "$WITNESS" --exit 7
    reap job
    assert_status 7
}

@test "row 57: SIGPIPE strikes the command as it would without redislock" {
    run lock k -- bash -c 'yes | head -n 1 >/dev/null; exit "${PIPESTATUS[0]}"'
    assert_status 141
    run bash -c '"$REDISLOCK_BIN" -u "unix://$SOCK" k -- yes | head -n 1; exit "${PIPESTATUS[0]}"'
    assert_status 141
}

# --- process ------------------------------------------------------------------------------------

@test "the command is redislock's child, leads a group of its own and stays in the session" {
    spawn job lock k -- "$WITNESS" --out "$REPORT"
    reap job
    assert_equal "$(witness_field "$REPORT" ppid)" "$job"
    assert_equal "$(witness_field "$REPORT" pgid)" "$(witness_field "$REPORT" pid)"
    assert_equal "$(witness_field "$REPORT" sid)" "$(awk '{ print $6 }' "/proc/$$/stat")"
}

@test "the command gets KILL when redislock dies" {
    lock k -- "$WITNESS" --out "$REPORT"
    assert_equal "$(witness_field "$REPORT" pdeathsig)" 9
}

@test "directory, umask, limits and priority are the caller's" {
    cd "$ROOM"
    umask 027
    ulimit -n 77
    renice -n 3 -p "$BASHPID" >/dev/null
    same_as_without
    assert_equal "$(witness_field "$REPORT" cwd)" "$ROOM"
    assert_equal "$(witness_field "$REPORT" Umask)" 0027
    assert_equal "$(witness_field "$REPORT" nofile)" 77
    assert_equal "$(witness_field "$REPORT" nice)" 3
}
