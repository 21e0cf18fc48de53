#!/usr/bin/env bats
# --list and --status of many locks: their questions go out together, and still each answer is shown with
# the name that it is of, in order, once, and trouble with one of them costs the others nothing.

# shellcheck disable=SC2154 # spawn assigns

load lib/common
load lib/one_server
load lib/locks

setup() {
    one_server_setup
    URL=unix://$SOCK
}

# remember FROM TO [TAIL]: what is remembered of the locks job-FROM to job-TO, with TAIL behind each name:
# as many runs as its number.
remember() {
    rcli eval 'for i = ARGV[1], ARGV[2] do
        local key = string.format("lock:{lock:job-%04d%s}:state", i, ARGV[3])
        redis.call("HSET", key, "runs", i)
    end' 0 "$1" "$2" "${3-}" >/dev/null
}

# expected FROM TO: what `shown` prints of these.
expected() {
    local number
    for ((number = $1; number <= $2; number++)); do
        printf 'job-%04d %d\n' "$number" "$number"
    done
}

# shown: the names and runs in the JSON of $output.
shown() {
    jq -r '.[] | "\(.name) \(.runs)"' <<<"$output"
}

list_json() {
    run --separate-stderr lock --list --json
}

# trips_of COMMAND...: runs it through the proxy; round trips are in $trips.
trips_of() {
    local before
    before=$(proxy_stat trips)
    URL=$PROXY_URL run --separate-stderr "$@"
    trips=$(($(proxy_stat trips) - before))
}

@test "300 locks: each with its own answer, in order, in a few round trips" {
    local trips
    remember 1 300
    rcli script flush >/dev/null
    rcli set lock:job-0100x 'foreign token' px 600000 >/dev/null
    rcli hset lock:job-0150x a b >/dev/null # a key that is no lock
    rcli set lock:job-0200x gone px 1 >/dev/null
    proxy_start
    trips_of lock --list --json
    assert_status 0
    assert_no_stderr
    assert_equal "$(shown)" "$(expected 1 100; echo 'job-0100x 0'; expected 101 300)"
    assert_equal "$(jq -r '.[] | select(.held) | .name' <<<"$output")" job-0100x
    assert_between "$trips" 5 10 # the nodes, the names, and the locks in batches
    assert_equal "$(calls eval)" 2 # ours, and the script's text once
    trips_of lock --list
    assert_status 0
    assert_equal "$(sed '1d; s/ .*//' <<<"$output")" \
        "$(expected 1 100 | cut -d' ' -f1; echo job-0100x; expected 101 300 | cut -d' ' -f1)"
}

@test "--status of several names is one round trip, also where some are free or unknown" {
    local trips
    remember 1 3
    proxy_start
    lock --status job-0001 >/dev/null # now the script is known
    trips_of lock --status --json job-0003 unknown job-0001 job-0001 job-0002
    assert_status 0
    assert_equal "$(shown)" $'job-0003 3\nunknown 0\njob-0001 1\njob-0001 1\njob-0002 2'
    assert_equal "$trips" 1
    rcli rpush lock:list x >/dev/null
    run --separate-stderr lock --status job-0001 list job-0002
    assert_status 76
    assert_line_output '^job-0001: free$'
    assert_equal "$(grep -c '^job' <<<"$output")" 1
    assert_one_line 'the key holds a list'
}

@test "names as long as can be, and values of a megabyte, are only fewer at a time" {
    local number tail names=(job-{0001..0060})
    tail=$(printf '%0504d' 0)
    remember 1 200 "${tail//0/%01}" # as it is encoded
    list_json
    assert_status 0
    assert_equal "$(jq -c 'map(.runs) == [range(1; 201)]' <<<"$output")" true
    assert_equal "$(jq -c '.[6].name == "job-0007" + "\u0001" * 504' <<<"$output")" true
    proxy_start
    proxy_do hold s2c # not an answer comes back: so much is sent without one
    URL=$PROXY_URL run --separate-stderr lock --connect-timeout 300ms --status \
        "${names[@]/%/${tail//0/$'\001'}}"
    assert_status 69
    assert_between "$(proxy_stat c2s)" 40000 100000 # of 60 questions, 6 kB each
    rcli flushall >/dev/null
    for number in {1..20}; do # more than a reply may have
        rcli eval 'redis.call("SET", KEYS[1], string.rep("x", 1048576))' 1 "lock:job-$number" >/dev/null
    done
    list_json
    assert_status 0
    assert_equal "$(jq '[.[] | select(.holders[0].kind == "foreign")] | length' <<<"$output")" 20
}

@test "a server that has forgotten the script is given it once, whenever that is" {
    remember 1 300
    rcli script flush >/dev/null
    rcli config resetstat >/dev/null
    list_json
    assert_status 0
    assert_equal "$(shown)" "$(expected 1 300)"
    assert_equal "$(calls eval)" 1
    spawn watch lock --list --json --watch=20ms
    wait_until 10000 lists_are 3
    rcli script flush >/dev/null
    wait_until 10000 lists_are $(($(grep -c '^\[' "$ROOM/watch.out") + 3))
    assert_equal "$(calls eval)" 2
    process_end "$watch"
    # up to the last list, which may have been cut
    run sh -c "jq -c 'map(.runs) == [range(1; 301)]' '$ROOM/watch.out' 2>/dev/null | sort | uniq -c"
    assert_line_output '^ *[0-9]+ true$'
    assert_equal "${#lines[@]}" 1
}

# bytes_of COMMAND...: what the server sends for it through the proxy.
bytes_of() {
    local before
    before=$(proxy_stat s2c)
    URL=$PROXY_URL lock "$@" >/dev/null
    echo $(($(proxy_stat s2c) - before))
}

@test "a connection that is cut on the way: what was shown is not asked for again, and nothing is missing" {
    local names all number
    remember 1 300
    lock --list >/dev/null
    proxy_start
    names=$(bytes_of --list none)
    all=$(bytes_of --list)
    assert_between "$((all - names))" 10000 100000
    for number in $((names + 1)) $((names + 100)) $((names + (all - names) / 2)) $((all - 1)); do
        rcli config resetstat >/dev/null
        proxy_do next cut-after "$number" s2c
        URL=$PROXY_URL list_json
        assert_status 0
        assert_no_stderr
        assert_equal "$(shown)" "$(expected 1 300)"
        assert_between "$(calls evalsha)" 300 $((300 + 64))
    done
    # and a server that is then gone
    proxy_do cut-after 0 s2c
    proxy_do next cut-after $((names + (all - names) / 2)) s2c
    URL=$PROXY_URL run --separate-stderr lock --connect-timeout 300ms --list
    assert_status 69
    assert_one_line 'the server closed the connection'
    assert_between "${#lines[@]}" 50 250
    assert_equal "$(sed '1d; s/ .*//' <<<"$output")" \
        "$(expected 1 $((${#lines[@]} - 1)) | cut -d' ' -f1)"
}

@test "a connection that is cut while the keys are walked through: it goes on where it was" {
    local names number steps
    remember 1 300
    other_keys 20000
    proxy_start
    rcli config resetstat >/dev/null
    names=$(bytes_of --list none)
    steps=$(calls scan)
    assert_between "$steps" 15 25
    for number in 0 1 100 $((names / 2)) $((names - 200)) $((names - 1)); do
        rcli config resetstat >/dev/null
        proxy_do next cut-after "$number" s2c
        URL=$PROXY_URL list_json
        assert_status 0
        assert_no_stderr
        assert_equal "$(shown)" "$(expected 1 300)"
        assert_between "$(calls scan)" "$steps" $((steps + 2))
    done
    URL=$PROXY_URL spawn watch lock --list --json --watch=20ms
    for number in 1 2 3; do
        wait_until 10000 lists_are $((number * 2))
        proxy_do cut
    done
    wait_until 10000 lists_are 8
    process_end "$watch"
    assert_equal "$(<"$ROOM/watch.err")" ''
}

@test "a server that comes back while the keys are walked through is waited for, else it is 69" {
    local names before
    remember 1 300
    other_keys 20000
    proxy_start
    names=$(bytes_of --list none)
    proxy_do hold s2c
    URL=$PROXY_URL spawn list lock --connect-timeout 30s --list --json
    wait_until 10000 proxy_saw open 1
    proxy_do refuse
    proxy_do cut
    proxy_do pass s2c
    wait_until 10000 not_connected
    proxy_do accept
    reap list
    assert_status 0
    assert_no_stderr
    assert_equal "$(shown)" "$(expected 1 300)"
    proxy_do cut-after 0 s2c
    proxy_do next cut-after $((names / 2)) s2c
    before=$(boottime_ms)
    URL=$PROXY_URL run --separate-stderr lock --connect-timeout 700ms --list
    assert_status 69
    assert_no_output
    assert_one_line "^redislock: $PROXY_URL: the server closed the connection; no working Redis"
    assert_between $(($(boottime_ms) - before)) 690 5000
}

not_connected() {
    [[ $(proxy_stat open) == 0 ]]
}

# step CURSOR NAME...: what SCAN replies.
step() {
    local cursor=$1 name
    shift
    printf 'raw *2\\r\\n$%d\\r\\n%s\\r\\n*%d\\r\\n' "${#cursor}" "$cursor" $#
    for name; do
        printf '$6\\r\\nlock:%s\\r\\n' "$name"
    done
}

# run_id ID: what INFO replies.
run_id() {
    printf 'raw $11\\r\\n\\nrun_id:%s\\r\\n\\r\\n' "$1"
}

# walked NAMES CURSORS: these were listed, each once, and these cursors sent.
walked() {
    URL=$TALKER_URL run --separate-stderr lock --list
    assert_status 0
    assert_no_stderr
    assert_equal "$(sed '1d; s/ .*//' <<<"$output" | xargs)" "$1"
    assert_equal "$(sed -n 's/^"SCAN" "\([0-9]*\)" .*/\1/p' "$TALKER_LOG" | xargs)" "$2"
}

@test "a cursor is given back to the process that gave it alone; another server is walked through anew" {
    local rules=('when CLUSTER reply -ERR This instance has cluster support disabled' "when EVALSHA $(answer 1)")
    talker_start "${rules[@]}" "$(step 7 a b)" "$(step 9 c)" "$(run_id 1)" close "$(step 0 d)" "$(run_id 1)"
    walked 'a b c d' '0 7 9 9'
    talker_start "${rules[@]}" "$(step 7 a b)" "$(step 9 c)" "$(run_id 1)" close "$(step 0)" "$(run_id 2)" \
        "$(step 5 b)" "$(step 0 d)"
    walked 'a b c d' '0 7 9 9 0 5'
    # it is not told who answers, or was not asked in time
    talker_start "${rules[@]}" 'when INFO reply -NOPERM' "$(step 7 a b)" "$(step 9 c)" close "$(step 0)" \
        "$(step 0 b d)"
    walked 'a b c d' '0 7 9 9 0'
    talker_start "${rules[@]}" "$(step 7 a)" close "$(step 0)" "$(run_id 1)" "$(step 5 b)" close \
        "$(step 0 c)" "$(run_id 1)"
    walked 'a b c' '0 7 7 0 5 5'
}

@test "a server that is another one at each connection ends the walk with 69" {
    talker_start --per-connection 'when CLUSTER reply -ERR no' 'when INFO reply -NOPERM' "$(step 7 a)"
    URL=$TALKER_URL run --separate-stderr lock --connect-timeout 500ms --list
    assert_status 69
    assert_one_line 'is another server at each connection'
}
# answer RUNS: what STATUS replies of a free lock.
answer() {
    printf 'raw *5\\r\\n$13\\r\\n1795917600000\\r\\n*0\\r\\n*0\\r\\n:0\\r\\n*2\\r\\n$4\\r\\nruns\\r\\n$1\\r\\n%d\\r\\n' "$1"
}

# three_locks ITEM...: a server with the locks a, b and c, whose looks get these answers. Sets TALKER_URL.
three_locks() {
    talker_start 'when CLUSTER reply -ERR This instance has cluster support disabled' \
        'when SCAN raw *2\r\n$1\r\n0\r\n*3\r\n$6\r\nlock:b\r\n$6\r\nlock:c\r\n$6\r\nlock:a\r\n' "$@"
}

# looks: by which command each lock was asked for, in order.
looks() {
    sed -n 's/^"\(EVAL\|EVALSHA\)" .* "lock:\([abc]\)" .*/\1 \2/p' "$TALKER_LOG" | xargs
}

@test "trouble with one of several costs the others nothing" {
    local trouble wanted
    while IFS='|' read -r trouble wanted; do
        three_locks "$(answer 1)" "$trouble" "$(answer 9)" "$(answer 2)" "$(answer 3)"
        URL=$TALKER_URL list_json
        assert_status 0
        assert_no_stderr
        assert_equal "$(shown)" $'a 1\nb 2\nc 3'
        assert_equal "$(looks)" "EVALSHA a EVALSHA b EVALSHA c $wanted"
    done <<'END'
reply -NOSCRIPT No matching script|EVAL b EVALSHA c
reply -LOADING Redis is loading|EVALSHA b EVALSHA c
reply -ERR Error running script: -READONLY You can't write|EVALSHA b EVALSHA c
END
    three_locks "$(answer 1)" close "$(answer 2)" "$(answer 3)"
    URL=$TALKER_URL list_json
    assert_status 0
    assert_equal "$(shown)" $'a 1\nb 2\nc 3'
    three_locks "$(answer 1)" 'reply -WRONGTYPE Operation against a key' "$(answer 3)"
    URL=$TALKER_URL list_json
    assert_status 0
    assert_equal "$(shown)" $'a 1\nc 3'
    assert_equal "$(looks)" 'EVALSHA a EVALSHA b EVALSHA c'
}

@test "a reply without sense among several: 76, a refusal: 77; each behind what was shown" {
    local trouble status why
    while IFS='|' read -r trouble status why; do
        three_locks "$(answer 1)" "$trouble" "$(answer 3)"
        URL=$TALKER_URL run --separate-stderr lock --list
        assert_status "$status"
        assert_one_line "$why"
        assert_equal "$(awk '{ print $1 }' <<<"$output" | xargs)" 'NAME a'
    done <<'END'
reply +OK|76|gives an unexpected reply to a script
raw *5\r\n$1\r\nx\r\n*0\r\n*0\r\n:0\r\n*0\r\n|76|gives an unexpected reply to a script
reply -ERR what|76|ERR what
raw ?what\r\n|76|does not speak the Redis protocol
reply -NOPERM this user may not|77|NOPERM this user may not
END
}
