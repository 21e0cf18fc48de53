#!/usr/bin/env bats
# The tools that the other suites stand on do what they say, against a real redis-server.
# shellcheck disable=SC2030,SC2031 # each test is a process of its own
# shellcheck disable=SC2154 # spawn assigns

load lib/common

setup_file() {
    common_setup_file
    redis_start
}

setup() {
    common_setup
    REPORT=$ROOM/report
}

# A PING through the proxy or talker at URL, given up after a second.
ping_at() {
    timeout 1 redis-cli -u "$1" ping
}

unix_ping() {
    timeout "${2:-1}" redis-cli -s "${1#unix://}" ping
}

@test "witness: reports ids, folder, arguments and environment" {
    cd "$ROOM"
    FROM_TEST=$'two\nlines' witness --out "$REPORT" first $'tab\there' ''
    spawn job "$WITNESS" --out "$REPORT.2"
    reap job
    assert_status 0
    assert_equal "$(witness_field "$REPORT" cwd)" "$ROOM"
    assert_equal "$(witness_field "$REPORT" 'arg 3')" first
    assert_equal "$(witness_field "$REPORT" 'arg 4')" 'tab\x09here'
    assert_equal "$(witness_field "$REPORT" 'arg 5')" ''
    assert_line_in "$REPORT" 'env FROM_TEST=two\x0alines'
    assert_equal "$(witness_field "$REPORT.2" pid)" "$job"
    assert_equal "$(witness_field "$REPORT.2" pgid)" "$job"
    assert_equal "$(witness_field "$REPORT.2" ppid)" "$$"
    assert_equal "$(witness_field "$REPORT.2" pdeathsig)" 0
}

assert_line_in() {
    grep -qxF -- "$2" "$1" || fail "no line \"$2\" in: $(<"$1")"
}

@test "witness: reports descriptors, mask and dispositions as they were handed over" {
    spawn job --ignore USR1 --block HUP --close 0 --open 9 "$WITNESS" --out "$REPORT"
    reap job
    assert_equal "$(witness_field "$REPORT" 'fd 9')" /dev/null
    assert_equal "$(witness_field "$REPORT" 'fd 1')" "$ROOM/job.out"
    assert_equal "$(grep -c '^fd 0 ' "$REPORT" || true)" 0
    assert_equal "$(witness_field "$REPORT" SigIgn)" 0000000000000200
    assert_equal "$(witness_field "$REPORT" SigBlk)" 0000000000000001
    mask_has "$(witness_field "$REPORT" SigIgn)" USR1
    run ! mask_has "$(witness_field "$REPORT" SigIgn)" INT
}

@test "spawn: starts with default dispositions, unlike a shell's background" {
    "$WITNESS" --out "$REPORT.shell" 3>&- &
    wait $!
    mask_has "$(witness_field "$REPORT.shell" SigIgn)" INT
    spawn job "$WITNESS" --out "$REPORT"
    reap job
    run ! mask_has "$(witness_field "$REPORT" SigIgn)" INT
    assert_equal "$(witness_field "$REPORT" SigBlk)" 0000000000000000
    spawn job --session "$WITNESS" --out "$REPORT.session"
    reap job
    assert_equal "$(witness_field "$REPORT.session" sid)" "$job"
    assert_equal "$(witness_field "$REPORT.session" tty)" none
}

@test "witness: ends as asked" {
    local code
    for code in 0 1 75 255; do
        run witness --exit "$code"
        assert_status "$code"
        assert_no_output
    done
    spawn job "$WITNESS" --die SEGV
    reap job
    assert_status 139
    spawn job "$WITNESS" --die KILL
    reap job
    assert_status 137
    run witness --nonsense
    assert_status 2
}

@test "witness: copies stdin and marks an exclusive span" {
    printf 'a\0b' >"$ROOM/in"
    witness --stdin <"$ROOM/in" >"$ROOM/out"
    cmp "$ROOM/in" "$ROOM/out"
    REDISLOCK_FENCE=17 witness --log "$ROOM/log" --sleep 50
    local span='^start ([0-9]+) ([0-9]+) 17 end ([0-9]+) ([0-9]+) 17 $'
    [[ $(tr '\n' ' ' <"$ROOM/log") =~ $span ]]
    assert_equal "${BASH_REMATCH[2]}" "${BASH_REMATCH[4]}"
    assert_between $((BASH_REMATCH[3] - BASH_REMATCH[1])) 50 5000
    assert_no_overlap "$ROOM/log"
    printf 'start 1 7 -\nstart 2 8 -\nend 3 7 -\nend 4 8 -\n' >"$ROOM/log"
    run assert_no_overlap "$ROOM/log"
    assert_status 1
}

@test "witness: logs signals with their sender until the one that ends it" {
    spawn job "$WITNESS" --signals inf --exit-on TERM --exit 5 --out "$REPORT"
    wait_for_line "$REPORT" '^ready'
    local name
    for name in HUP INT QUIT USR1 USR2 TSTP CONT WINCH TERM; do
        kill -"$name" "$job"
        wait_for_line "$REPORT" "^signal $name from $$\$"
    done
    reap job
    assert_status 5
    assert_equal "$(grep -c '^signal' "$REPORT")" 9
}

@test "witness: descendants tick, in the group and out of it, and teardown finds them" {
    spawn job "$WITNESS" --fork 2 --daemonize --out "$REPORT" --ignore TERM
    reap job
    assert_status 0
    wait_for_line "$REPORT" '^tick'
    wait_until 5000 three_tick
    local pids pid
    mapfile -t pids < <(awk '{ print $3 }' "$REPORT" | sort -u)
    assert_equal "$(for pid in "${pids[@]}"; do process_group "$pid"; done | grep -cx "$job")" 2
    assert_equal "$(for pid in "${pids[@]}"; do process_session "$pid"; done | sort -u | wc -l)" 2
    assert_between "$(last_tick "$REPORT")" "$(($(boottime_ms) - 2000))" "$(boottime_ms)"
    kill -TERM "${pids[@]}"
    sleep 0.05
    for pid in "${pids[@]}"; do
        assert_process "$pid"
    done
    processes_end
    for pid in "${pids[@]}"; do
        wait_until 2000 process_gone "$pid"
    done
}

three_tick() {
    [[ $(awk '{ print $3 }' "$REPORT" | sort -u | wc -l) == 3 ]]
}

@test "redis: freeze, thaw, kill, restart on the same port, a second server" {
    redis_start --tcp
    local port
    port=$(redis_port)
    assert_equal "$(redis-cli -p "$port" ping)" PONG
    redis_freeze
    run unix_ping "$SOCK"
    assert_status 124
    redis_thaw
    assert_equal "$(unix_ping "$SOCK" 5)" PONG
    rcli set key value
    redis_kill9
    run unix_ping "$SOCK"
    assert_status 1
    redis_restart
    assert_equal "$(redis-cli -p "$port" ping)" PONG
    assert_equal "$(key_pttl key)" -2
    redis_start second --requirepass secret
    assert_equal "$(rcli_at second -a secret --no-auth-warning ping)" PONG
    local pid
    pid=$(redis_pid second)
    redis_stop second
    assert_no_process "$pid"
}

@test "redis: the file's server is there in each test; a bad setting is told" {
    assert_equal "$SOCK" "$FILE_ROOM/redis-main/sock"
    assert_equal "$(rcli ping)" PONG
    assert_between "$(calls ping)" 1 1000
    assert_equal "$(calls pexpire)" 0
    run redis_start wrong --no-such-setting 1
    assert_status 1
    [[ $output == *no-such-setting* ]]
}

@test "assertions about keys" {
    rcli flushall
    assert_no_keys_left
    rcli set lock:a token px 60000
    assert_key lock:a
    assert_no_key lock:b
    assert_between "$(key_pttl lock:a)" 1 60000
    run assert_no_keys_left
    assert_status 1
    rcli del lock:a
    rcli hset 'lock:{lock:a}:state' fence 1
    run assert_no_keys_left
    assert_status 1
    [[ $output == *"without expiry: lock:{lock:a}:state"* ]]
    rcli pexpire 'lock:{lock:a}:state' 60000
    assert_no_keys_left
    rcli flushall
}

@test "assertions about messages" {
    status=75 output='' stderr='redislock: job: held by web-2'
    assert_status 75
    assert_one_line 'held by web-[0-9]$'
    assert_no_output
    refute_line_stderr lost
    run assert_one_line nonsense
    assert_status 1
    stderr=$'redislock: a\nredislock: b'
    run assert_one_line
    assert_status 1
    run assert_no_stderr
    assert_status 1
}

@test "skip_or_fail: skips, and fails where strict" {
    REDISLOCK_STRICT=1 run skip_or_fail 'no TLS'
    assert_status 1
    REDISLOCK_STRICT=0 run skip_or_fail 'no TLS'
    assert_status 0
}

@test "wait_until: a condition has a bound" {
    local before after
    before=$(boottime_ms)
    run wait_until 100 false
    after=$(boottime_ms)
    assert_status 1
    assert_between $((after - before)) 90 5000
    wait_until 100 true
}

@test "proxy: passes, counts bytes and round trips, on a Unix socket and on TCP" {
    proxy_start
    assert_equal "$(unix_ping "$PROXY_URL" 5)" PONG
    proxy_saw c2s 14
    assert_equal "$(proxy_stat s2c)" 7
    assert_equal "$(proxy_stat trips)" 1
    redis-cli -s "${PROXY_URL#unix://}" -r 3 ping
    assert_equal "$(proxy_stat trips)" 4
    assert_equal "$(proxy_stat connections)" 2
    wait_until 2000 proxy_idle
    proxy_start --tcp
    assert_equal "$(ping_at "$PROXY_URL")" PONG
    assert_equal "$(redis-cli -u "$PROXY_URL" echo "$(printf '%100000s' x)" | wc -c)" 100001
    run proxy_do nonsense
    assert_status 1
    run proxy_do delay c2s
    assert_status 1
}

proxy_idle() {
    [[ $(proxy_stat open) == 0 ]]
}

@test "proxy: delays, per direction" {
    local before
    proxy_start
    proxy_do delay 150 c2s
    proxy_do delay 150 s2c
    before=$(boottime_ms)
    assert_equal "$(unix_ping "$PROXY_URL" 10)" PONG
    assert_between $(($(boottime_ms) - before)) 300 9000
    proxy_do pass s2c
    before=$(boottime_ms)
    assert_equal "$(unix_ping "$PROXY_URL" 10)" PONG
    assert_between $(($(boottime_ms) - before)) 150 9000
    proxy_do pass
    proxy_do next delay 5000 s2c
    run unix_ping "$PROXY_URL"
    assert_status 124
    assert_equal "$(unix_ping "$PROXY_URL")" PONG
}

@test "proxy: a dropped answer is one that the server gave" {
    proxy_start
    proxy_do next drop s2c
    run timeout 0.5 redis-cli -s "${PROXY_URL#unix://}" set dropped answer
    assert_status 124
    assert_equal "$(rcli get dropped)" answer
    proxy_do drop c2s
    run timeout 0.5 redis-cli -s "${PROXY_URL#unix://}" set dropped question
    assert_status 124
    assert_equal "$(rcli get dropped)" answer
    proxy_do pass
    assert_equal "$(unix_ping "$PROXY_URL")" PONG
}

@test "proxy: holds what was sent until it passes, also when the sender has left" {
    proxy_start
    rcli del held
    proxy_do hold c2s
    run timeout 0.3 redis-cli -s "${PROXY_URL#unix://}" set held yes
    assert_status 124
    assert_equal "$(rcli get held)" ''
    assert_equal "$(proxy_stat open)" 1
    proxy_do pass
    wait_until 2000 key_exists held
    wait_until 2000 proxy_idle
}

@test "proxy: a black hole swallows, and keeps the end of a stream back" {
    proxy_start
    proxy_do blackhole
    run unix_ping "$PROXY_URL" 0.3
    assert_status 124
    assert_equal "$(proxy_stat open)" 1
    proxy_do pass
    wait_until 2000 proxy_idle
    assert_equal "$(unix_ping "$PROXY_URL")" PONG
}

@test "proxy: cuts after so many bytes, at every byte of an answer" {
    local bytes
    proxy_start
    for bytes in 0 1 2 3 4 5 6; do
        proxy_do next cut-after "$bytes" s2c
        run unix_ping "$PROXY_URL"
        [[ $output != PONG ]]
        assert_equal "$(proxy_stat s2c)" $((bytes * (bytes + 1) / 2))
    done
    proxy_do next cut-after 7 s2c
    assert_equal "$(unix_ping "$PROXY_URL")" PONG
    proxy_do next cut-after 5 c2s
    run unix_ping "$PROXY_URL"
    [[ $output != PONG && $status != 124 ]]
    assert_equal "$(unix_ping "$PROXY_URL")" PONG
}

@test "proxy: cuts and resets open connections, also on TCP" {
    local word
    proxy_start --tcp
    for word in cut reset; do
        rcli del "queue-$word"
        spawn reader redis-cli -u "$PROXY_URL" blpop "queue-$word" 30
        wait_until 5000 proxy_saw open 1
        proxy_do "$word"
        reap reader
        assert_equal "$(proxy_stat open)" 0
        [[ $stderr$output == *[Cc]onnection* || $stderr$output == *closed* ]]
    done
    proxy_do next reset-after 0 s2c
    run ping_at "$PROXY_URL"
    [[ $output == *reset* ]]
}

@test "proxy: refuses and accepts again at the same address" {
    local kind
    for kind in '' --tcp; do
        proxy_start $kind
        proxy_do refuse
        run timeout 1 redis-cli "$(flag_of "$PROXY_URL")" "$(place_of "$PROXY_URL")" ping
        [[ $output == *refused* ]]
        proxy_do accept
        run timeout 1 redis-cli "$(flag_of "$PROXY_URL")" "$(place_of "$PROXY_URL")" ping
        assert_output PONG
    done
}

flag_of() {
    case $1 in unix:*) echo -s ;; *) echo -u ;; esac
}

place_of() {
    printf '%s\n' "${1#unix://}"
}

@test "proxy: a server that is gone closes the client's connection" {
    redis_start
    proxy_start
    redis_kill9
    run unix_ping "$PROXY_URL"
    [[ $status != 0 && $status != 124 && $output != PONG ]]
    redis_restart
    assert_equal "$(unix_ping "$PROXY_URL")" PONG
}

@test "talker: answers item by item, across connections, and logs what it was asked" {
    talker_start 'reply +PONG' 'raw -LOADING Redis is loading\r\n' 'raw $3\r\na\x62c\r\n'
    assert_equal "$(unix_ping "$TALKER_URL")" PONG
    run unix_ping "$TALKER_URL"
    [[ $output == LOADING* ]]
    assert_equal "$(redis-cli -s "${TALKER_URL#unix://}" get $'k\n"')" abc
    run unix_ping "$TALKER_URL"
    [[ $output != PONG && $status == 1 ]]
    assert_equal "$(head -n 3 "$TALKER_LOG")" $'"ping"\n"ping"\n"get" "k\\x0a\\x22"'
}

@test "talker: repeats the last item, or starts anew with each connection; rules come first" {
    talker_start --repeat-last 'reply +ONE' 'reply +TWO'
    assert_equal "$(redis-cli -s "${TALKER_URL#unix://}" -r 3 x)" $'ONE\nTWO\nTWO'
    assert_equal "$(unix_ping "$TALKER_URL")" TWO
    talker_start --per-connection --tcp 'when command reply *0' 'when GET reply :5' 'reply +ONE' 'reply +TWO'
    assert_equal "$(printf 'a\nget x\nb\n' | redis-cli -u "$TALKER_URL")" $'ONE\n5\nTWO'
    assert_equal "$(ping_at "$TALKER_URL")" ONE
}

@test "talker: takes pipelined commands apart, whole and in pieces" {
    local answer
    talker_start --tcp --repeat-last 'reply +ONE' 'reply +TWO' 'reply +END'
    exec 9<>"/dev/tcp/127.0.0.1/${TALKER_URL##*:}"
    printf '*1\r\n$4\r\nping\r\n*2\r\n$4\r\necho\r\n$6\r\n' >&9
    read -r -t 5 answer <&9
    assert_equal "$answer" $'+ONE\r'
    printf 'a\r\nb\r\n\r\n' >&9
    read -r -t 5 answer <&9
    assert_equal "$answer" $'+TWO\r'
    exec 9>&-
    assert_equal "$(<"$TALKER_LOG")" $'"ping"\n"echo" "a\\x0d\\x0ab\\x0d\\x0a"'
}

@test "talker: closes, stalls, dawdles and talks garbage" {
    local before
    talker_start --repeat-last 'close' 'last $100\r\nhalf' 'slow 20 +PONG\r\n' 'garbage 5000' 'stall'
    run unix_ping "$TALKER_URL"
    assert_status 1
    run unix_ping "$TALKER_URL"
    assert_status 1
    before=$(boottime_ms)
    assert_equal "$(unix_ping "$TALKER_URL" 5)" PONG
    assert_between $(($(boottime_ms) - before)) 120 5000
    run unix_ping "$TALKER_URL"
    [[ $output == *rotocol* ]]
    run unix_ping "$TALKER_URL" 0.3
    assert_status 124
}

@test "pty: the command has a terminal of its own" {
    run on_pty "$WITNESS" <<<'wait 0'
    assert_status 0
    [[ $output == *"tty /dev/pts/"* ]]
    local pid
    output=${output//$'\r'/}
    pid=$(sed -n 's/^pid //p' <<<"$output")
    assert_line_output "^sid $pid\$"
    assert_line_output "^tpgid $pid\$"
    assert_line_output '^SigIgn 0000000000000000$'
    run on_pty stty size <<<'expect 24 80'
    assert_status 0
}

@test "pty: job control of a shell: ^Z, bg, fg, ^C" {
    run on_pty bash --norc --noprofile -i <<'STEPS'
line PS1=ok-; echo up-$((6*7))
expect up-42
line sleep 100
foreground sleep
send \x1a
expect Stopped
line bg; jobs; echo bg-$((6*7))
expect Running
expect bg-42
line fg
foreground sleep
send \x03
line echo status-$?
expect status-130
line exit 3
wait 3
STEPS
    assert_status 0
}

@test "pty: ^C reaches the foreground group, a resize too, and hangup" {
    run on_pty bash -c "\"$WITNESS\" --signals 20 --exit-on INT --exit 4; exit \$?" <<'STEPS'
expect ready
size 50 100
expect signal WINCH from 0
send \x03
expect signal INT from 0
wait 4
STEPS
    assert_status 0
    run on_pty "$WITNESS" --signals 20 --exit-on HUP --exit 6 <<'STEPS'
expect ready
hangup
wait 6
STEPS
    assert_status 0
}

@test "pty: a failed expectation fails, says which, and leaves no process" {
    run on_pty bash -c "\"$WITNESS\" --daemonize --out '$REPORT' --ignore HUP; echo started; sleep 60" <<'STEPS'
expect started
timeout 100
expect never said
STEPS
    assert_status 1
    [[ $output == *"pty: failed: expect never said"* ]]
    wait_for_line "$REPORT" '^tick'
    local pid
    pid=$(awk '{ print $3; exit }' "$REPORT")
    assert_no_process "$pid"
    run on_pty true <<<'wait 1'
    assert_status 1
    run on_pty cat <<<'never 100 anything'
    assert_status 0
    run on_pty echo anything <<<'never 2000 anything'
    assert_status 1
}

@test "pty: ^D ends input; escapes and a missing command" {
    run on_pty cat <<'STEPS'
line a\x62c
expect abc
expect abc
eof
wait 0
STEPS
    assert_status 0
    run on_pty /no/such/command <<<'wait 127'
    assert_status 0
}
