#!/usr/bin/env bats
# Waiting in line: first come, first served, through crashes, cuts and restarts.
# shellcheck disable=SC2030,SC2031 # each test is a process of its own
# shellcheck disable=SC2034,SC2154 # spawn, hold and stand assign, or read by reference
# shellcheck disable=SC2016 # what a job expands

load lib/common
load lib/one_server
load lib/locks
load lib/queue

setup() {
    one_server_setup
    export LOGNAME=deploy
}

# stand_all NAME VAR...
stand_all() {
    local name=$1 variable
    shift
    for variable in "$@"; do
        stand "$variable" "$name" || return
    done
}

# --- Order --------------------------------------------------------------------------------------

@test "waiters are served in the order in which they came, one at a time, and fences rise" {
    local one two three four five six
    hold holder job
    STAY=30
    stand_all job one two three four five six
    let_go holder
    assert_status 0
    reap_all one two three four five six
    assert_served one two three four five six
    assert_no_overlap "$ROOM/log"
    awk '$1 == "start" { print $4 }' "$ROOM/log" >"$ROOM/fences"
    rises "$ROOM/fences"
    assert_equal "$(wc -l <"$ROOM/fences")" 6
    assert_no_keys_left
    assert_equal "$(state_field runs job)" 7
    assert_equal "$(state_field skips job)" ''
}

@test "who comes with -n, or later with -w, never gets in front of a waiter" {
    # a foreign program lets go and nobody tells the waiter: for a moment the lock is free
    rcli set lock:job theirs nx px 60000 >/dev/null
    stand one job
    freeze "$one"
    rcli del lock:job >/dev/null
    run --separate-stderr lock -n job -- touch "$ROOM/ran"
    assert_status 75
    assert_one_line "^redislock: job: just handed to $(hostname) \(pid $one, deploy\), who was waiting"
    run --separate-stderr lock -w 0.1 job -- touch "$ROOM/ran"
    assert_status 75
    stand two job
    run --separate-stderr lock job -- touch "$ROOM/ran"
    assert_status 75
    thaw "$one"
    reap_all one two
    assert_served one two
    [[ ! -e $ROOM/ran ]]
}

@test "one who died in line is no reason to give up: -n takes a lock that only the dead wait for" {
    hold holder job
    stand one job
    stand two job
    crash "$one" "$two" "$holder"
    rcli del lock:job >/dev/null
    run --separate-stderr lock -n job -- true
    assert_status 0
    assert_no_keys_left
}

@test "row 40: 200 waiters are handed the lock with at most 2.1 scripts each, in order" {
    local crowd before count=200
    ! sanitized || count=50 # or the answers to so many are late
    hold holder job
    export COUNT=$count
    spawn crowd bash -c 'for ((i = 0; i < COUNT; i++)); do
            "$REDISLOCK_BIN" -u "unix://$SOCK" -w inf job -c "echo \$PPID >>$ROOM/order" &
        done
        wait'
    wait_until 20000 line_is job "$count"
    tickets job | cut -d: -f7 >"$ROOM/expected"
    before=$(scripts)
    let_go holder
    wait_until 20000 lines_are "$ROOM/order" "$count"
    wait_until 10000 key_absent lock:job
    diff "$ROOM/expected" "$ROOM/order"
    assert_between $(($(scripts) - before)) "$count" $((count * 21 / 10))
    reap crowd
    assert_no_stderr
    assert_no_keys_left
}

lines_are() {
    (($(wc -l <"$1") == $2))
}

# --- The end of a wait --------------------------------------------------------------------------

@test "the whole of DUR is waited, then the line is left at once: 75" {
    local one waiter start
    hold holder job
    stand one job
    start=$(boottime_ms)
    spawn waiter lock -w 700ms job -- touch "$ROOM/ran"
    wait_until 5000 in_line "$waiter" job
    reap waiter
    assert_between $(($(boottime_ms) - start)) 700 5000
    assert_status 75
    assert_no_output
    assert_one_line "^redislock: job: held by $(hostname) \(pid $holder, deploy\) since .* ago; gave up after waiting [0-9.]+m?s$"
    line_is job 1
    [[ ! -e $ROOM/ran ]]
    run --separate-stderr lock -E 7 -q -w 50ms job -- true
    assert_status 7
    assert_no_stderr
}

@test "the whole of DUR is waited also by one who was frozen, cut off and signalled meanwhile" {
    local waiter start
    hold holder job
    proxy_start
    start=$(boottime_ms)
    URL=$PROXY_URL spawn waiter lock -w 1.5s job -- touch "$ROOM/ran"
    wait_until 5000 in_line "$waiter" job
    freeze "$waiter"
    proxy_do cut
    kill -USR1 "$waiter"
    kill -WINCH "$waiter"
    thaw "$waiter"
    wait_until 5000 proxy_saw connections 2
    kill -USR2 "$waiter"
    reap waiter
    assert_between $(($(boottime_ms) - start)) 1500 6000
    assert_status 75
    line_is job 0
}

@test "a wait ends in time although the server hangs, also one without limit when it is interrupted" {
    local timed endless start
    redis_start hung
    redis_use hung
    hold holder job
    spawn timed lock -w 1s job -- touch "$ROOM/ran"
    spawn endless lock -w inf job -- touch "$ROOM/ran"
    wait_until 5000 line_is job 2
    redis_freeze hung
    start=$(boottime_ms)
    kill -TERM "$endless"
    reap endless
    assert_status 143
    reap timed
    assert_status 75
    assert_between $(($(boottime_ms) - start)) 500 6000
    redis_thaw hung
    let_go holder
    assert_status 0
    wait_until 5000 line_is job 0
    key_absent lock:job
    [[ ! -e $ROOM/ran ]]
}

@test "row 69: a signal ends the wait with 128+N, the line is left at once and the next has its turn" {
    local signal number waiter next
    for signal in HUP:129 INT:130 QUIT:131 TERM:143; do
        number=${signal#*:}
        hold holder job
        spawn waiter lock -w inf job -- touch "$ROOM/ran"
        wait_until 5000 in_line "$waiter" job
        stand next job
        kill -"${signal%:*}" "$waiter"
        reap waiter
        assert_status "$number"
        assert_no_output
        assert_no_stderr
        out_of_line "$waiter" job
        let_go holder
        reap_all next
    done
    [[ ! -e $ROOM/ran ]]
    assert_no_keys_left
    assert_equal "$(state_field skips job)" '' # nobody waited in vain
}

@test "signals that are not for the waiter change nothing: it keeps its place" {
    local one two
    hold holder job
    stand_all job one two
    kill -USR1 "$one"
    kill -USR2 "$one"
    kill -WINCH "$one"
    freeze "$one"
    thaw "$one"
    in_line "$one" job
    let_go holder
    reap_all one two
    assert_served one two
}

@test "-w 0 is -n: no place in line, a skipped run" {
    hold holder job
    run --separate-stderr lock -w 0 job -- touch "$ROOM/ran"
    assert_status 75
    assert_one_line '^redislock: job: held by .* ago$'
    run --separate-stderr lock -w 5 -n job -- touch "$ROOM/ran"
    assert_status 75
    key_absent "$(beside queue job)"
    assert_equal "$(state_field skips job)" 2
    [[ ! -e $ROOM/ran ]]
}

@test "a wait in vain counts as one skipped run, a wait that was served as none" {
    local one
    hold holder job
    stand one job
    run --separate-stderr lock -w 100ms job -- true
    assert_status 75
    assert_equal "$(state_field skips job)" 1
    let_go holder
    reap_all one
    assert_equal "$(state_field skips job)" 1
    assert_equal "$(state_field runs job)" 2
}

@test "one who gives up just when the lock is handed to it passes it on" {
    local one two over limit
    limit=$(lease 1200)
    hold holder job
    stand one -w "$limit" job
    over=$(($(boottime_ms) + ${limit%ms}))
    stand two job
    freeze "$one" # handed over, and its time is over when it looks again
    let_go holder
    wait_until 5000 key_exists lock:job
    assert_equal "$(holder_field pid lock:job)" "$one"
    wait_until 5000 is_past "$over" # the time of the waiter, which is frozen
    thaw "$one"
    reap one
    assert_status 75
    assert_one_line 'gave up after waiting'
    reap_all two
    assert_served two
    line_is job 0
    key_absent lock:job
}

# --- Crashes ------------------------------------------------------------------------------------

@test "row 39: ten killed waiters ahead cost nothing" {
    local dead=() pids=() waiter live start
    hold holder job
    for _ in {1..10}; do
        stand waiter job
        pids+=("$waiter")
    done
    stand live job
    crash "${pids[@]}"
    start=$(boottime_ms)
    let_go holder
    reap_all live
    assert_served live
    assert_between $(($(began live) - start)) 0 $((GRANT_MS - 500))
    assert_no_keys_left
}

# outlasts NAME MS: the lock NAME lasts until then, as far as the server knows; for wait_until.
outlasts() {
    (($(boottime_ms) + $(key_pttl "lock:$1") > $2))
}

@test "row 38: seven waiters, four killed, one with a clock that is wrong by 6 h, a hold of several leases" {
    local a b c d e f g library
    library=$(faketime_library) || skip_or_fail 'libfaketime is not installed'
    export ASAN_OPTIONS=${ASAN_OPTIONS-}:verify_asan_link_order=0 # it would rather be preloaded first
    hold holder -t 1s job
    stand a job
    stand b job
    PRELOAD=(env LD_PRELOAD="$library" FAKETIME=+6h)
    stand c job
    PRELOAD=()
    stand d job
    stand e job
    PRELOAD=(env LD_PRELOAD="$library" FAKETIME=-6h)
    stand f job
    PRELOAD=()
    stand g job
    crash "$a" "$b" "$d" "$e"
    wait_until 10000 outlasts job $(($(boottime_ms) + 3200)) # held on for more than two leases
    let_go holder
    assert_status 0
    for waiter in c f g; do
        reap "$waiter"
        assert_status 0
    done
    assert_served c f g
    assert_no_overlap "$ROOM/log"
}

@test "row 37: a waiter that is killed right after the lock was handed to it delays the next by the grant at most" {
    local one two start
    hold holder job
    stand_all job one two
    freeze "$one"
    let_go holder
    assert_equal "$(holder_field pid lock:job)" "$one"
    assert_equal "$(holder_field kind lock:job)" granted
    assert_between "$(key_pttl lock:job)" 1 "$GRANT_MS"
    start=$(boottime_ms)
    crash "$one"
    reap_all two
    assert_served two
    assert_between $(($(began two) - start)) 0 $((GRANT_MS + 2000))
    assert_no_keys_left
}

@test "row 37: a waiter that is frozen when its turn comes loses the turn, and not its place" {
    local one two three
    hold holder job
    stand one job
    STAY=1500 stand two job
    STAY=0 stand three job
    freeze "$one"
    let_go holder
    wait_until $((GRANT_MS + 3000)) has_run two
    thaw "$one"
    wait_until 5000 in_line "$one" job
    assert_equal "$(tickets job | cut -d: -f7 | xargs)" "$one $three"
    reap_all one two three
    assert_served two one three
    assert_no_overlap "$ROOM/log"
}

@test "row 37: a waiter that is killed after it took the lock delays the next by its TTL at most" {
    local one two start
    hold holder job
    STAY=inf stand one -t 1s job
    stand two job
    let_go holder
    wait_until 5000 has_run one
    start=$(boottime_ms)
    crash "$one"
    reap_all two
    assert_served one two
    assert_between $(($(began two) - start)) 0 3000
}

@test "a host that vanishes without a word (half-open head) delays the next by the grant at most" {
    local one two start
    hold holder job
    proxy_start
    URL=$PROXY_URL stand one job
    stand two job
    proxy_do blackhole
    crash "$one"
    start=$(boottime_ms)
    let_go holder
    assert_equal "$(holder_field kind lock:job)" granted
    reap_all two
    assert_served two
    assert_between $(($(began two) - start)) 0 $((GRANT_MS + 2000))
}

@test "a holder that is killed delays the line by its TTL at most" {
    local one two start
    hold holder -t 2s job
    stand_all job one two
    start=$(boottime_ms)
    crash "$holder"
    reap_all one two
    assert_served one two
    assert_between $(($(began one) - start)) 0 4000
}

@test "a holder and the waiters behind it that die together delay the line by the TTL at most" {
    local one two three four five live start
    hold holder -t 2s job
    stand_all job one two three four five live
    start=$(boottime_ms)
    crash "$holder" "$one" "$two" "$three" "$four" "$five"
    reap_all live
    assert_served live
    assert_between $(($(began live) - start)) 0 5000
}

@test "a waiter that gives up does not leave those behind it with a dead holder for longer than the TTL" {
    local one two three start
    hold holder -t 2s job
    stand_all job one two three
    kill -TERM "$one" "$two"
    reap one
    reap two
    start=$(boottime_ms)
    crash "$holder"
    reap_all three
    assert_between $(($(began three) - start)) 0 5000
}

@test "a monitor with PSUBSCRIBE * does not make dead waiters look alive" {
    local one two three monitor start
    spawn monitor redis-cli -s "$SOCK" psubscribe '*'
    wait_for_line "$ROOM/monitor.out" psubscribe
    hold holder job
    stand_all job one two three
    crash "$one" "$two"
    start=$(boottime_ms)
    let_go holder
    reap_all three
    assert_between $(($(began three) - start)) 0 $((GRANT_MS - 500))
    process_end "$monitor"
}

# What was called in $ROOM/monitor.out, in the order in which it was, as far as it means anything.
messages() {
    grep -E '^(go|watch [0-9]+)$' "$ROOM/monitor.out" | paste -sd,
}

# messages_are WORDS: for wait_until.
messages_are() {
    [[ $(messages) == "$1" ]]
}

@test "a hand-off calls two: the next in line to watch, once, and then who may go" {
    local one two three monitor
    spawn monitor redis-cli -s "$SOCK" psubscribe '*'
    wait_for_line "$ROOM/monitor.out" psubscribe
    hold holder job
    STAY=0 stand one -t 2s job
    STAY=0 stand two job
    STAY=0 stand three job
    let_go holder
    reap_all one two three
    # the server writes first to whom it was told last, and who watches needs no more than the TTL
    wait_until 5000 messages_are "watch 2000,go,watch $GRANT_MS,go,go" || fail "called: $(messages)"
    process_end "$monitor"
}

# --- Connections and restarts -------------------------------------------------------------------

@test "connections that are cut while waiting: each keeps its place" {
    local one two three four
    hold holder job
    proxy_start
    URL=$PROXY_URL stand one job
    stand two job
    URL=$PROXY_URL stand three job
    stand four job
    tickets job >"$ROOM/before"
    proxy_do cut
    wait_until 5000 proxy_saw connections 4
    rcli client kill type pubsub >/dev/null
    wait_until 5000 all_listen 4
    tickets job | diff "$ROOM/before" -
    let_go holder
    reap_all one two three four
    assert_served one two three four
}

# So many waiters listen; for wait_until.
all_listen() {
    (($(rcli pubsub channels 'lock:*' | grep -c .) == $1))
}

@test "one whose connection is down when its turn comes is passed over, and keeps its place" {
    local one two three
    hold holder job
    proxy_start
    URL=$PROXY_URL stand one job
    STAY=1500 stand two job
    stand three job
    proxy_do refuse
    proxy_do cut
    wait_until 5000 all_listen 2
    let_go holder
    wait_until 5000 has_run two
    proxy_do accept
    wait_until 5000 in_line "$one" job
    assert_equal "$(tickets job | cut -d: -f7 | xargs)" "$one $three"
    reap_all one two three
    assert_served two one three
}

@test "a server that stays away for longer than --connect-timeout ends the wait with 69" {
    local waiter
    redis_start gone
    redis_use gone
    hold holder job
    spawn waiter lock -w inf --connect-timeout 500ms job -- touch "$ROOM/ran"
    wait_until 5000 in_line "$waiter" job
    redis_kill9 gone
    reap waiter
    assert_status 69
    assert_one_line 'no working Redis'
}

@test "Redis restarts with its data: each waiter keeps its place" {
    local one two three
    redis_start kept --appendonly yes --appendfsync always
    redis_use kept
    hold holder job
    stand_all job one two three
    redis_kill9 kept
    redis_restart kept
    wait_until 10000 all_listen 3
    assert_equal "$(tickets job | cut -d: -f7 | xargs)" "$one $two $three"
    let_go holder
    assert_status 0
    reap_all one two three
    assert_served one two three
}

@test "Redis restarts without its data: each waiter keeps its place, and who comes then stands behind" {
    local one two three four five
    redis_start fresh
    redis_use fresh
    rcli set lock:job theirs px 600000 >/dev/null
    stand_all job one two three four
    freeze "$one"
    freeze "$two"
    freeze "$three"
    freeze "$four"
    redis_kill9 fresh
    redis_restart fresh
    rcli set lock:job theirs px 600000 >/dev/null
    stand five job
    # they come back in another order than the one in which they stood
    for waiter in "$three" "$one" "$four" "$two"; do
        thaw "$waiter"
        wait_until 5000 in_line "$waiter" job
    done
    assert_equal "$(tickets job | cut -d: -f7 | xargs)" "$one $two $three $four $five"
    rcli del lock:job >/dev/null
    reap_all one two three four five
    assert_served one two three four five
}

@test "Redis restarts without its data: the holder puts its lock back before a waiter takes it" {
    local one two told ttl
    ttl=6000ms # a restart takes a second where there is much to do
    redis_start fresh
    redis_use fresh
    hold holder -t "$ttl" job
    stand one -t "$ttl" job
    stand two -t "$ttl" job
    told=$(boottime_ms)
    # what the waiters were told of the lease is nearly over; the holder has extended it since
    wait_until 10000 is_past $((told + ${ttl%ms} - 400))
    redis_kill9 fresh
    redis_restart fresh
    wait_until 8000 holds_again
    wait_until 5000 line_is job 2
    assert_equal "$(served)" ''
    let_go holder
    assert_status 0
    assert_one_line 'put back'
    reap_all one two
    assert_served one two
}

# The holder's own value is in the key.
holds_again() {
    [[ $(holder_field pid lock:job) == "$holder" ]]
}

@test "FLUSHALL while waiting: the line comes together again within the TTL" {
    local one two three start
    hold holder -t 2s job
    stand_all job one two three
    start=$(boottime_ms)
    rcli flushall >/dev/null
    wait_until 5000 key_exists lock:job
    wait_until 8000 line_is job 3 || true
    let_go holder
    reap_all one two three
    assert_between $(($(boottime_ms) - start)) 0 12000
}

@test "SCRIPT FLUSH while waiting: nobody notices" {
    local one two
    hold holder job
    stand_all job one two
    rcli script flush >/dev/null
    let_go holder
    assert_status 0
    reap_all one two
    assert_served one two
}
