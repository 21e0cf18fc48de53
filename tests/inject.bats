#!/usr/bin/env bats
# Every system call that a run makes may fail: whatever fails, redislock ends, with a status of the
# contract and a word about it; no process and no key stays behind, and the command runs at most once.
#
# Which calls there are is seen by strace, so a new one is tried without anybody thinking of it. CI tries
# a sample; INJECT=all tries every call.

load lib/common
load lib/inject

setup_file() {
    common_setup_file
    redis_start
}

setup() {
    common_setup
    redis_use main
    printf 'REDISLOCK_CONNECT_TIMEOUT=3s\nREDISLOCK_TTL=3s\n' >"$ROOM/conf"
    export REDISLOCK_CONFIG=$ROOM/conf REDISLOCK_URL=unix://$SOCK
}

# --- Runs that are seen from their beginning -------------------------------------------------------

short_run() {
    CASE_RUNS=1
    status=0
    "${STRACE[@]}" "$REDISLOCK_BIN" "$NAME" -- "$WITNESS" --log "$CASE/log" --exit 7 \
        2>"$CASE/err" || status=$?
}

@test "a short run, each of whose calls may fail" {
    inject short_run 7 "69 71 78 79" "$ROOM/conf"
}

waiting_run() {
    CASE_RUNS=1
    "$REDISLOCK_BIN" "$NAME" -- "$WITNESS" --out "$CASE/ready" --log "$CASE/log-before" --signals 1 &
    wait_for_line "$CASE/ready" '^ready '
    status=0
    "${STRACE[@]}" "$REDISLOCK_BIN" -w 8s "$NAME" -- "$WITNESS" --log "$CASE/log" --exit 7 \
        2>"$CASE/err" || status=$?
    wait
}

@test "a run that waits in line, each of whose calls may fail" {
    inject waiting_run 7 "69 71 78 79" "$ROOM/conf"
}

acquire_step() {
    status=0
    "${STRACE[@]}" "$REDISLOCK_BIN" --acquire "$NAME" >"$CASE/token" 2>"$CASE/err" || status=$?
    [[ $status != 0 ]] || "$REDISLOCK_BIN" --release "$NAME" "$(<"$CASE/token")"
}

@test "--acquire, each of whose calls may fail" {
    inject acquire_step 0 "69 71 78" "$ROOM/conf"
}

release_step() {
    "$REDISLOCK_BIN" --acquire "$NAME" >"$CASE/token"
    status=0
    "${STRACE[@]}" "$REDISLOCK_BIN" --release "$NAME" "$(<"$CASE/token")" 2>"$CASE/err" || status=$?
}

@test "--release, each of whose calls may fail" {
    inject release_step 0 "69 71 78" "$ROOM/conf"
}

attaching() {
    local script
    "$WITNESS" --sleep 600 &
    script=$!
    status=0
    "${STRACE[@]}" "$REDISLOCK_BIN" --attach=$script "$NAME" >"$CASE/out" 2>"$CASE/err" || status=$?
    wait "$script" || true
}

@test "--attach, each of whose calls may fail" {
    inject attaching 0 "64 69 71 78" "$ROOM/conf"
}

# --- Processes that are looked at once they hold the lock ------------------------------------------

# From where the command runs: the timers, the guard, the keeper's thread, the release.
long_run() {
    local pid
    CASE_RUNS=1
    "$REDISLOCK_BIN" "$NAME" -- "$WITNESS" --out "$CASE/ready" --log "$CASE/log" --signals 2 --exit 7 \
        2>"$CASE/err" &
    pid=$!
    wait_for_line "$CASE/ready" '^ready '
    strace_to "$pid"
    end_of "$pid"
}

@test "a long run, each of whose calls may fail from where its command has begun" {
    inject long_run 7 "71 79"
}

# The keeper of --attach ends with its script; nobody sees its status.
attached() {
    local script keeper
    "$WITNESS" --out "$CASE/ready" --signals 2 &
    script=$!
    wait_for_line "$CASE/ready" '^ready '
    status=0
    "$REDISLOCK_BIN" --attach=$script "$NAME" 2>"$CASE/err" || status=$?
    [[ $status == 0 ]] || return 0
    for keeper in $(case_processes); do
        [[ $keeper == "$script" ]] || strace_to "$keeper"
    done
    end_of "$script"
    wait_until 30000 no_case_processes || status=hangs
}

@test "the keeper of --attach, each of whose calls may fail" {
    inject attached 0 ""
}

# --- A call that takes too long ----------------------------------------------------------------------

@test "a fork that is held up beyond the lease begins nothing: the lock is taken again" {
    run --separate-stderr strace -f -qq -o /dev/null -e trace=vfork \
        -e inject=vfork:delay_enter=3000000:when=1 "$REDISLOCK_BIN" -t 1500ms job -- \
        sh -c 'echo "$REDISLOCK_FENCE"; exit 7'
    assert_status 7
    assert_one_line "the lease was over before 'sh' could be started; taking the lock again"
    assert_output "$(rcli hget 'lock:{lock:job}:state' fence)"
    assert_no_key lock:job
}

# --- Without strace --------------------------------------------------------------------------------

@test "too few descriptors, whatever their number: refused, or run to its end" {
    local number ran=0
    for number in {4..14}; do
        spawn "job_$number" bash -c "ulimit -n $number; exec \"\$0\" \"\$@\"" "$REDISLOCK_BIN" \
            "few-$number" -- "$WITNESS" --log "$ROOM/log-$number" --sleep 900 --exit 7
    done
    for number in {4..14}; do
        reap "job_$number" 20000
        [[ $status == @(7|71|78) ]] || fail "with $number: status $status, $stderr" || return
        [[ $status == 7 ]] || assert_line_stderr '^redislock: few-'
        ran=$((ran + (status == 7)))
        assert_no_key "lock:few-$number"
    done
    assert_between "$ran" 3 9
}

# Its descriptors come one after another: at one of these numbers all are there but the last.
@test "no descriptor left to watch over the command: it does not begin, and no run is remembered" {
    local number told=0
    for number in {4..12}; do
        spawn few bash -c "ulimit -n $number; exec \"\$0\" \"\$@\"" "$REDISLOCK_BIN" \
            "few-$number" -- "$WITNESS" --log "$ROOM/log-$number" --exit 7
        reap few 20000
        assert_no_key "lock:few-$number"
        [[ $status != 7 ]] || continue
        assert_status 71
        assert_one_line "^redislock: few-$number: .*Too many open files$"
        [[ ! -e $ROOM/log-$number ]] || fail "with $number: the command has begun" || return
        [[ $(rcli hget "lock:{lock:few-$number}:state" runs) == '' ]] || fail "a run is remembered" || return
        told=$((told + $(grep -c 'cannot make a timer for' <<<"$stderr" || true)))
    done
    assert_equal "$told" 1
}
