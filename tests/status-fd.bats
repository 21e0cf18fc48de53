#!/usr/bin/env bats
# --status-fd: every event is one JSON object a line with the members that the manual page tells, in
# the order in which things happen; also for scripts.
# shellcheck disable=SC2016 # for other shells
# shellcheck disable=SC2154 # spawn and hold assign

load lib/common
load lib/one_server
load lib/locks
load lib/queue
load lib/scripts

setup() {
    one_server_setup
    scripts_setup
    need jq
    : >"$ROOM/events"
}

# with_events ARG...: redislock with its events added to $ROOM/events.
with_events() {
    lock --status-fd 7 "$@" 7>>"$ROOM/events"
}

# The names of the events so far.
story() {
    jq -r .event "$ROOM/events" | xargs
}

# event NAME FILTER: of the last event of that name.
event() {
    jq -rs "map(select(.event == \"$1\")) | last | $2" "$ROOM/events"
}

# Each line is an object of its own, of the documented members and types, times in order.
assert_schema() {
    jq -es --argjson lines "$(wc -l <"$ROOM/events")" '
        def int: type == "number" and . == floor;
        def string: type == "string";
        length == $lines and ([.[].time] | . == sort) and all(
            (.time | test("^20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\\.[0-9]{3}Z$")) and (.name | string) and
            if .event == "acquired" then (.key | string) and (.fence | int)
            elif .event == "held" then .left_ms == null or (.left_ms | int)
            elif .event == "waiting" then .ahead | int
            elif .event == "started" then .pid | int
            elif .event | IN("extended", "restored", "released") then .fence | int
            elif .event == "lost" then .reason | IN("lost", "expired")
            elif .event == "stopping" then .reason | IN("lost", "expired", "max-runtime")
            elif .event == "exited" then .duration_ms | int
            elif .event == "ended" then .status | int
            else .event == "unavailable" end)' "$ROOM/events" >/dev/null ||
        fail "not as documented: $(<"$ROOM/events")"
}

@test "a run, from acquired to ended" {
    with_events -t 600ms job -- "$WITNESS" --sleep 500 --exit 3 || true
    [[ $(story) =~ ^acquired\ started\ (extended\ )+exited\ released\ ended$ ]] || fail "$(story)"
    assert_schema
    assert_equal "$(event acquired .key) $(event exited .status) $(event ended .status)" 'lock:job 3 3'
    assert_equal "$(event acquired .fence)" "$(event released .fence)"
    assert_equal "$(jq -r .name "$ROOM/events" | sort -u)" job
}

@test "the command's 75 and ours are told apart: only the command's has started" {
    with_events job -c 'exit 75' || true
    assert_equal "$(story)" 'acquired started exited released ended'
    assert_equal "$(event ended .status)" 75
    : >"$ROOM/events"
    hold one job
    with_events -q job -- true || true
    assert_equal "$(story)" 'held ended'
    assert_equal "$(event ended .status) $(event held .pid) $(event held .command)" "75 $one witness"
    assert_equal "$(event held .fence)" "$(holder_field fence lock:job)"
    assert_schema
    let_go one
}

@test "likewise the command's 69, 79, 124 and 128+N and ours" {
    local status
    for status in 69 79 124 130; do
        : >"$ROOM/events"
        with_events job -c "exit $status" || true
        assert_equal "$(story) $(event ended .status)" "acquired started exited released ended $status"
    done
    : >"$ROOM/events"
    # shellcheck disable=SC2016 # for the command
    with_events job -c 'kill -INT $$' || true
    assert_equal "$(event exited .signal) $(event exited .status) $(event ended .status)" '2 null 130'
    : >"$ROOM/events"
    with_events --max-runtime 200ms job -- sleep 30 2>/dev/null || true
    assert_equal "$(story)" 'acquired started stopping exited released ended'
    assert_equal "$(event stopping .reason) $(event stopping .signal) $(event ended .status)" \
        'max-runtime 15 124'
    : >"$ROOM/events"
    URL=unix://$ROOM/nobody with_events --connect-timeout 50ms job -- true 2>/dev/null || true
    assert_equal "$(story) $(event ended .status)" 'unavailable ended 69'
    assert_schema
}

@test "a loss: lost, stopping, exited, ended with 79, nothing released" {
    spawn one bash -c \
        'exec "$REDISLOCK_BIN" --status-fd 7 -t 1 job -- sleep 30 7>>"$ROOM/events"'
    wait_until 5000 event_seen "$ROOM/events" started
    rcli set lock:job foreign px 60000 >/dev/null
    reap one
    assert_status 79
    [[ $(story) =~ ^acquired\ started\ (extended\ )*lost\ stopping\ exited\ ended$ ]] || fail "$(story)"
    assert_equal "$(event lost .reason) $(event ended .status)" 'lost 79'
    assert_schema
}

@test "a key that vanished: restored" {
    spawn one bash -c \
        'exec "$REDISLOCK_BIN" --status-fd 7 -t 1 job -- sleep 30 7>>"$ROOM/events"'
    wait_until 5000 event_seen "$ROOM/events" started
    rcli del lock:job >/dev/null
    wait_until 5000 event_seen "$ROOM/events" restored
    wait_until 5000 event_seen "$ROOM/events" extended
    kill "$one"
    reap one
    assert_equal "$(event restored .fence)" "$(event acquired .fence)"
    assert_schema
}

@test "a wait: waiting with the place in line, then acquired" {
    hold one job
    stand two job
    spawn three bash -c \
        'exec "$REDISLOCK_BIN" --status-fd 7 -w inf job -- true 7>>"$ROOM/events"'
    wait_until 5000 event_seen "$ROOM/events" waiting
    assert_equal "$(event waiting .ahead)" 1
    let_go one
    reap two
    reap three
    assert_status 0
    [[ $(story) =~ ^(waiting\ )+acquired\ started\ exited\ released\ ended$ ]] || fail "$(story)"
    assert_schema
}

@test "a slot is told with acquired" {
    with_events -S 2 job -- true
    assert_equal "$(event acquired .slot)" 1
    assert_schema
}

@test "a script's keeper goes on telling after redislock has returned" {
    script_of script <<<'"$REDISLOCK_BIN" -t 1 --status-fd 7 --attach job 7>>"$ROOM/events" || exit
stay'
    run_script one dash
    wait_until 5000 event_seen "$ROOM/events" extended 2
    go "$one"
    wait_until 5000 event_seen "$ROOM/events" released
    [[ $(story) =~ ^acquired\ (extended\ )+exited\ released$ ]] || fail "$(story)"
    assert_schema
    : >"$ROOM/events"
    run_script one dash
    rcli set lock:job foreign px 60000 >/dev/null
    reap one
    wait_until 5000 event_seen "$ROOM/events" exited
    [[ $(story) =~ ^acquired\ (extended\ )+lost\ stopping\ exited$ ]] || fail "$(story)"
    assert_schema
}

@test "names and words from elsewhere are JSON strings, whatever they hold" {
    LOGNAME=$'a"b\\c\e\xff' hold one $'na"me\n'
    with_events -q $'na"me\n' -- true || true
    assert_equal "$(jq -rs '.[0].name' "$ROOM/events")" $'na"me'
    [[ $(event held .user) == $'a"b\\c\e'* ]]
    assert_schema
    let_go one
}

@test "each line is an object of its own and of at most 4096 bytes, whatever the name" {
    local name
    for name in $'\001' $'\u202e' '"' '%' $'\xff'; do
        name=$(yes "$name" | head -n 512 | tr -d '\n')
        with_events "$(head -c 160 <<<"$name")" -- true
        with_events "$(head -c 512 <<<"$name")" -- true
    done
    jq -es 'all(.event and .time and .name)' "$ROOM/events" >/dev/null || fail 'not JSON'
    assert_equal "$(jq -r .event "$ROOM/events" | sort | uniq -c | xargs)" \
        '10 acquired 10 ended 10 exited 10 released 10 started'
    assert_between "$(wc -L <"$ROOM/events")" 1 4095
}

# full_pipe: $FULL is a pipe that is full, and nobody reads it.
full_pipe() {
    mkfifo "$ROOM/full"
    exec {FULL}<>"$ROOM/full"
    dd if=/dev/zero of="$ROOM/full" bs=1 oflag=nonblock status=none 2>/dev/null || true
}

@test "where nobody reads events and messages the job runs, its lock is extended, and signals arrive" {
    full_pipe
    local before
    before=$(calls evalsha)
    spawn job bash -c 'exec "$REDISLOCK_BIN" -t 2 -v --status-fd "$0" job -- sh -c "echo in; exec sleep 60" 2>&"$0"' "$FULL"
    wait_until 5000 grep -qx in "$ROOM/job.out"
    wait_until 10000 called_more "$before" 4
    assert_key lock:job
    run --separate-stderr lock job -- true
    assert_status 75
    kill "$job"
    reap job
    assert_status 143
    freed lock:job
    # nor does a wait hang in its words
    rcli set lock:job foreign px 60000 >/dev/null
    quickly bash -c '"$REDISLOCK_BIN" -w 500ms -v --status-fd "$0" job -- true 2>&"$0"' "$FULL"
    assert_status 75
    exec {FULL}>&-
}

# called_more BEFORE NUMBER: so many more EVALSHA than before; for wait_until.
called_more() {
    (($(calls evalsha) >= $1 + $2))
}

@test "--acquire tells as well" {
    with_events --acquire job >"$ROOM/token"
    assert_equal "$(story) $(event acquired .fence)" "acquired $(holder_field fence lock:job)"
}
