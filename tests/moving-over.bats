#!/usr/bin/env bats
# The tables of "MOVING OVER" in redislock-recipes(7): each of our lines runs the job, waits or gives up as
# it is said there. The lines of flock(1) and of etcdctl run beside ours, word for word, against a server
# of theirs. consul, redis-setlock and cronlock are neither in Debian nor on npm, so what the page says of
# those was read in their source, and only our lines run.
# shellcheck disable=SC2154 # spawn and hold assign

bats_require_minimum_version 1.5.0

load lib/common
load lib/locks
load lib/scripts
load lib/page

setup() {
    common_setup
    redis_start
    home_make
    at_home
    # The job says where it was, and ends with 3.
    # shellcheck disable=SC2016 # for the program
    printf '%s\n' '#!/bin/sh' 'echo ran >>ran.report.sh' 'env >environment' 'cat >stdin' \
        'until [ ! -e wait.report.sh ]; do sleep 0.05; done' 'exit 3' >report.sh
    printf '#!/bin/sh\n' >collect.sh
    chmod +x report.sh collect.sh
}

# pairs NAME PEER: the lines of a table of the page, theirs and ours in turn, into THEIRS and OURS.
pairs() {
    mapfile -t THEIRS < <(example "$1" | awk 'NR % 3 == 1')
    mapfile -t OURS < <(example "$1" | awk 'NR % 3 == 2')
    assert_equal "$(example "$1" | awk 'NR % 3 == 0' | tr -d '\n')" ''
    assert_equal "${#THEIRS[@]}" "${#OURS[@]}"
    local line
    for line in "${THEIRS[@]}"; do
        [[ $line == *"$2 "* && $line != *redislock* ]] || fail "not a line of $2: $line"
    done
}

# ends LINE [SECONDS]: sets OUTCOME: "waits" when it has not ended after so long, else its status, and
# whether it said anything. A wait of ten seconds is made one of a third.
ends() {
    local line=${1//-w 10s/-w 0.3s}
    line=${line//-w 10 /-w 0.3 }
    line=${line//redis:\/\/cache.internal:6379/unix:\/\/$SOCK}
    line=${line//redis:\/\/cache.internal/unix:\/\/$SOCK}
    run --separate-stderr timeout "${2:-2}" sh -c "${line//\/run\/lock\/report/$ROOM/report.lock}"
    OUTCOME=$status${stderr:+, says so}
    [[ $status != 124 ]] || OUTCOME=waits
}

# free LINE [OUTCOME]: it runs the job once and gives its status.
free() {
    rm -f ran.report.sh
    ends "$1" 20
    assert_equal "$OUTCOME" "${2:-3}"
    assert_equal "$(cat ran.report.sh)" ran
    rcli del lock:report >/dev/null # what a minimum hold leaves
}

# keeps_out LINE OUTCOME [SECONDS]: while the lock is held it ends so, and the job does not run.
keeps_out() {
    rm -f ran.report.sh
    ends "$1" "${3:-20}"
    [[ ! -e ran.report.sh ]] || fail "it ran: $1"
    assert_equal "$OUTCOME" "$2"
}

# ours WHILE-HELD...: each of our lines runs the job, and ends so while the lock is held.
ours() {
    local number=0 outcome limit # not i, which run takes
    assert_equal "$#" "${#OURS[@]}"
    for outcome; do
        [[ $outcome == removes ]] || free "${OURS[number]}"
        if [[ ${OURS[number]} == *' -S 3 '* ]]; then
            hold one -S 3 report
            hold two -S 3 report
            free "${OURS[number]}"
            hold three -S 3 report
        else
            hold one report
        fi
        limit=20
        [[ $outcome != waits ]] || limit=0.9
        keeps_out "${OURS[number]}" "${outcome/removes/0}" "$limit"
        if [[ $outcome == removes ]]; then
            assert_no_key lock:report
        else
            let_go one
        fi
        [[ ${OURS[number]} != *' -S 3 '* ]] || { let_go two && let_go three; }
        number=$((number + 1))
    done
}

@test "moving over from flock: both lines do the same, while the lock is free and while it is held" {
    pairs from-flock flock
    local number
    for number in "${!THEIRS[@]}"; do
        free "${THEIRS[number]}"
        free "${OURS[number]}"
    done
    hold holder report
    exec 8>"$ROOM/report.lock"
    flock 8
    for number in "${!THEIRS[@]}"; do
        rm -f ran.report.sh
        ends "${THEIRS[number]}"
        keeps_out "${OURS[number]}" "$OUTCOME" 2
    done
    exec 8>&-
    let_go holder
    # the shared ones run beside a shared holder
    hold holder -s report
    free "$(printf '%s\n' "${OURS[@]}" | grep -- ' -s ')"
}

@test "moving over from flock in a script: both lines lock the rest of it, and end it with 1 while held" {
    pairs from-flock-script flock
    local line
    for line in "${THEIRS[0]}" "${OURS[0]}"; do
        free "$line; ./report.sh"
    done
    wait_until 2000 key_absent lock:report # the keeper sees the end of the script
    hold holder report
    exec 8>"$ROOM/report.lock"
    flock 8
    for line in "${THEIRS[0]}" "${OURS[0]}"; do
        keeps_out "$line; ./report.sh" 1
    done
    exec 8>&-
    let_go holder
}

# --- etcd ---

etcd_answers() {
    ! process_gone "$etcd" && etcdctl endpoint health
}

# A server of its own on the loopback, to which etcdctl goes by itself. A port that somebody has ends it:
# then another is tried.
etcd_start() {
    local try port peer
    need etcd etcdctl
    for ((try = 0; try < 10; try++)); do
        port=$((20000 + RANDOM % 6000 * 2))
        peer=http://127.0.0.1:$((port + 1))
        export ETCDCTL_API=3 ETCDCTL_ENDPOINTS=http://127.0.0.1:$port
        spawn etcd etcd --name alone --data-dir "$ROOM/etcd" --listen-client-urls "$ETCDCTL_ENDPOINTS" \
            --advertise-client-urls "$ETCDCTL_ENDPOINTS" --listen-peer-urls "$peer" \
            --initial-advertise-peer-urls "$peer" --initial-cluster "alone=$peer"
        ! wait_until 10000 etcd_answers || return 0
    done
    fail "etcd does not start: $(cat "$ROOM/etcd.err")"
}

# of_environment NAME: what the job found in its environment.
of_environment() {
    sed -n "s/^$1=//p" environment
}

# runs_twice LINE OUTCOME KEY FENCE: twice; KEY names the lock, and FENCE rises.
runs_twice() {
    free "$1" "$2"
    [[ $(of_environment "$3") == *report* ]]
    of_environment "$4" >fences
    free "$1" "$2"
    of_environment "$4" >>fences
    assert_equal "$(wc -l <fences)" 2
    rises fences
}

@test "moving over from etcdctl lock: both lines run, wait and number their holders, but for the status" {
    etcd_start
    pairs from-etcdctl 'etcdctl lock'
    assert_equal "${#THEIRS[@]}" 2
    local number
    for number in 0 1; do
        runs_twice "${THEIRS[number]}" '1, says so' ETCD_LOCK_KEY ETCD_LOCK_REV
        runs_twice "${OURS[number]}" 3 REDISLOCK_LOCK_KEY REDISLOCK_FENCE
    done

    : >wait.report.sh
    spawn theirs sh -c "${THEIRS[1]}"
    wait_until 5000 test -s ran.report.sh
    run -0 etcdctl lease timetolive "$(etcdctl lease list | tail -n 1)"
    [[ $output == *'granted with TTL(30s)'* ]]
    rm ran.report.sh
    spawn ours sh -c "${OURS[1]}"
    wait_until 5000 test -s ran.report.sh
    assert_between "$(key_pttl lock:report)" 20000 30000
    for number in 0 1; do
        keeps_out "${THEIRS[number]}" waits 0.9
        keeps_out "${OURS[number]}" waits 0.9
    done
    rm wait.report.sh
    reap theirs
    assert_status 1
    reap ours
    assert_status 3
}

@test "moving over from etcdctl lock: what the page says of the command's words, input and TERM" {
    etcd_start
    echo input >"$ROOM/input"
    etcdctl lock report ./report.sh <"$ROOM/input" || true
    [[ ! -s stdin ]]
    redislock report -- ./report.sh <"$ROOM/input" || true
    assert_equal "$(cat stdin)" input
    # a word that looks like an option is theirs, but the command's here
    run etcdctl lock report sh -c 'exit 0'
    assert_status 1
    run redislock report sh -c 'exit 0'
    assert_status 0
    # TERM waits for the end of the command there, and ends it here
    : >wait.report.sh
    rm -f ran.report.sh
    spawn theirs etcdctl lock report ./report.sh
    wait_until 5000 test -s ran.report.sh
    kill -TERM "$theirs"
    if wait_until 700 process_gone "$theirs" 2>/dev/null; then fail 'etcdctl has left its command'; fi
    rm ran.report.sh
    spawn ours redislock report -- ./report.sh
    wait_until 5000 test -s ran.report.sh
    kill -TERM "$ours"
    reap ours
    assert_status 143
    rm wait.report.sh
    reap theirs
}

# --- those of which only our lines can run ---

@test "moving over from consul lock and cronlock: our lines run, wait and give up as told" {
    pairs from-consul 'consul lock'
    ours waits waits '75, says so' waits
    pairs from-cronlock cronlock
    ours 200 200 200 removes
}

@test "moving over from redis-setlock: our lines do as told, and its key excludes them" {
    pairs from-redis-setlock redis-setlock
    ours waits 0 '75, says so' 0
    # its lock: SET key token EX NX
    local line
    for line in "${THEIRS[@]}"; do
        [[ $line == *' lock:report '* ]] || fail "another key: $line"
    done
    assert_equal "$(rcli set "$(lock_key report)" 123 EX 60 NX)" OK
    keeps_out "${OURS[2]}" '75, says so'
    assert_line_stderr 'held by another program'
}
