#!/usr/bin/env bats
# The words that the command gets: its environment is the caller's and three variables more, its
# arguments are untouched, and no secret is in either.
# shellcheck disable=SC2030,SC2031 # each test is a process of its own
# shellcheck disable=SC2154 # spawn assigns
# shellcheck disable=SC2016 # the command's shell expands

load lib/common
load lib/one_server
load lib/job

setup() {
    one_server_setup
    REPORT=$ROOM/report
}

# The token of the lock NAME as it stands in the key.
token_of() {
    local value
    value=$(rcli get "lock:$1")
    value=${value#*:}
    printf '%s\n' "${value%%:*}"
}

# --- environment --------------------------------------------------------------------------------

@test "the environment is the caller's, in its order, and three variables more" {
    FROM_CALLER=$'two\nlines' EMPTY='' lock k -- env -0 >"$ROOM/job"
    FROM_CALLER=$'two\nlines' EMPTY='' env -0 >"$ROOM/plain"
    # bash sets _ to the program it runs
    diff <(tr '\n\0' '~\n' <"$ROOM/plain" | grep -v '^_=') \
        <(tr '\n\0' '~\n' <"$ROOM/job" | grep -vE '^(_|REDISLOCK_(NAME|LOCK_KEY|FENCE))=')
    run lock 'night ly' -- sh -c 'echo "$REDISLOCK_NAME,$REDISLOCK_LOCK_KEY,$REDISLOCK_FENCE"'
    [[ $output =~ ^night\ ly,lock:night\ ly,[0-9]+$ ]]
}

@test "an empty environment stays empty but for the three variables" {
    run env -i "$REDISLOCK_BIN" -u "unix://$SOCK" k -- /usr/bin/env
    assert_status 0
    assert_equal "$(sed 's/=.*//' <<<"$output" | sort | tr '\n' ' ')" \
        'REDISLOCK_FENCE REDISLOCK_LOCK_KEY REDISLOCK_NAME '
}

@test "the fence is the one in the lock's value, and rises from run to run" {
    local first second
    first=$(lock k -- sh -c 'redis-cli -s "$SOCK" get lock:k; echo "$REDISLOCK_FENCE"')
    second=$(lock k -- printenv REDISLOCK_FENCE)
    assert_equal "$(head -n 1 <<<"$first" | cut -d: -f3)" "$(tail -n 1 <<<"$first")"
    ((second > $(tail -n 1 <<<"$first")))
}

@test "the lock's key is told as it is in Redis, with prefix and encoding" {
    run lock --prefix my: 'a{b}%' -- sh -c 'redis-cli -s "$SOCK" exists "$REDISLOCK_LOCK_KEY"; env'
    assert_status 0
    assert_equal "${lines[0]}" 1
    assert_line_output '^REDISLOCK_LOCK_KEY=my:a%7[Bb]b%7[Dd]%25$'
    assert_line_output '^REDISLOCK_NAME=a\{b\}%$'
}

@test "values that an outer run left in the environment are replaced, and only those" {
    run env REDISLOCK_NAME=stale REDISLOCK_LOCK_KEY=stale REDISLOCK_FENCE=stale REDISLOCK_SLOT=stale \
        REDISLOCK_NAMESAKE=kept REDISLOCK_TTL=30 "$REDISLOCK_BIN" -u "unix://$SOCK" k -- env
    assert_status 0
    refute_line_in "$output" stale
    assert_equal "$(grep -c '^REDISLOCK_NAME=' <<<"$output")" 1
    assert_equal "$(grep -c '^REDISLOCK_LOCK_KEY=' <<<"$output")" 1
    assert_equal "$(grep -c '^REDISLOCK_FENCE=' <<<"$output")" 1
    refute_line_in "$output" '^REDISLOCK_SLOT='
    grep -qx 'REDISLOCK_TTL=30' <<<"$output"
    grep -qx 'REDISLOCK_NAMESAKE=kept' <<<"$output"
}

@test "a run without a lock (--on-error run) has no key and no fence, also not an outer run's" {
    export REDISLOCK_LOCK_KEY=stale REDISLOCK_FENCE=stale
    URL=unix://$ROOM/nobody run --separate-stderr lock --connect-timeout 50ms --on-error run k -- env
    assert_status 0
    refute_line_in "$output" '^REDISLOCK_(LOCK_KEY|FENCE)='
    grep -qx 'REDISLOCK_NAME=k' <<<"$output"
}

@test "a redislock inside is not configured by the one outside, and tells its own lock" {
    run lock outer -- "$REDISLOCK_BIN" -u "unix://$SOCK" inner -- \
        sh -c 'redis-cli -s "$SOCK" exists lock:outer lock:inner; env'
    assert_status 0
    assert_equal "${lines[0]}" 2
    assert_line_output '^REDISLOCK_NAME=inner$'
    assert_line_output '^REDISLOCK_LOCK_KEY=lock:inner$'
    assert_equal "$(grep -c '^REDISLOCK_FENCE=' <<<"$output")" 1
    assert_no_keys_left
}

@test "a redislock inside on the same name finds the lock held; its status is the outer's" {
    run --separate-stderr lock k -- "$REDISLOCK_BIN" -u "unix://$SOCK" -E 33 k -- true
    assert_status 33
    assert_one_line 'k: held by'
}

@test "the token is nowhere: not in environment, arguments, messages or events" {
    local token
    "$REDISLOCK_TOOLS/launch" --group -- "$REDISLOCK_BIN" -v --status-fd 9 -u "unix://$SOCK" -t 2 k -- \
        "$WITNESS" --report --out "$REPORT" --sleep inf 9>"$ROOM/events" 2>"$ROOM/job.err" 3>&- 4>&- &
    job=$!
    _process_keep "$job"
    wait_for_line "$REPORT" '^nofile '
    wait_for_line "$ROOM/events" '"extended"'
    token=$(token_of k)
    ((${#token} >= 20)) || fail "no token in $(rcli get lock:k)"
    local child
    child=$(witness_field "$REPORT" pid)
    cat "/proc/$job/environ" "/proc/$job/cmdline" "/proc/$child/environ" "/proc/$child/cmdline" \
        "$REPORT" "$ROOM/events" "$ROOM/job.err" >"$ROOM/all"
    [[ -s $ROOM/events && -s $ROOM/job.err ]]
    run ! grep -qaF "$token" "$ROOM/all"
    process_end "$job"
    assert_no_keys_left
}

@test "row 83: a password from a file enters no environment and no arguments" {
    redis_start guarded --requirepass s3cret-word
    printf 's3cret-word\n' >"$ROOM/password"
    redis_use guarded
    spawn job lock --password-file "$ROOM/password" k -- "$WITNESS" --report --out "$REPORT" --sleep inf
    wait_for_line "$REPORT" '^nofile '
    run ! grep -qaF s3cret-word "$REPORT" "/proc/$job/environ" "/proc/$job/cmdline"
    process_end "$job"
}

# --- arguments ----------------------------------------------------------------------------------

@test "row 80: options behind the command are the command's" {
    printf 'a\001b\n' >"$ROOM/f"
    run lock k -- cat -v "$ROOM/f"
    assert_status 0
    assert_output 'a^Ab'
    run lock k cat -v "$ROOM/f"
    assert_output 'a^Ab'
    run lock k printf '%s,' -n -w 5 --ttl x -c -h --version
    assert_status 0
    assert_output '-n,-w,5,--ttl,x,-c,-h,--version,'
}

@test "row 80: only the -- right behind NAME is redislock's" {
    run lock k -- printf '%s,' -- a --
    assert_output '--,a,--,'
    run lock k printf '%s,' -- a
    assert_output '--,a,'
    run lock -- k printf '%s,' a
    assert_output 'a,'
    run -127 --separate-stderr lock k -- -- a
    assert_status 127
    assert_one_line "'--'"
}

@test "arguments arrive untouched: empty, blanks, newlines, quotes, bytes that are no UTF-8" {
    local arguments=('' ' ' $'two\nlines' '*' '$HOME' "it's \"so\"" $'\xff\xfe' '\n' '')
    lock k -- printf '%s\0' "${arguments[@]}" >"$ROOM/got"
    printf '%s\0' "${arguments[@]}" | cmp - "$ROOM/got"
    lock k -- "$WITNESS" --out "$REPORT" '' ''
    assert_equal "$(grep -c '^arg ' "$REPORT")" 5
    assert_equal "$(witness_field "$REPORT" 'arg 0')" "$WITNESS"
}

@test "NAME -- -c runs a program called -c" {
    mkdir "$ROOM/bin"
    printf '#!/bin/sh\necho "program $0 with $*"\n' >"$ROOM/bin/-c"
    chmod +x "$ROOM/bin/-c"
    PATH=$ROOM/bin:$PATH run lock k -- -c 'exit 1'
    assert_status 0
    assert_output "program $ROOM/bin/-c with exit 1"
}

@test "the command is looked up in the caller's PATH, or taken as the path it is" {
    mkdir "$ROOM/bin"
    printf '#!/bin/sh\necho "here is $0"\n' >"$ROOM/bin/my-job"
    chmod +x "$ROOM/bin/my-job"
    PATH=$ROOM/bin:$PATH run lock k my-job
    assert_output "here is $ROOM/bin/my-job"
    cd "$ROOM"
    run lock k bin/my-job
    assert_output 'here is bin/my-job'
}

@test "a script without a #! line is run by the shell, as flock and timeout do" {
    echo 'echo "plain $1"' >"$ROOM/script"
    chmod +x "$ROOM/script"
    run lock k -- "$ROOM/script" words
    assert_status 0
    assert_output 'plain words'
}

# --- the shell line -----------------------------------------------------------------------------

@test "-c runs its line with /bin/sh, before NAME or behind it" {
    run lock k -c 'echo one; echo "$((1 + 1))" | cat; exit 9'
    assert_status 9
    assert_output $'one\n2'
    run lock -c 'echo "$REDISLOCK_NAME"' k
    assert_status 0
    assert_output k
    run lock --command='echo "a  b"' k
    assert_output 'a  b'
    run env SHELL=/bin/false PATH=/nowhere "$REDISLOCK_BIN" -u "unix://$SOCK" k -c 'echo still'
    assert_output still
}

@test "-c: stdin, status and signals are those of the line" {
    run lock k -c 'read a; read b; echo "$b$a"' < <(printf '1\n2\n')
    assert_output 21
    run lock k -c 'kill -KILL $$'
    assert_status 137
    run lock k -c ''
    assert_status 0
}
