# Waiters in line, as Redis and their jobs show them. Loaded after common.bash and locks.bash by the
# suites about waiting, sharing and slots:  load lib/queue
#
# shellcheck shell=bash

GRANT_MS=3000 # that a waiter has to claim the lock it was handed
export GRANT_MS

# beside PART NAME: the key PART (queue, holders, leases, state) of the lock NAME.
beside() {
    printf 'lock:{lock:%s}:%s\n' "$2" "$1"
}

# tickets NAME: the tickets in line, first one first: MODE:EAR:TOKEN:TTL:HOST:BOOT:PID:USER:COMMAND.
tickets() {
    rcli zrange "$(beside queue "$1")" 0 -1
}

# places NAME: the values of the shared and slot holders.
places() {
    rcli zrange "$(beside holders "$1")" 0 -1
}

# in_line PID NAME, out_of_line PID NAME: for wait_until.
in_line() {
    tickets "$2" | cut -d: -f7 | grep -qx "$1"
}

out_of_line() {
    ! in_line "$1" "$2"
}

# line_is NAME NUMBER: so many tickets stand in line; for wait_until.
line_is() {
    [[ $(rcli zcard "$(beside queue "$1")") == "$2" ]]
}

# holders_are NAME NUMBER: so many share the lock or have a slot; for wait_until.
holders_are() {
    [[ $(rcli zcard "$(beside holders "$1")") == "$2" ]]
}

# What the job of a waiter does: it leaves its name and the time in $ROOM/order and the log of
# starts and ends in $ROOM/log, and stays there for MS.  job_of VAR [MS]
job_of() {
    printf 'echo %s %s >>%s/order; exec %s --log %s/log --sleep %s\n' "$1" '$PPID' "$ROOM" \
        "$WITNESS" "$ROOM" "${2:-0}"
}

# stand VAR [OPTION]... NAME: starts a waiter without limit (unless -w is among the options) as
# `spawn` does, whose job is that of `job_of VAR $STAY`, and waits until it stands in line.
# PRELOAD=… and URL=… apply.
stand() {
    local variable=$1 name=${*: -1}
    shift
    spawn "$variable" "${PRELOAD[@]}" "$REDISLOCK_BIN" -u "${URL:-unix://$SOCK}" -w inf "$@" -c "$(job_of "$variable" "${STAY:-0}")"
    if ! wait_until 10000 in_line "${!variable}" "$name" 2>/dev/null; then
        fail "$variable does not stand in line: $(cat "$ROOM/$variable.err")"
        return 1
    fi
}
PRELOAD=()

# reap_all VAR...: all of them end with status 0 and say nothing.
reap_all() {
    local variable
    for variable in "$@"; do
        reap_quiet "$variable" 20000 || return
    done
}

# assert_served WAITER...: exactly these have had their turn, in this order.
assert_served() {
    assert_equal "$(served)" "$*"
}

served() {
    [[ ! -e $ROOM/order ]] || cut -d' ' -f1 "$ROOM/order" | xargs
}

# has_run VAR: its job has begun; for wait_until.
has_run() {
    grep -q "^$1 " "$ROOM/order"
}

# began VAR: when its job began (CLOCK_BOOTTIME in ms), by the order of the two logs.
began() {
    local line
    line=$(grep -n "^$1 " "$ROOM/order" | cut -d: -f1)
    grep ^start "$ROOM/log" | sed -n "${line}p" | cut -d' ' -f2
}

# freeze PID, thaw PID
freeze() {
    kill -STOP "$1"
    wait_until 5000 process_stopped "$1"
}

thaw() {
    kill -CONT "$1"
}

# crash PID...: kill -9, and gone.
crash() {
    local pid
    kill -KILL "$@"
    for pid in "$@"; do
        wait_until 5000 process_gone "$pid"
    done
}

# scripts: how many scripts the server has run.
scripts() {
    printf '%s\n' "$(($(calls evalsha) + $(calls eval)))"
}

# scripts_reach NUMBER: for wait_until.
scripts_reach() {
    (($(scripts) >= $1))
}

# assert_all_expire: no key stands without an expiry.
assert_all_expire() {
    assert_equal "$(immortal_keys)" ''
}

# faketime_library: the path of libfaketime for programs with threads; fails where it is not installed.
faketime_library() {
    local library
    for library in /usr/lib/*/faketime/libfaketimeMT.so.1 /usr/lib64/faketime/libfaketimeMT.so.1 \
        /usr/lib/faketime/libfaketimeMT.so.1; do
        if [[ -e $library ]]; then
            printf '%s\n' "$library"
            return 0
        fi
    done
    return 1
}
