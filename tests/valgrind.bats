#!/usr/bin/env bats
# The main path under valgrind: no byte is read that was not written, none is left allocated, and no
# descriptor stays open but those that a run holds to its end: its signalfd, the timers of its lease,
# and the eventfd on which its keeper tells of a loss.
#
# What valgrind cannot run is not here: it knows no pidfd, which --attach needs, and makes a fork of
# vfork, so that a command which cannot be executed looks like another.

load lib/common
load lib/one_server
load lib/job

setup() {
    one_server_setup
    LOG=$ROOM/log
    export REDISLOCK_URL=unix://$SOCK
    CHECKED=(valgrind --track-fds=yes --leak-check=full --show-leak-kinds=all
        --errors-for-leak-kinds=all --error-exitcode=99 --log-file="$ROOM/valgrind.%p" "$REDISLOCK_BIN")
}

# checked ARG...: redislock under valgrind; sets what `run` sets.
checked() {
    run --separate-stderr "${CHECKED[@]}" "$@"
}

# Who may leave one open: our functions, or in a program without names, as packages have it, the system's.
may_leave_open() {
    if readelf -SW "$REDISLOCK_BIN" | grep -q ' \.symtab '; then
        echo 'signals_open|signals_before_child|inside_settle|keep_start'
    else
        echo 'signalfd|timerfd_create|eventfd'
    fi
}

# Of each process that has come to its end: its errors, and what it has left open, by the functions
# which opened it.
assert_clean() {
    local file ended=0 may
    may=$(may_leave_open)
    for file in "$ROOM"/valgrind.*; do
        grep -q 'ERROR SUMMARY' "$file" || continue # killed, as a guard is
        ended=$((ended + 1))
        grep -q 'ERROR SUMMARY: 0 errors' "$file" || fail "$(cat "$file")" || return
        awk -v may=" ($may) \\\\(" '/Open (file descriptor|AF_|unix|.*socket)/ { open = $0; if (/<inherited/) open = "" }
            open && /<inherited from parent>/ { open = "" }
            open && $0 ~ may { open = "" }
            open && /^==[0-9]+== *$/ { print open; open = ""; bad = 1 }
            END { exit bad }' "$file" || fail "left open: $(cat "$file")" || return
    done
    ((ended >= ${1:-1})) || fail "only $ended processes came to an end under valgrind"
}

@test "a short run: clean, and its command has the caller's descriptors" {
    local own
    own=$("$WITNESS" --report | grep '^fd [3-9]' || true)
    checked job -- "$WITNESS" --report --exit 7
    assert_status 7
    assert_clean
    # valgrind's logs are inherited as well, but for them there is nothing
    assert_equal "$(grep '^fd [3-9]' <<<"$output" | grep -v "$ROOM/valgrind" || true)" "$own"
}

@test "a run with guard and keeper" {
    checked -v -t 6s job -- "$WITNESS" --sleep 2500
    assert_status 0
    assert_line_stderr 'extended the lock'
    assert_clean
}

@test "a bad option" {
    checked --ttl never job -- true
    assert_status 64
    assert_clean
}

@test "a held lock is refused, and waited for" {
    spawn holder lock job -- "$WITNESS" --out "$ROOM/ready" --signals inf --exit-on TERM
    wait_for_line "$ROOM/ready" '^ready '
    checked job -- true
    assert_status 75
    spawn waiter "${CHECKED[@]}" -w 1m job -- "$WITNESS" --exit 7
    wait_until 30000 key_exists 'lock:{lock:job}:queue'
    kill -TERM "$holder"
    reap holder
    reap waiter 30000
    assert_status 7
    assert_clean 2
}

@test "shared and slot holders" {
    checked -s many -- "$WITNESS" --exit 3
    assert_status 3
    checked -S 3 slots -- "$WITNESS" --exit 4
    assert_status 4
    assert_clean 2
}

@test "configuration, environment and password file" {
    printf 'REDISLOCK_TTL = "30s"\n# a line\nREDISLOCK_MIN_HOLD=1ms\n' >"$ROOM/conf"
    printf 'secret\n' >"$ROOM/password"
    redis_start locked --requirepass secret
    REDISLOCK_URL="unix://$(redis_sock locked)?db=2"
    checked --config "$ROOM/conf" --password-file "$ROOM/password" job -c 'exit 5'
    assert_status 5
    assert_clean
}

@test "the single steps" {
    checked --acquire job
    assert_status 0
    local token=$output
    checked --extend job "$token"
    assert_status 0
    checked --check job "$token"
    assert_status 0
    checked --release job "$token"
    assert_status 0
    checked --release job "$token"
    assert_status 79
    assert_clean 5
}

@test "looking: --status, --list, --unlock, --doctor" {
    token=$("$REDISLOCK_BIN" --acquire job)
    checked --status job
    assert_status 75
    checked --list --json
    assert_status 0
    checked --unlock --force job
    assert_status 0
    checked --doctor
    assert_status 0
    assert_clean 4
}

@test "a quorum of three" {
    redis_start second
    redis_start third
    REDISLOCK_URL="unix://$SOCK unix://$(redis_sock second) unix://$(redis_sock third)"
    redis_use main
    checked job -- "$WITNESS" --exit 6
    assert_status 6
    assert_clean
}
