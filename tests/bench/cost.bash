# Sections memory, roundtrips, hold, syscalls and instructions: what is counted instead of timed.
# shellcheck shell=bash disable=SC2034,SC2154 # variables are shared with run and its parts

# status_kb PID FIELD
status_kb() {
    awk -v field="$2:" '$1 == field { print $2 }' "/proc/$1/status"
}

# private_kb PID: what the process alone keeps in memory
private_kb() {
    awk '/^Private_/ { sum += $2 } END { print sum + 0 }' "/proc/$1/smaps_rollup"
}

# switches PID: how often its threads have gone to sleep, and so been woken
switches() {
    cat /proc/"$1"/task/*/status | awk '/^voluntary_ctxt/ { sum += $2 } END { print sum + 0 }'
}

# cpu_us PID: time on a processor, of all its threads
cpu_us() {
    cat /proc/"$1"/task/*/schedstat | awk '{ sum += $1 } END { printf "%d\n", sum / 1000 }'
}

# Sets $guard to the guard of $holder once it and the thread that extends are there.
is_settled() {
    local pid
    guard=''
    # shellcheck disable=SC2013 # words are what is wanted
    for pid in $(cat "/proc/$holder/task/$holder/children" 2>/dev/null); do
        [[ $(cat "/proc/$pid/comm") != redislock-guard ]] || guard=$pid
    done
    [[ -n $guard && $(status_kb "$holder" Threads) == 2 ]]
}

# hold PROGRAM URL: one that holds a lock and has begun to extend it, in $holder and $guard
hold() {
    "$1" -u "$2" -t 3 held-long sleep 300 </dev/null &
    holder=$!
    wait_until 10 is_settled || { echo "bench: no guard or no thread after 10 s" >&2 && return 1; }
}

hold_end() {
    kill -TERM "$holder"
    wait "$holder" || :
}

# peak_row LABEL COMMAND...: the median of five. Leaves the peak in $peak.
peak_row() {
    local label=$1
    shift
    local figures
    figures=$(for _ in 1 2 3 4 5; do "$tools/peak" "$@" 2>/dev/null; done | sort -n | sed -n 3p)
    peak=$(cut -f1 <<<"$figures")
    # shellcheck disable=SC2086 # columns
    row "$label" $figures
}

memory_holding() {
    hold "$1" "redis://127.0.0.1:$port"
    peak=$(status_kb "$holder" VmHWM)
    row "$2, holding" "$peak" "$(status_kb "$holder" VmRSS)" - "$(private_kb "$holder")"
    row "$2, its guard" "$(status_kb "$guard" VmHWM)" "$(status_kb "$guard" VmRSS)" - \
        "$(private_kb "$guard")"
    hold_end
}

section_memory() {
    local peak holder guard
    head_row "memory: of the wrapper's own process, kB (libc's shared pages included)" \
        "" "peak" "rss" "faults" "private"
    peak_row "true" true
    peak_row "flock" "$flock" "$room/file" true
    peak_row "bare C" "$bare" "$port" lock:bare true
    peak_row "redislock, short job" "${wrapped[@]:1}" job true
    goal "short job, kB" "$peak" 1843
    memory_holding "$bin" redislock
    goal "while holding, kB" "$peak" 2253
    if [[ -n ${REDISLOCK_STATIC-} ]]; then
        peak_row "static, short job" "$REDISLOCK_STATIC" "${wrapped[@]:2}" job true
        goal "static, short job, kB" "$peak" 1843
        memory_holding "$REDISLOCK_STATIC" static
        goal "static, while holding, kB" "$peak" 2253
    fi
    if etcd_start; then
        ETCDCTL_API=3 peak_row "etcdctl lock" "$etcdctl" --endpoints "$etcd_url" lock peer true
    fi
    [[ -z $python ]] ||
        peak_row "python3-redis Lock" "$python" "$here/recipe.py" "$port" peer true
    ! node_peers ||
        peak_row "npm redlock" "$node" "$here/recipe-redlock.cjs" "$port" peer true
}

# server_us FILE: the server's processor time, from INFO's answer
server_us() {
    awk -F: '$1 ~ /^used_cpu_(sys|user)$/ { sum += $2 } END { printf "%.0f\n", sum * 1e6 }' "$1"
}

# wire COUNT COMMAND...: runs it COUNT times; then $answers, $received, $sent and $server of the
# server per run, without what asking costs
wire() {
    local count=$1 i field
    shift
    rcli info all >"$room/wire.0"
    rcli info all >"$room/wire.1"
    for ((i = 0; i < count; i++)); do
        "$@" </dev/null 2>/dev/null || :
    done
    rcli info all >"$room/wire.2"
    local -a result=()
    for field in total_writes_processed total_net_input_bytes total_net_output_bytes; do
        local none first last
        none=$(info_number "$room/wire.0" "$field")
        first=$(info_number "$room/wire.1" "$field")
        last=$(info_number "$room/wire.2" "$field")
        result+=("$(ratio $((last - first - (first - none))) "$count" 1)")
    done
    answers=${result[0]} received=${result[1]} sent=${result[2]}
    local asking=$(($(server_us "$room/wire.1") - $(server_us "$room/wire.0")))
    server=$(ratio $(($(server_us "$room/wire.2") - $(server_us "$room/wire.1") - asking)) "$count" 0)
}

section_roundtrips() {
    local answers received sent server
    head_row "roundtrips: of a whole cycle, as the server counts them, scripts already loaded" \
        "" "round trips" "bytes sent" "received" "server us"
    wire 20 "${wrapped[@]:1}" job true
    wire 100 "${wrapped[@]:1}" job true
    row "redislock" "$answers" "$received" "$sent" "$server"
    local own=$answers
    wire 100 "${wrapped[@]:1}" "$(refused_name)" true
    row "redislock, refused" "$answers" "$received" "$sent" "$server"
    rcli del lock:refused >/dev/null
    wire 100 "$bare" "$port" lock:bare true
    row "bare C" "$answers" "$received" "$sent" "$server"
    wire 20 "$here/recipe" "$port" peer true
    row "sh + redis-cli" "$answers" "$received" "$sent" "$server"
    if [[ -n $python ]]; then
        wire 5 "$python" "$here/recipe.py" "$port" peer true
        row "python3-redis Lock" "$answers" "$received" "$sent" "$server"
    fi
    if node_peers; then
        wire 5 "$node" "$here/recipe-redlock.cjs" "$port" peer true
        row "npm redlock" "$answers" "$received" "$sent" "$server"
    fi
    goal "round trips of a cycle" "$own" 2
}

section_hold() {
    local holder guard
    local -A first=()
    hold "$bin" "redis://127.0.0.1:$port"
    rcli info commandstats >"$room/hold.1"
    first=([own]=$(switches "$holder") [guard]=$(switches "$guard") [cpu]=$(cpu_us "$holder"))
    sleep "$hold_s"
    rcli info commandstats >"$room/hold.2"
    local own=$(($(switches "$holder") - first[own])) guards=$(($(switches "$guard") - first[guard]))
    local cpu=$(($(cpu_us "$holder") - first[cpu]))
    local calls=$(($(scripts "$room/hold.2") - $(scripts "$room/hold.1")))
    hold_end
    head_row "hold: $hold_s s of holding with a TTL of 3 s, in each third of it" \
        "" "scripts" "wake-ups" "guard's" "cpu us"
    row "redislock" "$(ratio "$calls" "$hold_s")" "$(ratio "$own" "$hold_s")" \
        "$(ratio "$guards" "$hold_s")" "$(ratio "$cpu" "$hold_s" 0)"
    # one more may fall into the time by its edges
    goal "scripts in $hold_s thirds" "$calls" $((hold_s + 1))
    goal "wake-ups in each third (timer, reply)" "$(ratio "$own" "$hold_s")" 2.1
    goal "the guard's wake-ups" "$guards" 0
}

# Reads strace's lines; prints the calls that the program itself makes, in order: without what loads
# it (up to the thread's registration, what the loader does behind it, and what libc has done before it
# makes the relocated data read-only, which in a static program is the last before main), fork, exec,
# wait and exit.
own_calls() {
    awk -F'(' '
        /^[a-z_0-9]+\(/ {
            call[++count] = $1
            if ($1 == "socket")
                began = 1
            if ($1 ~ /^(rseq|set_robust_list)$/ || ($1 == "mprotect" && !began))
                loaded = count
        }
        END {
            i = loaded + 1
            while (i <= count && call[i] ~ /^(mprotect|prlimit64|munmap|readlink|readlinkat)$/)
                i++
            for (; i <= count; i++)
                if (call[i] !~ /^(vfork|fork|clone|clone3|wait4|waitid|execve|exit_group)$/)
                    print call[i]
        }' "$1"
}

# strace_row LABEL COMMAND...: leaves the number in $calls
strace_row() {
    local label=$1
    shift
    strace -o "$room/strace" "$@" </dev/null 2>/dev/null || :
    own_calls "$room/strace" >"$room/calls"
    calls=$(wc -l <"$room/calls")
    row "$label" "$calls" "$(grep -cE '^[a-z_0-9]+\(' "$room/strace")"
}

section_syscalls() {
    local calls
    if ! command -v strace >/dev/null; then
        head_row "syscalls:" ""
        skip "syscalls: no strace"
        return
    fi
    head_row "syscalls: of a whole cycle in the wrapper's own process" "" "its own" "with loading"
    strace_row "flock" "$flock" "$room/file" true
    strace_row "bare C" "$bare" "$port" lock:bare true
    "${wrapped[@]:1}" job true </dev/null # the server knows the scripts
    if [[ -n ${REDISLOCK_STATIC-} ]]; then
        strace_row "redislock static" "$REDISLOCK_STATIC" "${wrapped[@]:2}" job true
        goal "static: system calls beyond loading, fork, exec and wait" "$calls" 30
    fi
    strace_row "redislock" "${wrapped[@]:1}" job true
    goal "system calls beyond loading, fork, exec and wait" "$calls" 30
    uniq -c "$room/calls" | awk '{ printf "%s%s", (NR > 1 ? " " : ""), $2 ($1 > 1 ? "*" $1 : "") }' |
        fold -s -w 92 | sed 's/^/    /'
    echo
}

# instructions_row LABEL COMMAND...: leaves the number in $instructions
instructions_row() {
    local label=$1 pid
    shift
    valgrind --tool=callgrind --callgrind-out-file="$room/callgrind.%p" "$@" \
        </dev/null >/dev/null 2>&1 &
    pid=$!
    wait "$pid" || :
    instructions=$(awk '/^(summary|totals):/ { number = $2 } END { print number + 0 }' \
        "$room/callgrind.$pid")
    row "$label" "$((instructions / 1000))" "$(((instructions - ${loading:-0}) / 1000))"
}

section_instructions() {
    local instructions loading=0 own
    if ! command -v valgrind >/dev/null; then
        head_row "instructions:" ""
        skip "instructions: no valgrind"
        return
    fi
    head_row "instructions: of the wrapper's own process, thousands (callgrind)" \
        "" "all" "beyond true's"
    instructions_row "true" true
    loading=$instructions
    "${wrapped[@]:1}" job true </dev/null # the server knows the scripts
    instructions_row "redislock" "${wrapped[@]:1}" job true
    own=$instructions
    instructions_row "redislock, refused" "${wrapped[@]:1}" "$(refused_name)" true
    rcli del lock:refused >/dev/null
    if [[ -n ${REDISLOCK_STATIC-} ]]; then
        instructions_row "redislock static" "$REDISLOCK_STATIC" "${wrapped[@]:2}" job true
    fi
    instructions_row "bare C" "$bare" "$port" lock:bare true
    instructions_row "flock" "$flock" "$room/file" true
    goal "thousand instructions, to flock's" $((own / 1000)) $((instructions / 1000))
}

# A lock that somebody else holds with the common recipe.
refused_name() {
    rcli set lock:refused somebody px 60000 >/dev/null
    echo refused
}
