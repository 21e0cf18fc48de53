#!/usr/bin/env bats
# What surrounds a wait: missing rights, other programs' tokens, a full memory, keys, what is shown.
# shellcheck disable=SC2030,SC2031 # each test is a process of its own
# shellcheck disable=SC2034,SC2154 # spawn, hold and stand assign, or read by reference
# shellcheck disable=SC2016 # what a job expands

load lib/common
load lib/one_server
load lib/locks
load lib/queue

setup_file() {
    one_server_setup_file
    # a node of a cluster takes two seconds before it answers: its test comes late
    redis_start cluster --tcp --cluster-enabled yes
    rcli_at cluster cluster addslotsrange 0 16383 >/dev/null
}

setup() {
    one_server_setup
    rcli acl deluser job >/dev/null
    export LOGNAME=deploy
}

# As ACL user job, who may do everything but RULE...
may_not() {
    printf 'secret\n' >"$ROOM/password"
    rcli acl setuser job reset on '>secret' allkeys allchannels +@all "$@" >/dev/null
    export REDISLOCK_USER=job REDISLOCK_PASSWORD_FILE=$ROOM/password
}

# reap_successful VAR...: all of them end with status 0, whatever they say.
reap_successful() {
    local variable
    for variable in "$@"; do
        reap "$variable" 20000 || return
        assert_status 0 || return
    done
}

# --- Rights -------------------------------------------------------------------------------------

# Who may not do one of the things that listening needs polls: in order, past the dead, and says so
# under -v. All of them at once, each on a lock of its own, for each takes seconds.
@test "row 59: waiting works without SUBSCRIBE, PUBLISH, PUBSUB, MULTI, or without a channel" {
    local rule number=0 start one two three holder
    for rule in -subscribe -publish -pubsub -multi resetchannels; do
        number=$((number + 1))
        may_not "$rule"
        rcli acl setuser "job$number" reset on '>secret' allkeys allchannels +@all "$rule" >/dev/null
        export REDISLOCK_USER=job$number
        hold "holder$number" "job$number"
        stand "one$number" -v "job$number"
        stand "two$number" "job$number"
        stand "three$number" "job$number"
        two=two$number
        crash "${!two}"
    done
    start=$(boottime_ms)
    for number in {1..5}; do
        let_go "holder$number"
        assert_status 0
    done
    for number in {1..5}; do
        reap_successful "one$number"
        assert_line_stderr 'cannot listen to the server .*: waiting by polling'
        reap_successful "three$number"
        assert_no_stderr
        assert_equal "$(grep -n "$number " "$ROOM/order" | cut -d: -f2 | cut -d' ' -f1 | xargs)" \
            "one$number three$number"
    done
    # a dead poller counts until 5 s after it last asked
    assert_between $(($(boottime_ms) - start)) 0 15000
    assert_no_keys_left
    for number in {1..5}; do
        rcli acl deluser "job$number" >/dev/null
    done
}

@test "row 59: waiters that listen and waiters that poll stand in one line" {
    local holder one two three four
    hold holder job
    stand one job
    may_not resetchannels
    stand two job
    unset REDISLOCK_USER REDISLOCK_PASSWORD_FILE
    stand three job
    export REDISLOCK_USER=job REDISLOCK_PASSWORD_FILE=$ROOM/password
    stand four job
    assert_equal "$(tickets job | cut -d: -f2 | xargs)" 'l p l p'
    let_go holder
    reap_successful one two three four
    assert_served one two three four
}

@test "a poller that times out or is interrupted leaves the line at once" {
    local holder one two
    may_not resetchannels
    hold holder job
    stand one job
    run --separate-stderr lock -w 300ms job -- true
    assert_status 75
    line_is job 1
    kill -TERM "$one"
    reap one
    assert_status 143
    key_absent "$(beside queue job)"
    key_absent "$(beside leases job)"
}

# --- Other programs -----------------------------------------------------------------------------

@test "another program's token keeps out every kind, and the first waiter comes soon after it is gone" {
    local kind one two start
    for kind in -x -s '-S 3'; do
        rm -f "$ROOM"/order "$ROOM"/log
        rcli set lock:job theirs nx px 60000 >/dev/null
        # shellcheck disable=SC2086
        run --separate-stderr lock -n $kind job -- touch "$ROOM/ran"
        assert_status 75
        assert_one_line 'held by another program'
        # shellcheck disable=SC2086
        stand one $kind job
        # shellcheck disable=SC2086
        stand two $kind job
        start=$(boottime_ms)
        assert_equal "$(compare_and_delete lock:job theirs)" 1
        reap_successful one two
        assert_no_stderr
        assert_served one two
        assert_between $(($(began one) - start)) 0 3000
        assert_no_keys_left
    done
    [[ ! -e $ROOM/ran ]]
}

@test "another program's token without an expiry, or that takes the place of a holder, is waited for" {
    local holder one two start
    hold holder -t 60s job
    stand one job
    stand two job
    rcli set lock:job theirs >/dev/null # it writes over ours
    crash "$holder"
    rcli config resetstat >/dev/null
    # the waiters believe in the holder's 60 s until they look; a third one's end makes nobody look
    rcli client kill type pubsub >/dev/null
    wait_until 5000 scripts_reach 2
    start=$(boottime_ms)
    rcli del lock:job >/dev/null
    reap_successful one two
    assert_served one two
    assert_between $(($(began one) - start)) 0 3000
}

@test "another program is excluded by an exclusive holder and by a lock on its way to a waiter" {
    local holder one
    hold holder job
    assert_equal "$(rcli set lock:job theirs nx px 60000)" ''
    stand one job
    freeze "$one"
    let_go holder
    assert_equal "$(rcli set lock:job theirs nx px 60000)" ''
    thaw "$one"
    reap_successful one
    assert_served one
}

# --- A full memory ------------------------------------------------------------------------------

@test "row 48: with a full memory the lock is still released, and handed to those in line" {
    local holder one two
    redis_start full
    redis_use full
    hold holder job
    stand one job
    stand two job
    rcli config set maxmemory 1 >/dev/null
    run rcli set x y
    assert_line_output OOM
    let_go_quiet holder
    reap_successful one two
    assert_served one two
    assert_no_key lock:job
}

@test "row 48: with a full memory shared and slot holders are extended, released, and handed on" {
    local sharer writer slot next
    redis_start full
    redis_use full
    hold sharer -s -t 1s a
    stand writer a
    hold other -S 2 -t 1s c
    hold another -S 2 -t 1s c
    stand next -S 2 c
    rcli config set maxmemory 1 >/dev/null
    wait_until 5000 is_past $(($(boottime_ms) + 1300)) # more than the TTL
    let_go sharer
    assert_status 0
    let_go other
    assert_status 0
    reap_successful writer next
    let_go another
    assert_status 0
}

# --- Keys ---------------------------------------------------------------------------------------

@test "row 35: all keys of one lock are in one cluster slot, whatever its name" {
    local name key names=(a '{a}b' '}{' 'a}b' '{' '}' '{}' '{}x' '%7B' 'a b' $'a\nb' $'\x01' 'lock:{x}:queue'
        'ü' "$(printf 'x%.0s' {1..512})" '*' '[a]' '"q"' $'\\')
    redis_use cluster
    wait_until 10000 cluster_ready
    local sharer waiter
    for name in "${names[@]}"; do
        hold sharer -s -- "$name"
        spawn waiter lock -w inf -- "$name" true
        wait_until 5000 waits_somewhere
        { rcli --raw keys '*' && rcli --raw pubsub channels; } >"$ROOM/keys"
        assert_equal "$(wc -l <"$ROOM/keys")" 4 # state, holders, queue, and the waiter's channel
        while IFS= read -r key; do
            printf 'cluster keyslot "%s"\n' "${key//[\"\\]/\\&}"
        done <"$ROOM/keys" | rcli | sort -u >"$ROOM/slots"
        assert_equal "$(wc -l <"$ROOM/slots")" 1
        let_go sharer
        reap waiter
        assert_status 0
        rcli flushall >/dev/null
    done
}

cluster_ready() {
    rcli cluster info | grep -q cluster_state:ok
}

waits_somewhere() {
    [[ -n $(rcli pubsub channels) ]]
}

@test "row 51: every key has an expiry while locks are held and waited for, and only the state stays" {
    local x s n one two three poller dead
    hold x job
    stand one job
    hold s -s -- shared
    stand two shared
    hold n -S 2 slots
    hold m -S 2 slots
    stand three -S 2 slots
    may_not resetchannels
    stand poller job
    stand dead job
    assert_all_expire
    assert_between "$(rcli dbsize)" 9 20
    crash "$dead"
    for holder in x s n m; do
        let_go "$holder"
    done
    reap_successful one two three poller
    assert_all_expire
    wait_until 8000 only_states
    assert_all_expire
    wait_until 5000 dbsize_is 3 # what has expired counts until the server clears it away
}

dbsize_is() {
    [[ $(rcli dbsize) == "$1" ]]
}

only_states() {
    ! rcli keys '*' | grep -qv ':state$'
}

# --- What is shown ------------------------------------------------------------------------------

@test "without a terminal and without -v a wait says nothing" {
    local holder one
    hold holder job
    stand one job
    let_go holder
    reap_successful one
    assert_no_stderr
    assert_no_output
}

@test "-v says once who holds the lock and how many are ahead, and again when that changes" {
    local holder one two three
    hold holder -t 600ms job # the waiters look again and again meanwhile
    stand one job
    stand two job
    stand three -v job
    wait_until 10000 scripts_reach 40
    crash "$two"
    STAY=0
    let_go holder
    reap_successful one three
    assert_line_stderr "^redislock: job: waiting, 2 ahead; held by $(hostname) \(pid $holder, deploy\) since"
    assert_equal "$(grep -c 'waiting, 2 ahead; held by' <<<"$stderr")" 1
    assert_between "$(grep -c 'waiting,' <<<"$stderr")" 1 4
}

@test "-v with a poller says its line once, not at each look" {
    local holder one
    may_not resetchannels
    hold holder job
    stand one -v job
    rcli config resetstat >/dev/null
    wait_until 10000 scripts_reach 8
    let_go holder
    reap_successful one
    assert_equal "$(grep -c 'polling' <<<"$stderr")" 1
    assert_equal "$(grep -c 'waiting, 0 ahead; held by' <<<"$stderr")" 1
}

@test "--status-fd tells of the wait and of what came of it" {
    local holder one
    hold holder job
    stand one job
    spawn two "$REDISLOCK_TOOLS/launch" -- sh -c '"$REDISLOCK_BIN" -u "unix://$SOCK" -w inf --status-fd 7 job -- true 7>&- 7>"$ROOM/events"'
    wait_for_line "$ROOM/events" '"event":"waiting"'
    assert_equal "$(grep -c '"event":"waiting".*"name":"job","ahead":1}' "$ROOM/events")" 1
    let_go holder
    reap_successful one two
    grep -q '"event":"acquired"' "$ROOM/events"
    grep -q '"event":"ended".*"status":0}' "$ROOM/events"
    hold holder job
    run --separate-stderr lock -w 50ms --status-fd 7 job -- true 7>"$ROOM/events"
    assert_equal "$(grep -o '"event":"[a-z]*"' "$ROOM/events" | cut -d'"' -f4 | xargs)" 'waiting held ended'
    [[ $(tail -n 1 "$ROOM/events") == *'"status":75}' ]]
}

@test "on a terminal one line says who holds the lock and how many are ahead; it is renewed in place and goes" {
    local holder one two
    hold holder -t 2s job
    stand one -t 2s job
    run on_pty "$REDISLOCK_BIN" -u "unix://$SOCK" -w inf job -- true <<END
timeout 10000
expect \r\e[Kredislock: job: waiting, 1 ahead; held by
expect \r\e[Kredislock: job: waiting, 1 ahead; held by
END
    assert_status 0
    # all of it on one line: carriage returns, no line feed
    [[ ${output//[!$'\n']/} == '' ]]
}

@test "on a terminal the line is cleared before the command writes, and before the message at the end" {
    local holder
    hold holder job
    run on_pty "$REDISLOCK_BIN" -u "unix://$SOCK" -w 1 job -- true <<END
expect waiting, 0 ahead; held by
expect \r\e[Kredislock: job: held by
expect gave up after waiting
wait 75
END
    assert_status 0
    run on_pty sh -c '(sleep 0.3; kill -TERM '"$holder"') & exec "$REDISLOCK_BIN" -u "unix://$SOCK" -w inf job -- echo it-r"a"n' <<END
timeout 10000
expect waiting, 0 ahead; held by
expect \r\e[Kit-ran
wait 0
END
    assert_status 0
    reap holder
}

@test "on a terminal ^C ends the wait with 130, clears the line and leaves the line of waiters" {
    local holder
    hold holder job
    run on_pty "$REDISLOCK_BIN" -u "unix://$SOCK" -w inf job -- true <<END
timeout 10000
expect waiting, 0 ahead; held by
send \x03
expect \r\e[K
wait 130
END
    assert_status 0
    line_is job 0
}

@test "on a narrow terminal the line is cut, so that it can be renewed in place" {
    local holder
    hold holder -t 2s job
    run on_pty sh -c 'stty cols 40; exec "$REDISLOCK_BIN" -u "unix://$SOCK" -w inf job -- true' <<END
timeout 10000
expect waiting, 0 ahead; 
expect \r\e[Kredislock: job: waiting
END
    assert_status 0
    awk -v RS='\r' '{ sub(/\033\[K/, ""); if (length($0) > 39) { print "too long: " $0; bad = 1 } } END { exit bad }' < <(printf '%s' "$output") >&2
}

@test "-q and --log-format json show no line on a terminal" {
    local holder option
    hold holder job
    for option in -q --log-format=json; do
        run on_pty "$REDISLOCK_BIN" -u "unix://$SOCK" -w 500ms "$option" job -- true <<END
never 300 waiting
wait 75
END
        assert_status 0
    done
}
