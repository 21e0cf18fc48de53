# Real redis-servers, each in a folder of its own under $ROOM. Part of common.bash.
#
# $REDIS_SERVER is the program, redis-server unless it says otherwise.
#
# A server has a name, "main" unless another is given. What a test does not find in its own room
# it looks for in the file's (servers of setup_file).

_redis_folder() {
    REDIS_FOLDER=$ROOM/redis-$1
    if [[ ! -d $REDIS_FOLDER && -n ${FILE_ROOM-} ]]; then
        REDIS_FOLDER=$FILE_ROOM/redis-$1
    fi
}

redis_sock() {
    _redis_folder "${1:-main}"
    printf '%s\n' "$REDIS_FOLDER/sock"
}

redis_pid() {
    _redis_folder "${1:-main}"
    cat "$REDIS_FOLDER/pid"
}

# The TCP port on 127.0.0.1 (and ::1 where there is one) of a server started with --tcp.
redis_port() {
    _redis_folder "${1:-main}"
    cat "$REDIS_FOLDER/port"
}

# redis_start [NAME] [--tcp] [CONFIG ARGUMENT]...: starts a server without persistence on a Unix
# socket, with --tcp on a free port of the loopback too, and waits until it answers. "main" becomes
# the current server ($SOCK). E.g. redis_start second --tcp --requirepass secret
redis_start() {
    local name=main
    if [[ $# -gt 0 && $1 != --* ]]; then
        name=$1
        shift
    fi
    REDIS_FOLDER=$ROOM/redis-$name
    mkdir -p "$REDIS_FOLDER"
    rm -f "$REDIS_FOLDER/tcp" "$REDIS_FOLDER/port"
    if [[ ${1-} == --tcp ]]; then
        : >"$REDIS_FOLDER/tcp"
        shift
    fi
    printf '%s\0' "$@" >"$REDIS_FOLDER/arguments"
    (($# > 0)) || : >"$REDIS_FOLDER/arguments"
    _redis_launch || return
    if [[ $name == main ]]; then
        redis_use main
    fi
}

# Makes NAME the current server: of lock, rcli and the assertions about keys.
redis_use() {
    _redis_folder "$1"
    export SOCK=$REDIS_FOLDER/sock
}

# Starts the server of REDIS_FOLDER. A port that somebody else has ends the server: another is tried.
_redis_launch() {
    local try port=0 arguments=()
    mapfile -d '' arguments <"$REDIS_FOLDER/arguments"
    for ((try = 0; try < 25; try++)); do
        if [[ -f $REDIS_FOLDER/port ]]; then
            port=$(<"$REDIS_FOLDER/port") # a restart: clients know it
        elif [[ -f $REDIS_FOLDER/tcp ]]; then
            port=$((20000 + (RANDOM * 32768 + RANDOM) % 12000)) # below the ephemeral ones
        fi
        "$REDISLOCK_TOOLS/launch" --group -- "${REDIS_SERVER:-redis-server}" --port "$port" --bind 127.0.0.1 -::1 \
            --unixsocket "$REDIS_FOLDER/sock" --unixsocketperm 700 --dir "$REDIS_FOLDER" \
            --save '' --daemonize no "${arguments[@]}" \
            </dev/null >>"$REDIS_FOLDER/log" 2>&1 3>&- 4>&- &
        printf '%s' "$!" >"$REDIS_FOLDER/pid"
        _process_keep "$!"
        disown "$!" # the shell need not report its end
        if _redis_wait "$!"; then
            [[ ! -f $REDIS_FOLDER/tcp ]] || printf '%s' "$port" >"$REDIS_FOLDER/port"
            return 0
        fi
        [[ -f $REDIS_FOLDER/tcp ]] || break
    done
    fail "redis-server does not start: $(tail -n 5 "$REDIS_FOLDER/log")"
}

# Waits for an answer of server PID, of whatever kind; fails when it ends or 10 s have passed.
_redis_wait() {
    local answer end
    _now
    end=$((NOW_MS + 10000))
    while ((NOW_MS < end)) && ! process_gone "$1"; do
        answer=$(redis-cli -s "$REDIS_FOLDER/sock" ping 2>&1) || true
        case $answer in
        PONG* | *NOAUTH* | *NOPERM* | *MASTERDOWN*) return 0 ;;
        esac
        sleep 0.01
        _now
    done
    return 1
}

# redis_stop [NAME]: an orderly end.
redis_stop() {
    process_end "$(redis_pid "${1:-main}")"
}

# redis_kill9 [NAME]: a crash; the socket file stays.
redis_kill9() {
    process_end "$(redis_pid "${1:-main}")" KILL
}

# redis_freeze [NAME]: it accepts connections (the kernel does) and says nothing, until redis_thaw.
redis_freeze() {
    local pid
    pid=$(redis_pid "${1:-main}")
    kill -STOP "$pid"
    wait_until 5000 process_stopped "$pid"
}

redis_thaw() {
    kill -CONT "$(redis_pid "${1:-main}")"
}

# redis_restart [NAME]: ends it if it runs and starts it as before, on the same socket and port. The
# data is gone unless the server was started with persistence.
redis_restart() {
    redis_stop "${1:-main}"
    _redis_folder "${1:-main}"
    _redis_launch
}

# rcli ARG...: redis-cli on the current server. rcli_at NAME ARG...: on another.
rcli() {
    redis-cli -s "$SOCK" "$@"
}

rcli_at() {
    local name=$1
    shift
    redis-cli -s "$(redis_sock "$name")" "$@"
}

# key_pttl KEY: what is left of KEY in ms; -1 without expiry, -2 when it does not exist.
key_pttl() {
    rcli pttl "$1"
}

# Succeeds when KEY exists; for wait_until.
key_exists() {
    [[ $(rcli exists "$1") == 1 ]]
}

key_absent() {
    [[ $(rcli exists "$1") == 0 ]]
}

# calls COMMAND: how often the current server ran COMMAND (in small letters, e.g. pexpire).
calls() {
    local count
    count=$(rcli info commandstats | sed -n "s/^cmdstat_$1:calls=\([0-9]*\),.*/\1/p")
    printf '%s\n' "${count:-0}"
}
