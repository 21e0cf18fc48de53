#!/usr/bin/env bats
# Signals, and deaths at the wrong moment: what is sent to redislock, what it sends, and that no
# process and no lock is left behind.
# shellcheck disable=SC2030,SC2031 # each test is a process of its own
# shellcheck disable=SC2154 # spawn assigns
# shellcheck disable=SC2016 # the command's shell expands

load lib/common
load lib/job

setup_file() {
    common_setup_file
    redis_start
}

setup() {
    common_setup
    rcli flushall >/dev/null
    LOG=$ROOM/log
    : >"$LOG"
}

number_of() {
    kill -l "$1"
}

# Succeeds when process PID has a signal blocked: redislock is up and takes its signals itself.
blocks() {
    mask_has "$(awk '$1 == "SigBlk:" { print $2 }' "/proc/$1/status")" "$2"
}

# Succeeds when process PID has a connection.
connected() {
    find "/proc/$1/fd" -lname 'socket:*' | grep -q .
}

# start_job [OPTION...] -- WITNESS-ARG...: job is a redislock with the lock k, its command a witness
# that logs to $LOG; returns once that one is ready for signals.
start_job() {
    local options=()
    while [[ $1 != -- ]]; do
        options+=("$1")
        shift
    done
    shift
    spawn job lock "${options[@]}" k -- "$WITNESS" --out "$LOG" --signals inf "$@"
    wait_for_line "$LOG" '^ready'
    CHILD=$(sed -n 's/^ready //p' "$LOG")
}

# --- forwarding ---------------------------------------------------------------------------------

@test "row 68: HUP INT QUIT TERM USR1 USR2 reach every process of the command's group exactly once" {
    spawn job lock k -- sh -c '"$WITNESS" --signals inf --exit-on ALRM --out "$0.1" <&- &
        exec "$WITNESS" --signals inf --exit-on ALRM --out "$0"' "$LOG"
    wait_for_line "$LOG" '^ready'
    wait_for_line "$LOG.1" '^ready'
    local name file
    for name in HUP INT QUIT TERM USR1 USR2; do
        kill "-$name" "$job"
        wait_for_line "$LOG" "^signal $name from $job\$"
        wait_for_line "$LOG.1" "^signal $name from $job\$"
    done
    kill -ALRM -- "-$(sed -n 's/^ready //p' "$LOG")"
    reap job
    assert_status 0
    for file in "$LOG" "$LOG.1"; do
        assert_equal "$(grep '^signal' "$file" | cut -d' ' -f2 | tr '\n' ' ')" \
            'HUP INT QUIT TERM USR1 USR2 ALRM '
    done
    assert_nothing_locked
}

@test "row 68: a signal to redislock's whole group reaches the command once" {
    start_job -- --exit-on USR2
    kill -TERM -- "-$job"
    wait_for_line "$LOG" '^signal TERM'
    kill -USR2 "$job"
    reap job
    assert_status 0
    assert_equal "$(signals_seen "$LOG" TERM)" 1
}

@test "row 68: WINCH, TSTP and CONT are handed on too" {
    start_job -- --exit-on TERM
    local name
    for name in WINCH TSTP CONT; do
        kill "-$name" "$job"
        wait_for_line "$LOG" "^signal $name from $job\$"
    done
    kill -TERM "$job"
    reap job
    assert_status 0
}

@test "row 68: a command that dies of the signal gives 128+N, and the lock is released" {
    local name
    ulimit -c 0
    for name in HUP INT QUIT TERM USR1 USR2; do
        spawn job lock k -- "$WITNESS" --report --out "$LOG" --sleep inf
        wait_for_line "$LOG" '^nofile'
        kill "-$name" "$job"
        wait_until 1000 key_absent lock:k # row 22
        reap job
        assert_status $((128 + $(number_of "$name")))
        assert_no_stderr
        assert_no_process "$(witness_field "$LOG" pid)"
        rm "$LOG"
    done
    assert_nothing_locked
}

@test "row 68: the lock is held for as long as the command takes to heed the signal" {
    spawn job lock k -- bash -c 'trap "got=1" TERM; echo ready >"$0"; until ((got)); do sleep 0.01; done
        echo heeded >>"$0"; until [[ -e $0.end ]]; do sleep 0.01; done; exit 7' "$LOG"
    wait_for_line "$LOG" ready
    kill -TERM "$job"
    wait_for_line "$LOG" heeded
    assert_key lock:k
    assert_process "$job"
    touch "$LOG.end"
    reap job
    assert_status 7
    assert_nothing_locked
}

@test "row 71: sh -c 'sleep 99 & wait' is dead as a whole, and only then the lock is free" {
    local name pids
    for name in TERM HUP; do
        spawn job lock k -- sh -c 'sleep 99 & echo "$$ $!" >"$0"; wait' "$LOG"
        wait_for_line "$LOG" ' '
        read -ra pids <"$LOG"
        kill "-$name" "$job"
        reap job
        assert_status $((128 + $(number_of "$name")))
        wait_until 1000 all_gone "${pids[@]}"
        : >"$LOG"
    done
    assert_nothing_locked
}

@test "row 76: a signal that was inherited as ignored is neither acted on nor forwarded" {
    spawn job --ignore HUP --ignore INT lock k -- "$WITNESS" --out "$LOG" --signals inf --exit-on USR1
    wait_for_line "$LOG" '^ready'
    kill -HUP "$job"
    kill -INT "$job"
    kill -USR1 "$job"
    reap job
    assert_status 0
    assert_equal "$(grep '^signal' "$LOG" | cut -d' ' -f2)" USR1
}

@test "row 76: under nohup a job outlives the hangup" {
    spawn job nohup "$REDISLOCK_BIN" -u "unix://$SOCK" k -- "$WITNESS" --out "$LOG" --signals inf --exit-on TERM
    wait_for_line "$LOG" '^ready'
    kill -HUP -- "-$job"
    kill -TERM "$job"
    reap job
    assert_status 0
    assert_equal "$(grep '^signal' "$LOG" | cut -d' ' -f2)" TERM
}

# --- before the command runs --------------------------------------------------------------------

# stopped_before_child SIGNAL: job ends of it, as one that never ran its command ($LOG is empty).
stopped_before_child() {
    kill "-$1" "$job"
    reap job 3000
    assert_status $((128 + $(number_of "$1")))
    [[ ! -s $LOG ]] || fail "the command ran"
}

@test "row 69: HUP INT QUIT TERM end a wait for the lock; the holder's key is untouched" {
    local name
    rcli set lock:k foreign px 60000
    for name in HUP INT QUIT TERM; do
        spawn job lock -w inf k -- "$WITNESS" --out "$LOG"
        wait_until 5000 connected "$job"
        stopped_before_child "$name"
    done
    assert_equal "$(rcli get lock:k)" foreign
    assert_equal "$(rcli client list | wc -l)" 1
    rcli del lock:k
    assert_nothing_locked
}

@test "row 69: HUP INT QUIT TERM end the random delay of --jitter" {
    local name
    for name in HUP INT QUIT TERM; do
        spawn job lock --jitter 1000d k -- "$WITNESS" --out "$LOG"
        wait_until 5000 blocks "$job" "$name"
        stopped_before_child "$name"
    done
    assert_nothing_locked
}

@test "row 69: HUP INT QUIT TERM end a connection to a frozen server; it takes no lock later either" {
    local name
    redis_start
    redis_freeze
    for name in HUP INT QUIT TERM; do # all at once: each may take a moment to give up
        spawn "job_$name" lock k -- "$WITNESS" --out "$LOG"
    done
    for name in HUP INT QUIT TERM; do
        local pid=job_$name
        wait_until 5000 connected "${!pid}"
        kill "-$name" "${!pid}"
    done
    for name in HUP INT QUIT TERM; do
        reap "job_$name" 3000
        assert_status $((128 + $(number_of "$name")))
    done
    [[ ! -s $LOG ]] || fail "a command ran"
    redis_thaw
    wait_until 5000 only_one_client
    wait_until 5000 key_absent lock:k
    run lock k -- true
    assert_status 0
}

only_one_client() {
    [[ $(rcli client list | wc -l) == 1 ]]
}

@test "row 69: TERM ends a connection into a black hole, on a socket and on TCP" {
    local kind
    for kind in '' --tcp; do
        proxy_start $kind
        proxy_do blackhole
        URL=$PROXY_URL spawn job lock -w 60 k -- "$WITNESS" --out "$LOG"
        wait_until 5000 proxy_saw connections 1
        stopped_before_child TERM
    done
    assert_nothing_locked
}

@test "row 69: TERM while nobody listens ends the tries to connect" {
    URL=unix://$ROOM/nobody spawn job lock --connect-timeout 1h k -- "$WITNESS" --out "$LOG"
    wait_until 5000 blocks "$job" TERM
    stopped_before_child TERM
}

@test "row 6: TERM when the lock is taken but the answer is not here yet gives the lock back" {
    proxy_start
    proxy_do next hold s2c
    URL=$PROXY_URL spawn job lock k -- "$WITNESS" --out "$LOG"
    wait_until 5000 key_exists lock:k
    stopped_before_child TERM
    wait_until 1000 key_absent lock:k
}

@test "row 22: TERM at any moment of a start leaves neither process nor lock" {
    local i pid names=(TERM INT HUP QUIT)
    for i in {1..24}; do
        spawn job lock k -- sh -c 'echo $$ >>"$0"; exec sleep 99' "$LOG"
        read -rt "0.0$((RANDOM % 20 + 10))" <>"$ROOM/never" || true
        kill "-${names[i % 4]}" "$job"
        reap job
        assert_between "$status" 129 143
        key_absent lock:k || fail "start $i, signal ${names[i % 4]}: the key is there, status $status"
    done
    while read -r pid; do
        wait_until 1000 process_gone "$pid"
    done <"$LOG"
    assert_nothing_locked
}

@test "USR1 and USR2 before the command runs are ignored, and not handed on later" {
    rcli set lock:k foreign px 60000
    spawn job lock -w inf k -- "$WITNESS" --out "$LOG" --signals inf --exit-on TERM
    wait_until 5000 connected "$job"
    kill -USR1 "$job"
    kill -USR2 "$job"
    kill -WINCH "$job"
    assert_process "$job"
    rcli del lock:k
    wait_for_line "$LOG" '^ready'
    kill -TERM "$job"
    reap job
    assert_status 0
    assert_equal "$(grep '^signal' "$LOG" | cut -d' ' -f2)" TERM
}

@test "row 76: INT and HUP inherited as ignored do not end a wait" {
    rcli set lock:k foreign px 60000
    spawn job --ignore INT --ignore HUP lock -w inf k -- "$WITNESS" --out "$LOG" --exit 3
    wait_until 5000 connected "$job"
    kill -INT "$job"
    kill -HUP "$job"
    rcli del lock:k
    reap job
    assert_status 3
}

# --- redislock is killed or frozen --------------------------------------------------------------

@test "row 81: kill -9 of redislock ends a young command at once" {
    start_job --
    kill -KILL "$job"
    reap job
    assert_status 137
    wait_until 1000 process_gone "$CHILD"
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
    wait_until 1000 all_gone "${pids[@]}" "$guard"
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
    wait_until 1000 all_gone "${pids[@]}"
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

@test "the guard has nothing of the caller's: no descriptor, no folder, no session" {
    cd "$ROOM"
    spawn job --open 9 lock k -- "$WITNESS" --sleep inf
    wait_until 5000 guard_of "$job"
    local guard
    guard=$(guard_of "$job")
    assert_equal "$(readlink "/proc/$guard/cwd")" /
    assert_equal "$(awk '{ print $6 }' "/proc/$guard/stat")" "$guard"
    wait_until 1000 guard_is_bare "$guard"
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
    wait_until 1000 all_gone "${pids[@]}"
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
    wait_until 1000 process_stopped "$job"
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

@test "processes in the background are left alone at a normal end; -v counts them" {
    spawn job lock -v k -- "$WITNESS" --out "$LOG" --fork 1 --daemonize --exit 4
    reap job
    assert_status 4
    assert_line_stderr 'left 2 process'
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
    wait_until 1000 process_gone "${pids[0]}"
    assert_key lock:k
    kill -KILL "${pids[1]}"
    reap job
    assert_status 4
    assert_nothing_locked
}

ticked_after() {
    (($(last_tick "$LOG") > $1))
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
    run --separate-stderr lock --max-runtime 200ms k -- sh -c 'kill -STOP $$; exit 3'
    assert_status 124
    assert_nothing_locked
}
