#!/usr/bin/env bats
# Real cron daemons: two hosts, with names, crontabs, clocks and cron daemons of their own, have the
# crontab of redislock-recipes(7), and what its time lines say comes true. Slow: cron fires on the minute.
# shellcheck disable=SC2016 # for the hosts
# shellcheck disable=SC2154 # spawn assigns

load lib/common
load lib/locks
load lib/scripts
load lib/page

setup_file() {
    common_setup_file
    redis_start --tcp
}

# host NAME [OFFSET]: a cron daemon with root's crontab $ROOM/crontab, a pid file and a host name that it
# shares with nobody, in namespaces of its own; its clock is off by OFFSET. It ends with its test. Cron's
# log goes to $ROOM/NAME.out (web_1 for web-1).
host() {
    local folder=$ROOM/$1
    mkdir -p "$folder"/{etc,spool/crontabs,run}
    install -m 600 "$ROOM/crontab" "$folder/spool/crontabs/root"
    spawn "${1//-/_}" unshare --mount --uts --pid --ipc --fork --kill-child --mount-proc bash -c '
        set -e
        hostname "$2"
        mount --bind "$1/etc" /etc/cron.d
        mount --bind "$1/spool" /var/spool/cron
        mount --bind "$1/run" /run
        printf "" >"$1/crontab"
        mount --bind "$1/crontab" /etc/crontab
        [[ -z $3 ]] || export FAKETIME=$3 LD_PRELOAD=$FAKETIME_LIBRARY
        exec cron -f -L 4' - "$folder" "$1" "${2-}"
}

# What cron must be told to leave this machine's own crontabs alone.
can_be_hosts() {
    [[ $(id -u) == 0 ]] || skip_or_fail 'needs root for namespaces'
    need cron unshare faketime || return
    [[ -f /etc/crontab && -d /etc/cron.d && -d /var/spool/cron ]] || skip_or_fail 'cron is not set up here' || return
    unshare --mount --uts --pid --ipc --fork true 2>/dev/null || skip_or_fail 'no namespaces here' || return
    FAKETIME_LIBRARY=$(faketime now printenv LD_PRELOAD)
    export FAKETIME_LIBRARY
}

# lines FILE NUMBER: for wait_until.
has_lines() {
    (($(wc -l <"$1") >= $2))
}

# Both hosts have time to start before the next minute of the one whose clock is ahead, and the last one
# of the other, ten seconds behind, is over; for wait_until.
is_between_ticks() {
    local second
    second=$(date +%-S)
    ((second > 11 && second < 50))
}

@test "the page's crontab on two hosts whose clocks differ: once per tick with --min-hold, twice without" {
    can_be_hosts
    HOME_DIR=$ROOM/home
    mkdir "$HOME_DIR" "$ROOM/bin"
    ln -s "$REDISLOCK_BIN" "$ROOM/bin/redislock"
    local program
    for program in report send-mail import; do
        printf '%s\n' '#!/bin/sh' 'echo "$(hostname) $(date +%S)" >>"ran.${0##*/}"' >"$HOME_DIR/$program.sh"
    done
    chmod +x "$HOME_DIR"/*.sh
    example_to "$ROOM/crontab" crontab
    HERE_URL=redis://127.0.0.1:$(redis_port) here "$ROOM/crontab"
    sed -i -E 's/^[0-9*]+(\/5)? [0-9*]+ \* \* \* /* * * * * /' "$ROOM/crontab"
    assert_equal "$(grep -c '^\* \* \* \* \* ' "$ROOM/crontab")" 3
    # and a line that tells what became of it: cron knows no stderr of ours
    {
        printf '%s ' '* * * * * redislock --min-hold 30s -t 10s outcome --'
        printf '%s ' 'sh -c '\''echo "ran on $(hostname)" >>runs'\'' 2>>errors;'
        printf '%s\n' 'echo "$? $(hostname)" >>statuses'
    } >>"$ROOM/crontab"
    sed -i "1iHOME=$HOME_DIR" "$ROOM/crontab"
    cd "$HOME_DIR"
    touch statuses runs errors ran.report.sh ran.send-mail.sh ran.import.sh

    wait_until 30000 is_between_ticks
    host web-1
    host web-2 -10s
    wait_until 100000 has_lines statuses 2 ||
        fail "cron has not fired: $(cat "$ROOM"/web_*.err "$ROOM"/web_*.out)"
    wait_until 10000 has_lines ran.report.sh 2
    # jobs of a moment, ten seconds apart: without a minimum hold both hosts run them
    assert_equal "$(cut -d' ' -f1 ran.report.sh | tr '\n' ' ')" 'web-1 web-2 '
    # with it, one does
    assert_equal "$(cut -d' ' -f1 ran.send-mail.sh)" web-1
    assert_equal "$(<runs)" 'ran on web-1'
    assert_equal "$(sort statuses)" '0 web-1
75 web-2'
    # the one who came second is told who was first, with its host
    assert_equal "$(wc -l <errors)" 1
    grep -qE '^redislock: outcome: still held for its minimum hold after the run of web-1 \(pid ' errors ||
        fail "$(<errors)"
    run "$REDISLOCK_BIN" -u "unix://$SOCK" --status outcome
    assert_line_output 'last run +web-1, .* exit status 0'
    assert_line_output 'runs +1, skipped 1, lost 0'
}
