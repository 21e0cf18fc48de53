#!/usr/bin/env bats
# --attach: one line makes the rest of a script exclusive, in real shells. The keeper that stays behind
# holds nothing of the script's, ends with it however it ends, and stops it when the lock is lost.
# shellcheck disable=SC2016 # the scripts are for other shells
# shellcheck disable=SC2030,SC2031 # each test is a process of its own
# shellcheck disable=SC2154 # spawn and run_script assign

load lib/common
load lib/one_server
load lib/locks
load lib/queue
load lib/scripts

setup() {
    one_server_setup
    scripts_setup
    script_of script <<<'"$REDISLOCK_BIN" $OPTIONS --attach ${NAME-job} || exit
stay
echo end'
}

teardown() {
    local pid
    for pid in $(keepers); do
        process_end "$pid" KILL
    done
    common_teardown
}

# after_loss VAR: the script was stopped by TERM and its keeper is gone.
after_loss() {
    reap "$1" && assert_status 143 && wait_until 5000 keepers_are 0
}

# --- Exclusive ------------------------------------------------------------------------------

@test "'redislock --attach job || exit' makes the rest of a script exclusive, in every shell" {
    need "${SHELLS[@]%% *}"
    local shell
    for shell in "${SHELLS[@]}"; do
        run_script one "$shell"
        assert_equal "$(holder_field pid lock:job) $shell" "$one $shell"
        assert_equal "$(holder_field command lock:job)" "${shell%% *}"
        # shellcheck disable=SC2086 # words on purpose
        run --separate-stderr $shell "$ROOM/script"
        assert_status 75
        assert_no_output
        assert_one_line "^redislock: job: held by [^ ]+ \(pid $one, "
        go "$one"
        reap one
        assert_status 0
        assert_output end
        assert_no_stderr
        freed lock:job
    done
    assert_no_keys_left
}

@test "a script of python's is exclusive as well" {
    need python3
    cat >"$ROOM/script.py" <<'PY'
import os, subprocess, sys
status = subprocess.run([os.environ["REDISLOCK_BIN"], "--attach", "job"]).returncode
if status != 0:
    sys.exit(status)
room = os.environ["ROOM"]
os.mkfifo(f"{room}/go.{os.getpid()}")
with open(f"{room}/inside.{os.getpid()}", "w") as inside:
    print("inside", file=inside)
open(f"{room}/go.{os.getpid()}").read()
PY
    run_script one python3 script.py
    run --separate-stderr python3 "$ROOM/script.py"
    assert_status 75
    go "$one"
    reap one
    assert_status 0
    freed lock:job
}

@test "a script that is the first process of a container leaves its lock to expire, as the manual page says" {
    need unshare
    unshare --pid --fork true 2>/dev/null || skip_or_fail 'optional: no namespace of processes can be made here'
    run unshare --pid --fork --mount-proc sh -c '"$REDISLOCK_BIN" -t 3 --attach job && echo $$; exit'
    assert_status 0
    assert_output 1
    assert_key lock:job
    wait_until 10000 key_absent lock:job
    # a command's lock is released there as well
    run unshare --pid --fork --mount-proc "$REDISLOCK_BIN" job -- true
    assert_status 0
    assert_no_key lock:job
}

@test "a program that calls through a shell has the lock under its own number, and not without" {
    need python3
    cat >"$ROOM/script.py" <<'PY'
import os, sys
name = "=%d" % os.getpid() if sys.argv[1:] else ""
os.system(f'"$REDISLOCK_BIN" --attach{name} job')
room = os.environ["ROOM"]
os.mkfifo(f"{room}/go.{os.getpid()}")
with open(f"{room}/inside.{os.getpid()}", "w") as inside:
    print("inside", file=inside)
open(f"{room}/go.{os.getpid()}").read()
PY
    spawn one python3 "$ROOM/script.py" named
    wait_until 10000 inside "$one"
    assert_equal "$(holder_field pid lock:job)" "$one"
    go "$one"
    reap one
    freed lock:job
    spawn two python3 "$ROOM/script.py"
    wait_until 10000 inside "$two"
    freed lock:job # as the manual page says
    go "$two"
    reap two
}

@test "the lock is free within a second of the script's end by exit, error, crash and kill -9" {
    local ending
    for ending in 'exit 3' 'kill -SEGV $$' 'kill -KILL $$' 'set -u; : $none' 'exec true'; do
        script_of ending <<<'"$REDISLOCK_BIN" --attach job || exit 99
ulimit -c 0
'"$ending"
        spawn one bash "$ROOM/ending"
        reap one
        refute_line_stderr '^redislock'
        [[ $status != 99 ]]
        freed lock:job
    done
    wait_until 5000 keepers_are 0
}

@test "the lock is free within a second when a script is killed from outside, in every shell" {
    need "${SHELLS[@]%% *}"
    local shell
    for shell in "${SHELLS[@]}"; do
        run_script one "$shell"
        kill -KILL "$one"
        freed lock:job
        reap one
        assert_status 137
    done
    wait_until 5000 keepers_are 0
}

@test "a script that becomes another program by exec keeps the lock" {
    script_of becomes <<<'"$REDISLOCK_BIN" --attach job || exit
echo x >"$ROOM/inside.$$"
exec sleep 300'
    run_script one dash becomes
    wait_until 5000 grep -qx sleep "/proc/$one/comm"
    assert_key lock:job
    kill "$one"
    freed lock:job
}

@test "a script that has closed stdin, stdout or stderr has its lock all the same" {
    local closed
    for closed in '<&-' '>&-' '2>&-' '<&- >&- 2>&-'; do
        printf 'exec %s\n"$REDISLOCK_BIN" -t 2 --status-fd 7 --attach job 7>"$ROOM/events" || exit\nstay\n' \
            "$closed" | script_of closed
        run_script one sh closed
        wait_until 10000 event_seen "$ROOM/events" extended 2
        assert_key lock:job
        go "$one"
        reap one
        freed lock:job
        wait_until 5000 keepers_are 0
    done
}

@test "the lock is extended as long as the script lives" {
    OPTIONS='-t 1 --status-fd 5' run_script one dash 5>"$ROOM/events"
    wait_until 10000 event_seen "$ROOM/events" extended 6
    assert_key lock:job
    assert_process "$one"
    go "$one"
    freed lock:job
}

# --- The fence ------------------------------------------------------------------------------

@test "inside f=\$(redislock --attach --print fence job) the lock is the script's, in every shell" {
    need "${SHELLS[@]%% *}"
    local shell
    script_of fence <<<'f=$("$REDISLOCK_BIN" --attach --print fence job) || exit
stay
echo "$f"'
    for shell in "${SHELLS[@]}"; do
        run_script one "$shell" fence
        wait_until 5000 keepers_are 1
        assert_equal "$(holder_field pid lock:job) $shell" "$one $shell"
        local fence
        fence=$(holder_field fence lock:job)
        # shellcheck disable=SC2086 # words on purpose
        run --separate-stderr $shell "$ROOM/fence"
        assert_status 75
        go "$one"
        reap one
        assert_output "$fence"
        freed lock:job
    done
}

# A shell that does not exec the last command of $(…), because of a redirection or of what follows,
# has a subshell there that ends with us: the lock must not go with it.
@test "a subshell that is only there for \$(…) does not end the lock, in every shell" {
    need "${SHELLS[@]%% *}"
    local shell line
    for line in 'f=$("$REDISLOCK_BIN" --attach --print fence job 2>&1) || exit' \
        'f=$("$REDISLOCK_BIN" --attach --print fence job 2>/dev/null || echo none)' \
        'f=$(trap : EXIT; "$REDISLOCK_BIN" --attach --print fence job; exit $?) || exit' \
        'f=$(f=$("$REDISLOCK_BIN" --attach --print fence job; :); echo $f)' \
        'trap : EXIT TERM; f=`"$REDISLOCK_BIN" --attach --print fence job 2>&1; :`'; do
        script_of fence <<<"$line"'
stay
echo "$f"'
        for shell in "${SHELLS[@]}"; do
            run_script one "$shell" fence
            wait_until 5000 keepers_are 1
            assert_equal "$(holder_field pid lock:job), $shell: $line" "$one, $shell: $line"
            go "$one"
            reap one
            assert_line_output '^[0-9]+$'
            freed lock:job
        done
    done
}

# inner_ends_first SHELL: the lock of the subshell in $ROOM/nested ends with it, and the script goes on.
inner_ends_first() {
    # shellcheck disable=SC2086 # words on purpose
    spawn one $1 "$ROOM/nested"
    wait_until 5000 key_exists lock:inner
    echo go >"$ROOM/within"
    wait_until 5000 inside "$one"
    freed lock:inner
    assert_process "$one"
    go "$one"
    reap one
    assert_output 'inner ends'
}

@test "in a subshell ( … ) the lock is held for the subshell's life, in every shell" {
    need "${SHELLS[@]%% *}"
    local shell
    script_of nested <<<'("$REDISLOCK_BIN" --attach inner || exit
  read -r _ <"$ROOM/within"; echo inner ends)
stay'
    mkfifo "$ROOM/within"
    for shell in "${SHELLS[@]}"; do
        inner_ends_first "$shell"
    done
}

@test "a subshell at the head of a pipeline holds the lock for itself" {
    need "${SHELLS[@]%% *}"
    local shell
    mkfifo "$ROOM/within"
    script_of nested <<<'("$REDISLOCK_BIN" --attach inner || exit
  read -r _ <"$ROOM/within"; echo inner ends) | cat
stay'
    for shell in "${SHELLS[@]}"; do
        inner_ends_first "$shell"
    done
}

# --- The keeper -----------------------------------------------------------------------------

@test "the keeper holds nothing of the caller's: no descriptor, terminal, folder, session" {
    mkdir "$ROOM/folder"
    script_of script <<<'cd "$ROOM/folder" || exit
exec 7>"$ROOM/seven" 8<"$ROOM/script"
"$REDISLOCK_BIN" --attach job || exit
stay'
    run_script one bash
    wait_until 5000 keepers_are 1
    local keeper fd
    keeper=$(keepers)
    for fd in 0 1 2; do
        assert_equal "$(readlink "/proc/$keeper/fd/$fd")" /dev/null
    done
    run bash -c "ls -l /proc/$keeper/fd"
    refute_line_stderr .
    if grep -F "$ROOM/" <<<"$output" || grep -E '/dev/(tty|pts)|pipe:' <<<"$output"; then
        fail "the keeper has: $output"
    fi
    assert_equal "$(readlink "/proc/$keeper/cwd")" /
    assert_equal "$(process_session "$keeper") $(process_group "$keeper")" "$keeper $keeper"
    assert_equal "$(cut -d' ' -f7 "/proc/$keeper/stat")" 0 # no terminal
    [[ $(process_session "$one") != "$keeper" ]]
    rmdir "$ROOM/folder"
    go "$one"
    freed lock:job
}

@test "the stdout of a script closes when the script ends, even while the keeper is still there" {
    mkfifo "$ROOM/out"
    cat "$ROOM/out" >"$ROOM/all" 3>&- &
    local reader=$!
    spawn one sh -c 'exec >"$ROOM/out" 2>&1; exec bash "$ROOM/script"'
    wait_until 5000 inside "$one"
    local keeper
    keeper=$(keepers)
    freeze "$keeper"
    go "$one"
    wait_until 5000 process_gone "$reader"
    assert_equal "$(<"$ROOM/all")" end
    assert_process "$keeper"
    thaw "$keeper"
    freed lock:job
}

@test "--attach leaves exactly one small process, that --status shows as the script's" {
    run_script one dash
    wait_until 5000 keepers_are 1
    local keeper size
    keeper=$(keepers)
    size=$(sed -n 's/^VmRSS:[^0-9]*\([0-9]*\) kB/\1/p' "/proc/$keeper/status")
    echo "# the keeper: VmRSS $size kB, $(sed -n 's/^RssAnon:[^0-9]*//p' "/proc/$keeper/status") of its own" >&3
    sanitized || assert_between "$size" 100 8000
    assert_equal "$(tr '\0' ' ' <"/proc/$keeper/cmdline")" "$REDISLOCK_BIN --attach job "
    assert_equal "$(cat "/proc/$keeper/task/$keeper/children")" ''
    run --separate-stderr lock --status job
    assert_status 75
    assert_line_output "^job: held by [^ ]+ \(pid $one, "
    go "$one"
    freed lock:job
}

@test "signals to the keeper do not take the lock away while the script lives" {
    run_script one dash
    local keeper signal
    keeper=$(keepers)
    for signal in HUP INT QUIT TERM USR1 USR2 PIPE CHLD; do
        kill -"$signal" "$keeper"
    done
    run --separate-stderr dash "$ROOM/script"
    assert_status 75
    assert_process "$keeper"
    go "$one"
    freed lock:job
    wait_until 5000 process_gone "$keeper"
}

@test "when the keeper is killed the lock expires within its TTL" {
    OPTIONS='-t 1' run_script one dash
    wait_until 5000 keepers_are 1
    assert_between "$(key_pttl lock:job)" 1 1000
    process_end "$(keepers)" KILL
    wait_until 5000 key_absent lock:job
    assert_process "$one"
    go "$one"
}

# --- Loss -----------------------------------------------------------------------------------

@test "a script whose lock is taken by somebody else gets SIGTERM at once" {
    OPTIONS='-t 3' run_script one dash
    rcli set lock:job other px 60000 >/dev/null
    after_loss one
    assert_equal "$(rcli get lock:job)" other
}

@test "a script whose lock is taken away by --unlock gets SIGTERM" {
    OPTIONS='-t 3' run_script one dash
    run --separate-stderr lock --unlock --force job
    assert_status 0
    assert_line_output '^removed$'
    after_loss one
    assert_no_key lock:job
}

@test "an outage past the deadline stops the script before the key could expire" {
    redis_start own
    redis_use own
    export REDISLOCK_URL=unix://$SOCK
    OPTIONS='-t 2' run_script one dash
    local valid
    redis_freeze own
    valid=$(($(boottime_ms) + 2000))
    reap one
    redis_thaw own
    assert_status 143
    assert_between "$(boottime_ms)" 0 "$((valid + 1000))"
}

@test "a vanished key is put back, and with --no-restore the script is stopped" {
    OPTIONS='-t 2' run_script one dash
    rcli del lock:job >/dev/null
    wait_until 5000 key_exists lock:job
    go "$one"
    reap one
    assert_output end
    OPTIONS='-t 2 --no-restore' run_script one dash
    rcli del lock:job >/dev/null
    after_loss one
}

@test "KILL comes only with -k, and after a definite loss within a second" {
    script_of stubborn <<<'trap "" TERM
"$REDISLOCK_BIN" $OPTIONS --attach --status-fd 5 job || exit
stay'
    : >"$ROOM/events" # without -k: it is asked, and lives on
    OPTIONS='-t 1' run_script one dash stubborn 5>>"$ROOM/events"
    rcli set lock:job other px 60000 >/dev/null
    wait_until 5000 event_seen "$ROOM/events" stopping
    wait_until 5000 time_passed "$(($(boottime_ms) + 1500))"
    assert_process "$one"
    go "$one"
    reap one
    assert_status 0
    rcli del lock:job >/dev/null

    : >"$ROOM/events" # -k 3s would be too late for somebody who is at work already
    OPTIONS='-t 8 -k 3' run_script two dash stubborn 5>>"$ROOM/events"
    rcli set lock:job other px 60000 >/dev/null
    local stopping
    wait_until 5000 event_seen "$ROOM/events" stopping
    stopping=$(boottime_ms)
    reap two
    assert_status 137
    assert_between "$(($(boottime_ms) - stopping))" 500 2500
}

@test "with --on-lost warn the script runs on, and one event tells of the loss" {
    OPTIONS='-t 1 --on-lost warn --status-fd 5' run_script one dash 5>"$ROOM/events"
    rcli set lock:job other px 60000 >/dev/null
    wait_until 5000 event_seen "$ROOM/events" lost
    wait_until 5000 time_passed "$(($(boottime_ms) + 1200))" # past what would have been the deadline
    assert_process "$one"
    assert_equal "$(grep -c '"event":"lost"' "$ROOM/events")" 1
    refute_line_in "$(<"$ROOM/events")" '"event":"stopping"'
    go "$one"
    reap one
    assert_output end
    wait_until 5000 keepers_are 0
    assert_equal "$(rcli get lock:job)" other
}

refute_line_in() {
    if grep -E -- "$2" <<<"$1" >&2; then
        fail "a line matches $2"
    fi
}

@test "--max-runtime stops the script, with --signal, and with -k for good" {
    OPTIONS='--max-runtime 300ms' run_script one dash
    after_loss one
    freed lock:job
    OPTIONS='--max-runtime 300ms --signal INT' run_script one dash
    reap one
    assert_status 130
    script_of stubborn <<<'trap "" TERM
"$REDISLOCK_BIN" --max-runtime 300ms -k 200ms --attach job || exit
stay'
    run_script two dash stubborn
    reap two
    assert_status 137
    freed lock:job
}

# --- Another process ------------------------------------------------------------------------

@test "--attach=PID locks for the life of another process" {
    spawn other sleep 300
    wait_until 5000 grep -qx sleep "/proc/$other/comm"
    run --separate-stderr lock --attach="$other" --print fence job
    assert_status 0
    assert_output "$(holder_field fence lock:job)"
    assert_equal "$(holder_field pid lock:job) $(holder_field command lock:job)" "$other sleep"
    run --separate-stderr lock --attach="$other" job
    assert_status 75
    kill -KILL "$other"
    freed lock:job
}

@test "--attach=PID of what is no living process: 64 and a clear line" {
    local pid
    for pid in 0 -1 x 4194305 ''; do
        run --separate-stderr lock --attach="$pid" job
        assert_status 64
        assert_line_stderr attach
    done
    local gone
    spawn parent dash -c 'true & echo $! >"$ROOM/zombie"; exec sleep 300' # that collects nobody
    wait_until 5000 grep -qx sleep "/proc/$parent/comm"
    gone=$(<"$ROOM/zombie")
    wait_until 5000 process_gone "$gone"
    run --separate-stderr lock --attach="$gone" job
    assert_status 64
    assert_one_line "process $gone(: No such process| has ended)" # by the kernel's age
    process_end "$parent"
    wait_until 5000 test ! -d "/proc/$gone"
    run --separate-stderr lock --attach="$gone" job
    assert_status 64
    assert_one_line "process $gone: No such process"
    assert_no_key lock:job
}

@test "--attach=PID of a process that we could not stop is refused" {
    [[ $(id -u) == 0 ]] || skip_or_fail 'needs root to be two users'
    need setpriv
    chmod 711 "$BATS_RUN_TMPDIR" "$ROOM/.." "$ROOM" 2>/dev/null || true
    redis_start own --tcp
    spawn other sleep 300
    local copy
    copy=$(mktemp /tmp/redislock-copy.XXXXXX)
    cp "$REDISLOCK_BIN" "$copy"
    chmod 755 "$copy"
    run --separate-stderr setpriv --reuid=65534 --regid=65534 --clear-groups env -C / \
        "$copy" -u "redis://127.0.0.1:$(redis_port own)" --attach="$other" job
    rm -f "$copy"
    assert_status 71
    assert_one_line "could not stop process $other if the lock were lost: Operation not permitted"
    assert_equal "$(rcli_at own exists lock:job)" 0
}

@test "an orphan, whose script is gone before it begins, takes no lock" {
    spawn one --session dash -c '(while [ -d "/proc/$$" ] && ! grep -q "State:.Z" /proc/$$/status; do :; done 2>/dev/null
        exec "$REDISLOCK_BIN" --attach job 2>"$ROOM/orphan"; ) & exit 0'
    reap one
    wait_until 5000 test -s "$ROOM/orphan"
    assert_equal "$(<"$ROOM/orphan")" \
        'redislock: job: no script has called this; name one with --attach=PID'
    assert_no_key lock:job
}

# --- With the other options -----------------------------------------------------------------

@test "with -w a script waits in line, and its turn comes when the other script ends" {
    run_script one dash
    OPTIONS='-w inf' spawn two dash "$ROOM/script"
    wait_until 5000 line_is job 1
    assert_equal "$(tickets job | cut -d: -f7)" "$two"
    go "$one"
    wait_until 5000 inside "$two"
    assert_equal "$(holder_field pid lock:job)" "$two"
    OPTIONS='-w 100ms' run --separate-stderr dash "$ROOM/script"
    assert_status 75
    assert_line_stderr 'gave up after waiting'
    go "$two"
    freed lock:job
}

@test "a script that is killed while it waits gets no lock" {
    run_script one dash
    OPTIONS='-w inf' spawn two dash "$ROOM/script"
    wait_until 5000 line_is job 1
    kill -KILL "$two"
    go "$one"
    freed lock:job
    wait_until 5000 line_is job 0
    assert_no_key lock:job
    wait_until 5000 keepers_are 0
}

@test "with -s scripts share the lock" {
    OPTIONS=-s run_script one dash
    OPTIONS=-s run_script two bash
    assert_equal "$(places job | wc -l)" 2
    run --separate-stderr dash "$ROOM/script"
    assert_status 75
    go "$one"
    wait_until 5000 holders_are job 1
    go "$two"
    wait_until 5000 holders_are job 0
}

@test "with -S N scripts hold the lock, and a killed one frees its slot" {
    export OPTIONS=-S2 # one word: zsh takes none apart
    run_script one dash
    run_script two bash
    run --separate-stderr dash "$ROOM/script"
    assert_status 75
    kill -KILL "$one"
    wait_until 2000 holders_are job 1
    run_script three zsh
    assert_equal "$(places job | cut -d: -f4 | sort | xargs)" 'slot1 slot2'
    go "$two"
    go "$three"
    wait_until 5000 holders_are job 0
}

@test "with --min-hold a residue is left after the script's end, however it ended" {
    local ending
    for ending in go 'kill -KILL'; do
        rcli flushall >/dev/null
        OPTIONS='--min-hold 60' run_script one dash
        $ending "$one"
        wait_until 2000 is_residue lock:job
        run --separate-stderr dash "$ROOM/script"
        assert_status 75
        assert_line_stderr 'still held for its minimum hold'
    done
}

is_residue() {
    [[ $(holder_field kind "$1") == residue ]]
}

@test "a script can hold two locks, but not the same twice" {
    script_of two <<<'"$REDISLOCK_BIN" --attach first || exit
"$REDISLOCK_BIN" --attach second || exit
"$REDISLOCK_BIN" -q --attach first
echo "again: $?"
stay'
    run_script one bash two
    assert_equal "$(holder_field pid lock:first) $(holder_field pid lock:second)" "$one $one"
    assert_equal "$(keepers | wc -l)" 2
    kill -KILL "$one"
    freed lock:first
    freed lock:second
    assert_equal "$(<"$ROOM/one.out")" 'again: 75'
}

@test "a wait without arguments in a script does not wait for the keeper" {
    script_of waits <<<'"$REDISLOCK_BIN" --attach job || exit
wait
stay'
    run_script one bash waits
    go "$one"
    freed lock:job
}

@test "the end of a script is recorded, with a status that nobody has told" {
    run_script one dash
    go "$one"
    freed lock:job
    assert_equal "$(state_field runs job) $(state_field last_status job)" '1 -1'
    assert_between "$(state_field last_ms job)" 0 60000
}

@test "the script ends with 69 without a server, and goes on with --on-error run" {
    export REDISLOCK_URL=unix://$ROOM/nobody REDISLOCK_CONNECT_TIMEOUT=100ms
    run --separate-stderr dash "$ROOM/script"
    assert_status 69
    OPTIONS='--on-error run' run_script one dash
    assert_equal "$(grep -c 'WITHOUT A LOCK' "$ROOM/one.err")" 1
    assert_equal "$(keepers)" ''
    go "$one"
    reap one
    assert_output end
}
