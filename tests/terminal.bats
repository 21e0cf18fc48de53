#!/usr/bin/env bats
# Job control: on a terminal a job under redislock behaves as the plain command would; away from any
# terminal, as under cron, nothing is missing.
# shellcheck disable=SC2030,SC2031 # each test is a process of its own
# shellcheck disable=SC2154 # spawn assigns
# shellcheck disable=SC2016 # the shell on the terminal expands

load lib/common
load lib/one_server
load lib/job

setup() {
    job_setup
    mkfifo "$LOG.never"
    export LOG
}

# on_shell <<SCRIPT: an interactive bash on a terminal of its own, with $L for redislock on the
# current server. Its prompt is "=> "; typed text is echoed, so scripts expect what was not typed.
# What is to be stopped must not be starting a process just then: a ^Z that meets dash's vfork hangs
# the plain command as well. Hence `read -t`, not `sleep`.
on_shell() {
    printf 'PS1="=> "; HISTFILE=; L="%s -u unix://%s"\n' "$REDISLOCK_BIN" "$SOCK" >"$ROOM/rc"
    run on_pty bash --noprofile --rcfile "$ROOM/rc" -i < <(echo 'timeout 15000' && cat)
    if ((status != 0)); then
        printf '%s\n' "$output" >&2
        fail "the terminal did not show what was expected"
    fi
}

@test "row 78: on a terminal the command is in redislock's group, in the foreground" {
    run on_pty "$REDISLOCK_BIN" -u "unix://$SOCK" k -- "$WITNESS" --out "$LOG" <<'END'
wait 0
END
    assert_status 0
    assert_equal "$(witness_field "$LOG" pgid)" "$(witness_field "$LOG" ppid)"
    assert_equal "$(witness_field "$LOG" tpgid)" "$(witness_field "$LOG" pgid)"
    [[ $(witness_field "$LOG" tty) == /dev/pts/* ]]
    [[ $(witness_field "$LOG" 'fd 0') == /dev/pts/* ]]
}

@test "row 78: ^C and ^\\ reach the command once" {
    run on_pty "$REDISLOCK_BIN" -u "unix://$SOCK" k -- "$WITNESS" --signals inf --exit-on TERM --exit 6 <<'END'
expect ready
send \x03
expect signal INT
never 300 signal INT
send \x1c
expect signal QUIT
never 300 signal QUIT
END
    assert_status 0
}

@test "row 78: ^C ends the command with 130, and the lock is free" {
    on_shell <<'END'
expect =>
line $L k -- sh -c 'echo ready-$((6*7)); exec sleep 99'
expect ready-42
send \x03
expect =>
line echo "status $?; locked $(redis-cli -s $SOCK exists lock:k)"
expect status 130; locked 0
line exit
wait 0
END
}

@test "row 78: a command that takes ^C its own way goes on, and its status is what comes out" {
    on_shell <<'END'
expect =>
line $L k -- bash -c 'trap "echo trapped; exit \\$((1+2))" INT; echo ready-$((6*7)); while :; do sleep 0.05; done'
expect ready-42
send \x03
expect ^C
expect trapped
expect =>
line echo "status $?"
expect status 3
line exit
wait 0
END
}

@test "row 78: ^Z stops redislock and command, the shell is back, fg goes on with both" {
    on_shell <<'END'
expect =>
line $L k -- sh -c 'echo ready-$((6*7)); read word; echo "got $word"; exit 5'
expect ready-42
send \x1a
expect Stopped
expect =>
line jobs -l | grep -c Stopped; ps -o stat= -o comm= -t $(tty | cut -c6-) | sed 's/^/is /' | sort
expect is T
expect redislock
expect is T
expect sh
expect =>
line fg
expect k --
line fog
expect got fog
expect =>
line echo "status $?; locked $(redis-cli -s $SOCK exists lock:k)"
expect status 5; locked 0
line exit
wait 0
END
}

@test "row 78: bg lets a stopped job run on in the background to its end" {
    on_shell <<'END'
expect =>
line $L k -- bash -c 'echo ready-$((6*7)); until [ -e $LOG.go ]; do read -t 0.02 <>$LOG.never; done; echo done-$((6*7)); exit 4'
expect ready-42
send \x1a
expect Stopped
expect =>
line bg; P=$!; touch $LOG.go & wait $P; echo "waited-$?"
expect done-42
expect waited-4
line redis-cli -s $SOCK exists lock:k | sed 's/^/locked /'
expect locked 0
line exit
wait 0
END
}

@test "row 78: a job started with & reads the terminal only after fg" {
    on_shell <<'END'
expect =>
line $L k -- sh -c 'read word; echo "got $word"' &
expect =>
line until jobs | grep Stopped; do sleep 0.1; done
expect Stopped
line fg
expect k --
line fog
expect got fog
expect =>
line exit
wait 0
END
}

@test "row 78: with tostop a background job that writes is stopped, and goes on with fg" {
    on_shell <<'END'
expect =>
line stty tostop; $L k -- sh -c 'echo got-$((6*7))' &
expect =>
line until jobs | grep Stopped; do sleep 0.1; done
expect Stopped
line fg
expect got-42
expect =>
line stty -tostop; exit
wait 0
END
}

@test "row 78: redislock's own message from the background does not hang under tostop" {
    rcli set lock:k foreign px 60000
    on_shell <<'END'
expect =>
line stty tostop; $L k -- true & wait $!; echo "status $?"
expect held
expect status 75
line exit
wait 0
END
}

@test "row 78: a program that owns the whole screen works, and the terminal is as before" {
    command -v vi >/dev/null || command -v less >/dev/null || skip_or_fail 'neither vi nor less'
    printf 'first line of the file\n' >"$LOG"
    if command -v less >/dev/null; then
        on_shell <<'END'
expect =>
line TERM=vt100 $L k -- less $LOG; echo "status $?"; stty -a | grep -o ' -*icanon'
expect first line of the file
send q
expect status 0
expect  icanon
line exit
wait 0
END
    fi
    if command -v vi >/dev/null; then
        on_shell <<'END'
expect =>
line TERM=vt100 $L k -- vi -u NONE $LOG; echo "status $?"; stty -a | grep -o ' -*icanon'
expect first line of the file
send Oadded\e
send :wq\r
expect status 0
expect  icanon
line exit
wait 0
END
        assert_equal "$(head -n 1 "$LOG")" added
    fi
}

@test "row 78: the window's size and its changes reach the command" {
    run on_pty "$REDISLOCK_BIN" -u "unix://$SOCK" k -- \
        bash -c 'trap "stty size" WINCH; echo ready; while :; do sleep 0.05; done' <<'END'
expect ready
size 33 101
expect 33 101
END
    assert_status 0
}

@test "row 68: the terminal is taken away from redislock as its leader: the command gets HUP, the lock is free" {
    run on_pty "$REDISLOCK_BIN" -u "unix://$SOCK" k -- \
        bash -c 'trap "echo hup >>\$LOG; exit 5" HUP; echo ready-$((6*7)); while :; do sleep 0.05; done' <<'END'
expect ready-42
hangup
wait 5
END
    assert_status 0
    assert_equal "$(<"$LOG")" hup
    assert_no_key lock:k
}

@test "row 78: a job stopped for longer than its TTL is killed in its sleep; fg gives 79 and runs nothing" {
    on_shell <<'END'
expect =>
line $L -t 1 k -- sh -c '"$WITNESS" --out $LOG --tick 20 & until grep -q tick $LOG; do sleep 0.02; done; echo ready-$((6*7)); wait'
expect ready-42
send \x1a
expect Stopped
expect =>
line echo first >>$LOG; until [ $(redis-cli -s $SOCK exists lock:k) = 0 ]; do sleep 0.02; done; $L -t 60 k -- sh -c 'echo "successor $REDISLOCK_NAME"'
expect successor k
line redis-cli -s $SOCK set lock:k other px 60000
expect OK
line echo second >>$LOG; fg; echo "status $?"
expect status 79
line exit
wait 0
END
    sed -n '/^first/,$p' "$LOG" >"$ROOM/after"
    assert_equal "$(<"$ROOM/after")" $'first\nsecond'
    assert_equal "$(rcli get lock:k)" other
}

@test "row 78: a job stopped for less than its TTL keeps its lock and goes on" {
    on_shell <<'END'
expect =>
line $L -t 6 k -- sh -c 'echo "fence $REDISLOCK_FENCE"; read word; echo "$word $REDISLOCK_FENCE"; redis-cli -s $SOCK get lock:k; exit 3'
expect fence 1
send \x1a
expect Stopped
expect =>
line sleep 0.5; fg
expect k --
line still
expect still
expect redislock1:
expect =>
line echo "status $?"
expect status 3
line exit
wait 0
END
}

@test "row 78: ^Z with stdin from elsewhere stops the job as well, and fg goes on" {
    on_shell <<'END'
expect =>
line $L k -- bash -c 'echo ready-$((6*7)); read -t 0.5 <>$LOG.never; exit 3' </dev/null
expect ready-42
send \x1a
expect Stopped
expect =>
line fg; echo "status $?"
expect status 3
line exit
wait 0
END
}

@test "with stdin from elsewhere a command that wants the terminal is warned of, and ^C ends it" {
    on_shell <<'END'
expect =>
line $L k -- sh -c 'read word </dev/tty; echo "got $word"' </dev/null; echo "status $?"
expect wants the terminal; it has that with --foreground
send \x03
expect status 130
expect =>
line $L --foreground k -- sh -c 'echo ready-$((6*7)); read word </dev/tty; echo "got $word"' </dev/null
expect ready-42
line word
expect got word
expect =>
line exit
wait 0
END
    assert_nothing_locked
}

@test "row 78: in a pipeline with a pager, on the terminal's group" {
    on_shell <<'END'
expect =>
line $L k -- sh -c 'echo piped-$((6*7)); exit 3' | cat; echo "status ${PIPESTATUS[0]}"
expect piped-42
expect status 3
line exit
wait 0
END
}

# --- without a terminal -------------------------------------------------------------------------

@test "--foreground without a terminal keeps the caller's process group" {
    spawn job lock --foreground k -- "$WITNESS" --out "$LOG" --report --signals inf --exit-on TERM
    wait_for_line "$LOG" '^ready'
    assert_equal "$(witness_field "$LOG" pgid)" "$job"
    kill -USR1 "$job"
    wait_for_line "$LOG" "^signal USR1 from $job\$"
    kill -TERM "$job"
    reap job
    assert_status 0
    assert_equal "$(signals_seen "$LOG" USR1) $(signals_seen "$LOG" TERM)" '1 1'
}

@test "without --foreground and without a terminal the command has a group of its own" {
    spawn job lock k -- "$WITNESS" --out "$LOG"
    reap job
    assert_equal "$(witness_field "$LOG" pgid)" "$(witness_field "$LOG" pid)"
}

@test "as under cron: no environment, no terminal, stdin closed" {
    spawn job --session --close 0 env -i "$REDISLOCK_BIN" -u "unix://$SOCK" nightly -- \
        "$WITNESS" --out "$LOG" --report --exit 3
    reap job
    assert_status 3
    assert_no_stderr
    assert_equal "$(witness_field "$LOG" tty)" none
    assert_equal "$(grep -c '^fd 0 ' "$LOG" || true)" 0
    spawn job --session --close 0 --close 1 --close 2 env -i "$REDISLOCK_BIN" -u "unix://$SOCK" nightly \
        -c 'exit 4'
    reap job
    assert_status 4
    assert_no_keys_left
}

@test "as under cron: an older job without terminal and descriptors is guarded and extended too" {
    spawn job --session --close 0 --close 1 --close 2 env -i "$REDISLOCK_BIN" -u "unix://$SOCK" -t 1 nightly -- \
        "$WITNESS" --out "$LOG" --fork 1 --tick 20
    wait_until 5000 tickers "$LOG" 2
    local now pids
    now=$(boottime_ms)
    wait_until 5000 ticked_after $((now + 1200))
    assert_key lock:nightly
    mapfile -t pids < <(ticker_pids "$LOG")
    kill -KILL "$job"
    wait_until 3000 all_gone "${pids[@]}"
}
