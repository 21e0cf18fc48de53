#!/usr/bin/env bats
# --acquire, --extend, --release and --check: a lock by single steps, under a token that is the key's
# whole value.
# shellcheck disable=SC2154 # spawn and hold assign

load lib/common
load lib/one_server
load lib/locks
load lib/queue
load lib/scripts

setup() {
    one_server_setup
    export REDISLOCK_URL=unix://$SOCK
}

redislock() {
    "$REDISLOCK_BIN" "$@"
}

# acquire [OPTION]... NAME: sets TOKEN.
acquire() {
    TOKEN=$(redislock --acquire "$@")
}

# held NAME: under TOKEN; for wait_until.
holds() {
    redislock --check "$1" "$TOKEN"
}

# --- --acquire ------------------------------------------------------------------------------

@test "--acquire prints exactly one line without blanks: the key's whole value" {
    redislock --acquire job >"$ROOM/token" 2>"$ROOM/err"
    [[ ! -s $ROOM/err ]]
    assert_equal "$(wc -l <"$ROOM/token")" 1
    refute_blank "$(<"$ROOM/token")"
    assert_equal "$(rcli get lock:job)" "$(<"$ROOM/token")"
    assert_equal "$(holder_field kind lock:job) $(holder_field pid lock:job)" "held $BASHPID"
    assert_between "$(key_pttl lock:job)" 50000 60000
}

refute_blank() {
    [[ -n $1 && $1 != *[[:space:]]* ]] || fail "blanks in: $1"
}

@test "the plain recipe's compare-and-delete releases what --acquire took, and nothing else" {
    acquire job
    assert_equal "$(compare_and_delete lock:job "${TOKEN}x")" 0
    assert_equal "$(compare_and_delete lock:job "${TOKEN%?}")" 0
    assert_key lock:job
    assert_equal "$(compare_and_delete lock:job "$TOKEN")" 1
    assert_no_key lock:job
    run --separate-stderr redislock job -- echo free
    assert_output free
}

@test "--acquire of a held lock: 75 (or -E), nothing on stdout, and who holds it" {
    acquire job
    run --separate-stderr redislock --acquire job
    assert_status 75
    assert_no_output
    assert_one_line '^redislock: job: held by '
    run --separate-stderr redislock -E 9 -q --acquire job
    assert_status 9
    assert_no_output
    assert_no_stderr
    run --separate-stderr redislock job -- true
    assert_status 75
}

@test "--acquire waits in line, with -t, and prints the token of the one it waited for" {
    acquire job
    spawn next "$REDISLOCK_BIN" -w inf -t 90 --acquire job
    wait_until 5000 line_is job 1
    run --separate-stderr redislock --release job "$TOKEN"
    assert_status 0
    reap next
    assert_status 0
    assert_equal "$(rcli get lock:job)" "$output"
    assert_between "$(key_pttl lock:job)" 80000 90000
}

@test "nobody extends a lock that --acquire took" {
    acquire -t 1 job
    wait_until 5000 key_absent lock:job
    run --separate-stderr redislock --check job "$TOKEN"
    assert_status 79
    assert_one_line '^redislock: job: no longer held under this token: it has expired or was removed$'
}

@test "a token that cannot be written leaves no lock" {
    local status=0
    redislock --acquire job >/dev/full 2>"$ROOM/err" || status=$?
    assert_equal "$status" 71
    grep -q 'cannot write to stdout' "$ROOM/err"
    assert_no_key lock:job
}

@test "a token beyond the limit of a file's size leaves no lock" {
    run bash -c 'ulimit -f 0; "$REDISLOCK_BIN" "$@" --acquire job >"$ROOM/token" 2>&-' - -u "unix://$SOCK"
    assert_status 71
    assert_no_key lock:job
}

# --- --extend -------------------------------------------------------------------------------

@test "--extend uses -t, else the TTL that the lock was acquired with" {
    acquire -t 30 job
    rcli pexpire lock:job 5000 >/dev/null
    run --separate-stderr redislock --extend job "$TOKEN"
    assert_status 0
    assert_no_output
    assert_no_stderr
    assert_between "$(key_pttl lock:job)" 25000 30000
    redislock -t 90 --extend job "$TOKEN"
    assert_between "$(key_pttl lock:job)" 80000 90000
    REDISLOCK_TTL=120 redislock --extend job "$TOKEN"
    assert_between "$(key_pttl lock:job)" 110000 120000
}

@test "--extend of what is no longer held: 79, and it is not put back" {
    acquire job
    rcli del lock:job >/dev/null
    run --separate-stderr redislock --extend job "$TOKEN"
    assert_status 79
    assert_one_line 'it has expired or was removed$'
    assert_no_key lock:job
    hold other job
    run --separate-stderr redislock --extend job "$TOKEN"
    assert_status 79
    assert_one_line "now held by [^ ]+ \(pid $other, "
    assert_equal "$(holder_field pid lock:job)" "$other"
    let_go other
}

# --- --release ------------------------------------------------------------------------------

@test "row 20: --release tells released, expired, and held by somebody else apart" {
    acquire job
    run --separate-stderr redislock --release job "$TOKEN"
    assert_status 0
    assert_no_output
    assert_no_stderr
    assert_no_key lock:job

    run --separate-stderr redislock --release job "$TOKEN"
    assert_status 79
    assert_one_line '^redislock: job: no longer held under this token: it has expired or was removed$'

    hold other job
    run --separate-stderr redislock --release job "$TOKEN"
    assert_status 79
    assert_one_line "^redislock: job: no longer held under this token: now held by [^ ]+ \(pid $other, "
    assert_process "$(held_pid other)"
    let_go other
    assert_status 0

    rcli set lock:job foreign px 60000 >/dev/null
    run --separate-stderr redislock --release job "$TOKEN"
    assert_status 79
    assert_one_line 'now held by another program'
    assert_equal "$(rcli get lock:job)" foreign
}

@test "row 19: a release never deletes a successor's lock" {
    acquire -t 1 job
    local old=$TOKEN
    wait_until 5000 key_absent lock:job
    acquire job
    run --separate-stderr redislock --release job "$old"
    assert_status 79
    assert_equal "$(rcli get lock:job)" "$TOKEN"
}

@test "--release hands the lock to the next in line and records the run" {
    acquire job
    STAY=0 stand next job
    redislock --release job "$TOKEN"
    reap next
    assert_status 0
    assert_served next
    assert_equal "$(state_field runs job)" 2
}

@test "--release of a lock that is no longer held records no run" {
    acquire job
    rcli del lock:job >/dev/null
    run --separate-stderr redislock --release job "$TOKEN"
    assert_equal "$(state_field runs job)$(state_field losses job)" ''
}

@test "--release with --min-hold leaves a residue that nobody's token opens" {
    acquire --min-hold 60 job
    run --separate-stderr redislock --min-hold 60 --release job "$TOKEN"
    assert_status 0
    assert_equal "$(holder_field kind lock:job)" residue
    run --separate-stderr redislock --acquire job
    assert_status 75
    assert_one_line 'still held for its minimum hold after'
    run --separate-stderr redislock --release job "$TOKEN"
    assert_status 79
    assert_one_line 'now still held for its minimum hold'
    run --separate-stderr redislock --release job "$(rcli get lock:job)" # a residue is no token
    assert_status 64
    assert_key lock:job
}

@test "a token that --acquire has not printed: 64, for --extend, --release and --check" {
    acquire job
    local mode token
    for mode in --extend --release --check; do
        for token in x "$TOKEN " "${TOKEN%:*}" "x$TOKEN" "$TOKEN:" "$(printf '%02000d' 0)"; do
            run --separate-stderr redislock "$mode" job "$token"
            assert_status 64
            assert_one_line '^redislock: job: TOKEN is not what --acquire printed$'
        done
        run --separate-stderr redislock "$mode" job "$TOKEN" more
        assert_status 64
        run --separate-stderr redislock "$mode" job ''
        assert_status 64
        run --separate-stderr redislock "$mode" job
        assert_status 64
        assert_one_line 'TOKEN is missing'
    done
    assert_equal "$(rcli get lock:job)" "$TOKEN"
}

@test "a well-formed token of another lock or holder: 79" {
    acquire other
    local wrong=$TOKEN mode
    acquire job
    for mode in --extend --release --check; do
        run --separate-stderr redislock "$mode" job "$wrong"
        assert_status 79
        assert_one_line 'now held by '
    done
    assert_equal "$(rcli get lock:job)" "$TOKEN"
}

# --- --check --------------------------------------------------------------------------------

@test "--check asks, and changes nothing" {
    acquire job
    local before
    before=$(rcli --raw dump lock:job | md5sum)
    rcli pexpire lock:job 7000 >/dev/null
    run --separate-stderr redislock --check job "$TOKEN"
    assert_status 0
    assert_no_output
    assert_no_stderr
    assert_between "$(key_pttl lock:job)" 1 7000
    assert_equal "$(rcli --raw dump lock:job | md5sum)" "$before"
    rcli set lock:job foreign px 60000 >/dev/null
    run --separate-stderr redislock --check job "$TOKEN"
    assert_status 79
    assert_one_line 'now held by another program'
}

@test "REDISLOCK_TOKEN stands for TOKEN, and the operand wins" {
    acquire job
    export REDISLOCK_TOKEN=$TOKEN
    redislock --check job
    redislock --extend job
    run --separate-stderr redislock --check job "${TOKEN/held/slot1}"
    assert_status 79
    redislock --release job
    assert_no_key lock:job
    run --separate-stderr redislock --check job
    assert_status 79
}

@test "--check without a token, in a command, asks for its own run" {
    run --separate-stderr redislock job -c '"$REDISLOCK_BIN" --check && "$REDISLOCK_BIN" --check job'
    assert_status 0
    assert_no_output
    assert_no_stderr
    # shellcheck disable=SC2016 # for the command
    run --separate-stderr redislock --on-lost warn job -c '
        redis-cli -s "$SOCK" set lock:job foreign px 60000 >/dev/null
        "$REDISLOCK_BIN" --check; echo "$?"
        redis-cli -s "$SOCK" del lock:job >/dev/null
        "$REDISLOCK_BIN" --check; echo "$?"
        "$REDISLOCK_BIN" --check other; echo "$?"'
    assert_output '79
79
64'
    assert_line_stderr '^redislock: job: no longer held under this token: now held by another program'
}

@test "--check in a command knows shared holders, slots, another prefix and odd names" {
    local name
    redislock -s job -c '"$REDISLOCK_BIN" --check'
    redislock -S 3 slots -c '"$REDISLOCK_BIN" --check'
    for name in 'a b' 'a{b}c' '%' $'tab\there' 'ä€' 'x:y' '*'; do
        redislock --prefix 'my[lock]*:' "$name" -c '"$REDISLOCK_BIN" --check'
    done
    # a fence is not taken for another's: the holder who came later is not this run
    # shellcheck disable=SC2016 # for the command
    run --separate-stderr redislock -s --on-lost warn job -c '
        redis-cli -s "$SOCK" del "lock:{lock:job}:holders" >/dev/null
        TOKEN=$("$REDISLOCK_BIN" -s --acquire job)
        "$REDISLOCK_BIN" --check; echo "$?"'
    assert_output 79
}

@test "--check without a token, outside a command: 64" {
    run --separate-stderr redislock --check
    assert_status 64
    assert_one_line 'TOKEN is missing, and this is not a command that redislock runs'
    run --separate-stderr redislock --check job
    assert_status 64
}

@test "--check is one round trip" {
    proxy_start
    acquire job
    URL=$PROXY_URL lock --check job "$TOKEN" # the first may have to send the script itself
    local before
    before=$(proxy_stat trips)
    URL=$PROXY_URL lock --check job "$TOKEN"
    assert_equal "$(($(proxy_stat trips) - before))" 1
}

# --- Places, and servers that are not there -------------------------------------------------

@test "shared and slot tokens are extended, checked and released one by one" {
    local first second kind
    for kind in -s -S2; do
        acquire "$kind" -t 30 job
        first=$TOKEN
        acquire "$kind" -t 30 job
        second=$TOKEN
        [[ $first != "$second" ]]
        assert_equal "$(places job | sort)" "$(printf '%s\n' "$first" "$second" | sort)"
        redislock -t 90 --extend job "$first"
        redislock --check job "$first"
        redislock --check job "$second"
        redislock --release job "$first"
        assert_equal "$(places job)" "$second"
        run --separate-stderr redislock --release job "$first"
        assert_status 79
        run --separate-stderr redislock --extend job "$first"
        assert_status 79
        redislock --release job "$second"
        assert_equal "$(places job)" ''
    done
}

@test "a slot that was acquired is one of N, and the next waiter gets it" {
    acquire -S 1 one
    redislock --release one "$TOKEN"
    acquire -S 2 job
    local first=$TOKEN
    acquire -S 2 job
    run --separate-stderr redislock -S 2 --acquire job
    assert_status 75
    run --separate-stderr redislock -S 3 --acquire job
    assert_status 78
    stand next -S 2 job
    redislock --release job "$first"
    reap next
    assert_served next
}

@test "an unreachable server: 69, for each step" {
    acquire job
    export REDISLOCK_URL=unix://$ROOM/nobody REDISLOCK_CONNECT_TIMEOUT=100ms
    local mode
    for mode in --acquire --extend --release --check; do
        if [[ $mode == --acquire ]]; then
            run --separate-stderr redislock "$mode" job
        else
            run --separate-stderr redislock -t 1 "$mode" job "$TOKEN"
        fi
        assert_status 69
        assert_no_output
        assert_one_line 'no working Redis$'
    done
    run --separate-stderr redislock --on-error run --acquire job # no token: nothing to go on with
    assert_status 69
    assert_no_output
}

@test "a server that comes back in time is waited for" {
    redis_start own
    redis_use own
    export REDISLOCK_URL=unix://$SOCK
    acquire job
    local mode
    for mode in --check --extend --release; do
        redis_freeze own
        spawn step "$REDISLOCK_BIN" "$mode" job "$TOKEN"
        wait_until 5000 connects "$step"
        redis_thaw own
        reap step
        assert_status 0
    done
    assert_no_key lock:job
}

# The process has a socket; for wait_until.
connects() {
    readlink "/proc/$1/fd"/* | grep -q '^socket:'
}

@test "a key that holds something else: 76, and it is not touched" {
    acquire job
    rcli del lock:job >/dev/null
    rcli rpush lock:job element >/dev/null
    local mode
    for mode in --extend --release --check; do
        run --separate-stderr redislock "$mode" job "$TOKEN"
        assert_status 76
        assert_one_line "the key 'lock:job' belongs to something else"
    done
    assert_equal "$(rcli type lock:job)" list
}
