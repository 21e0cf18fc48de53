# Sections handoff, growth, drain, crash and waiting: what it costs to stand in line.
# shellcheck shell=bash disable=SC2034,SC2154 # variables are shared with run and its parts

# Sets $waiting to the words that wait for a lock and then run what follows, by the peer's name.
# stagger: the next comes when the last has slept for so long, and so stands in line. On a busy machine
# an answer takes longer, and who sleeps for it does not stand there yet.
waiting_words() {
    stagger=$(awk -v cores="$(nproc)" '{ us = 6000 * (1 + $1 / cores); print int(us < 20000 ? us : 20000) }' \
        /proc/loadavg)
    settle=400
    case $1 in
    flock) waiting=("$flock" "$room/line") ;;
    redislock) waiting=("${wrapped[@]:1}" -w inf "line-$RANDOM") ;;
    static) waiting=("$REDISLOCK_STATIC" "${wrapped[@]:2}" -w inf "line-$RANDOM") ;;
    etcdctl)
        etcd_start || return 1
        export ETCDCTL_API=3
        stagger=20000 settle=1000
        waiting=("$etcdctl" --endpoints "$etcd_url" lock "line-$RANDOM")
        ;;
    esac
}

peers=(flock redislock)
[[ -z ${REDISLOCK_STATIC-} ]] || peers+=(static)

# line PEER OPTIONS...: runs handoff and leaves its figures in the variables below. False: it failed.
line() {
    local waiting stagger settle figures
    waiting_words "$1" || return 1
    shift
    mkdir -p "$room/line.d"
    rcli config resetstat >/dev/null
    if ! figures=$("$tools/handoff" -g "$stagger" -s "$settle" \
        -b "redis-cli -s $socket info all >$room/line.1" \
        -a "redis-cli -s $socket info all >$room/line.2" \
        "$@" "$room/line.d" "$tools/stamp" "${waiting[@]}" 2>"$room/line.err"); then
        echo "  (failed: $(tail -1 "$room/line.err"))"
        return 1
    fi
    read -r hand_offs middle p99 most disorder overlaps took cpu first <<<"$figures"
    calls=$(($(scripts "$room/line.2") - $(scripts "$room/line.1")))
    : "$hand_offs" "$most" "$cpu" "$first" "$took"
}

section_handoff() {
    local peer hand_offs middle p99 most disorder overlaps took cpu first calls
    local -A medians=() p99s=()
    head_row "handoff: from a job's last act to the next one's first, $line_length in line, jobs of 5 ms" \
        "" "median us" "p99 us" "most us" "disorder" "overlaps" "to flock"
    for peer in "${peers[@]}" etcdctl; do
        line "$peer" -n "$line_length" -m 5000 || continue
        medians[$peer]=$middle p99s[$peer]=$p99
        row "$peer" "$middle" "$p99" "$most" "$disorder" "$overlaps" \
            "$(ratio "$middle" "${medians[flock]:-0}")"
    done
    [[ -n ${medians[redislock]-} && -n ${medians[flock]-} ]] || return 0
    goal "median to flock's" "$(ratio "${medians[redislock]}" "${medians[flock]}" 3)" 1.0
    goal "p99 to flock's" "$(ratio "${p99s[redislock]}" "${p99s[flock]}" 3)" 1.0
    goal "p99 to its own median" "$(ratio "${p99s[redislock]}" "${medians[redislock]}")" 2
}

# The kernel makes a server's table of descriptors longer at each power of two, and some ms may pass with
# that: of two who come meanwhile either may get its ticket first. So it is made long before.
many_clients() {
    local clients
    clients=$(tr ' ' '\n' <<<"$line_lengths" | sort -n | tail -1)
    redis-benchmark -s "$socket" -c $((clients + 100)) -n $((clients + 100)) -q ping >/dev/null
}

section_growth() {
    local count hand_offs middle p99 most disorder overlaps took cpu first calls scripts_each
    many_clients
    head_row "growth: redislock with more and more in line" \
        "waiters" "scripts each" "median us" "p99 us" "disorder" "overlaps"
    for count in $line_lengths; do
        line redislock -n "$count" -m 2000 -T 90 || continue
        scripts_each=$(ratio "$calls" "$count")
        row "$count" "$scripts_each" "$middle" "$p99" "$disorder" "$overlaps"
        ((count < 1000)) || goal "scripts for each hand-off, $count waiters" "$scripts_each" 2.05
        goal "order violations and overlaps" $((disorder + overlaps)) 0
    done
}

section_drain() {
    local peer hand_offs middle p99 most disorder overlaps took cpu first calls
    local -A times=()
    head_row "drain: 200 in line, each runs true" "" "us each" "waiters' cpu" "scripts each" "to flock"
    for peer in "${peers[@]}" etcdctl; do
        line "$peer" -n 200 -t || continue
        times[$peer]=$took
        [[ $peer != flock && $peer != etcdctl ]] || calls=0
        row "$peer" $((took / 200)) "$((cpu / 200))" "$(ratio "$calls" 200)" \
            "$(ratio "$took" "${times[flock]:-0}")"
    done
    [[ -n ${times[redislock]-} && -n ${times[flock]-} ]] || return 0
    goal "200 waiters, to flock" "$(ratio "${times[redislock]}" "${times[flock]}" 3)" 1.0
}

section_crash() {
    local peer hand_offs middle p99 most disorder overlaps took cpu first calls
    head_row "crash: 100 killed waiters stand ahead; until the first live one runs" "" "us"
    for peer in "${peers[@]}"; do
        line "$peer" -n 1 -k 100 || continue
        row "$peer" "$first"
        [[ $peer != redislock ]] || goal "100 crashed waiters ahead, us" "$first" 50000
    done
}

section_waiting() {
    local holder waiter before after name=waiting-$RANDOM
    "${wrapped[@]:1}" "$name" sleep 300 </dev/null &
    holder=$!
    wait_until 10 lock_exists "$name"
    "${wrapped[@]:1}" -w inf "$name" true </dev/null 2>/dev/null &
    waiter=$!
    sleep 2
    rcli info stats >"$room/waiting.1"
    before=$(switches "$waiter")
    local cpu_before
    cpu_before=$(cpu_us "$waiter")
    sleep 10
    after=$(switches "$waiter")
    local cpu_after
    cpu_after=$(cpu_us "$waiter")
    rcli info stats >"$room/waiting.2"
    head_row "waiting: one waiter while nothing happens, in a minute" \
        "" "reads" "wake-ups" "cpu us" "rss kB" "private kB" "own fds"
    # two reads of the server are the question itself: its connection's command and its end
    local reads=$(($(info_number "$room/waiting.2" total_reads_processed) - $(info_number "$room/waiting.1" total_reads_processed)))
    reads=$((reads > 2 ? reads - 2 : 0))
    row "redislock" $((reads * 6)) $(((after - before) * 6)) $(((cpu_after - cpu_before) * 6)) \
        "$(status_kb "$waiter" VmRSS)" "$(private_kb "$waiter")" \
        "$(find "/proc/$waiter/fd" -lname 'anon_inode:*' -o -lname 'socket:*' | wc -l)"
    kill -TERM "$waiter"
    wait "$waiter" || :
    kill -TERM "$holder"
    wait "$holder" || :
}

lock_exists() {
    [[ $(rcli exists "lock:$1") == 1 ]]
}
