# Sections rate, held and names: what many processes, many holders and many names cost.
# shellcheck shell=bash disable=SC2034,SC2154 # variables are shared with run and its parts

now_us() {
    printf '%s\n' "$(($(date +%s%N) / 1000))"
}

# median_of NUMBER...
median_of() {
    printf '%s\n' "$@" | sort -n | sed -n "$((($# + 1) / 2))p"
}

# --- rate ----------------------------------------------------------------------------------------

# cycles COMMAND...: how many a second, where {} stands for one of $rate_count names
cycles() {
    local began
    began=$(now_us)
    seq "$rate_count" | xargs -P "$parallel" -I'{}' "$@" >/dev/null 2>&1 || {
        echo "bench: a cycle of '$1' failed" >&2
        return 1
    }
    printf '%s\n' $((rate_count * 1000000 / ($(now_us) - began)))
}

# The names are all different, so that nobody is refused; the first turn makes them and is not counted.
section_rate() {
    local turn peer
    local -A rates=()
    local labels=("true" "flock FILE true" "redislock, TCP" "redislock, Unix socket")
    mkdir "$room/rate"
    [[ -z ${REDISLOCK_STATIC-} ]] || labels+=("redislock static, TCP")
    for turn in 0 1 2 3 4 5; do
        for peer in "${labels[@]}"; do
            rate_words "$peer"
            ((turn == 0)) && { cycles "${words[@]}" >/dev/null || return; }
            ((turn == 0)) || rates[$peer]+=" $(cycles "${words[@]}")"
        done
    done
    rm -r "$room/rate"
    head_row "rate: $rate_count lock cycles around true by xargs -P $parallel, median of 5 turns" \
        "" "cycles/s" "to flock"
    for peer in "${labels[@]}"; do
        # shellcheck disable=SC2086 # words are what is wanted
        rates[$peer]=$(median_of ${rates[$peer]})
    done
    for peer in "${labels[@]}"; do
        row "$peer" "${rates[$peer]}" "$(ratio "${rates[$peer]}" "${rates[flock FILE true]}" 3)"
    done
    goal "flock's cycles per second to redislock's" \
        "$(ratio "${rates[flock FILE true]}" "${rates[redislock, TCP]}" 3)" 1.0
    [[ -z ${REDISLOCK_STATIC-} ]] || goal "flock's cycles per second to the static redislock's" \
        "$(ratio "${rates[flock FILE true]}" "${rates[redislock static, TCP]}" 3)" 1.0
}

# Sets `words` to what a peer runs for the name {}.
rate_words() {
    case $1 in
    true) words=(true '{}') ;;
    flock*) words=("$flock" "$room/rate/{}" true) ;;
    *Unix*) words=("${local_wrapped[@]}" 'rate-{}' true) ;;
    *static*) words=("$REDISLOCK_STATIC" "${wrapped[@]:2}" 'rate-{}' true) ;;
    *) words=("${wrapped[@]:1}" 'rate-{}' true) ;;
    esac
}

# --- held ----------------------------------------------------------------------------------------

# One server for itself, whose keys are the locks alone. Sets $far_port.
own_server() {
    far_port=$((30000 + RANDOM % 2000))
    server_at "$far_port" --port "$far_port" --maxclients 10000
    own_pid=$last_server
    wait_until 10 answers_at "$far_port"
}

own_server_end() {
    kill "$own_pid" 2>/dev/null || :
}

# held_is COUNT: each lock is two keys, its value and what is remembered of it
held_is() {
    (($(redis-cli -p "$far_port" dbsize) == 2 * $1))
}

held_more() {
    while ((${#holding[@]} < $1)); do
        "$bin" -u "redis://127.0.0.1:$far_port" -t "$held_ttl" "held-${#holding[@]}" sleep 900 \
            </dev/null >/dev/null 2>&1 &
        holding+=("$!")
    done
    wait_until 120 held_is "$1" || { echo "bench: $1 locks are not held after 120 s" >&2 && return 1; }
}

held_alive() {
    local pid alive=0
    for pid in "${holding[@]}"; do
        ! kill -0 "$pid" 2>/dev/null || alive=$((alive + 1))
    done
    echo "$alive"
}

# held_window: the server over two turns of extensions; sets $busy (us) and $calls
held_window() {
    redis-cli -p "$far_port" info all >"$room/held.1"
    sleep $((2 * held_ttl / 3))
    redis-cli -p "$far_port" info all >"$room/held.2"
    busy=$(($(server_us "$room/held.2") - $(server_us "$room/held.1")))
    calls=$(($(scripts "$room/held.2") - $(scripts "$room/held.1")))
}

# The time without a lock is the server's own and taken off.
section_held() {
    local far_port own_pid last_server count busy calls idle empty used missing=0 each holding=()
    local window=$((2 * held_ttl / 3))
    own_server
    held_window
    idle=$busy empty=$(info_number "$room/held.2" used_memory)
    head_row "held: locks held at once, extended every third of $held_ttl s, for $window s each (redis idle: $((idle / window)) us/s)" \
        "locks" "commands/s" "redis us/s" "us/lock/s" "us/extend" "kB/lock" "missing"
    for count in $held_points; do
        held_more "$count" || break
        sleep $((held_ttl / 3)) # until all have begun to extend
        held_window
        busy=$((busy > idle ? busy - idle : 0))
        used=$(($(info_number "$room/held.2" used_memory) - empty))
        missing=$((count - $(held_alive)))
        each=$(ratio "$busy" "$calls" 1)
        row "$count" "$(ratio "$calls" "$window" 1)" "$(ratio "$busy" "$window" 0)" \
            "$(ratio "$busy" $((count * window)))" "$each" "$(ratio "$used" $((count * 1024)) 1)" "$missing"
    done
    goal "locks missing of $count held at once" $((count - ${#holding[@]} + missing)) 0
    echo "  with the default TTL of 60 s: $(ratio "$each" 20) us of Redis for each held lock and second"
    ((${#holding[@]} == 0)) || kill -TERM "${holding[@]}" 2>/dev/null || :
    wait "${holding[@]}" || :
    own_server_end
}

# --- names ---------------------------------------------------------------------------------------

# remembered FROM TO FIELDS: what is remembered of the locks job-FROM to job-TO, as commands
remembered() {
    awk -v from="$1" -v to="$2" -v fields="$3" 'BEGIN {
        for (i = from; i <= to; i++) {
            key = "lock:{lock:job-" i "}:state"
            printf "HSET %s %s\r\nPEXPIRE %s 7776000000\r\n", key, fields, key
        }
    }'
}

# ms_of COMMAND...: the median of three. Leaves it in $took.
ms_of() {
    local began turn times=()
    for turn in 1 2 3; do
        began=$(now_us)
        "$@" >/dev/null || return
        times+=($((($(now_us) - began) / 100)))
        ((times[-1] < 20000)) || break # two seconds need no second look
    done
    took=$(ratio "$(median_of "${times[@]}")" 10 1)
}

section_names() {
    local far_port own_pid last_server count known=1 fields took all
    own_server
    local own=("$bin" -u "redis://127.0.0.1:$far_port")
    "${own[@]}" job-1 true </dev/null
    fields=$(redis-cli -p "$far_port" hgetall 'lock:{lock:job-1}:state' | paste -sd' ')
    head_row "names: a server that remembers more and more locks; acquire and release, --list" \
        "names" "cycle us" "p99 us" "to flock" "list ms" "one of it" "redis MB"
    for count in $names_points; do
        remembered $((known + 1)) "$count" "$fields" | redis-cli -p "$far_port" --pipe >/dev/null
        known=$count
        "$tools/pairs" -n "$slow_rounds" --- "flock" "$flock" "$room/file" true \
            --- "redislock" "${own[@]}" job-1 true >"$room/pairs"
        ms_of "${own[@]}" --list && all=$took
        ms_of "${own[@]}" --list job-1
        redis-cli -p "$far_port" info memory >"$room/names"
        row "$count" "$(value redislock 2)" "$(value redislock 3)" "$(value redislock 6)" "$all" "$took" \
            "$(ratio "$(info_number "$room/names" used_memory)" 1048576 1)"
    done
    own_server_end
}
