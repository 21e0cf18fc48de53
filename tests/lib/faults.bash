# Trouble on order: a proxy that misbehaves, a server that talks nonsense, a terminal, a witness.
# Part of common.bash; the tools explain themselves with --help.

# _listener_start WHAT COMMAND...: starts a tool that listens, adding --listen and --port-file; sets
# LISTENER_URL once it does. With LISTENER_TCP=1 on a free port of the loopback.
_listener_start() {
    local base=$ROOM/$1 listen=unix:$ROOM/$1.sock
    shift
    [[ ${LISTENER_TCP:-0} == 0 ]] || listen=tcp
    rm -f "$base.port"
    "$REDISLOCK_TOOLS/launch" --group -- "$@" --listen "$listen" --port-file "$base.port" \
        </dev/null >"$base.log" 2>&1 3>&- 4>&- &
    _process_keep "$!"
    disown "$!" # the shell need not report its end
    if ! wait_until 5000 test -s "$base.port" 2>/dev/null; then
        fail "${1##*/} does not start: $(<"$base.log")"
        return 1
    fi
    LISTENER_URL=unix://$base.sock
    [[ $listen != tcp ]] || LISTENER_URL=redis://127.0.0.1:$(<"$base.port")
}

# proxy_start [--tcp]: a proxy in front of the current server; sets PROXY_URL. A second call starts
# a second one, and proxy_do then means that.
proxy_start() {
    local number=1 LISTENER_TCP=0
    while [[ -e $ROOM/proxy-$number.port ]]; do
        number=$((number + 1))
    done
    [[ ${1-} != --tcp ]] || LISTENER_TCP=1
    PROXY_CONTROL=$ROOM/proxy-$number.control
    _listener_start "proxy-$number" "$REDISLOCK_TOOLS/proxy" --target "unix:$SOCK" \
        --control "$PROXY_CONTROL" || return
    export PROXY_CONTROL PROXY_URL=$LISTENER_URL
}

# proxy_do COMMAND...: e.g. proxy_do next cut-after 17 s2c. In force when it returns.
proxy_do() {
    local answer
    if ! answer=$("$REDISLOCK_TOOLS/proxy" --do "$PROXY_CONTROL" "$@"); then
        fail "proxy $*: $answer"
        return 1
    fi
    [[ $answer == ok ]] || printf '%s\n' "${answer#ok }"
}

# proxy_stat WHAT: connections, open, c2s, s2c (bytes) or trips (round trips).
proxy_stat() {
    local stats
    stats=" $(proxy_do stats) "
    stats=${stats#* "$1" }
    printf '%s\n' "${stats%% *}"
}

# proxy_saw WHAT NUMBER: succeeds when that statistic has reached NUMBER; for wait_until.
proxy_saw() {
    (($(proxy_stat "$1") >= $2))
}

# talker_start [--tcp] [--repeat-last] [--per-connection] ITEM...: a server that answers with these
# items, each a line of the talker's script. Sets TALKER_URL and TALKER_LOG (the commands it got).
talker_start() {
    local number=1 options=() LISTENER_TCP=0
    while [[ -e $ROOM/talker-$number.port ]]; do
        number=$((number + 1))
    done
    while [[ ${1-} == --* ]]; do
        if [[ $1 == --tcp ]]; then
            LISTENER_TCP=1
        else
            options+=("$1")
        fi
        shift
    done
    printf '%s\n' "$@" >"$ROOM/talker-$number.script"
    TALKER_LOG=$ROOM/talker-$number.commands
    : >"$TALKER_LOG"
    _listener_start "talker-$number" "$REDISLOCK_TOOLS/talker" "${options[@]}" \
        --script "$ROOM/talker-$number.script" --log "$TALKER_LOG" || return
    export TALKER_LOG TALKER_URL=$LISTENER_URL
}

# on_pty COMMAND... <<SCRIPT: runs COMMAND on a terminal of its own; the steps are on stdin.
# Fails when an expectation does; `run on_pty …` puts the screen into $output.
on_pty() {
    "$REDISLOCK_TOOLS/pty" -- "$@"
}

# witness ARG...: the witness, here and now. As a job's command it is "$WITNESS".
WITNESS=$REDISLOCK_TOOLS/witness
export WITNESS
witness() {
    "$WITNESS" "$@"
}

# witness_field FILE NAME: the value of line NAME ("pid", "arg 1", "fd 0", "SigIgn") of a report.
witness_field() {
    sed -n "s/^$2 //p" "$1"
}

# mask_has HEX SIGNAL: succeeds when SIGNAL (a name) is in a mask as a report shows it.
mask_has() {
    local number
    number=$(kill -l "$2")
    (((16#$1 >> (number - 1)) & 1))
}

# last_tick FILE: the time of the last tick in FILE, of any process.
last_tick() {
    awk '$1 == "tick" && $2 > last { last = $2 } END { print last + 0 }' "$1"
}

# assert_no_overlap FILE: in a --log of several witnesses each start is followed by its own end.
assert_no_overlap() {
    awk '$1 == "start" { if (inside != "") { print "both inside: " inside ", " $3; bad = 1 }
                         inside = $3 }
         $1 == "end" { if (inside != $3) { print "end without start: " $3; bad = 1 }
                       inside = "" }
         END { exit bad }' "$1" >&2
}
