#!/usr/bin/env bats
# Many at once: never two inside, fences in the order of the runs, nobody left out.
# shellcheck disable=SC2030,SC2031 # each test is a process of its own
# shellcheck disable=SC2154 # spawn assigns

load lib/common
load lib/locks

setup() {
    common_setup
    redis_start
}

# contend NUMBER COMMAND...: starts COMMAND so often at the same time; sets CONTENDERS to the pids.
contend() {
    local number=$1 contender
    shift
    CONTENDERS=()
    while ((number-- > 0)); do
        spawn contender "$@"
        CONTENDERS+=("$contender")
    done
}

# Waits for all contenders; puts their statuses into $ROOM/statuses.
contenders_end() {
    local contender
    for contender in "${CONTENDERS[@]}"; do
        wait_until 30000 process_gone "$contender"
        status=0
        wait "$contender" || status=$?
        printf '%s\n' "$status" >>"$ROOM/statuses"
    done
}

# assert_statuses 'COUNT STATUS COUNT STATUS…'
assert_statuses() {
    assert_equal "$(sort -n "$ROOM/statuses" | uniq -c | xargs)" "$1"
}

# In the log of the witnesses nobody overlaps, and each start has a larger fence than the one before.
assert_in_order() {
    assert_no_overlap "$ROOM/log"
    awk '$1 == "start" { print $4 }' "$ROOM/log" >"$ROOM/fences"
    rises "$ROOM/fences"
}

# ROUNDS runs, one after the other, each of which waits for the lock.
# shellcheck disable=SC2016
ROUNDS='for round in $(seq "$0"); do
            "$REDISLOCK_BIN" "$@" -w inf job "$WITNESS" --log "$ROOM/log" --sleep 3 || exit
        done'

@test "20 contenders, 3 rounds each: never two at once, fences rise, everybody gets in" {
    contend 20 sh -c "$ROUNDS" 3 -u "unix://$SOCK"
    contenders_end
    assert_statuses '20 0'
    assert_equal "$(grep -c ^start "$ROOM/log")" 60
    assert_in_order
    assert_equal "$(state_field runs job)" 60
    assert_no_keys_left
}

@test "contenders that lose their connections and the server's scripts: never two at once" {
    local before
    contend 8 sh -c "$ROUNDS" 3 -u "unix://$SOCK" -t 2s
    while ! all_gone; do
        printf 'script flush\nclient kill type normal skipme yes\n' | rcli >/dev/null
        before=$(calls evalsha)
        wait_until 5000 between_troubles "$before"
    done
    contenders_end
    assert_statuses '8 0'
    assert_equal "$(grep -c ^start "$ROOM/log")" 24
    assert_in_order
    assert_key "$(state_key job)"
}

# between_troubles NUMBER: somebody has been at the server since it had run so many scripts.
between_troubles() {
    (($(calls evalsha) > $1)) || all_gone
}

all_gone() {
    local contender
    for contender in "${CONTENDERS[@]}"; do
        process_gone "$contender" || return 1
    done
}

@test "row 42: of many hosts that fire at once exactly one runs each tick, with a minimum hold" {
    local tick
    for tick in {1..4}; do
        contend 10 lock -q --min-hold 60 job "$WITNESS" --log "$ROOM/log"
        contenders_end
        assert_equal "$(grep -c ^start "$ROOM/log")" "$tick"
        rcli del lock:job >/dev/null # the hold has passed
    done
    assert_statuses '4 0 36 75'
    assert_in_order
    assert_equal "$(state_field skips job)" 36
}

@test "row 42: without a minimum hold at least one runs each tick, never two at once" {
    local tick before=0 after
    for tick in {1..4}; do
        contend 10 lock -q job "$WITNESS" --log "$ROOM/log"
        contenders_end
        after=$(grep -c ^start "$ROOM/log")
        ((after > before)) || fail "nobody ran in tick $tick"
        before=$after
    done
    assert_in_order
}

# The kernel says whether two are inside: its lock goes away with the process, however that ends.
# shellcheck disable=SC2016
ALONE='exec 9>>"$ROOM/alone"
       flock -n 9 || echo overlap >>"$ROOM/overlaps"
       echo "$REDISLOCK_FENCE" >>"$ROOM/fences"
       echo "$PPID" >"$ROOM/holder.new" && mv "$ROOM/holder.new" "$ROOM/holder"
       [ -e "$ROOM/enough" ] || exec sleep 30'

@test "holders that are killed outright: the next gets in after them, never beside them" {
    local round holder
    contend 5 lock -t 500ms -w inf job sh -c "$ALONE"
    for round in 1 2; do
        wait_until 10000 test -s "$ROOM/holder"
        holder=$(<"$ROOM/holder")
        rm "$ROOM/holder"
        [[ $round != 2 ]] || : >"$ROOM/enough" # the others finish by themselves
        kill -KILL "$holder"
    done
    contenders_end
    assert_statuses '3 0 2 137'
    [[ ! -e $ROOM/overlaps ]]
    assert_equal "$(wc -l <"$ROOM/fences")" 5
    rises "$ROOM/fences"
}
