# Scripts that lock themselves with --attach, and the keepers beside them. Loaded after common.bash
# and locks.bash:  load lib/scripts
#
# shellcheck shell=bash

# The shells, each as one word for `spawn` to take apart:  spawn one $shell "$ROOM/script"
SHELLS=(dash bash zsh 'busybox sh')
export SHELLS

# need COMMAND...: skips the test where one of them is not installed.
need() {
    local command
    for command in "$@"; do
        command -v "$command" >/dev/null || skip_or_fail "$command is not installed" || return
    done
}

# What every script here stands on: the server, and `stay`, which lasts until `go VAR`.
scripts_setup() {
    export REDISLOCK_URL=unix://$SOCK
}

# script_of NAME: writes stdin to $ROOM/NAME. In it, `stay` reports in $ROOM/inside.PID and lasts until
# `go PID`; it starts no process.
script_of() {
    {
        # shellcheck disable=SC2016 # for the script
        printf '%s\n' 'stay() { echo "$1" >"$ROOM/inside.$$"; read -r _ <"$ROOM/go.$$"; }' \
            'mkfifo "$ROOM/go.$$"'
        cat
    } >"$ROOM/$1"
}

# inside PID: the script has come to `stay`; for wait_until.
inside() {
    [[ -s $ROOM/inside.$1 ]]
}

# run_script VAR SHELL [FILE]: starts $ROOM/FILE ("script") and waits until it stays.
run_script() {
    local shell=$2
    # shellcheck disable=SC2086 # words on purpose
    spawn "$1" $shell "$ROOM/${3:-script}"
    if ! wait_until 10000 inside "${!1}" 2>/dev/null; then
        fail "the script of $1 ($shell) does not get there: $(cat "$ROOM/$1.err")"
        return 1
    fi
}

# go PID: its `stay` returns.
go() {
    echo go >"$ROOM/go.$1"
}

# keepers: the pids of the keepers that this test has started.
keepers() {
    local file pid
    while IFS= read -r file; do
        pid=${file//[!0-9]/}
        if [[ $(readlink "/proc/$pid/exe") == "$(readlink -f "$REDISLOCK_BIN")" ]] &&
            ! process_gone "$pid" && [[ $(process_session "$pid") == "$pid" ]]; then
            printf '%s\n' "$pid"
        fi
    done < <(grep -lzxF "REDISLOCKTEST_ROOM=$ROOM" /proc/[0-9]*/environ 2>/dev/null)
}

# keepers_are NUMBER: for wait_until.
keepers_are() {
    [[ $(keepers | grep -c .) == "$1" ]]
}

# freed KEY: gone soon after its script, long before it could expire (a second is promised; a busy
# machine may take another).
freed() {
    wait_until 2000 key_absent "$1" || fail "$1 is not free: $(rcli get "$1")"
}

# event_seen FILE EVENT [NUMBER]: so often, or once; for wait_until.
event_seen() {
    (($(grep -c "\"event\":\"$2\"" "$1") >= ${3:-1}))
}

# time_passed MS: CLOCK_BOOTTIME is there; for wait_until.
time_passed() {
    (($(boottime_ms) >= $1))
}
