#!/usr/bin/env bats
# --min-hold: the lock outlives a short job, so that a host that fires late does not run it again.
# shellcheck disable=SC2030,SC2031 # each test is a process of its own
# shellcheck disable=SC2154 # spawn and hold assign

load lib/common
load lib/one_server
load lib/locks

setup() {
    one_server_setup
    export LOGNAME=deploy
}

# The lock is held for the rest of a minimum hold of SECONDS, and nobody has its token.
assert_residue() {
    local value
    value=$(rcli get lock:job)
    if [[ ! $value =~ ^redislock1::[0-9]+:residue:[0-9]+:[0-9]+:[^:]+:[0-9]+:[0-9]+:deploy:[^:]+$ ]]; then
        fail "no residue: $value"
    fi
    assert_between "$(key_pttl lock:job)" 1 "$(($1 * 1000))"
}

# A second host fires: it is told that the lock is still held, and runs nothing.
assert_second_refused() {
    run --separate-stderr lock --min-hold 60 job -- touch "$ROOM/ran-again"
    assert_status 75
    assert_one_line "^redislock: job: $1"
    [[ ! -e $ROOM/ran-again ]]
}

@test "row 43: after a short job a host that fires late exits 75 and is told why" {
    run --separate-stderr lock --min-hold 60s job -- true
    assert_status 0
    assert_no_stderr
    assert_residue 60
    assert_second_refused "still held for its minimum hold after the run of $(hostname) \(pid [0-9]+, deploy\) since [0-9:]{8}, [0-9.]+m?s ago$"
    assert_residue 60 # which the refusal has not touched
}

@test "row 43: the residue names the run, without its token, and no process stays for it" {
    spawn first lock --min-hold 60s -t 90s job -- "$WITNESS" --out "$ROOM/out" --signals inf --exit-on TERM
    wait_for_line "$ROOM/out" '^ready'
    local fence start
    fence=$(holder_field fence lock:job)
    start=$(holder_field start lock:job)
    let_go first
    assert_status 0
    assert_equal "$(rcli get lock:job | cut -d: -f2-6)" ":$fence:residue:$start:90000"
    assert_equal "$(holder_field pid lock:job)" "$first"
    assert_equal "$(holder_field command lock:job)" witness
    assert_equal "$(_strays)" ''
}

@test "row 43: the lock is kept after a failed job, and the job's status stands" {
    run --separate-stderr lock --min-hold 60s job -c 'exit 3'
    assert_status 3
    assert_no_stderr
    assert_residue 60
    assert_second_refused 'still held for its minimum hold'
}

@test "row 43: the lock is kept after a job that a signal ended" {
    spawn first lock --min-hold 60s job -- "$WITNESS" --out "$ROOM/out" --sleep inf --tick 1000
    wait_for_line "$ROOM/out" '^tick'
    kill -TERM "$first"
    reap first
    assert_status 143
    assert_residue 60
    assert_second_refused 'still held for its minimum hold'
}

@test "row 43: the lock is kept after a crash, beyond the TTL" {
    hold first --min-hold 60s -t 1s job
    kill -KILL "$first"
    wait_until 5000 process_gone "$first"
    assert_between "$(key_pttl lock:job)" 30000 60000
    assert_second_refused "held by $(hostname) \(pid $first, deploy\)"
}

@test "row 43: a crash after an extension keeps the lock as well" {
    hold first -v --min-hold 60s -t 600ms job
    wait_for_line "$ROOM/first.err" 'extended the lock'
    kill -KILL "$first"
    wait_until 5000 process_gone "$first"
    assert_between "$(key_pttl lock:job)" 30000 60000
    assert_second_refused "held by"
}

@test "a command that could not be started leaves no residue: 126, 127" {
    : >"$ROOM/not-executable"
    run --separate-stderr lock --min-hold 60s job -- "$ROOM/not-executable"
    assert_status 126
    assert_no_key lock:job
    run -127 --separate-stderr lock --min-hold 60s job -- "$ROOM/not-there"
    assert_no_key lock:job
    run --separate-stderr lock job -- true
    assert_status 0
    assert_equal "$(state_field runs job)" 1
}

@test "a hold longer than the TTL is never cut short by an extension" {
    local began
    began=$(boottime_ms)
    hold first --min-hold 60s -t 600ms job
    redis-cli -s "$SOCK" -r 70 -i 0.01 pttl lock:job >"$ROOM/pttl"
    let_go first
    assert_status 0
    awk '$1 < 30000 || $1 > 60000 { print "pttl " $1; bad = 1 } END { exit bad }' "$ROOM/pttl" >&2
    # it counts from the acquisition, not from the end or the last extension
    assert_residue 60
    assert_between "$(key_pttl lock:job)" 1 59300
    assert_between "$(($(boottime_ms) - began))" 700 60000
}

@test "a hold shorter than the job leaves nothing" {
    hold first --min-hold 100ms job
    wait_until 10000 older_than_hold
    let_go first
    assert_status 0
    assert_no_key lock:job
    run --separate-stderr lock job -- true
    assert_status 0
}

older_than_hold() {
    local now
    mapfile -t now < <(rcli time)
    ((now[0] * 1000 + now[1] / 1000 > $(holder_field start lock:job) + 100))
}

@test "after the hold another run takes the lock, and not before" {
    local began
    began=$(boottime_ms)
    run --separate-stderr lock --min-hold 700ms job -- true
    assert_status 0
    run --separate-stderr lock -w 20 job -- "$WITNESS" --log "$ROOM/log"
    assert_status 0
    assert_no_stderr
    assert_between "$(($(awk '$1 == "start" { print $2 }' "$ROOM/log") - began))" 690 20000
    assert_no_key lock:job
}

@test "the run is recorded, and its fence is below that of the next holder" {
    lock --min-hold 100ms job -c 'exit 3' || true
    assert_equal "$(state_field runs job)" 1
    assert_equal "$(state_field last_status job)" 3
    holder_field fence lock:job >"$ROOM/fences"
    # shellcheck disable=SC2016
    lock -w 20 job -c 'echo "$REDISLOCK_FENCE"' >>"$ROOM/fences"
    rises "$ROOM/fences"
}

@test "row 48: with a full memory the hold keeps its length" {
    redis_start full
    redis_use full
    hold first --min-hold 60s job
    rcli config set maxmemory 1 >/dev/null
    run rcli set x y
    assert_line_output OOM
    let_go first
    assert_status 0
    assert_between "$(key_pttl lock:job)" 1 60000
    run --separate-stderr lock job -- true
    assert_status 75
    assert_one_line 'held'
}

@test "a signal before the command runs leaves neither lock nor residue" {
    foreign=$(rcli set lock:job theirs nx px 60000)
    assert_equal "$foreign" OK
    spawn waiter lock -w inf --min-hold 60s job -- touch "$ROOM/ran"
    wait_until 10000 calls_reach evalsha 2
    kill -TERM "$waiter"
    reap waiter
    assert_status 143
    [[ ! -e $ROOM/ran ]]
    assert_equal "$(rcli get lock:job)" theirs
}

calls_reach() {
    (($(calls "$1") >= $2))
}

@test "a lost lock gets no residue over the new holder's" {
    hold first -t 600ms --min-hold 60s job
    rcli set lock:job theirs px 60000 >/dev/null
    reap first
    assert_status 79
    assert_equal "$(rcli get lock:job)" theirs
}
