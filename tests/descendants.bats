#!/usr/bin/env bats
# Who ends whom: redislock is killed or frozen, the lock is lost, the command ends or runs too long.
# What must be dead is dead in time, and what may live is left alone.
# shellcheck disable=SC2030,SC2031 # each test is a process of its own
# shellcheck disable=SC2154,SC2153 # spawn and start_job assign
# shellcheck disable=SC2016 # the command's shell expands

load lib/common
load lib/one_server
load lib/job

setup() {
    job_setup
}

# --- redislock is killed or frozen --------------------------------------------------------------

@test "row 81: kill -9 of redislock ends a young command at once" {
    start_job --
    kill -KILL "$job"
    reap job
    assert_status 137
    wait_until 3000 process_gone "$CHILD"
    rcli del lock:k
}

@test "kill -9 of redislock ends the whole group of an older job, and the guard goes" {
    start_job -- --fork 2 --tick 20
    wait_until 5000 guard_of "$job"
    wait_until 5000 tickers "$LOG" 3
    local guard pids
    guard=$(guard_of "$job")
    mapfile -t pids < <(ticker_pids "$LOG")
    kill -KILL "$job"
    reap job
    wait_until 3000 all_gone "${pids[@]}" "$guard"
    rcli del lock:k
}

@test "a guard that was killed is replaced" {
    start_job -- --fork 1 --tick 20
    wait_until 5000 guard_of "$job"
    wait_until 5000 tickers "$LOG" 2
    local first pids
    first=$(guard_of "$job")
    kill -KILL "$first"
    wait_until 5000 another_guard "$first"
    mapfile -t pids < <(ticker_pids "$LOG")
    kill -KILL "$job"
    reap job
    wait_until 3000 all_gone "${pids[@]}"
    rcli del lock:k
}

another_guard() {
    local now
    now=$(guard_of "$job") && [[ $now != "$1" ]]
}

@test "the guard ends with a normal job" {
    start_job -- --exit-on TERM
    wait_until 5000 guard_of "$job"
    local guard
    guard=$(guard_of "$job")
    kill -TERM "$job"
    reap job
    assert_status 0
    assert_no_process "$guard"
}

@test "the end of the guard is not the end of what an older job leaves in the background" {
    start_job -- --fork 1 --tick 20 --exit-on USR1 --exit 3
    wait_until 5000 guard_of "$job"
    wait_until 5000 tickers "$LOG" 2
    local guard now
    guard=$(guard_of "$job")
    kill -USR1 "$CHILD"
    reap job
    assert_status 3
    wait_until 3000 process_gone "$guard"
    now=$(boottime_ms)
    wait_until 5000 ticked_after "$now"
}

@test "the guard has nothing of the caller's: no descriptor, no folder, no session" {
    cd "$ROOM"
    spawn job --open 9 lock k -- "$WITNESS" --sleep inf
    wait_until 5000 guard_of "$job"
    local guard
    guard=$(guard_of "$job")
    assert_equal "$(readlink "/proc/$guard/cwd")" /
    assert_equal "$(awk '{ print $6 }' "/proc/$guard/stat")" "$guard"
    wait_until 3000 guard_is_bare "$guard"
    process_end "$job"
    assert_no_process "$guard"
}

guard_is_bare() {
    ! find "/proc/$1/fd" -type l -printf '%l\n' | grep -vE '^(pipe:|anon_inode:\[timerfd\])'
}

@test "--foreground: kill -9 of redislock ends the job, and nobody else in the shared group" {
    spawn shell sh -c 'sleep 99 & echo "$!" >"$0.other"
        "$REDISLOCK_BIN" -u "unix://$SOCK" --foreground k -- "$WITNESS" --out "$0" --fork 1 --sleep inf --tick 20 &
        echo "$!" >"$0.redislock"; wait "$!"; echo "$?" >"$0.status"; sleep 99' "$LOG"
    wait_until 5000 tickers "$LOG" 2
    local redislock pids
    redislock=$(<"$LOG.redislock")
    wait_until 5000 guard_of "$redislock"
    mapfile -t pids < <(ticker_pids "$LOG")
    kill -KILL "$redislock"
    wait_until 3000 all_gone "${pids[@]}"
    wait_for_line "$LOG.status" 137
    assert_process "$(<"$LOG.other")"
    assert_process "$shell"
    rcli del lock:k
}

@test "row 46: redislock is frozen: all of its job is dead before the key could expire, then 79" {
    start_job -t 2 -- --fork 1 --daemonize --tick 20
    wait_until 5000 guard_of "$job"
    wait_until 5000 tickers "$LOG" 3
    local pids expiry
    mapfile -t pids < <(ticker_pids "$LOG")
    kill -STOP "$job"
    wait_until 3000 process_stopped "$job"
    expiry=$(expiry_of k)
    wait_until 5000 key_absent lock:k
    all_gone "${pids[@]}" || fail "of ${pids[*]} somebody lives"
    assert_between "$(last_tick "$LOG")" 1 "$expiry"

    run lock k -- echo successor # row 15
    assert_output successor
    rcli set lock:k other px 60000
    kill -CONT "$job"
    reap job
    assert_status 79
    assert_equal "$(rcli get lock:k)" other
    rcli del lock:k
}

# --- loss ---------------------------------------------------------------------------------------

@test "row 71: the server falls silent: descendants in other sessions die too, before the key could expire" {
    proxy_start
    URL=$PROXY_URL start_job -t 2 -- --fork 1 --daemonize --tick 20 --ignore TERM
    wait_until 5000 tickers "$LOG" 3
    local pids expiry
    mapfile -t pids < <(ticker_pids "$LOG")
    proxy_do blackhole
    expiry=$(expiry_of k)
    reap job
    assert_status 79
    all_gone "${pids[@]}" || fail "of ${pids[*]} somebody lives"
    assert_between "$(last_tick "$LOG")" 1 "$expiry"
    assert_line_stderr 'stopping the command with SIGTERM'
}

@test "another holder's key stops the job: TERM to the group, KILL to what is left, 79, key untouched" {
    start_job -t 1500ms -- --fork 1 --daemonize --tick 20 --ignore TERM --exit-on TERM
    wait_until 5000 tickers "$LOG" 3
    local pids
    mapfile -t pids < <(ticker_pids "$LOG")
    rcli set lock:k other px 60000
    reap job
    assert_status 79 # though the command itself ended with 0
    assert_equal "$(signals_seen "$LOG" TERM)" 1
    all_gone "${pids[@]}" || fail "of ${pids[*]} somebody lives"
    assert_line_stderr 'lost the lock'
    assert_equal "$(rcli get lock:k)" other
    rcli del lock:k
}

# --- the end ------------------------------------------------------------------------------------

@test "processes in the background are left alone at a normal end; -v names them" {
    spawn job lock -v k -- "$WITNESS" --out "$LOG" --fork 1 --daemonize --exit 4
    reap job
    assert_status 4
    assert_line_stderr 'left running: witness \([0-9]+\), witness \([0-9]+\)$'
    assert_nothing_locked
    wait_until 5000 tickers "$LOG" 2
    local pid
    for pid in $(ticker_pids "$LOG"); do
        assert_process "$pid"
    done
}

@test "after a TERM that ended the command, processes that left its group are left alone" {
    spawn job lock k -- sh -c '"$WITNESS" --out "$0" --daemonize; exec sleep 99' "$LOG"
    wait_until 5000 tickers "$LOG" 1
    kill -TERM "$job"
    reap job
    assert_status 143
    assert_process "$(ticker_pids "$LOG")"
}

@test "--wait-descendants holds the lock until the last of them has ended" {
    spawn job lock -t 1 --wait-descendants k -- "$WITNESS" --out "$LOG" --fork 1 --daemonize --exit 4
    wait_until 5000 tickers "$LOG" 2
    local pids now
    mapfile -t pids < <(ticker_pids "$LOG")
    now=$(boottime_ms)
    wait_until 5000 ticked_after $((now + 1200)) # longer than the TTL: it is being extended
    assert_key lock:k
    assert_process "$job"
    kill -KILL "${pids[0]}"
    wait_until 3000 process_gone "${pids[0]}"
    assert_key lock:k
    kill -KILL "${pids[1]}"
    reap job
    assert_status 4
    assert_nothing_locked
}

@test "--wait-descendants: TERM meanwhile goes to the descendants" {
    spawn job lock --wait-descendants k -- "$WITNESS" --out "$LOG" --daemonize
    wait_until 5000 tickers "$LOG" 1
    wait_until 5000 no_child_but "$job" "$(ticker_pids "$LOG")"
    kill -TERM "$job"
    reap job
    assert_status 0
    assert_no_process "$(ticker_pids "$LOG")"
}

# Succeeds when the only child of process $1 besides the guard is $2.
no_child_but() {
    local children child
    read -ra children <"/proc/$1/task/$1/children"
    for child in "${children[@]}"; do
        [[ $child == "$2" || $(<"/proc/$child/comm") == redislock-guard ]] || return 1
    done
}

@test "--wait-descendants waits for nobody that redislock inherited from its caller" {
    # the caller's child is older than the command by more than the kernel's clock tick
    spawn job sh -c 'sleep 99 & sleep 0.03; exec "$@"' - "$REDISLOCK_BIN" -u "unix://$SOCK" --wait-descendants k -- true
    reap job
    assert_status 0
    assert_nothing_locked
}

@test "--max-runtime stops the command with TERM and gives 124; the lock is free" {
    run --separate-stderr lock --max-runtime 100ms k -- sleep 99
    assert_status 124
    assert_one_line max-runtime
    assert_nothing_locked
    run lock --max-runtime 60 k -- sh -c 'exit 5'
    assert_status 5
    run lock --max-runtime 0 k -- sh -c 'exit 5'
    assert_status 5
}

@test "--max-runtime: 124 also when the command exits 0 for it, and when KILL was needed" {
    run --separate-stderr lock --max-runtime 200ms k -- "$WITNESS" --out "$LOG" --signals inf --exit-on TERM
    assert_status 124
    assert_equal "$(signals_seen "$LOG" TERM)" 1
    : >"$LOG"
    run --separate-stderr lock --max-runtime 200ms -k 100ms k -- "$WITNESS" --out "$LOG" --signals inf
    assert_status 124
    assert_equal "$(signals_seen "$LOG" TERM)" 1
    assert_nothing_locked
}

@test "--max-runtime: every descendant is dead before the lock is free" {
    spawn job lock --max-runtime 300ms -k 100ms k -- \
        "$WITNESS" --out "$LOG" --fork 2 --daemonize --ignore TERM --sleep inf
    reap job
    assert_status 124
    local pids
    mapfile -t pids < <(ticker_pids "$LOG")
    ((${#pids[@]} == 3)) || fail "only ${pids[*]} have ticked"
    all_gone "${pids[@]}" || fail "of ${pids[*]} somebody lives"
    assert_nothing_locked
}

@test "--signal is the one that asks the command to stop, by name or number" {
    local signal
    for signal in INT SIGINT 2; do
        : >"$LOG"
        run --separate-stderr lock --max-runtime 200ms --signal "$signal" k -- \
            "$WITNESS" --out "$LOG" --signals inf --exit-on INT
        assert_status 124
        assert_line_stderr SIGINT
        assert_equal "$(grep '^signal' "$LOG" | grep -v CONT | cut -d' ' -f2)" INT
    done
}

@test "--max-runtime stops a command that is itself stopped" {
    run --separate-stderr lock --max-runtime 200ms k -- \
        bash -c 'trap "echo heeded >>$0; exit 0" TERM; kill -STOP $$; sleep 0.1' "$LOG"
    assert_status 124
    assert_equal "$(<"$LOG")" heeded # not KILL, later
    assert_nothing_locked
}
