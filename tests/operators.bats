#!/usr/bin/env bats
# --status, --list and --unlock: looking changes nothing, nothing raw reaches a terminal, and exactly the
# holder that was shown is removed.
# shellcheck disable=SC2030,SC2031 # each test is a process of its own
# shellcheck disable=SC2154 # spawn and hold assign

load lib/common
load lib/one_server
load lib/locks
load lib/queue
load lib/scripts

setup() {
    one_server_setup
    export REDISLOCK_URL=unix://$SOCK LOGNAME=deploy
}

# json FILTER: of $output, by jq; strings raw.
json() {
    jq -r "$1" <<<"$output"
}

status_of() {
    run --separate-stderr lock --status "$@"
}

# --- --status -------------------------------------------------------------------------------

@test "--status of a free lock: exit 0, and nothing is known" {
    status_of job
    assert_status 0
    assert_no_stderr
    assert_line_output '^job: free$'
    assert_line_output '^  waiting     0$'
    assert_line_output '^  last run    none is known$'
    assert_line_output '^  runs        0, skipped 0, lost 0$'
    assert_equal "$(rcli dbsize)" 0
}

@test "--status of a held lock: 75, or -E; holder, command, fence, time left" {
    hold one -t 30 job
    status_of job
    assert_status 75
    assert_no_stderr
    assert_line_output "^job: held by [^ ]+ \(pid $one, deploy\) since [0-9:]{8}, [0-9.]+m?s ago$"
    assert_line_output '^  command     witness$'
    assert_line_output "^  fence       $(holder_field fence lock:job)$"
    assert_line_output '^  time left   [0-9.]+m?s of 30s$'
    run --separate-stderr lock -E 9 --status job
    assert_status 9
    run --separate-stderr lock -E 0 --status job
    assert_status 0
    let_go one
}

@test "--status changes nothing, not even the count of skips" {
    hold one job
    status_of job
    status_of --json job
    run --separate-stderr lock --list
    assert_equal "$(state_field skips job)" ''
    assert_equal "$(calls set) $(calls zadd)" "$(calls set) $(calls zadd)"
    let_go one
    assert_equal "$(state_field runs job)" 1
}

@test "--status of several names: the conflict status if any is held, a block for each" {
    hold one two
    status_of one two three
    assert_status 75
    assert_line_output '^one: free$'
    assert_line_output '^two: held by '
    assert_line_output '^three: free$'
    assert_equal "$(grep -c '^$' <<<"$output")" 2
    status_of one three
    assert_status 0
    run --separate-stderr lock -E 3 --status two one
    assert_status 3
    let_go one
    status_of
    assert_status 64
}

@test "--status as ExecCondition= asks: a shell can branch on it" {
    hold one job
    run sh -c '"$REDISLOCK_BIN" --status job >/dev/null && echo free || echo "held $?"'
    assert_output 'held 75'
    let_go one
    run sh -c '"$REDISLOCK_BIN" --status job >/dev/null && echo free || echo "held $?"'
    assert_output free
}

@test "--status of a foreign token: held by another program, with its time left" {
    rcli set lock:job "foreign	token" px 60000 >/dev/null
    status_of job
    assert_status 75
    assert_line_output "^job: held by another program \(its value is not redislock's\)$"
    assert_line_output '^  time left   (1m00s|60s|5[0-9](\.[0-9]+)?s)$'
    rcli persist lock:job >/dev/null
    status_of job
    assert_status 75
    assert_line_output '^  time left   for ever: the key has no expiry$'
    status_of --json job
    assert_equal "$(json '.holders[0] | [.kind, .left_ms, has("host")] | @csv')" '"foreign",,false'
}

@test "--status of a residue: still held for its minimum hold" {
    run lock --min-hold 60 job -- true
    status_of job
    assert_status 75
    assert_line_output '^job: still held for its minimum hold after the run of '
    assert_line_output '^  time left   (1m00s|5[0-9](\.[0-9]+)?s)$'
    status_of --json job
    assert_equal "$(json '.holders[0].kind')" residue
}

@test "--status names the waiters in order" {
    hold one job
    stand two job
    stand three -s job
    status_of job
    assert_status 75
    assert_line_output "^  waiting     2: [^ ]+ \(pid $two, deploy\), [^ ]+ \(pid $three, deploy, shared\)$"
    status_of --json job
    assert_equal "$(json '[.waiting, .waiters[0].pid, .waiters[1].pid, .waiters[1].mode] | @csv')" \
        "2,$two,$three,\"shared\""
    let_go one
    reap two
    reap three
}

@test "--status shows every holder of a shared lock and of slots" {
    hold one -s shared
    hold two -s shared
    hold three -S 2 slots
    status_of shared slots
    assert_status 75
    assert_line_output "^shared: shared by [^ ]+ \(pid $one, deploy\)"
    assert_line_output "^shared: shared by [^ ]+ \(pid $two, deploy\)"
    assert_line_output "^slots: held by [^ ]+ \(pid $three, deploy\).*, slot 1$"
    assert_line_output '^  slots       1 of 2 in use$'
    status_of --json slots
    assert_equal "$(json '[.slots, .holders[0].slot, .holders[0].kind] | @csv')" '2,1,"slot"'
    let_go one
    let_go two
    let_go three
}

@test "--status tells the last run: host, start, duration, exit status; runs, skips and losses" {
    run lock job -c 'exit 3'
    hold one job
    run lock -q job -- true
    run lock -q job -- true
    rcli del lock:job >/dev/null
    rcli set lock:job foreign px 60000 >/dev/null
    let_go one
    rcli del lock:job >/dev/null
    status_of job
    assert_status 0
    assert_line_output "^  last run    $(hostname), 20[0-9-]{8} [0-9:]{8}, for [0-9.]+m?s, exit status 0, ended [0-9.]+m?s ago$"
    assert_line_output '^  runs        2, skipped 2, lost 1$'
    run lock job -c 'kill -KILL $$'
    status_of job
    assert_line_output 'exit status 137, ended'
    status_of --json job
    assert_equal "$(json '[.held, .runs, .skips, .losses, .last_run.status] | @csv')" 'false,3,2,1,137'
}

@test "a job that was skipped for days is visible at a glance" {
    run lock job -- true
    local days_ago=$((($(date +%s) - 5 * 86400) * 1000))
    rcli hset "$(state_key job)" last_start "$days_ago" last_ms 1000 skips 5 >/dev/null
    status_of job
    assert_line_output 'ended 4d23h ago|ended 5d'
    assert_line_output 'runs        1, skipped 5, lost 0'
}

# The schema, as the manual page has it.
SCHEMA='
def known(t): type == t or . == null;
(.name | type == "string") and (.held | type == "boolean") and (.slots | type == "number")
and (.fence | known("number")) and (.waiting | type == "number")
and (.runs | type == "number") and (.skips | type == "number") and (.losses | type == "number")
and (.holders | type == "array") and (.waiters | type == "array")
and (.holders | all(
    (.kind | IN("held", "shared", "slot", "granted", "residue", "foreign")) and (.left_ms | known("number"))
    and (.kind == "foreign" or (
        (.age_ms | type == "number") and (.fence | type == "number") and (.slot | known("number"))
        and (.ttl_ms | type == "number") and (.host | type == "string") and (.pid | type == "number")
        and (.user | type == "string") and (.command | type == "string")))))
and (.waiters | all((.mode | IN("exclusive", "shared", "slots")) and (.host | type == "string")
    and (.pid | type == "number") and (.user | type == "string") and (.command | type == "string")))
and (.last_run == null or (.last_run | (.host | type == "string") and (.start | fromdateiso8601? // (sub("\\.[0-9]+Z$"; "Z") | fromdateiso8601) > 0)
    and (.duration_ms | type == "number") and (.status | known("number"))))
and .held == (.holders | length > 0)'

@test "--json: one object for a name, an array for several and for --list, all of one schema" {
    need jq
    run lock first -- true
    hold one job
    hold two -S 2 slots
    hold three -s shared
    stand four job
    rcli set lock:foreign x px 60000 >/dev/null
    status_of --json job
    assert_status 75
    jq -e "$SCHEMA" <<<"$output"
    status_of --json first job slots shared foreign never
    jq -e "length == 6 and all($SCHEMA)" <<<"$output"
    run --separate-stderr lock --list --json
    assert_status 0
    jq -e "length == 5 and all($SCHEMA)" <<<"$output"
    assert_equal "$(json '[.[].name] | join(" ")')" 'first foreign job shared slots'
    let_go one
    let_go two
    let_go three
    reap four
}

@test "--json of an empty server, and of keys that are no locks only: an array all the same" {
    need jq
    run --separate-stderr lock --list --json
    assert_status 0
    jq -e 'length == 0' <<<"$output"
    rcli rpush lock:a x >/dev/null # before the first lock
    rcli rpush lock:z x >/dev/null
    run lock job -- true
    run --separate-stderr lock --list --json
    assert_status 0
    jq -e 'length == 1 and .[0].name == "job"' <<<"$output"
}

@test "--status of a key that is no lock: 76, and of an unreachable server: 69" {
    rcli hset lock:job a b >/dev/null
    status_of job
    assert_status 76
    assert_one_line 'job: .*the key holds a hash'
    URL=unix://$ROOM/nobody run --separate-stderr lock --connect-timeout 100ms --status job
    assert_status 69
    URL=unix://$ROOM/nobody run --separate-stderr lock --connect-timeout 100ms --list
    assert_status 69
    assert_no_output
}

@test "a full disk behind --status and --list is an error" {
    local mode
    for mode in '--status job' --list '--status --json job' '--list --json'; do
        # shellcheck disable=SC2086 # words on purpose
        run bash -c '"$REDISLOCK_BIN" "$@" >/dev/full' - $mode
        assert_status 71
    done
}

@test "a closed stdout is an error, and what was for it does not go to the server" {
    local mode
    lock seen -- true
    for mode in '--status seen' --list '--json --list' --help --version --doctor '--acquire job' \
        '--print fence --attach job' '--force --unlock seen'; do
        # shellcheck disable=SC2086 # words on purpose
        REDISLOCK_URL=unix://$SOCK run --separate-stderr bash -c '"$REDISLOCK_BIN" "$@" >&-' - $mode
        assert_status 71
        assert_one_line 'cannot write to stdout: Bad file descriptor$'
        assert_no_key lock:job
        # shellcheck disable=SC2086
        errors_are_those_of '1>&-' $mode
    done
}

@test "where stderr is closed no message gets into the connection of those who only look" {
    rcli rpush lock:list x >/dev/null
    errors_are_those_of '2>&-' --status list list
}

# errors_are_those_of CLOSED OPTION...: with that closed the server tells redislock of no more errors.
errors_are_those_of() {
    local closed=$1 usual
    shift
    "$REDISLOCK_BIN" -u "unix://$SOCK" "$@" >/dev/null 2>&1 || true # it has the scripts now
    rcli config resetstat >/dev/null
    bash -c '"$REDISLOCK_BIN" -u "unix://$SOCK" "$@"' - "$@" >/dev/null 2>&1 || true
    usual=$(rcli info errorstats)
    rcli config resetstat >/dev/null
    bash -c "\"\$REDISLOCK_BIN\" -u \"unix://\$SOCK\" \"\$@\" $closed" - "$@" >/dev/null 2>&1 || true
    assert_equal "$(rcli info errorstats)" "$usual"
    rcli del lock:job >/dev/null
}

# --- --list ---------------------------------------------------------------------------------

@test "--list shows a line for each lock under the prefix, by GLOB, with holder, age, waiters, last run" {
    hold one -t 30 report
    run lock backup-db -c 'exit 4'
    run lock backup-web -- true
    run lock --prefix other: backup-other -- true
    run --separate-stderr lock --list
    assert_status 0
    assert_no_stderr
    assert_equal "${#lines[@]}" 4
    assert_equal "$(awk '{ print $1 }' <<<"$output" | xargs)" 'NAME backup-db backup-web report'
    assert_line_output "^report +[^ ]+ $one witness +[0-9.]+m?s +[0-9.]+m?s +0 +-$"
    assert_line_output '^backup-db +- +- +- +0 +20[0-9-]{8} [0-9:]{8} status 4$'
    run --separate-stderr lock --list 'backup-*'
    assert_equal "$(awk '{ print $1 }' <<<"$output" | xargs)" 'NAME backup-db backup-web'
    run --separate-stderr lock --list '*[bt]'
    assert_equal "$(awk '{ print $1 }' <<<"$output" | xargs)" 'NAME backup-db backup-web report'
    run --separate-stderr lock --list none
    assert_status 0
    assert_equal "${#lines[@]}" 1
    run --separate-stderr lock --prefix other: --list
    assert_equal "$(awk '{ print $1 }' <<<"$output" | xargs)" 'NAME backup-other'
    let_go one
}

@test "--list: nothing raw reaches the terminal, whatever the names and values are" {
    local name
    local odd=($'esc\e[31mred' $'new\nline' $'bell\a' 'sp ace' 'br{ac}es' 'per%cent' 'ümläut-€-漢字' $'c1\xc2\x9b31m'
        $'broken\xff\xfe' $'long-ümläut-ümläut-ümläut-ümläut-ümläut' 'quote"back\slash' '*' '-n')
    for name in "${odd[@]}"; do
        run lock -- "$name" true
        assert_status 0
        rcli set "lock:foreign-$name" $'x\e[31m' px 60000 >/dev/null
    done
    LOGNAME=$'\e[31mroot' hold one $'held\e[0m'
    local mode
    for mode in --list '--list --json' --status '--status --json'; do
        local names=()
        [[ $mode == --list* ]] || names=("${odd[@]}" $'held\e[0m')
        # shellcheck disable=SC2086 # words on purpose
        run --separate-stderr lock $mode -- "${names[@]}"
        refute_raw "$output$stderr"
        if [[ $mode == *json ]]; then
            jq -e "length >= 14 and all($SCHEMA)" <<<"$output" >/dev/null
        fi
    done
    let_go one
    run --separate-stderr lock --list
    assert_line_output '^esc\\x1b\[31mred '
    assert_line_output '^new\\x0aline '
    assert_line_output '^br\{ac\}es '
    assert_line_output '^ümläut-€-漢字 +- +- +- +0 '
    # a lock of another program whose name is not as we would write it is none of ours
    refute_raw "$output"
    run --separate-stderr lock --unlock --force "foreign-sp ace"
    assert_status 0
    refute_raw "$output"
}

# refute_raw TEXT: control bytes other than newlines, C1, or what is not UTF-8.
refute_raw() {
    if LC_ALL=C grep -qP '[\x00-\x09\x0b-\x1f\x7f]|\xc2[\x80-\x9f]' <<<"$1"; then
        fail "control bytes: $(cat -v <<<"$1")"
    fi
    iconv -f UTF-8 -t UTF-8 <<<"$1" >/dev/null || fail "no UTF-8: $(cat -v <<<"$1")"
}

@test "--list: every name comes back as it is" {
    need jq
    local name odd=($'esc\e[31mred' $'new\nline' 'sp ace' 'br{ac}es' 'per%cent' '{' '}' '%7B' 'ümläut' 'a:b' '*' '[x]')
    for name in "${odd[@]}"; do
        run lock -- "$name" true
    done
    run --separate-stderr lock --list --json
    assert_equal "$(json '.[].name | @json' | sort)" "$(jq -c '.' < <(for name in "${odd[@]}"; do
        jq -n --arg name "$name" '$name'
    done) | sort)"
    run --separate-stderr lock --list --json '[[]x]'
    assert_equal "$(json '.[].name')" '[x]'
    local long
    long=$(printf '%0512d' 0 | tr 0 '\001')
    run lock -- "$long" true
    run --separate-stderr lock --status --json "$long"
    assert_equal "$(json '.name | length')" 512
}

@test "--list passes over keys of other types and other programs' keys under the prefix" {
    rcli rpush lock:list x >/dev/null
    rcli hset lock:hash a b >/dev/null
    rcli sadd 'lock:{lock:set}:state' x >/dev/null
    rcli set 'lock:{odd' x >/dev/null
    rcli set 'lock:{lock:x}:other' x >/dev/null
    rcli set 'lock:' x >/dev/null
    run lock job -- true
    run --separate-stderr lock --list
    assert_status 0
    assert_equal "$(awk 'NR > 1 { print $1 }' <<<"$output")" job
}

@test "--list does not mind a hundred thousand foreign keys, and never asks for KEYS" {
    redis_start own
    redis_use own
    rcli eval 'for i = 1, 100000 do redis.call("SET", "session:" .. i, i) end' 0 >/dev/null
    lock job -- true
    hold one held
    rcli config resetstat >/dev/null
    local before
    before=$(boottime_ms)
    run --separate-stderr lock --list
    assert_between "$(($(boottime_ms) - before))" 0 5000
    assert_equal "$(awk 'NR > 1 { print $1 }' <<<"$output" | xargs)" 'held job'
    assert_no_stderr # progress is for terminals
    assert_equal "$(calls keys) $(calls type)" '0 0'
    assert_between "$(calls scan)" 50 1000
    assert_between "$(($(calls get) + $(calls evalsha) + $(calls eval)))" 1 20 # not one per key
    let_go one
}

@test "--list on a terminal shows how far it is, and takes it back" {
    lock job -- true
    run on_pty "$REDISLOCK_BIN" --list <<'STEPS'
expect looking through the keys
expect job
wait 0
STEPS
    assert_status 0
    [[ $output == *$'\r\e[K'*NAME* ]]
}

@test "--list in line by line: 64 for more than one GLOB, and --watch without a terminal repeats" {
    run --separate-stderr lock --list a b
    assert_status 64
    lock job -- true
    spawn watch "$REDISLOCK_BIN" --list --watch=50ms
    wait_until 5000 heads_are "$ROOM/watch.out" 3
    refute_raw "$(<"$ROOM/watch.out")"
    process_end "$watch"
}

heads_are() {
    (($(grep -c ^NAME "$1") >= $2))
}

# --- --unlock -------------------------------------------------------------------------------

@test "--unlock without a terminal needs --force" {
    hold one job
    run --separate-stderr lock --unlock job
    assert_status 64
    assert_one_line -- '--unlock needs --force where there is no terminal to ask on'
    assert_key lock:job
    run --separate-stderr lock --unlock --force job
    assert_status 0
    assert_line_output "^job: held by [^ ]+ \(pid $one, deploy\)"
    assert_line_output '^removed$'
    assert_no_key lock:job
}

@test "the removed holder stops with 79 at its next extension, and does not put its key back" {
    hold one -t 2 job
    run --separate-stderr lock --unlock --force job
    assert_status 0
    reap one
    assert_status 79
    assert_line_stderr 'taken away or held by somebody else since; stopping'
    assert_no_key lock:job
}

@test "--unlock hands the lock to the next waiter, and the removed holder does not disturb it" {
    hold one -t 2 job
    STAY=300 stand next job
    run --separate-stderr lock --unlock --force job
    assert_status 0
    reap next
    assert_status 0
    assert_served next
    reap one
    assert_status 79
}

@test "--unlock of a free lock: 0, and says so" {
    run --separate-stderr lock --unlock job
    assert_status 0
    assert_output 'the lock is free; there is nothing to remove'
    assert_no_stderr
    assert_equal "$(rcli dbsize)" 0
}

@test "--unlock on a terminal asks: n leaves the lock, y takes it away" {
    hold one -t 2 job
    local answer
    for answer in n '' no x N; do
        run on_pty "$REDISLOCK_BIN" --unlock job <<STEPS
expect job: held by
expect Take the lock away?
line $answer
expect left as it is
wait 75
STEPS
        assert_status 0
        assert_key lock:job
    done
    run on_pty "$REDISLOCK_BIN" --unlock job <<'STEPS'
expect [y/N]
eof
expect left as it is
wait 75
STEPS
    assert_status 0
    run on_pty "$REDISLOCK_BIN" --unlock job <<'STEPS'
expect [y/N]
line y
expect removed
wait 0
STEPS
    assert_status 0
    reap one
    assert_status 79
}

# A terminal on which --unlock asks, and which answers y once $ROOM/answer is there.
ask_slowly() {
    mkfifo "$ROOM/steps"
    "$REDISLOCK_TOOLS/pty" --script "$ROOM/steps" -- "$REDISLOCK_BIN" --unlock job >"$ROOM/screen" 2>&1 3>&- &
    ASKER=$!
    _process_keep "$ASKER"
    exec 6>"$ROOM/steps"
    echo 'expect [y/N]' >&6
    wait_for_line "$ROOM/screen" 'Take the lock away'
}

answer_yes() {
    printf 'line y\nexpect nothing was removed\nwait 0\n' >&6
    exec 6>&-
    wait "$ASKER"
}

@test "--unlock never removes a newer holder than the one it has shown" {
    hold one -t 2 job
    ask_slowly
    let_go one
    hold two -t 2 job 6>&- # the asker's steps end with us
    local fence
    fence=$(holder_field fence lock:job)
    answer_yes
    assert_equal "$(holder_field pid lock:job)" "$two"
    # nor does it take the newer one's right to put its key back
    assert_equal "$(state_field fence job)" "$fence"
    rcli del lock:job >/dev/null
    wait_until 5000 key_exists lock:job
    let_go two
    assert_status 0
}

@test "--unlock of a holder whose key vanished while it asked: the key does not come back" {
    hold one -t 2 job
    ask_slowly
    freeze "$one"
    rcli del lock:job >/dev/null
    answer_yes
    thaw "$one"
    reap one
    assert_status 79
    assert_no_key lock:job
}

@test "--unlock removes a foreign token, a residue, all shared holders and slots" {
    rcli set lock:job 'foreign token' >/dev/null
    run --separate-stderr lock --unlock --force job
    assert_line_output '^job: held by another program'
    assert_line_output '^removed$'
    assert_no_key lock:job

    run lock --min-hold 60 job -- true
    run --separate-stderr lock --unlock --force job
    assert_line_output '^removed$'
    assert_no_key lock:job

    local kind # with a lease that also a busy machine extends in time
    for kind in -s -S3; do
        hold one "$kind" -t 6 job
        hold two "$kind" -t 6 job
        run --separate-stderr lock --unlock --force job
        assert_status 0
        assert_equal "$(grep -c '^job: ' <<<"$output")" 2
        assert_equal "$(places job)" ''
        reap one
        assert_status 79
        reap two
        assert_status 79
    done
}

@test "--unlock leaves a key that is no lock alone: 76" {
    rcli rpush lock:job element >/dev/null
    run --separate-stderr lock --unlock --force job
    assert_status 76
    assert_equal "$(rcli type lock:job)" list
}

@test "--unlock of a token too long to be compared says so, and removes nothing" {
    printf '%02000d' 0 | rcli -x set lock:job >/dev/null
    run --separate-stderr lock --unlock --force job
    assert_status 76
    assert_line_stderr 'too long'
    assert_key lock:job
}
