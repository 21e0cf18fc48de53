# Processes and time: start in the background, wait with a bound, end by pid. Part of common.bash.

# fail TEXT...: ends the test with TEXT.
fail() {
    printf '%s\n' "$*" >&2
    return 1
}

# Sets NOW_MS to the kernel's boot time in ms, 10 ms coarse, without starting a process.
_now() {
    local uptime
    read -r uptime _ </proc/uptime
    NOW_MS=$((10#${uptime/./} * 10))
}

# Prints CLOCK_BOOTTIME in ms: the clock of the product, of ticks and of exclusion logs.
boottime_ms() {
    "$REDISLOCK_TOOLS/witness" --now
}

# wait_until MS COMMAND...: runs COMMAND every 10 ms until it succeeds; fails after MS.
wait_until() {
    local limit=$1 end
    shift
    _now
    end=$((NOW_MS + limit))
    until "$@" >/dev/null 2>&1; do
        _now
        if ((NOW_MS >= end)); then
            fail "not true within $limit ms: $*"
            return 1
        fi
        sleep 0.01
    done
}

# is_past MS: the boot time has come to that; for wait_until.
is_past() {
    _now
    ((NOW_MS >= $1))
}

# wait_for_line FILE REGEX [MS]: until a line of FILE matches the extended REGEX; 10 s at most.
wait_for_line() {
    wait_until "${3:-10000}" grep -qE -- "$2" "$1"
}

# Sets STATE, GROUP, SESSION and BORN (start time) of process $1; fails when there is no such process.
_process_look() {
    local line rest
    read -r line 2>/dev/null <"/proc/$1/stat" || return 1
    rest=${line##*) }
    # shellcheck disable=SC2086 # words on purpose
    set -- $rest
    STATE=$1 GROUP=$3 SESSION=$4 BORN=${20}
}

process_group() {
    _process_look "$1" && printf '%s\n' "$GROUP"
}

process_session() {
    _process_look "$1" && printf '%s\n' "$SESSION"
}

# Succeeds when process PID is gone, or dead and only not yet collected by its parent.
process_gone() {
    ! _process_look "$1" || [[ $STATE == [ZX] ]]
}

# Succeeds when process PID is stopped.
process_stopped() {
    _process_look "$1" && [[ $STATE == T ]]
}

# Notes that PID is ours, with its start time: pids are used again.
_process_keep() {
    if _process_look "$1"; then
        printf '%s' "$BORN" >"$ROOM/pids/$1"
    fi
}

# process_end PID [SIGNAL] [MS]: sends SIGNAL (TERM), KILL after MS (5 s), and waits for the death.
process_end() {
    local pid=$1 signal=${2:-TERM} patience=${3:-5000}
    kill -"$signal" "$pid" 2>/dev/null || true
    # not at one that ends just now: a leak sanitizer stops that one to look at it, and would wait for ever
    ! process_stopped "$pid" || kill -CONT "$pid" 2>/dev/null || true
    if ! wait_until "$patience" process_gone "$pid" 2>/dev/null; then
        kill -KILL "$pid" 2>/dev/null || true
        wait_until 5000 process_gone "$pid"
    fi
    wait "$pid" 2>/dev/null || true # collects it where it is a child of this shell
}

# Kills everything of this scope: what was noted, with its group, and strays that carry its mark.
processes_end() {
    local file pid
    for file in "$ROOM"/pids/*; do
        pid=${file##*/}
        [[ -f $file ]] || continue
        if _process_look "$pid" && [[ $BORN == "$(<"$file")" ]]; then
            kill -KILL -- "-$pid" 2>/dev/null || true
            process_end "$pid" KILL
        fi
        rm -f "$file"
    done
    for pid in $(_strays); do
        kill -KILL "$pid" 2>/dev/null || true
    done
}

# Prints the pids of living processes that were started with this scope's mark in the environment.
_strays() {
    local file pid
    while IFS= read -r file; do
        pid=${file//[!0-9]/}
        [[ $pid == "$BASHPID" || $pid == "$$" ]] || printf '%s\n' "$pid"
    done < <(grep -lzxF "REDISLOCKTEST_ROOM=$ROOM" /proc/[0-9]*/environ 2>/dev/null)
}

# spawn VAR [LAUNCH-OPTION...] COMMAND...: starts COMMAND (also `lock …`) in the background.
# VAR becomes its pid, which leads a process group of its own, with default signal dispositions and
# an empty mask unless options of the launch tool say otherwise (--ignore SIG --block SIG --close FD
# --open FD --session). stdin is ${SPAWN_STDIN:-/dev/null}, stdout and stderr go to $ROOM/VAR.out
# and $ROOM/VAR.err. `reap VAR` waits for it.
spawn() {
    local -n _pid=$1
    local _out=$ROOM/$1 _options=(--group)
    shift
    while [[ $1 == --* ]]; do
        case $1 in
        --session) _options=("$1") && shift ;;
        *) _options+=("$1" "$2") && shift 2 ;;
        esac
    done
    if [[ $1 == lock ]]; then
        shift
        set -- "$REDISLOCK_BIN" -u "${URL:-unix://$SOCK}" "$@"
    fi
    "$REDISLOCK_TOOLS/launch" "${_options[@]}" -- "$@" \
        <"${SPAWN_STDIN:-/dev/null}" >"$_out.out" 2>"$_out.err" 3>&- 4>&- &
    # shellcheck disable=SC2034 # a reference
    _pid=$!
    _process_keep "$!"
}

# reap VAR [MS]: waits (10 s at most) for what `spawn VAR` started and sets status, output, lines,
# stderr and stderr_lines as `run --separate-stderr` does.
# shellcheck disable=SC2034 # for the test
reap() {
    local pid=${!1} out=$ROOM/$1
    if ! wait_until "${2:-10000}" process_gone "$pid" 2>/dev/null; then
        fail "$1 (pid $pid) has not ended within ${2:-10000} ms; it said: $(cat "$out.err")"
        return 1
    fi
    status=0
    wait "$pid" 2>/dev/null || status=$?
    rm -f "$ROOM/pids/$pid"
    output=$(<"$out.out") stderr=$(<"$out.err")
    mapfile -t lines <"$out.out"
    mapfile -t stderr_lines <"$out.err"
}
