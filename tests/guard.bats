#!/usr/bin/env bats
# redislock itself is killed or frozen, at every moment and in every company: whatever of the command's
# group is left is dead before somebody else can have the lock. What this does not cover is shown too,
# as the manual page says it.
# shellcheck disable=SC2030,SC2031 # each test is a process of its own
# shellcheck disable=SC2154,SC2153 # spawn and start_job assign
# shellcheck disable=SC2016 # the command's shell expands

load lib/common
load lib/one_server
load lib/locks
load lib/scripts
load lib/job
load lib/memory

setup() {
    job_setup
}

teardown() {
    local pid
    for pid in $(_strays); do
        kill -CONT "$pid" 2>/dev/null || true
    done
    processes_end
    memory_end
    common_teardown
}

# guarded_job [OPTION...] -- WITNESS-ARG...: as start_job, with $GUARD, and the pids of $TICKERS
# processes (2) that tick in $PIDS.
guarded_job() {
    start_job "$@"
    wait_until 10000 guard_of "$job"
    GUARD=$(guard_of "$job")
    wait_until 10000 tickers "$LOG" "${TICKERS:-2}"
    mapfile -t PIDS < <(ticker_pids "$LOG")
}

taken() {
    [[ $(rcli set lock:k next NX PX 60000) == OK ]]
}

# Waits until the lock can be had and asserts that nobody of the job was alive any more by then.
assert_none_beside_next() {
    wait_until 10000 taken
    local now
    now=$(boottime_ms)
    all_gone "$@" || fail "the lock can be had, and of $* somebody lives"
    (($(last_tick "$LOG") <= now)) || fail "a tick after $now: $(last_tick "$LOG")"
    rcli del lock:k >/dev/null
}

another_guard() {
    local now
    now=$(guard_of "$job") && [[ $now != "$1" ]]
}

freeze() {
    kill -STOP "$1"
    wait_until 5000 process_stopped "$1"
}

# --- KILL ---------------------------------------------------------------------------------------

@test "row 81: kill -9 at any moment of an older job: nobody of its group lives when the lock can be had" {
    local round
    for round in {1..6}; do
        : >"$LOG"
        guarded_job -t 2 -- --fork 3 --tick 5 --ignore TERM
        sleep "0.$((RANDOM % 400 + 100))" # the moment, not a wait
        kill -KILL "$job"
        assert_none_beside_next "$CHILD" "${PIDS[@]}"
        reap job
        assert_status 137
    done
}

@test "kill -9 of a young job ends the command at once; what that has started is not covered" {
    spawn job lock -t 2 k -- sh -c 'echo "$$" >"$0"; sleep 99 & kill -KILL "$PPID"; exec sleep 99' "$LOG"
    reap job
    assert_status 137
    wait_until 2000 process_gone "$(<"$LOG")"
    wait_until 10000 taken # the lock expires by itself
}

@test "kill -9 of redislock while its command is stopped: all die in their sleep" {
    guarded_job -t 2 -- --fork 1 --tick 5 --ignore HUP # which the kernel sends to stopped orphans
    kill -STOP -- "-$CHILD"
    wait_until 5000 process_stopped "$CHILD"
    kill -KILL "$job"
    assert_none_beside_next "$CHILD" "${PIDS[@]}"
}

@test "kill -9 of redislock: what has left the group lives on without the lock, and nothing keeps that" {
    TICKERS=3 guarded_job -t 2 -- --fork 1 --daemonize --tick 5
    local pid away
    for pid in "${PIDS[@]}"; do
        [[ $(process_group "$pid") == "$CHILD" ]] || away=$pid
    done
    kill -KILL "$job"
    wait_until 3000 process_gone "$CHILD"
    for pid in "${PIDS[@]}"; do
        [[ $pid == "$away" ]] || wait_until 3000 process_gone "$pid"
    done
    wait_until 3000 process_gone "$GUARD"
    assert_process "$away"
    wait_until 3000 only_one_client
    wait_until 10000 taken
}

@test "kill -9 while --wait-descendants waits: the group is ended though its leader is gone" {
    TICKERS=3 guarded_job -t 2 --wait-descendants -- --fork 2 --tick 5 --exit-on USR1
    kill -USR1 "$CHILD"
    wait_until 5000 process_gone "$CHILD"
    wait_until 5000 another_guard "$GUARD"
    local left=()
    for pid in "${PIDS[@]}"; do
        process_gone "$pid" || left+=("$pid")
    done
    ((${#left[@]} == 2)) || fail "only ${left[*]} are left"
    kill -KILL "$job"
    assert_none_beside_next "${PIDS[@]}"
}

@test "the guard ends no strangers who have the number of the group by now" {
    ((EUID == 0)) || skip_or_fail 'optional: needs root for a pid namespace'
    unshare --pid --fork --mount-proc true 2>/dev/null || skip_or_fail 'optional: no pid namespaces'
    cat >"$ROOM/inside" <<'SH'
"$REDISLOCK_BIN" -u "unix://$SOCK" -t 5 --wait-descendants k -- sh -c '
    setsid -f sleep 90; echo "$$" >"$ROOM/number"; exec sleep 1' &
redislock=$!
wait_for() { i=0; until "$@"; do i=$((i + 1)); [ "$i" -lt 500 ] || exit 9; sleep 0.02; done; }
wait_for test -s "$ROOM/number"
number=$(cat "$ROOM/number")
gone() { ! kill -0 "$number" 2>/dev/null; }
wait_for gone
again() {
    echo "$((number - 1))" >/proc/sys/kernel/ns_last_pid
    setsid sh -c 'echo "$$" >"$ROOM/again"; exec sleep 80' &
    wait_for test -s "$ROOM/again"
    [ "$(cat "$ROOM/again")" = "$number" ]
}
wait_for again
kill -KILL "$redislock"
guard_there() { grep -qsx redislock-guard /proc/[0-9]*/comm; }
guard_gone() { ! guard_there; }
wait_for guard_gone
kill -0 "$number" && echo alive
SH
    run unshare --pid --fork --mount-proc --kill-child sh "$ROOM/inside"
    assert_line_output '^alive$'
}

@test "kill -9 of redislock and its guard at once ends the command; the rest of its group lives on" {
    guarded_job -t 2 -- --fork 1 --tick 5
    freeze "$job" # or it might just start another
    kill -KILL "$GUARD"
    wait_until 3000 process_gone "$GUARD"
    kill -KILL "$job"
    wait_until 3000 process_gone "$CHILD"
    wait_until 10000 taken
}

# --- The OOM killer -------------------------------------------------------------------------------

@test "the kernel's OOM killer takes redislock: nobody of its group lives when the lock can be had" {
    memory_start 16384
    guarded_job -t 2 -- --fork 3 --tick 5 --ignore TERM
    memory_kill "$job"
    assert_none_beside_next "$CHILD" "${PIDS[@]}"
    wait_until 3000 process_gone "$GUARD"
    reap job
    assert_status 137
    assert_no_stderr
}

@test "the kernel's OOM killer takes the command, of all that is in a full group: 137, and the lock is free" {
    memory_start 65536
    spawn job sh -c 'echo "$$" >"$0/cgroup.procs"; exec "$@"' "$MEMORY" "$REDISLOCK_BIN" -u "unix://$SOCK" k \
        -- tail /dev/zero
    reap job 30000
    assert_status 137
    assert_no_stderr
    assert_equal "$(memory_kills)" 1
    assert_no_keys_left
}

# --- The guard killed, frozen, refused ----------------------------------------------------------

@test "a guard that somebody kills or freezes is replaced, and -v says so" {
    guarded_job -v -t 2 -- --fork 1 --tick 5 --exit-on TERM
    local first=$GUARD second
    kill -KILL "$first"
    wait_until 5000 another_guard "$first"
    second=$(guard_of "$job")
    kill -STOP "$second"
    wait_until 5000 another_guard "$second"
    wait_until 5000 process_gone "$second"
    kill -KILL "$job"
    assert_none_beside_next "$CHILD" "${PIDS[@]}" # by the third
    reap job
    assert_status 137
    assert_line_stderr 'the guard was killed; starting another'
    assert_line_stderr 'the guard was stopped; starting another'
}

@test "without -v a guard that is replaced is nobody's business, and the job's end is as ever" {
    guarded_job -- --fork 1 --tick 5 --exit-on TERM
    kill -STOP "$GUARD"
    wait_until 5000 another_guard "$GUARD"
    kill -KILL "$(guard_of "$job")"
    let_go_quiet job
    assert_no_keys_left
}

@test "a frozen guard does not hold up the end of a frozen and woken redislock" {
    TICKERS=1 guarded_job -t 2 -- --tick 5 --exit-on TERM
    freeze "$job" # so that nobody replaces the guard
    freeze "$GUARD"
    kill -CONT "$job"
    kill -TERM "$job"
    reap job
    assert_status 0
    wait_until 3000 process_gone "$GUARD"
    assert_no_keys_left
}

@test "where the system has no process for the guard the job runs, with a warning" {
    need strace
    without_leak_search
    spawn job strace -D -qq -o /dev/null -e trace=clone -e inject=clone:error=EAGAIN \
        "$REDISLOCK_BIN" -u "unix://$SOCK" k -- "$WITNESS" --out "$LOG" --signals inf --exit-on TERM
    wait_for_line "$LOG" '^ready'
    wait_for_line "$ROOM/job.err" 'cannot start the guard: Resource temporarily unavailable'
    run ! guard_of "$job"
    kill -TERM "$(sed -n 's/^ready //p' "$LOG")"
    reap job
    assert_status 0
    assert_one_line 'a killed redislock could leave processes behind'
    assert_no_keys_left
}

# --- Frozen -------------------------------------------------------------------------------------

@test "row 46: redislock frozen at any moment of an older job: all is dead before the key could expire" {
    local round expiry
    for round in {1..2}; do
        : >"$LOG"
        TICKERS=3 guarded_job -t 6 -- --fork 1 --daemonize --tick 5 --ignore TERM
        sleep "0.$((RANDOM % 900 + 100))" # the moment, not a wait
        freeze "$job"
        expiry=$(expiry_of k)
        assert_none_beside_next "$CHILD" "${PIDS[@]}"
        assert_between "$(last_tick "$LOG")" 1 "$expiry"
        kill -CONT "$job"
        reap job
        assert_status 79
    done
}

@test "redislock frozen before there is a guard: its job is not covered until it wakes, and then ends with 79" {
    spawn job lock -t 2 k -- sh -c 'echo "$$" >"$0"; kill -STOP "$PPID"; exec sleep 99' "$LOG"
    wait_until 10000 process_stopped "$job"
    wait_until 10000 taken
    kill -CONT "$job"
    reap job
    assert_status 79
    assert_no_process "$(<"$LOG")"
    assert_equal "$(rcli get lock:k)" next
}

@test "with --on-lost warn a frozen redislock's command runs on, and a killed one's does not" {
    guarded_job -t 2 --on-lost warn -- --fork 1 --tick 5
    freeze "$job"
    wait_until 10000 taken
    local now
    now=$(boottime_ms)
    wait_until 5000 ticked_after $((now + 300))
    kill -KILL "$job"
    wait_until 3000 all_gone "$CHILD" "${PIDS[@]}"
}

# --- The thread that extends ----------------------------------------------------------------------

@test "row 12: the thread that extends hangs: the command is dead before the key could expire" {
    need strace
    local thread expiry
    guarded_job -t 6 -- --fork 1 --tick 5
    wait_until 10000 has_thread "$job"
    thread=$(thread_of "$job")
    spawn holder strace -qq -o "$ROOM/strace" -p "$thread" -e inject=all:delay_enter=60000000
    wait_until 5000 hangs "$job" "$thread"
    expiry=$(expiry_of k)
    wait_until 10000 process_gone "$CHILD"
    wait_until 10000 all_gone "${PIDS[@]}"
    assert_equal "$(signals_seen "$LOG" TERM)" 1 # from redislock itself: its guard sends KILL alone
    assert_between "$(last_tick "$LOG")" 1 "$expiry"
    wait_until 10000 taken
    process_end "$holder" KILL # the thread wakes
    reap job
    assert_status 79
    assert_line_stderr 'could not be extended in time .* stopping the command with SIGTERM'
    assert_equal "$(rcli get lock:k)" next
}

# The thread sanitizer has one of its own, from the start.
has_thread() {
    local -a tasks
    local threads=2
    ! grep -qa __tsan_init "$REDISLOCK_BIN" || threads=3
    tasks=("/proc/$1/task"/*)
    ((${#tasks[@]} == threads))
}

thread_of() {
    printf '%s\n' "/proc/$1/task"/* | sed 's#.*/##' | sort -n | tail -n 1
}

# The thread is being traced, and has begun a call that it does not get to make.
hangs() {
    grep -q '^TracerPid:.*[1-9]' "/proc/$1/task/$2/status" && grep -q '^State:.*t' "/proc/$1/task/$2/status" &&
        [[ -s $ROOM/strace ]]
}

@test "row 12: neither the thread that extends nor the guard can be started: the command is stopped before the key could expire" {
    need strace
    without_leak_search
    spawn job strace -D -qq -o /dev/null -e trace=clone,clone3 -e inject=clone,clone3:error=EAGAIN \
        "$REDISLOCK_BIN" -u "unix://$SOCK" -t 6 k -- "$WITNESS" --out "$LOG" --tick 5 --sleep inf --ignore TERM
    wait_until 5000 tickers "$LOG" 1
    local expiry
    expiry=$(expiry_of k)
    reap job
    assert_status 79
    assert_line_stderr 'cannot start the guard: Resource temporarily unavailable'
    assert_line_stderr 'cannot start the thread that extends the lock: Resource temporarily unavailable'
    assert_between "$(last_tick "$LOG")" 1 "$expiry"
    all_gone "$(ticker_pids "$LOG")" || fail 'the command lives'
    assert_no_keys_left
}

@test "what the system refuses to the extension for a moment is asked for again, and the command runs on" {
    need prlimit
    local number refusal
    while read -r number refusal; do
        spawn job bash -c "ulimit -Sn $number; exec \"\$0\" \"\$@\"" "$REDISLOCK_BIN" -v -u "unix://$SOCK" \
            -t 3 k -- sleep inf
        wait_until 5000 grep -q "$refusal: Too many open files; trying again" "$ROOM/job.err"
        prlimit --nofile=1024 --pid "$job"
        wait_until 5000 grep -qE 'extended the lock|being extended again' "$ROOM/job.err"
        wait_until 5000 guard_of "$job"
        kill "$job"
        reap job
        assert_status 143
        refute_line_stderr 'could not be extended'
        (($(grep -c 'guard' "$ROOM/job.err") <= 2)) # refused, started
        assert_equal "$(grep -c 'trying again' "$ROOM/job.err")" 1
        assert_no_keys_left
    done <<'LIMITS'
6 cannot make timers for the lease
7 cannot make timers for the lease
8 cannot start the thread that extends the lock
10 cannot start the thread that extends the lock
LIMITS
}

# --- The keeper of --attach -----------------------------------------------------------------------

attached() {
    scripts_setup
    script_of script <<<'"$REDISLOCK_BIN" -t 2 --attach k || exit
stay
echo end'
    run_script script_pid dash
    KEEPER=$(keepers)
    [[ $KEEPER =~ ^[0-9]+$ ]] || fail "keepers: $KEEPER"
}

@test "kill -9 of a script's keeper: the lock expires within its TTL, and the script runs on untold" {
    attached
    kill -KILL "$KEEPER"
    wait_until 3500 key_absent lock:k
    assert_process "$script_pid"
    go "$script_pid"
    reap script_pid
    assert_status 0
    assert_output end
}

@test "a script's keeper is frozen: the lock expires; on waking it stops the script and takes nothing back" {
    attached
    freeze "$KEEPER"
    wait_until 10000 taken
    assert_process "$script_pid"
    kill -CONT "$KEEPER"
    reap script_pid
    assert_status 143
    wait_until 5000 process_gone "$KEEPER"
    assert_equal "$(rcli get lock:k)" next
}

@test "kill -9 of a script while its keeper is frozen: the lock is free by its expiry, and the next one's is left alone" {
    attached
    freeze "$KEEPER"
    kill -KILL "$script_pid"
    wait_until 10000 taken
    kill -CONT "$KEEPER"
    wait_until 5000 process_gone "$KEEPER"
    assert_equal "$(rcli get lock:k)" next
}

@test "kill -9 of a script and its keeper at once leaves no process, and a lock that expires" {
    attached
    kill -KILL "$KEEPER" "$script_pid"
    wait_until 3000 process_gone "$KEEPER"
    wait_until 10000 taken
    keepers_are 0
}
