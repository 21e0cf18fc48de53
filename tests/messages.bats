#!/usr/bin/env bats
# Waiting for a lock; what is said to people and to programs: messages, JSON, events.
# shellcheck disable=SC2030,SC2031 # each test is a process of its own
# shellcheck disable=SC2154 # spawn and hold assign

load lib/common
load lib/one_server
load lib/locks

setup() {
    one_server_setup
    export LOGNAME=deploy
}

# --- Waiting ------------------------------------------------------------------------------------

@test "-w gets the lock when it is freed, and waits until then" {
    local wait
    for wait in 30 inf; do
        hold first job
        rcli config resetstat >/dev/null
        spawn second lock -w "$wait" job -- "$WITNESS" --log "$ROOM/log"
        wait_until 10000 calls_reach evalsha 2 # it has tried twice
        [[ ! -e $ROOM/log ]]
        let_go first
        reap_quiet second
        assert_equal "$(grep -c ^start "$ROOM/log")" 1
        rm "$ROOM/log"
    done
}

calls_reach() {
    (($(calls "$1") >= $2))
}

@test "-w times out with 75, not before its time, and counts as one skipped run" {
    local began
    hold first job
    began=$(boottime_ms)
    quickly lock -w 300ms job -- touch "$ROOM/ran"
    assert_status 75
    assert_between $(($(boottime_ms) - began)) 300 10000
    assert_one_line "held by $(hostname) \(pid $first, deploy\).*; gave up after waiting [0-9]+ms$"
    [[ ! -e $ROOM/ran ]]
    assert_equal "$(state_field skips job)" 1
    quickly lock -w 300ms -E 9 job -- true
    assert_status 9
}

@test "-w 0 is -n" {
    hold first job
    quickly lock -w 0 job -- true
    assert_status 75
    refute_line_stderr 'gave up'
}

# --- Messages -----------------------------------------------------------------------------------

# holder_since MS: lock:job is held by somebody since MS ago.
holder_since() {
    rcli set lock:job "redislock1:$(printf '0%.0s' {1..40}):7:held:$(($(date +%s%3N) - $1)):60000:web-2:0badcafe:4711:deploy:report.sh" \
        px 60000 >/dev/null
}

@test "the message names the holder: host, pid, user, since when" {
    holder_since 192000
    quickly lock job -- true
    assert_status 75
    assert_one_line '^redislock: job: held by web-2 \(pid 4711, deploy\) since [0-9]{2}:[0-9]{2}:[0-9]{2}, 3m1[2-9]s ago$'
    holder_since $((30 * 3600 * 1000))
    quickly lock job -- true
    assert_one_line 'since [0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:]{8}, 1d06h ago$'
}

@test "--quiet-for speaks up once the holder is older, and about a holder of unknown age" {
    holder_since 3600000
    quickly lock --quiet-for 2h job -- true
    assert_status 75
    assert_no_stderr
    quickly lock --quiet-for 30m job -- true
    assert_status 75
    assert_one_line 'held by web-2'
    quickly lock -q --quiet-for 30m job -- true
    assert_no_stderr
    rcli set lock:job theirs >/dev/null
    quickly lock --quiet-for 2h job -- true
    assert_one_line 'another program'
}

@test "-q silences nothing but the refusal" {
    quickly "$REDISLOCK_BIN" -q -u "unix://$ROOM/nobody" --connect-timeout 50ms job true
    assert_status 69
    assert_one_line 'No such file'
    quickly lock -q job -- "$ROOM/not-there"
    assert_status 127
    assert_one_line 'cannot run'
}

# assert_json FILE: each line of it is one JSON object.
assert_json() {
    local line
    [[ -s $1 ]]
    if command -v jq >/dev/null; then
        jq -es 'all(type == "object")' "$1" >/dev/null || fail "not JSON: $(<"$1")"
        return
    fi
    while IFS= read -r line; do
        [[ $line =~ ^\{(\"[a-z_]+\":(-?[0-9]+|\"([^\"\\[:cntrl:]]|\\[\"\\/bfnrt]|\\u[0-9a-f]{4})*\")(,|\}$))+ ]] ||
            fail "not JSON: $line"
    done <"$1"
}

@test "--log-format json: each line is an object, whatever the name" {
    local name=$'a"b\\c\n\e[31m☃\xff'
    rcli set 'lock:a"b\c%0A%1B[31m☃'$'\xff' theirs >/dev/null
    quickly lock --log-format json "$name" -- true
    assert_status 75
    assert_equal "${#stderr_lines[@]}" 1
    printf '%s\n' "$stderr" >"$ROOM/log"
    assert_json "$ROOM/log"
    [[ $stderr == *'"name":"a\"b\\c\n'* ]]
    [[ $stderr =~ ^\{\"time\":\"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\.[0-9]{3}Z\" ]]

    lock -v --log-format json job -- true 2>"$ROOM/log"
    assert_json "$ROOM/log"
    assert_equal "$(grep -c '"level":"info"' "$ROOM/log")" 2
}

@test "--log-format json holds for errors of the configuration too" {
    quickly lock --log-format json -t soon job -- true
    assert_status 64
    printf '%s\n' "$stderr" >"$ROOM/log"
    assert_json "$ROOM/log"
    [[ $stderr == *'"level":"error"'*"--ttl: 'soon'"* ]]
}

# events FILE: the names of the events, on one line.
events() {
    sed -E 's/^\{"event":"([a-z-]+)".*/\1/' "$1" | xargs
}

@test "--status-fd tells a run in order, with its facts" {
    lock --status-fd 7 job -c 'exit 3' 7>"$ROOM/events" || true
    assert_json "$ROOM/events"
    assert_equal "$(events "$ROOM/events")" 'acquired started exited released ended'
    local head='^\{"event":"EVENT","time":"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\.[0-9]{3}Z","name":"job"'
    wait_for_line "$ROOM/events" "${head/EVENT/acquired},\"key\":\"lock:job\",\"fence\":[0-9]+\}\$" 1
    wait_for_line "$ROOM/events" "${head/EVENT/started},\"pid\":[0-9]+\}\$" 1
    wait_for_line "$ROOM/events" "${head/EVENT/exited},\"status\":3,\"duration_ms\":[0-9]+\}\$" 1
    wait_for_line "$ROOM/events" "${head/EVENT/released},\"fence\":$(state_field fence job)\}\$" 1
    wait_for_line "$ROOM/events" "${head/EVENT/ended},\"status\":3\}\$" 1
}

@test "--status-fd tells extensions, signals and a stop" {
    lock --status-fd 7 -t 600ms --max-runtime 500ms job -- sleep 30 7>"$ROOM/events" 2>/dev/null || true
    assert_json "$ROOM/events"
    grep -q '"event":"extended"' "$ROOM/events"
    assert_equal "$(events "$ROOM/events" | sed 's/extended //g')" \
        'acquired started stopping exited released ended'
    grep -q '"event":"stopping".*"reason":"max-runtime","signal":15}$' "$ROOM/events"
    grep -q '"event":"exited".*"signal":15,"duration_ms":[0-9]*}$' "$ROOM/events"
    grep -q '"event":"ended".*"status":124}$' "$ROOM/events"
}

@test "--status-fd tells our 75 from the command's" {
    lock --status-fd 7 job -c 'exit 75' 7>"$ROOM/events" || true
    assert_equal "$(events "$ROOM/events")" 'acquired started exited released ended'
    holder_since 3000
    lock --status-fd 7 -q job -- true 7>"$ROOM/events" || true
    assert_equal "$(events "$ROOM/events")" 'held ended'
    grep -qE '"host":"web-2","pid":4711,"user":"deploy","command":"report.sh","fence":7,"age_ms":3[0-9]{3},"left_ms":[0-9]+\}$' \
        "$ROOM/events"
}

@test "--status-fd tells of a server that cannot be reached" {
    "$REDISLOCK_BIN" -u "unix://$ROOM/nobody" --connect-timeout 50ms --status-fd 7 job true \
        7>"$ROOM/events" 2>/dev/null || true
    assert_equal "$(events "$ROOM/events")" 'unavailable ended'
    grep -q '"status":69}$' "$ROOM/events"
}

@test "the command does not get the descriptor of --status-fd, but keeps its own three" {
    lock --status-fd 7 job -- "$WITNESS" --out "$ROOM/report" 7>"$ROOM/events"
    assert_equal "$(grep -c '^fd 7 ' "$ROOM/report" || true)" 0
    lock --status-fd 2 job -- "$WITNESS" --out "$ROOM/report.2" 2>"$ROOM/events"
    assert_equal "$(witness_field "$ROOM/report.2" 'fd 2')" "$ROOM/events"
    lock --status-fd 1 job -- echo hello >"$ROOM/events"
    grep -qx hello "$ROOM/events"
}

@test "a child that redislock had before it was redislock does not end the run" {
    rcli set lock:job theirs >/dev/null
    rcli config resetstat >/dev/null
    # shellcheck disable=SC2016
    spawn job bash -c '(until [[ -e $0 ]]; do sleep 0.01; done) & echo $!; exec "$@"' "$ROOM/go" \
        "$REDISLOCK_BIN" -u "unix://$SOCK" -w 20 job sh -c 'exit 5'
    wait_until 10000 calls_reach evalsha 2
    touch "$ROOM/go"
    wait_until 10000 process_gone "$(<"$ROOM/job.out")"
    rcli del lock:job >/dev/null
    reap job
    assert_status 5
}

@test "a reader of --status-fd that has gone away does no harm" {
    quickly bash -c '"$@" 7> >(exec true); exit $?' - "$REDISLOCK_BIN" -u "unix://$SOCK" \
        --status-fd 7 job sh -c 'sleep 0.05; exit 5'
    assert_status 5
}
