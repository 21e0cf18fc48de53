# The bench's ground: a room of its own, private servers on loopback, tables. Part of run.
#
# Everything that is started is a child of this shell and ends with it, by its pid.
# shellcheck shell=bash disable=SC2034,SC2154 # variables are shared with run and its parts

# Settles who plays. A peer that is missing is said once and left out everywhere.
bench_begin() {
    room=$(mktemp -d "${TMPDIR:-/tmp}/redislock-bench.XXXXXX")
    servers=()
    goals_reached=0 goals_missed=0
    trap bench_end EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    local variable
    for variable in "${!REDISLOCK_@}" REDIS_URL REDISCLI_AUTH; do
        [[ $variable == REDISLOCK_BIN || $variable == REDISLOCK_STATIC ]] || unset "$variable"
    done
    flock=$(command -v flock || :)
    redis_server=$(command -v redis-server || :)
    etcd=$(command -v etcd || :) etcdctl=$(command -v etcdctl || :)
    python=$(python_with_redis || :)
    node=$(command -v node || :) npm=$(command -v npm || :)
    # A command is found at once: a long PATH would be measured with every wrapper alike.
    PATH=/usr/bin:/bin
    [[ -n $redis_server ]] || { echo "bench: no redis-server" >&2 && exit 1; }
    [[ -n $flock ]] || { echo "bench: no flock, and everything is measured against it" >&2 && exit 1; }
    [[ -x $bin ]] || { echo "bench: $bin is not there; make builds it" >&2 && exit 1; }
    redis_start
    bench_copy
    wrapped=(redislock "$bin" -u "redis://127.0.0.1:$port")
    local_wrapped=("$bin" -u "unix://$socket")
    bench_requests
}

# As `make install` and a package do: a file that a linker has just put together lies in the memory
# in smaller pieces, and costs a start some hundredths more.
bench_copy() {
    mkdir "$room/bin"
    cp "$tools/bare" "$tools/bare-static" "$bin" "$room/bin"
    [[ ! -e ${bin%/*}/redislock-tls.so ]] || cp "${bin%/*}/redislock-tls.so" "$room/bin"
    bin=$room/bin/${bin##*/} bare=$room/bin/bare
    if [[ -n ${REDISLOCK_STATIC-} ]]; then
        cp "$REDISLOCK_STATIC" "$room/bin/static"
        REDISLOCK_STATIC=$room/bin/static
    fi
}

# What redislock says to the server for the lock "same", for `bare -r`.
bench_requests() {
    local monitor heard said value acquire before
    "${wrapped[@]:1}" same true # the server knows the scripts, and this name
    redis-cli -s "$socket" monitor >"$room/monitor" & # no function: the kill is to meet the client
    monitor=$!
    wait_until 5 grep -q OK "$room/monitor"
    "${wrapped[@]:1}" same true
    wait_until 5 eval '(($(grep -c EVALSHA "$room/monitor") == 2))'
    kill "$monitor"
    wait "$monitor" || :
    mapfile -t heard < <(sed -n 's/^[^]]*\] "EVALSHA"/"EVALSHA"/p' "$room/monitor")
    declare -a said="(${heard[0]})"
    acquire=$(resp "${said[@]}")$'\n'
    declare -a said="(${heard[1]})"
    before=$(resp "${said[@]}")$'\n'
    value=$(grep -o 'redislock1:[0-9a-f]*:[0-9]*:held:[^"]*' <<<"${heard[1]}" | head -1)
    bare_same=("$bare" -r "$acquire" "${before%%"$value"*}" "${before#*"$value"}" "$port")
    bare_static_same=("$bare-static" "${bare_same[@]:1}")
}

# resp WORD...: a command as it goes over the wire
resp() {
    local word
    printf '*%d\r\n' "$#"
    for word; do
        printf '$%d\r\n%s\r\n' "${#word}" "$word"
    done
}

bench_end() {
    local pid gate
    for gate in "${room-/nowhere}"/*.gate.*; do
        [[ ! -p $gate ]] || : <>"$gate" # whoever waits there goes on, and ends
    done
    for pid in "${servers[@]}" $(jobs -p); do
        kill "$pid" 2>/dev/null || continue
        wait "$pid" 2>/dev/null || :
    done
    [[ -z ${room-} ]] || rm -rf "$room"
}

python_with_redis() {
    local candidate
    for candidate in python3 /usr/bin/python3; do
        if "$candidate" -c 'import redis' 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
    return 1
}

# wait_until SECONDS COMMAND...
wait_until() {
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        ((SECONDS < end)) || return 1
        sleep 0.02
    done
}

rcli() {
    redis-cli -s "$socket" "$@"
}

# Ours, and not somebody else's that had the port before.
redis_is() {
    rcli info server 2>/dev/null | grep -q "^process_id:$1"$'\r' || ! kill -0 "$1" 2>/dev/null
}

# No persistence: what a disk does is not the question. Sets $port and $socket.
redis_start() {
    local try pid
    socket=$room/redis.sock
    for try in 1 2 3 4 5; do
        port=$((20000 + (RANDOM + try) % 10000))
        "$redis_server" --bind 127.0.0.1 --port "$port" --unixsocket "$socket" --dir "$room" \
            --save '' --appendonly no --maxclients 10000 --daemonize no >"$room/redis.log" 2>&1 &
        pid=$!
        wait_until 5 redis_is "$pid" && kill -0 "$pid" 2>/dev/null && servers+=("$pid") && return
        kill "$pid" 2>/dev/null || :
    done
    echo "bench: redis-server does not start" >&2
    exit 1
}

etcd_answers() {
    ETCDCTL_API=3 "$etcdctl" --endpoints "$etcd_url" endpoint health >/dev/null 2>&1
}

# Started when first asked for. False (said once) where it is missing.
etcd_start() {
    [[ -z ${etcd_url-} ]] || return 0
    if [[ -z $etcd || -z $etcdctl ]]; then
        skip "etcdctl lock: no etcd or etcdctl"
        return 1
    fi
    local first=$((30000 + RANDOM % 9000))
    local peer="http://127.0.0.1:$((first + 1))"
    etcd_url="http://127.0.0.1:$first"
    "$etcd" --name bench --data-dir "$room/etcd" --listen-client-urls "$etcd_url" \
        --advertise-client-urls "$etcd_url" --listen-peer-urls "$peer" \
        --initial-advertise-peer-urls "$peer" --initial-cluster "bench=$peer" \
        >"$room/etcd.log" 2>&1 &
    servers+=("$!")
    wait_until 15 etcd_answers && return
    skip "etcdctl lock: etcd does not start"
    etcd='' etcd_url=''
    return 1
}

# node_peers: installs what is asked for from npm, into a folder of the bench's own. False (said
# once) where that cannot be.
node_peers() {
    local words="redlock@4.2 ioredis@6 redis@6"
    local folder=$tools/node
    if [[ -z $node || -z $npm ]]; then
        skip "npm redlock, node-redis: no node or npm"
        return 1
    fi
    export NODE_PATH=$folder/node_modules
    [[ $(cat "$folder/installed" 2>/dev/null) != "$words" ]] || return 0
    mkdir -p "$folder"
    # shellcheck disable=SC2086 # words are what is wanted
    if ! timeout 120 "$npm" install --silent --no-audit --no-fund --prefix "$folder" $words \
        </dev/null >"$room/npm.log" 2>&1; then
        skip "npm redlock, node-redis: npm cannot install them"
        return 1
    fi
    echo "$words" >"$folder/installed"
}

declare -A skipped=()
skip() {
    [[ -z ${skipped[$1]-} ]] || return 0
    skipped[$1]=1
    echo "  (left out: $1)"
}

# --- Tables --------------------------------------------------------------------------------------

machine() {
    local model
    model=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1)
    echo "machine: ${model:-unknown processor}, $(nproc) cores, Linux $(uname -r); load $(cut -d' ' -f1 /proc/loadavg)"
    echo "versions: $("$bin" --version), $("$redis_server" --version | cut -d' ' -f1-3), $("$flock" --version)"
}

# head_row TITLE COLUMN...: what is measured, and then what each column holds
head_row() {
    printf '\n%s\n' "$1"
    shift
    row "$@"
}

row() {
    local label=$1
    shift
    printf '  %-30s' "$label"
    printf ' %11s' "$@"
    printf '\n'
}

# goal WHAT VALUE LIMIT: VALUE is to be at most LIMIT
goal() {
    if awk -v value="$2" -v limit="$3" 'BEGIN { exit !(value <= limit) }'; then
        goals_reached=$((goals_reached + 1))
        echo "  goal reached: $1: $2, at most $3"
    else
        goals_missed=$((goals_missed + 1))
        echo "  goal missed:  $1: $2, at most $3"
    fi
}

# info_number FILE FIELD: a number from INFO's answer, 0 where it is missing
info_number() {
    awk -F: -v field="$2" '$1 == field { number = $2 + 0 } END { printf "%d\n", number }' "$1"
}

# scripts FILE: how many scripts INFO commandstats has counted
scripts() {
    tr '=,:' '   ' <"$1" |
        awk '/^cmdstat_(eval|evalsha|fcall) / { sum += $3 } END { printf "%d\n", sum }'
}

# ratio A B [DIGITS]
ratio() {
    awk -v a="$1" -v b="$2" -v digits="${3:-2}" \
        'BEGIN { if (b > 0) printf "%.*f\n", digits, a / b; else print "-" }'
}
