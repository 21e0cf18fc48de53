#!/usr/bin/env bats
# The common recipe on the same key: other programs that `SET key token NX PX ms` and release by
# comparing and deleting exclude redislock and are excluded by it.
# shellcheck disable=SC2030,SC2031 # each test is a process of its own
# shellcheck disable=SC2154 # spawn and hold assign

load lib/common
load lib/one_server
load lib/locks

# foreign_lock [MS]: another program takes lock:job; prints OK or nothing.
foreign_lock() {
    rcli set lock:job theirs nx px "${1:-60000}"
}

# Ours vanishes, as by an eviction or an administrator, and theirs is there before we notice.
take_over() {
    assert_equal "$(rcli eval 'redis.call("del", KEYS[1])
        return redis.call("set", KEYS[1], ARGV[1], "nx", "px", 60000)' 1 lock:job theirs)" OK
}

assert_theirs() {
    assert_equal "$(rcli get lock:job)" theirs
    assert_between "$(key_pttl lock:job)" 1 60000
}

# --- Their lock excludes us ---------------------------------------------------------------------

@test "a lock of another program makes redislock exit 75, holder unknown" {
    assert_equal "$(foreign_lock)" OK
    run --separate-stderr lock job -- touch "$ROOM/ran"
    assert_status 75
    assert_no_output
    assert_one_line "^redislock: job: held by another program \(its value is not redislock's\)$"
    [[ ! -e $ROOM/ran ]]
    assert_theirs
}

@test "a lock of another program without an expiry excludes as well, and keeps none" {
    rcli set lock:job theirs nx >/dev/null
    run --separate-stderr lock job -- true
    assert_status 75
    assert_one_line 'another program'
    assert_equal "$(key_pttl lock:job)" -1
}

@test "a value of any kind is a foreign token: empty, binary, huge, or nearly ours" {
    local value
    hold first job
    local ours
    ours=$(rcli get lock:job)
    let_go first
    for value in '' ' ' 1 $'two\nlines' $'\xff\xfe\x01' "$(printf 'x%.0s' {1..100000})" \
        redislock1 redislock1: redislock1:::::::::: "${ours%:*}" "$ours:x" "$ours " "x$ours" \
        "${ours/:held:/:stolen:}" "${ours/redislock1:??/redislock1:}" "${ours/redislock1/redislock2}"; do
        printf %s "$value" | rcli -x set lock:job >/dev/null
        run --separate-stderr lock job -- touch "$ROOM/ran"
        assert_status 75
        assert_one_line 'held by another program'
        [[ ! -e $ROOM/ran ]]
        printf %s "$value" | cmp - <(rcli --raw get lock:job | head -c "$(printf %s "$value" | wc -c)")
    done
}

@test "the event of a foreign lock names no holder" {
    foreign_lock >/dev/null
    run lock --status-fd 7 -q job -- true 7>"$ROOM/events"
    assert_status 75
    grep -q '"event":"held","time":"[^"]*","name":"job","left_ms":[0-9]*}$' "$ROOM/events"
}

@test "-w waits until another program's lock expires" {
    foreign_lock 400 >/dev/null
    run --separate-stderr lock -w 20 job -- true
    assert_status 0
    assert_no_stderr
    assert_no_key lock:job
}

@test "-w waits until another program releases its lock" {
    foreign_lock >/dev/null
    spawn waiter lock -w 20 job -- "$WITNESS" --log "$ROOM/log"
    wait_until 10000 calls_reach evalsha 2 # it has tried and tries on
    assert_process "$waiter"
    [[ ! -e $ROOM/log ]]
    assert_equal "$(compare_and_delete lock:job theirs)" 1
    reap waiter
    assert_status 0
    assert_equal "$(grep -c ^start "$ROOM/log")" 1
}

calls_reach() {
    (($(calls "$1") >= $2))
}

# --- Our lock excludes them ---------------------------------------------------------------------

@test "our lock makes another program's SET NX fail, and our release lets it in" {
    hold first job
    assert_equal "$(foreign_lock)" ''
    assert_equal "$(rcli setnx lock:job theirs)" 0
    let_go first
    assert_status 0
    assert_equal "$(foreign_lock)" OK
}

@test "our minimum hold makes another program's SET NX fail too" {
    lock --min-hold 60 job -- true
    assert_equal "$(foreign_lock)" ''
}

# --- Nobody deletes the other's -----------------------------------------------------------------

@test "row 19: a foreign compare-and-delete with another token leaves our lock" {
    hold first job
    local ours
    ours=$(rcli get lock:job)
    assert_equal "$(compare_and_delete lock:job theirs)" 0
    assert_equal "$(compare_and_delete lock:job "$(holder_field token lock:job)")" 0
    assert_equal "$(rcli get lock:job)" "$ours"
    let_go_quiet first
}

@test "row 19: our release leaves their lock when they took over, and the job's status stands" {
    spawn first lock job -- "$WITNESS" --out "$ROOM/out" --signals inf --exit-on TERM --exit 7
    wait_for_line "$ROOM/out" '^ready'
    take_over
    let_go first
    assert_status 7
    assert_one_line 'the lock was lost while the command ran: it is now held by another program'
    assert_theirs
}

@test "rows 19, 20: frozen until its lock has expired, redislock leaves the lock of who took over" {
    hold first -v -t 1s job
    local child
    child=$(held_pid first)
    wait_until 10000 has_lines 'extended the lock' 2 "$ROOM/first.err" # its guard runs by now
    kill -STOP "$first"
    wait_until 10000 key_absent lock:job
    assert_no_process "$child" # nothing of it runs once the key is gone
    assert_equal "$(foreign_lock)" OK
    kill -CONT "$first"
    reap first
    assert_status 79
    assert_theirs
}

# has_lines TEXT NUMBER FILE: succeeds when that many lines of FILE hold TEXT.
has_lines() {
    (($(grep -cF -- "$1" "$3") >= $2))
}

@test "a takeover while the command runs is noticed: it is stopped, 79, and their lock stays" {
    hold first -t 600ms job
    local child
    child=$(held_pid first)
    take_over
    reap first
    assert_status 79
    assert_one_line 'lost the lock: it is now held by another program.*; stopping the command with SIGTERM'
    assert_no_process "$child"
    assert_theirs
}

@test "with --on-lost warn the command runs on after a takeover, and their lock stays" {
    hold first -t 600ms --on-lost warn job
    take_over
    wait_for_line "$ROOM/first.err" 'lost the lock: .*runs on all the same'
    assert_process "$(held_pid first)"
    let_go first
    assert_status 0
    assert_theirs
}

# --- Releasing ours from outside ----------------------------------------------------------------

@test "a compare-and-delete with our whole value works; with nobody there since, we put it back" {
    hold first -t 600ms job
    local ours
    ours=$(rcli get lock:job)
    assert_equal "$(compare_and_delete lock:job "$ours")" 1
    wait_until 10000 key_exists lock:job
    assert_equal "$(rcli get lock:job)" "$ours"
    assert_process "$(held_pid first)"
    let_go first
    assert_status 0
    assert_one_line "key had vanished .*nobody took the lock since, so it was put back"
    assert_no_key lock:job
}

@test "a compare-and-delete with our whole value ends the run with --no-restore: 79" {
    hold first -t 600ms --no-restore job
    assert_equal "$(compare_and_delete lock:job "$(rcli get lock:job)")" 1
    reap first
    assert_status 79
    assert_one_line 'lost the lock: its key vanished; stopping the command with SIGTERM'
    assert_no_key lock:job
}

@test "who takes the lock after a compare-and-delete keeps it: we do not put ours back over it" {
    hold first -t 3s job # a second until the extension
    assert_equal "$(compare_and_delete lock:job "$(rcli get lock:job)")" 1
    run --separate-stderr lock --min-hold 60 job -- true
    assert_status 0
    reap first
    assert_status 79
    assert_line_stderr 'lost the lock: '
    assert_equal "$(holder_field kind lock:job)" residue
}

@test "a holder that came and went after a compare-and-delete is noticed by its fence: 79" {
    hold first -t 3s job # a second until the extension
    assert_equal "$(compare_and_delete lock:job "$(rcli get lock:job)")" 1
    lock job -- true
    assert_no_key lock:job
    reap first
    assert_status 79
    assert_line_stderr 'its key vanished, and it was taken away or held by somebody else since'
    assert_no_key lock:job
}

# --- A library that many use --------------------------------------------------------------------

@test "redis-py's Lock and redislock exclude each other" {
    local python
    for python in python3 /usr/bin/python3 ''; do
        ! command -v "$python" >/dev/null || ! "$python" -c 'import redis' 2>/dev/null || break
    done
    [[ -n $python ]] || skip "python3-redis is not installed"
    # shellcheck disable=SC2016
    run --separate-stderr "$python" - "$SOCK" "$REDISLOCK_BIN" "$ROOM" <<'PYTHON'
import subprocess, sys
import redis, redis.exceptions
sock, binary, room = sys.argv[1:]
server = redis.Redis(unix_socket_path=sock)
ours = [binary, "-u", "unix://" + sock, "job"]

theirs = server.lock("lock:job", timeout=60)
assert theirs.acquire(blocking=False)
assert subprocess.run(ours + ["true"], stderr=subprocess.DEVNULL).returncode == 75
theirs.extend(60)
theirs.release()

job = subprocess.Popen(ours + ["sh", "-c", "echo ready; read line"],
                       stdin=subprocess.PIPE, stdout=subprocess.PIPE)
job.stdout.readline()
assert not theirs.acquire(blocking=False)
try:
    server.lock("lock:job", timeout=60, thread_local=False).release()
    raise SystemExit("it released what it does not hold")
except redis.exceptions.LockError:
    pass
assert server.exists("lock:job")
job.communicate(b"\n")
assert job.returncode == 0
assert theirs.acquire(blocking=False)
assert subprocess.run(ours + ["true"], stderr=subprocess.DEVNULL).returncode == 75
theirs.release()
PYTHON
    assert_status 0
}
