# Sections tls, quorum, link and failover: what it costs to be safe against more than one's own crash.
# shellcheck shell=bash disable=SC2034,SC2154 # variables are shared with run and its parts

# server_at PORT ARG...: one more server, on the loopback; it ends with the bench.
server_at() {
    local own_port=$1
    shift
    mkdir -p "$room/at-$own_port"
    (cd "$room/at-$own_port" && exec "$redis_server" --bind 127.0.0.1 --save '' "$@" >log 2>&1) &
    servers+=("$!")
    last_server=$!
    disown "$last_server" # its end needs no report
}

answers_at() {
    [[ $(redis-cli -p "$1" ping 2>&1) == PONG ]]
}

# A start with a handshake, beside one command of redis-cli, and beside the recipe's two.
section_tls() {
    local secure=$((20000 + RANDOM % 5000)) certificate=$room/tls
    if ! openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 \
        -subj /CN=localhost -addext subjectAltName=DNS:localhost,IP:127.0.0.1 \
        -keyout "$certificate.key" -out "$certificate.crt" 2>/dev/null; then
        skip "tls: no openssl"
        return
    fi
    server_at "$secure" --port 0 --tls-port "$secure" --tls-cert-file "$certificate.crt" \
        --tls-key-file "$certificate.key" --tls-ca-cert-file "$certificate.crt" --tls-auth-clients no
    wait_until 10 tls_answers || { skip "tls: redis-server without TLS" && return; }
    head_row "tls: a lock cycle around true over TLS, $slow_rounds rounds" "" "wall us" "p99 us" \
        "cpu us" "faults" "wall/one" "cpu/one"
    local options=(-u "rediss://localhost:$secure" --cacert "$certificate.crt" job true) static=()
    [[ -z ${REDISLOCK_STATIC-} ]] ||
        static=(--- "redislock static, rediss://" "$REDISLOCK_STATIC" "${options[@]}")
    "$tools/pairs" -n "$slow_rounds" \
        --- "redis-cli --tls, one command" redis-cli --tls --cacert "$certificate.crt" -h localhost \
        -p "$secure" set tls-peer 1 \
        --- "sh + redis-cli --tls" env RECIPE_OPTIONS="--tls --cacert $certificate.crt -h localhost" \
        "$here/recipe" "$secure" peer true \
        --- "redislock, rediss://" "$bin" "${options[@]}" "${static[@]}" \
        --- "redislock, redis://" "${wrapped[@]:1}" job true >"$room/pairs"
    pairs_table <"$room/pairs"
    goal "redislock over TLS to one command of redis-cli --tls, wall" "$(value 'redislock, rediss://' 6)" 1.0
    [[ -z ${REDISLOCK_STATIC-} ]] || goal "static redislock over TLS to the same, wall" \
        "$(value 'redislock static, rediss://' 6)" 1.0
}

tls_answers() {
    [[ $(redis-cli --tls --cacert "$certificate.crt" -h localhost -p "$secure" ping 2>&1) == PONG ]]
}

# Two rounds to acquire (the second makes the fences one) and one to release, beside one and one.
section_quorum() {
    local urls
    five_servers
    quorum_table "$rounds" "quorum: a lock cycle around true" "" "${urls[@]}"
}

# quorum_table ROUNDS TITLE WHERE URL...: one, three and all five of the servers beside each other; WHERE
# stands in the goals.
quorum_table() {
    local times=$1 title=$2 where=$3
    shift 3
    head_row "$title, $times rounds" "" "wall us" "p99 us" "cpu us" "faults" "wall/one" "cpu/one"
    "$tools/pairs" -n "$times" \
        --- "1 server" "$bin" -u "$1" job true \
        --- "3 servers" "$bin" -u "$1 $2 $3" quorum true \
        --- "5 servers" "$bin" -u "$*" quorum true >"$room/pairs"
    pairs_table <"$room/pairs"
    goal "a quorum of three to one server$where, wall" "$(value '3 servers' 6)" 1.5
    goal "a quorum of five to one server$where, wall" "$(value '5 servers' 6)" 1.5
}

# far_away URL: sets `far` to the same server behind a link that takes link_ms each way.
far_away() {
    local name=$room/link-${1##*:}
    "$proxy" --listen tcp --port-file "$name.port" --target "tcp:${1##*:}" --control "$name.sock" \
        </dev/null >"$name.log" 2>&1 &
    servers+=("$!")
    disown "$!"
    wait_until 10 test -s "$name.port"
    "$proxy" --do "$name.sock" delay "$link_ms" >/dev/null
    far=redis://127.0.0.1:$(<"$name.port")
}

# The same where the way to the servers is what takes the time: round trips, beside each other. The
# link is a proxy, which delays bytes; connecting takes no trip through it, for none of them.
section_link() {
    local urls url far all=()
    if [[ ! -x $proxy ]]; then
        skip "link: no $proxy; make tests builds it"
        return
    fi
    five_servers
    for url in "${urls[@]}"; do
        far_away "$url"
        all+=("$far")
    done
    quorum_table "$slow_rounds" "link: a lock cycle around true, $link_ms ms each way" " over a link" \
        "${all[@]}"
}

# five_servers: sets `urls` to five servers that answer.
five_servers() {
    local first=$((25000 + RANDOM % 4000)) i
    urls=()
    for i in 0 1 2 3 4; do
        server_at $((first + i)) --port $((first + i))
        urls+=("redis://127.0.0.1:$((first + i))")
        wait_until 10 answers_at $((first + i))
    done
}

now_ms() {
    printf '%s\n' "$(($(date +%s%N) / 1000000))"
}

# The master is killed under a job and a waiter; a sentinel promotes the replica; the job ends.
section_failover() {
    local round master replica sentinel holder waiter died promoted ended started
    head_row "failover: kill -9 of the master with a waiter in line, ms (down-after 500)" "" \
        "promoted" "after that" "in line"
    for round in 1 2 3; do
        master=$((20000 + RANDOM % 3000)) replica=$((23000 + RANDOM % 3000)) sentinel=$((26000 + RANDOM % 3000))
        failover_world || { skip "failover: the sentinel is not ready" && return; }
        rm -f "$room/started"
        "$bin" -u "$url" -t 60 job sleep 60 </dev/null &
        holder=$!
        wait_until 10 failover_key "$master" lock:job
        "$bin" -u "$url" -w inf job touch "$room/started" </dev/null &
        waiter=$!
        wait_until 10 failover_key "$replica" '{lock:job}'
        died=$(now_ms)
        kill -KILL "$failover_master"
        wait_until 60 promoted_at || { skip 'failover: nobody was promoted' && return; }
        promoted=$(now_ms)
        wait_until 60 failover_waits
        ended=$(now_ms)
        kill -TERM "$holder"
        wait_until 70 test -e "$room/started"
        started=$(now_ms)
        wait "$waiter" "$holder" 2>/dev/null || :
        row "round $round" "$((promoted - died))" "$((started - ended))" "$((ended - promoted))"
    done
}

failover_world() {
    server_at "$master" --port "$master"
    failover_master=$last_server
    wait_until 10 answers_at "$master" || return
    server_at "$replica" --port "$replica" --replicaof 127.0.0.1 "$master" --repl-diskless-sync-delay 0
    printf '%s\n' "port $sentinel" 'bind 127.0.0.1' "sentinel monitor m 127.0.0.1 $master 1" \
        'sentinel down-after-milliseconds m 500' 'sentinel failover-timeout m 3000' >"$room/at-$replica.conf"
    "$redis_server" "$room/at-$replica.conf" --sentinel >"$room/sentinel.log" 2>&1 &
    servers+=("$!")
    url=redis+sentinel://127.0.0.1:$sentinel/m
    wait_until 20 failover_known
}

failover_known() {
    redis-cli -p "$sentinel" sentinel replicas m 2>/dev/null | grep -A1 '^master-link-status$' | grep -q '^ok$'
}

failover_key() {
    redis-cli -p "$1" --scan 2>/dev/null | grep -qF -- "$2"
}

promoted_at() {
    [[ $(redis-cli -p "$replica" role | head -1) == master ]]
}

# The waiter stands in line at the new master, and listens.
failover_waits() {
    [[ -n $(redis-cli -p "$replica" pubsub channels '*queue*') ]]
}
