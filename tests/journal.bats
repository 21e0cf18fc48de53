#!/usr/bin/env bats
# Under systemd's journal messages begin with their priority, as <N>; nowhere else.
# shellcheck disable=SC2094 # only its number is read

load lib/common
load lib/one_server
load lib/locks

# in_journal COMMAND...: with its stderr in $ROOM/err, and JOURNAL_STREAM naming that.
in_journal() {
    : >"$ROOM/err"
    JOURNAL_STREAM=$(stat -c %d:%i "$ROOM/err") "$@" 2>"$ROOM/err"
}

@test "where JOURNAL_STREAM names our stderr, each message has its priority" {
    local status=0
    rcli set lock:job foreign px 60000 >/dev/null
    in_journal lock job -- true || status=$?
    assert_equal "$status" 75
    assert_equal "$(<"$ROOM/err")" \
        "<5>redislock: job: held by another program (its value is not redislock's)"
    URL=unix://$ROOM/nobody in_journal lock --connect-timeout 50ms job -- true || status=$?
    assert_equal "$(cut -c1-19 "$ROOM/err")" '<3>redislock: job: '
    URL=unix://$ROOM/nobody in_journal lock --connect-timeout 50ms --on-error run job -- true
    assert_equal "$(grep -c '^<4>redislock: job: ' "$ROOM/err")" 1
    in_journal lock -v other -- true
    assert_between "$(grep -c '^<6>redislock: other: ' "$ROOM/err")" 2 20
    run grep -v '^<[3-6]>redislock: ' "$ROOM/err"
    assert_no_output
}

@test "usage errors and the other commands have their priorities too" {
    in_journal lock --nonsense || true
    assert_equal "$(cut -c1-14 "$ROOM/err")" '<3>redislock: '
    in_journal lock --release job token || true
    assert_equal "$(cut -c1-14 "$ROOM/err")" '<3>redislock: '
}

@test "a message through a socket of the journal's kind has its priority" {
    command -v python3 >/dev/null || skip_or_fail 'python3 is not installed'
    python3 - <<'PY' >"$ROOM/err"
import os, socket, subprocess
ours, theirs = socket.socketpair()
status = os.fstat(theirs.fileno())
environment = dict(os.environ, JOURNAL_STREAM=f"{status.st_dev}:{status.st_ino}")
subprocess.run([os.environ["REDISLOCK_BIN"], "-v", "-u", "unix://" + os.environ["SOCK"],
                "job", "--", "true"], stderr=theirs, env=environment, check=True)
theirs.close()
while received := ours.recv(65536):
    print(received.decode(), end="")
PY
    grep -q released "$ROOM/err"
    assert_equal "$(grep -vc '^<6>redislock: job: ' "$ROOM/err")" 0
}

@test "without JOURNAL_STREAM, or where it names another file or nonsense, there is no priority" {
    local stream
    : >"$ROOM/other"
    rcli set lock:job foreign px 60000 >/dev/null
    for stream in '' "$(stat -c %d:%i "$ROOM/other")" nonsense 1:2:3 : 1: :1 "$(stat -c %d:%i "$ROOM/other")x"; do
        JOURNAL_STREAM=$stream run --separate-stderr lock job -- true
        assert_one_line '^redislock: job: held by '
    done
    run --separate-stderr lock job -- true
    assert_one_line '^redislock: job: held by '
}

@test "stdout named by JOURNAL_STREAM is not stderr, and what the command writes is untouched" {
    # shellcheck disable=SC2016 # for the command
    in_journal lock job -c 'echo mine >&2'
    assert_equal "$(<"$ROOM/err")" mine
    : >"$ROOM/out"
    rcli set lock:job foreign px 60000 >/dev/null
    JOURNAL_STREAM=$(stat -c %d:%i "$ROOM/out") lock job -- true >"$ROOM/out" 2>"$ROOM/err" || true
    assert_equal "$(cut -c1-11 "$ROOM/err")" 'redislock: '
}

@test "JSON messages tell their level themselves, also in the journal" {
    rcli set lock:job foreign px 60000 >/dev/null
    in_journal lock --log-format json job -- true || true
    jq -e '.level == "notice" and .name == "job"' "$ROOM/err"
}

@test "the waiting line on a terminal has no priority" {
    rcli set lock:job foreign px 60000 >/dev/null
    JOURNAL_STREAM=1:2 run on_pty "$REDISLOCK_BIN" -u "unix://$SOCK" -w 300ms job -- true <<'STEPS'
expect redislock: job: waiting, 0 ahead
wait 75
STEPS
    assert_status 0
    [[ $output != *'<'[0-9]'>'* ]]
}
