#!/usr/bin/env bats
# One holder at a time; what stands in Redis while and after a lock is held; fences; names.
# shellcheck disable=SC2030,SC2031 # each test is a process of its own
# shellcheck disable=SC2154 # spawn and hold assign

load lib/common
load lib/one_server
load lib/locks

setup_file() {
    one_server_setup_file
    # a node of a cluster takes two seconds before it answers: its test comes late
    redis_start cluster --tcp --cluster-enabled yes
    rcli_at cluster cluster addslotsrange 0 16383 >/dev/null
}

setup() {
    one_server_setup
    export LOGNAME=deploy
}

# --- One at a time ------------------------------------------------------------------------------

@test "one run at a time: the second exits 75, says who holds the lock, and runs nothing" {
    hold first nightly-report
    run --separate-stderr lock nightly-report -- touch "$ROOM/ran"
    assert_status 75
    assert_no_output
    assert_one_line "^redislock: nightly-report: held by $(hostname) \(pid $first, deploy\) since [0-9:]{8}, [0-9.]+m?s ago$"
    [[ ! -e $ROOM/ran ]]
    let_go_quiet first
    run --separate-stderr lock nightly-report -- touch "$ROOM/ran"
    assert_status 0
    [[ -e $ROOM/ran ]]
}

@test "of many that come while one runs none runs, and each exits 75" {
    local pids=() contender
    for _ in {1..20}; do
        spawn contender lock job -- "$WITNESS" --log "$ROOM/log" --signals inf --exit-on TERM
        pids+=("$contender")
    done
    # exactly one stays: whoever came first
    wait_until 10000 one_left "${pids[@]}"
    wait_for_line "$ROOM/log" ^start
    kill -TERM "$(holder_field pid lock:job)"
    for contender in "${pids[@]}"; do
        status=0
        wait "$contender" || status=$?
        printf '%s\n' "$status" >>"$ROOM/statuses"
    done
    assert_equal "$(sort "$ROOM/statuses" | uniq -c | xargs)" '1 0 19 75'
    assert_equal "$(grep -c ^start "$ROOM/log")" 1
}

one_left() {
    local pid left=0
    for pid in "$@"; do
        process_gone "$pid" || left=$((left + 1))
    done
    ((left == 1))
}

@test "different names do not exclude each other" {
    hold first a
    run --separate-stderr lock b -- true
    assert_status 0
}

@test "the lock is free again after a success, a failure and a death by signal" {
    local command expected
    for command in 'exit 0' 'exit 3' 'kill -9 $$'; do
        run --separate-stderr lock job -c "$command"
        expected=${command#exit }
        assert_status "${expected/kill*/137}"
        assert_no_key lock:job
    done
    assert_no_keys_left
}

@test "row 13: a hundred quick runs leave no lock behind" {
    local i
    for i in {1..100}; do
        lock job -- true
    done
    assert_no_key lock:job
    assert_equal "$(state_field runs job)" 100
    assert_no_keys_left
}

# --- What stands in Redis -----------------------------------------------------------------------

@test "the value says who holds the lock, on one line without blanks" {
    ln -s "$WITNESS" "$ROOM/my job:50%"
    spawn first lock -t 90s job -- "$ROOM/my job:50%" --out "$ROOM/out" --signals inf --exit-on TERM
    wait_for_line "$ROOM/out" '^ready'
    local value boot now
    value=$(rcli get lock:job)
    boot=$(awk '$1 == "btime" { print $2 }' /proc/stat) # when this host was booted
    now=$(date +%s%3N)
    if [[ ! $value =~ ^redislock1:[0-9a-f]{40}:[0-9]+:held:[0-9]+:90000:[^:[:space:]]+:[0-9]+:[0-9]+:[^:[:space:]]+:[^:[:space:]]+$ ]]; then
        fail "unexpected value: $value"
    fi
    assert_equal "$(holder_field host lock:job)" "$(hostname)"
    assert_between "$(holder_field boot lock:job)" $((boot - 2)) $((boot + 2))
    assert_equal "$(holder_field pid lock:job)" "$first"
    assert_equal "$(holder_field user lock:job)" deploy
    assert_equal "$(holder_field command lock:job)" 'my%20job%3A50%25'
    assert_between "$(holder_field start lock:job)" $((now - 10000)) "$now"
}

@test "the value stays one line whatever the user and the command are called" {
    LOGNAME=$'Jörg\n{x}: \e[31m' hold first job
    assert_equal "$(rcli get lock:job | wc -l)" 1
    assert_equal "$(holder_field user lock:job)" 'J%C3%B6rg%0A{x}%3A%20%1B[31m'
    run --separate-stderr lock job -- true
    assert_status 75
    assert_one_line 'Jörg\\[nx]'
    refute_line_stderr $'\e'
}

@test "the token has at least 128 bits, all of them random, and is another in each run" {
    local i
    for i in {1..20}; do
        lock job -- redis-cli -s "$SOCK" get lock:job | cut -d: -f2 >>"$ROOM/tokens"
    done
    assert_equal "$(sort -u "$ROOM/tokens" | wc -l)" 20
    # 32 hexadecimal digits or more, and each of them takes many of its 16 values in 20 runs
    awk '{ if (length($0) < 32 || $0 !~ /^[0-9a-f]+$/) { print "bad token " $0; bad = 1 }
           for (i = 1; i <= length($0); i++) if (!seen[i, substr($0, i, 1)]++) values[i]++ }
         END { for (i in values) if (values[i] < 4) { print "digit " i " hardly varies"; bad = 1 }
               exit bad }' "$ROOM/tokens" >&2
}

@test "the command does not see the token" {
    lock job -- sh -c 'redis-cli -s "$1" get lock:job | cut -d: -f2; echo "$@"; env; tr "\0" "\n" </proc/$PPID/cmdline' - "$SOCK" >"$ROOM/seen"
    local token
    token=$(head -n 1 "$ROOM/seen")
    [[ ${#token} -ge 32 ]]
    assert_equal "$(grep -c "$token" "$ROOM/seen")" 1
}

@test "row 8: while a lock is held its expiry is never missing and never above the TTL" {
    hold first -t 1s job
    redis-cli -s "$SOCK" -r 120 -i 0.01 pttl lock:job >"$ROOM/pttl"
    assert_equal "$(wc -l <"$ROOM/pttl")" 120
    awk '$1 < 1 || $1 > 1000 { print "pttl " $1; bad = 1 } END { exit bad }' "$ROOM/pttl" >&2
    # it was extended meanwhile: what is left has risen
    awk '$1 > last + 100 && NR > 1 { rose = 1 } { last = $1 } END { exit !rose }' "$ROOM/pttl"
    let_go first
    assert_status 0
}

@test "row 8: killed at any moment, redislock leaves nothing without an expiry" {
    local ms
    for ms in {1..15} {1..15}; do
        timeout -s KILL "0.0$(printf %02d "$ms")" "$REDISLOCK_BIN" -u "unix://$SOCK" -t 2s "job$ms" \
            -- true || true
    done
    assert_equal "$(immortal_keys)" ''
}

@test "the lock is extended every third of the TTL, and no more often" {
    local began ended
    rcli config resetstat >/dev/null
    began=$(boottime_ms)
    hold first -t 900ms job
    wait_until 10000 calls_reach pexpire 6
    let_go first
    ended=$(boottime_ms)
    assert_status 0
    # each extension is one PEXPIRE; acquire and release make one each for the state
    assert_between "$(($(calls pexpire) - 2))" 4 $(((ended - began) / 300))
}

calls_reach() {
    (($(calls "$1") >= $2))
}

@test "a short job costs two round trips and no extension" {
    lock warm-up -- true # the server knows the scripts now
    proxy_start
    URL=$PROXY_URL lock --status-fd 7 job -- true 7>"$ROOM/events"
    assert_equal "$(proxy_stat trips)" 2
    assert_equal "$(proxy_stat connections)" 1
    assert_equal "$(grep -c '"extended"' "$ROOM/events" || true)" 0
}

@test "the state keeps fence, run record and counters, with an expiry" {
    local now
    hold first job
    assert_equal "$(immortal_keys)" ''
    run lock -q job -- true
    run lock -q job -- true
    assert_status 75
    let_go first
    run --separate-stderr lock job -c 'exit 7'
    assert_status 7
    now=$(date +%s%3N)
    assert_equal "$(state_field runs job)" 2
    assert_equal "$(state_field skips job)" 2
    assert_equal "$(state_field last_host job)" "$(hostname)"
    assert_equal "$(state_field last_status job)" 7
    assert_between "$(state_field last_ms job)" 0 10000
    assert_between "$(state_field last_start job)" $((now - 10000)) "$now"
    assert_between "$(rcli pttl "$(state_key job)")" 1 $((90 * 24 * 3600 * 1000))
    assert_equal "$(rcli keys '*')" "$(state_key job)"
}

# The record's expiry is set to a minute, to see what renews it.
fade() {
    rcli pexpire "$(state_key job)" 60000 >/dev/null
}

# renewed, faded: it is kept for 90 days again, or not.
renewed() {
    assert_between "$(rcli pttl "$(state_key job)")" $((89 * 86400000)) $((90 * 86400000))
}

faded() {
    assert_between "$(rcli pttl "$(state_key job)")" 1 60000
}

@test "the record is kept for 90 days: renewed by the first run of a day, not by each" {
    local days
    run lock job -- true
    renewed
    fade
    run lock job -- true
    faded
    for days in -1 1 400; do # after yesterday's, and where the server's clock has stepped back
        rcli hset "$(state_key job)" fence $(($(date +%s%3N) + days * 86400000)) >/dev/null
        run lock job -- true
        assert_status 0
        renewed
        fade
    done
    rcli hset "$(state_key job)" fence $(($(date +%s%3N) - 86400000)) >/dev/null
    run lock -s job -- true
    renewed
}

@test "the record is kept for 90 days also by the skips of a long run, and by its end" {
    local skip value
    run lock job -- true
    hold first job
    for skip in {1..8}; do
        run lock -q job -- true
        assert_status 75
        [[ $skip != 1 ]] || renewed
        fade
    done
    run lock -q job -- true
    renewed
    fade
    value=$(rcli get lock:job)
    let_go first
    faded
    # as a script's --release ends a run that began two days ago
    value=$(awk -F: -v OFS=: -v start=$(($(date +%s%3N) - 2 * 86400000)) '{ $5 = start } 1' <<<"$value")
    rcli set lock:job "$value" px 60000 >/dev/null
    run "$REDISLOCK_BIN" -u "unix://$SOCK" --release job "$value"
    assert_status 0
    assert_between "$(state_field last_ms job)" $((2 * 86400000)) $((2 * 86400000 + 60000))
    renewed
}

@test "a job that was killed is recorded with 128 and its signal" {
    run --separate-stderr lock job -c 'kill -9 $$'
    assert_status 137
    assert_equal "$(state_field last_status job)" 137
}

@test "row 51: hundreds of names leave nothing without an expiry" {
    seq 300 | xargs -P 4 -I{} "$REDISLOCK_BIN" -u "unix://$SOCK" n{} true
    seq 20 | xargs -P 4 -I{} "$REDISLOCK_BIN" -u "unix://$SOCK" --min-hold 60 m{} true
    seq 20 | xargs -P 4 -I{} "$REDISLOCK_BIN" -u "unix://$SOCK" -qE0 m{} true
    assert_equal "$(rcli dbsize)" 340 # a state each, and 20 minimum holds
    assert_equal "$(immortal_keys)" ''
}

# --- Fences -------------------------------------------------------------------------------------

# fence NAME: the fence of a run, as its command sees it.
fence() {
    # shellcheck disable=SC2016
    lock "$1" -c 'echo "$REDISLOCK_FENCE"'
}

@test "each run gets a larger fence, and sees the one that stands in the lock" {
    local i
    for i in {1..30}; do
        fence job >>"$ROOM/fences"
    done
    rises "$ROOM/fences"
    # shellcheck disable=SC2016
    run lock job -- sh -c 'echo "$REDISLOCK_FENCE"; redis-cli -s "$1" get lock:job' - "$SOCK"
    assert_equal "$(cut -d: -f3 <<<"${lines[1]}")" "${lines[0]}"
    assert_equal "$(state_field fence job)" "${lines[0]}"
}

@test "row 44: fences rise also when the server has lost everything, or the state alone" {
    fence job >"$ROOM/fences"
    rcli flushall >/dev/null
    fence job >>"$ROOM/fences"
    rcli del "$(state_key job)" >/dev/null
    fence job >>"$ROOM/fences"
    redis_start lossy
    redis_use lossy
    fence job >>"$ROOM/fences"
    redis_restart lossy
    fence job >>"$ROOM/fences"
    rises "$ROOM/fences"
}

@test "row 44: fences rise also when the server's clock has stepped back" {
    # a fence of the year 2040, as a clock that was wrong would have left it
    rcli hset "$(state_key job)" fence 2208988800000 >/dev/null
    assert_equal "$(fence job)" 2208988800001
    assert_equal "$(fence job)" 2208988800002
}

@test "fences keep every digit" {
    rcli hset "$(state_key job)" fence 9007199254740001 >/dev/null
    assert_equal "$(fence job)" 9007199254740002
    assert_equal "$(state_field fence job)" 9007199254740002
}

# The server's microseconds come without leading zeros, and most runs have six of them.
@test "the start of a lock is the server's time in ms, however few microseconds there are" {
    local in_ms
    in_ms=$(sed -n '/^local function in_ms/,/^end/p' "$ROOT/src/lua/acquire.lua")
    assert_equal "$(rcli eval "$in_ms
        local told = {}
        for _, micros in ipairs({'0', '7', '999', '1000', '12345', '100000', '999999'}) do
            table.insert(told, in_ms({'1796015730', micros}))
        end
        return table.concat(told, ' ')" 0)" \
        "1796015730000 1796015730000 1796015730000 1796015730001 1796015730012 1796015730100 1796015730999"
}

@test "fences rise in the order of the runs under 50 contenders" {
    local i pids=()
    for i in {1..50}; do
        spawn contender lock -w inf job -- "$WITNESS" --log "$ROOM/log"
        pids+=("$contender")
    done
    for i in "${pids[@]}"; do
        wait "$i"
    done
    assert_no_overlap "$ROOM/log"
    awk '$1 == "start" { print $4 }' "$ROOM/log" >"$ROOM/fences"
    assert_equal "$(wc -l <"$ROOM/fences")" 50
    rises "$ROOM/fences"
}

# --- Names --------------------------------------------------------------------------------------

# Sets NAMES to names of every kind, and KEYS to the lock's keys.
odd_names() {
    NAMES=(a '{a}b' '}{' '{}' 'a}b' '{' '%7B' '%' $'tab\there' $'two\nlines' $'\e[31mred' $'\x7f'
        'two words' ' ' 'Bericht für Jörg ☃' a:b '*' "it's" '"' "\\" 'a/b' '$(id)' '{lock:a}:state')
    KEYS=(a '%7Ba%7Db' '%7D%7B' '%7B%7D' 'a%7Db' '%7B' '%257B' '%25' 'tab%09here' 'two%0Alines'
        '%1B[31mred' '%7F' 'two words' ' ' 'Bericht für Jörg ☃' a:b '*' "it's" '"' "\\" 'a/b' '$(id)'
        '%7Block:a%7D:state')
    NAMES+=("$(printf 'x%.0s' {1..512})" "$(printf '{%.0s' {1..512})" "$(printf '☃%.0s' {1..170})")
    KEYS+=("${NAMES[-3]}" "$(printf '%%7B%.0s' {1..512})" "${NAMES[-1]}")
}

@test "any name is one lock: the command sees it unchanged, and a second run is refused" {
    local index # `run` has an i of its own
    odd_names
    for index in "${!NAMES[@]}"; do
        # shellcheck disable=SC2016
        run --separate-stderr lock "${NAMES[index]}" -- sh -c '
            printf "%s|%s|" "$REDISLOCK_NAME" "$REDISLOCK_LOCK_KEY"
            "$REDISLOCK_BIN" -u "$1" "$REDISLOCK_NAME" true
            printf "%s" "$?"' - "unix://$SOCK"
        assert_status 0
        assert_output "${NAMES[index]}|lock:${KEYS[index]}|75"
        assert_one_line "held by .* \(pid [0-9]+, deploy\)"
        if [[ $stderr == *[$'\x01'-$'\x1f\x7f']* ]]; then
            fail "a control byte in: $(cat -v <<<"$stderr")"
        fi
    done
    assert_equal "$(rcli --raw keys '*' | grep -vc ':state$' || true)" 0
    assert_equal "$(rcli dbsize)" "${#NAMES[@]}"
    assert_equal "$(immortal_keys)" ''
}

@test "names that look alike once encoded are different locks" {
    hold first '{'
    run --separate-stderr lock '%7B' -- true
    assert_status 0
    hold second $'\t'
    run --separate-stderr lock '%09' -- true
    assert_status 0
    run --separate-stderr lock $'\t' -- true
    assert_status 75
}

@test "a name may look like an option, behind --" {
    # shellcheck disable=SC2016
    run --separate-stderr lock -- --ttl -- sh -c 'echo "$REDISLOCK_NAME"'
    assert_status 0
    assert_output --ttl
}

@test "an empty name and one of 513 bytes are refused: 64" {
    run --separate-stderr lock '' -- touch "$ROOM/ran"
    assert_status 64
    assert_one_line 'NAME is empty'
    run --separate-stderr lock "$(printf 'x%.0s' {1..513})" -- touch "$ROOM/ran"
    assert_status 64
    assert_one_line 'NAME is longer than 512 bytes'
    [[ ! -e $ROOM/ran ]]
    assert_equal "$(rcli dbsize)" 0
}

@test "row 35: all keys of a lock are in one cluster slot, whatever its name" {
    local index key
    redis_use cluster
    wait_until 10000 cluster_works
    odd_names
    for index in "${!NAMES[@]}"; do
        run --separate-stderr lock --min-hold 60 "${NAMES[index]}" -- true
        assert_status 0
        assert_no_stderr
    done
    # names without a newline, so that a line is a key
    rcli --raw keys '*' | grep -v '}:state$' >"$ROOM/locks"
    assert_equal "$(wc -l <"$ROOM/locks")" "${#NAMES[@]}"
    while IFS= read -r key; do
        assert_equal "$(rcli cluster keyslot "lock:{$key}:state")" "$(rcli cluster keyslot "$key")"
        assert_equal "$(rcli exists "lock:{$key}:state")" 1
    done <"$ROOM/locks"
}

cluster_works() {
    rcli cluster info | grep -q '^cluster_state:ok'
}

# --- The prefix ---------------------------------------------------------------------------------

@test "the prefix begins every key, and sets apart locks of the same name" {
    hold first --prefix app: job
    assert_key app:job
    assert_equal "$(rcli keys '*' | sort)" $'app:job\napp:{app:job}:state'
    run --separate-stderr lock job -- true
    assert_status 0
    run --separate-stderr lock --prefix app: job -- true
    assert_status 75
}

@test "the prefix may be empty" {
    # shellcheck disable=SC2016
    run --separate-stderr lock --prefix '' job -c 'echo "$REDISLOCK_LOCK_KEY"'
    assert_status 0
    assert_output job
    assert_equal "$(rcli keys '*')" '{job}:state'
}
