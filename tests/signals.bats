#!/usr/bin/env bats
# Signals sent to redislock, at any moment: while the command runs they are the command's, before
# that they end the run, and neither a process nor a lock is left behind.
# shellcheck disable=SC2030,SC2031 # each test is a process of its own
# shellcheck disable=SC2154 # spawn assigns
# shellcheck disable=SC2016 # the command's shell expands

load lib/common
load lib/one_server
load lib/job

setup() {
    job_setup
}

# Succeeds when process PID has a signal blocked: redislock is up and takes its signals itself.
blocks() {
    mask_has "$(awk '$1 == "SigBlk:" { print $2 }' "/proc/$1/status")" "$2"
}

# Succeeds when process PID has a connection.
connected() {
    find "/proc/$1/fd" -lname 'socket:*' | grep -q .
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

@test "HUP INT QUIT TERM end a command that is stopped, too" {
    local name child
    for name in HUP INT QUIT TERM; do
        spawn job lock k -- sh -c 'ulimit -c 0; echo $$ >"$0"; exec sleep 60' "$LOG"
        wait_until 5000 test -s "$LOG"
        child=$(<"$LOG")
        kill -STOP "$child"
        wait_until 5000 process_stopped "$child"
        kill "-$name" "$job"
        reap job
        assert_status $((128 + $(number_of_signal "$name")))
        assert_nothing_locked
        rm "$LOG"
    done
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
        assert_status $((128 + $(number_of_signal "$name")))
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
        assert_status $((128 + $(number_of_signal "$name")))
        wait_until 3000 all_gone "${pids[@]}"
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
    reap job 5000
    assert_status $((128 + $(number_of_signal "$1")))
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
        reap "job_$name" 5000
        assert_status $((128 + $(number_of_signal "$name")))
    done
    [[ ! -s $LOG ]] || fail "a command ran"
    redis_thaw
    wait_until 5000 only_one_client
    wait_until 5000 key_absent lock:k
    run lock k -- true
    assert_status 0
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
    wait_until 3000 key_absent lock:k
}

@test "row 22: TERM at any moment of a start leaves neither process nor lock" {
    local i pid comm='' names=(TERM INT HUP QUIT)
    mkfifo "$ROOM/never"
    for i in {1..24}; do
        spawn job lock k -- sh -c 'echo $$ >>"$0"; exec sleep 99' "$LOG"
        until [[ $comm == redislock ]]; do # before that INT and QUIT would be ignored, by the shell
            read -r comm <"/proc/$job/comm"
        done
        comm=''
        read -rt "0.0$(printf %02d $((RANDOM % 20)))" <>"$ROOM/never" || true
        kill "-${names[i % 4]}" "$job"
        reap job
        assert_between "$status" 129 143
        key_absent lock:k || fail "start $i, signal ${names[i % 4]}: the key is there, status $status"
    done
    while read -r pid; do
        wait_until 3000 process_gone "$pid"
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
