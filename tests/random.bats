#!/usr/bin/env bats
# Fifty contenders with random fates, thousands of runs, and a checker that reads what they wrote.
#
# REDISLOCK_SEED=N repeats a run's draws (not its timing); REDISLOCK_RUNS=N makes it longer.
# shellcheck disable=SC2154 # run sets status

load lib/common
load lib/one_server
load lib/locks
load lib/queue

# check_log FILE: what must hold of a log of the tool crowd (see there). Prints each violation.
#
# exclusion  an exclusive run is alone, shared ones are not beside an exclusive one
# capacity   never more than N slots, each held once
# fences     unique; of exclusive runs above all that began before
# order      who stood in line before another came has the smaller fence
# ends       a job ends before the next begins; after a kill it does nothing once another has begun
# statuses   as the fate allows
check_log() {
    awk '
    function bad(what) { print "line " NR ": " what; wrong++ }
    # Those inside that are not killed; a killed one is dead before the lock can go on.
    function conflict(id, other, clash) {
        for (other in inside) {
            if (other == id || name[other] != name[id]) continue
            clash = mode[id] == "x" || mode[other] == "x"
            if (other in killed) { if (clash) overtaken[other] = id }
            else if (clash)
                bad(id " (" mode[id] ") begins beside " other " (" mode[other] ") on " name[id])
            else if (mode[id] != "s" && slot[id] == slot[other])
                bad(id " and " other " have slot " slot[id])
        }
    }
    function capacity(id, other, count) {
        if (mode[id] == "x" || mode[id] == "s") return
        for (other in inside)
            if (name[other] == name[id] && !(other in killed)) count++
        if (count > mode[id]) bad(count " inside " name[id] ", with " id)
        if (slot[id] < 1 || slot[id] > mode[id]) bad(id " has slot " slot[id])
    }
    $1 == "come" { name[$2] = $3; mode[$2] = $4; fate[$2] = $5; came[$2] = NR }
    $1 == "waits" && !($2 in waits) { waits[$2] = NR }
    $1 == "kill" { killed[$2] = NR }
    $1 == "start" {
        if ($2 in fence) bad($2 " begins twice")
        if ((name[$2], $3) in seen) bad("fence " $3 " twice: " seen[name[$2], $3] " and " $2)
        seen[name[$2], $3] = $2; fence[$2] = $3; slot[$2] = $4; starts++
        inside[$2] = 1
        conflict($2); capacity($2)
        if (mode[$2] == "x" && $3 <= highest[name[$2]]) bad("the fence of " $2 " does not rise")
        if ($3 > highest[name[$2]]) highest[name[$2]] = $3
    }
    $1 == "end" {
        if (!($2 in inside)) bad($2 " ends and has not begun")
        if ($2 in overtaken) bad($2 " was killed, and works on beside " overtaken[$2])
        delete inside[$2]
    }
    $1 == "gone" {
        if ($3 == 79 && fate[$2] != "stall") lost++
        allowed = ($2 in killed) ? "137 0 75" : "0"
        if (fate[$2] == "try" || fate[$2] == "late") allowed = "0 75"
        if (fate[$2] == "term") allowed = "0 143"
        if (fate[$2] == "int") allowed = "0 130"
        if ($3 != 79 && !((" " allowed " ") ~ (" " $3 " "))) bad($2 " (" fate[$2] ") is gone with status " $3)
        if ($3 == 0 && !($2 in fence)) bad($2 " is gone with status 0 and has not run")
        if (($2 in inside) && !($2 in killed) && $3 != 79) bad($2 " is gone, and its job has not ended")
        delete inside[$2]
        fates[fate[$2] " " $3]++
    }
    END {
        for (a in waits) {
            if (!(a in fence)) continue
            for (b in fence)
                if (name[a] == name[b] && waits[a] < came[b]) {
                    pairs++
                    if (fence[a] > fence[b]) bad(a " stood in line before " b " came, and has the larger fence")
                }
        }
        if (lost > starts / 50) bad(lost " runs were lost")
        printf "%d runs, %d pairs in order, %d lost;", starts, pairs, lost
        for (what in fates) printf " %s: %d,", what, fates[what]
        print ""
        exit wrong > 0
    }' "$1"
}

# crowd_of RUNS SEED SECONDS
crowd_of() {
    # A sanitizer is there for memory and threads, and with fifty at once their leases of a second would
    # measure it.
    local contenders=50
    ! sanitized || contenders=10
    rm -f "$ROOM/crowd.log"
    "$REDISLOCK_TOOLS/crowd" --program "$REDISLOCK_BIN" --url "unix://$SOCK" --log "$ROOM/crowd.log" \
        --self "$REDISLOCK_TOOLS/crowd" --runs "$1" --seed "$2" --seconds "$3" --contenders "$contenders" 3>&- 4>&-
}

@test "50 contenders, killed, late, interrupted, frozen or left alone, on three locks of all kinds" {
    local seed=${REDISLOCK_SEED:-$((RANDOM * 32768 + RANDOM))} runs=2000
    ! sanitized || runs=500
    runs=${REDISLOCK_RUNS:-$runs}
    echo "REDISLOCK_SEED=$seed"
    crowd_of "$runs" "$seed" $((300 * (runs / 2000 + 1)))
    check_log "$ROOM/crowd.log"
    # some are killed when their job has begun and has not yet said so
    assert_between "$(grep -c ^start "$ROOM/crowd.log")" $((runs - runs / 50)) $((runs + 100))
    # nothing stays but what the killed have left, and that ends by itself
    assert_all_expire
    wait_until 8000 only_states_after_a_try
}

# What the dead have left is cleared away by whoever comes.
only_states_after_a_try() {
    lock alone -- true && lock both -- true && lock -S 3 slots -- true &&
        ! rcli keys '*' | grep -v ':cancelled:' | grep -qv ':state$'
}

# --- The checker sees what it is there for ------------------------------------------------------

# fails_on TEXT LINE...: a log of these lines is refused with a line that has TEXT.
fails_on() {
    local text=$1
    shift
    printf '%s\n' "$@" >"$ROOM/made.log"
    run check_log "$ROOM/made.log"
    assert_status 1
    assert_line_output "$text"
}

@test "the checker finds overlaps, too many, slots held twice, fences and orders that are wrong" {
    local two=('come 1 a x run' 'come 2 a x run')
    fails_on 'begins beside' "${two[@]}" 'start 1 10 0' 'start 2 11 0'
    fails_on 'begins beside' 'come 1 a s run' 'come 2 a x run' 'start 1 10 0' 'start 2 11 0'
    fails_on 'does not rise' "${two[@]}" 'start 1 10 0' 'end 1 10 0' 'start 2 9 0'
    fails_on 'fence 10 twice' "${two[@]}" 'start 1 10 0' 'end 1 10 0' 'start 2 10 0'
    fails_on 'larger fence' 'come 1 a x run' 'waits 1' 'come 2 a x try' 'start 2 10 0' 'end 2 10 0' 'start 1 11 0'
    fails_on 'have slot 1' 'come 1 a 2 run' 'come 2 a 2 run' 'start 1 10 1' 'start 2 11 1'
    fails_on '3 inside' 'come 1 a 2 run' 'come 2 a 2 run' 'come 3 a 2 run' 'start 1 10 1' 'start 2 11 2' 'start 3 12 1'
    fails_on 'works on beside' "${two[@]}" 'start 1 10 0' 'kill 1' 'start 2 11 0' 'end 1 10 0'
    fails_on 'has not ended' "${two[@]}" 'start 1 10 0' 'gone 1 0'
    fails_on 'status 69' "${two[@]}" 'gone 1 69'
    fails_on 'has not run' "${two[@]}" 'gone 1 0'
    printf '%s\n' "${two[@]}" 'start 1 10 0' 'kill 1' 'start 2 11 0' 'end 2 11 0' 'gone 1 137' 'gone 2 0' >"$ROOM/made.log"
    check_log "$ROOM/made.log"
}
