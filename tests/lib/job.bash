# What the suites about the command, its signals and its terminal have in common. They load it behind
# lib/common and lib/one_server.

# As one_server_setup, and $LOG is an empty file for what the witness tells.
job_setup() {
    one_server_setup
    LOG=$ROOM/log
    : >"$LOG"
}

# refute_line_in TEXT REGEX: no line of TEXT matches.
refute_line_in() {
    if grep -qE -- "$2" <<<"$1"; then
        fail "a line matches $2: $(grep -E -- "$2" <<<"$1")"
    fi
}

# ticker_pids FILE: the pids of all that have ticked in FILE.
ticker_pids() {
    awk '$1 == "tick" { print $3 }' "$1" | sort -u
}

# tickers FILE NUMBER: succeeds when so many processes have ticked in FILE; for wait_until.
tickers() {
    (($(ticker_pids "$1" | wc -l) >= $2))
}

# all_gone PID...: succeeds when none of them lives; for wait_until.
all_gone() {
    local pid
    for pid in "$@"; do
        process_gone "$pid" || return 1
    done
}

# signals_seen FILE NAME: how often a witness's log in FILE has that signal.
signals_seen() {
    grep -c "^signal $2 from" "$1" || true
}

# guard_of PID: the pid of the guard of redislock PID; fails while there is none.
guard_of() {
    _child_called '^redislock-guard$' "$1"
}

_child_called() {
    local children child
    read -ra children <"/proc/$2/task/$2/children"
    for child in "${children[@]}"; do
        if grep -qsE -- "$1" "/proc/$child/comm"; then
            printf '%s\n' "$child"
            return 0
        fi
    done
    return 1
}

# The time at which the lock NAME could expire at the earliest, as far as the server tells now.
expiry_of() {
    local now left
    now=$(boottime_ms)
    left=$(key_pttl "lock:$1")
    printf '%s\n' "$((now + left))"
}

# Nothing is locked: what is left is state and, after an interrupted acquisition, its tombstone; both
# go by themselves.
assert_nothing_locked() {
    local key
    while IFS= read -r key; do
        [[ -z $key || $key == *:state || $key == *:cancelled:* ]] || fail "key left: $key" || return
        [[ -z $key || $(rcli pttl "$key") != -1 ]] || fail "key without expiry: $key" || return
    done < <(rcli keys '*')
}

# ticked_after MS: succeeds when somebody has ticked in $LOG later than that; for wait_until.
ticked_after() {
    (($(last_tick "$LOG") > $1))
}

# Succeeds when nobody but the one who asks is connected; for wait_until.
only_one_client() {
    [[ $(rcli client list | wc -l) == 1 ]]
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
    # shellcheck disable=SC2034 # for the test
    CHILD=$(sed -n 's/^ready //p' "$LOG")
}

# The number of signal NAME.
number_of_signal() {
    kill -l "$1"
}
