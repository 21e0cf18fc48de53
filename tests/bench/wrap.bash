# Sections wrap and refuse: what a wrapper costs that gets the lock, and one that does not.
# shellcheck shell=bash disable=SC2034,SC2154 # variables are shared with run and its parts

# pairs_table: reads what pairs prints, with flock and bare as the first two
pairs_table() {
    local label wall p99 cpu faults ratios
    while IFS=$'\t' read -r label wall p99 cpu faults ratios; do
        # shellcheck disable=SC2086 # columns
        row "$label" "$wall" "$p99" "$cpu" "$faults" $ratios
    done
}

# value LABEL COLUMN: from the table that pairs left in $room/pairs
value() {
    awk -F'\t' -v label="$1" -v column="$2" '$1 == label { print $column }' "$room/pairs"
}

columns=("wall us" "p99 us" "cpu us" "faults" "wall/flock" "cpu/flock")
columns_bare=("${columns[@]}" "wall/bare" "cpu/bare")


section_wrap() {
    local contenders=(--- "flock FILE true" "$flock" "$room/file" true
        --- "bare C, TCP" "${bare_same[@]}" true
        --- "bare C, plain recipe" "$bare" "$port" lock:bare true
        --- "redislock, TCP" "${wrapped[@]:1}" job true
        --- "redislock, Unix socket" "${local_wrapped[@]}" job true)
    if [[ -n ${REDISLOCK_STATIC-} ]]; then
        contenders+=(--- "redislock static, TCP" "$REDISLOCK_STATIC" "${wrapped[@]:2}" job true
            --- "bare C static, TCP" "${bare_static_same[@]}" true)
    fi
    contenders+=(--- "true" true)
    head_row "wrap: a lock cycle around true, $rounds rounds (cpu: user + system, without Redis's own)" \
        "" "${columns_bare[@]}"
    "$tools/pairs" -n "$rounds" -r 2 "${contenders[@]}" >"$room/pairs"
    pairs_table <"$room/pairs"
    goal "redislock over TCP to flock, wall" "$(value 'redislock, TCP' 6)" 0.88
    goal "redislock over TCP to flock, cpu" "$(value 'redislock, TCP' 7)" 0.88
    goal "redislock over TCP to bare C, wall" "$(value 'redislock, TCP' 8)" 1.05
    if [[ -n ${REDISLOCK_STATIC-} ]]; then
        goal "static redislock to flock, wall" "$(value 'redislock static, TCP' 6)" 0.75
        goal "static redislock to flock, cpu" "$(value 'redislock static, TCP' 7)" 0.75
    fi
    wrap_peers
}

wrap_peers() {
    local contenders=(--- "flock FILE true" "$flock" "$room/file" true
        --- "redislock, TCP" "${wrapped[@]:1}" job true)
    if command -v redis-cli >/dev/null; then
        contenders+=(--- "sh + redis-cli" "$here/recipe" "$port" peer true)
    else
        skip "sh + redis-cli: no redis-cli"
    fi
    if [[ -n $python ]]; then
        contenders+=(--- "python3-redis Lock" "$python" "$here/recipe.py" "$port" peer true)
    else
        skip "python3-redis Lock: no python3 with redis"
    fi
    if node_peers; then
        contenders+=(--- "npm redlock" "$node" "$here/recipe-redlock.cjs" "$port" peer true
            --- "node-redis recipe" "$node" "$here/recipe-node-redis.cjs" "$port" peer true)
    fi
    if etcd_start; then
        export ETCDCTL_API=3
        contenders+=(--- "etcdctl lock" "$etcdctl" --endpoints "$etcd_url" lock peer true)
    fi
    head_row "wrap: the peers, $slow_rounds rounds" "" "${columns[@]}"
    "$tools/pairs" -n "$slow_rounds" "${contenders[@]}" >"$room/pairs"
    pairs_table <"$room/pairs"
}

section_refuse() {
    local gate=$room/refuse.gate log=$room/refuse.log holders=() holder
    mkfifo "$gate.1" "$gate.2"
    "$flock" "$room/held" "$tools/stamp" "$log.1" 0 "$gate.1" &
    holders+=("$!")
    "${wrapped[@]:1}" same "$tools/stamp" "$log.2" 0 "$gate.2" </dev/null &
    holders+=("$!")
    wait_until 10 test -s "$log.1"
    wait_until 10 test -s "$log.2"

    local contenders=(--- "flock -n=1" "$flock" -n "$room/held" true
        --- "bare C, TCP=75" "${bare_same[@]}" true
        --- "redislock, TCP=75" "${wrapped[@]:1}" same true
        --- "redislock -q, TCP=75" "${wrapped[@]:1}" -q same true
        --- "redislock, Unix socket=75" "${local_wrapped[@]}" same true)
    if [[ -n ${REDISLOCK_STATIC-} ]]; then
        contenders+=(--- "redislock static, TCP=75" "$REDISLOCK_STATIC" "${wrapped[@]:2}" same true
            --- "bare C static, TCP=75" "${bare_static_same[@]}" true)
    fi
    contenders+=(--- "sh + redis-cli=75" "$here/recipe" "$port" same true)
    head_row "refuse: the lock is held, and the wrapper gives up at once, $rounds rounds" \
        "" "${columns_bare[@]}"
    "$tools/pairs" -n "$rounds" -r 2 "${contenders[@]}" >"$room/pairs"
    pairs_table <"$room/pairs"
    goal "redislock over TCP to flock -n, wall" "$(value 'redislock, TCP' 6)" 0.85
    goal "redislock over TCP to flock -n, cpu" "$(value 'redislock, TCP' 7)" 0.85
    if [[ -n ${REDISLOCK_STATIC-} ]]; then
        goal "static redislock to flock -n, wall" "$(value 'redislock static, TCP' 6)" 0.65
        goal "static redislock to flock -n, cpu" "$(value 'redislock static, TCP' 7)" 0.65
    fi
    : >"$gate.1"
    : >"$gate.2"
    for holder in "${holders[@]}"; do
        wait "$holder"
    done
}
