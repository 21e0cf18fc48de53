#!/usr/bin/env bats
# Real cron daemons: two hosts, with names, crontabs and cron daemons of their own, fire the same line in the
# same minute; the job runs once. Slow: cron fires on the minute.
# shellcheck disable=SC2016 # for the hosts
# shellcheck disable=SC2154 # spawn assigns

load lib/common
load lib/locks
load lib/scripts

setup_file() {
    common_setup_file
    redis_start --tcp
}

# host NAME: a cron daemon with a crontab, a pid file and a host name that it shares with nobody, in
# namespaces of its own; it ends with its test. Cron's log goes to $ROOM/NAME.out (web_1 for web-1).
host() {
    local folder=$ROOM/$1
    mkdir -p "$folder"/{etc,spool,run}
    printf 'SHELL=/bin/sh\nPATH=/usr/bin:/bin\nROOM=%s\n* * * * * root %s\n' "$ROOM" "$LINE" >"$folder/etc/job"
    chmod 644 "$folder/etc/job"
    spawn "${1//-/_}" unshare --mount --uts --pid --ipc --fork --kill-child --mount-proc bash -c '
        set -e
        hostname "$2"
        mount --bind "$1/etc" /etc/cron.d
        mount --bind "$1/spool" /var/spool/cron
        mount --bind "$1/run" /run
        printf "" >"$1/crontab"
        mount --bind "$1/crontab" /etc/crontab
        mkdir -p /var/spool/cron/crontabs
        exec cron -f -L 4' - "$folder" "$1"
}

# What cron must be told to leave this machine's own crontabs alone.
can_be_hosts() {
    [[ $(id -u) == 0 ]] || skip_or_fail 'needs root for namespaces'
    need cron unshare || return
    [[ -f /etc/crontab && -d /etc/cron.d && -d /var/spool/cron ]] || skip_or_fail 'cron is not set up here' || return
    unshare --mount --uts --pid --ipc --fork true 2>/dev/null || skip_or_fail 'no namespaces here'
}

# lines FILE NUMBER: for wait_until.
has_lines() {
    (($(wc -l <"$1") >= $2))
}

@test "a crontab line on two hosts, fired in the same minute, runs its job once" {
    can_be_hosts
    # cron knows no stderr of ours: both outcomes are written where the test sees them. The job is short,
    # so it is the minimum hold that keeps the second host from running it again.
    LINE="$REDISLOCK_BIN -u redis://127.0.0.1:$(redis_port) --min-hold 30s -t 10s nightly-report"
    LINE+=' -- sh -c '\''echo "ran on $(hostname)" >>"$ROOM/runs"'\'' 2>>"$ROOM/errors"; echo "$? $(hostname)" >>"$ROOM/statuses"'
    : >"$ROOM/statuses"
    host web-1
    host web-2
    wait_until 75000 has_lines "$ROOM/statuses" 2 ||
        fail "cron has not fired: $(cat "$ROOM"/web_*.err "$ROOM"/web_*.out)"
    assert_equal "$(wc -l <"$ROOM/runs")" 1
    local winner=web-1 loser=web-2
    [[ $(<"$ROOM/runs") == 'ran on web-1' ]] || { winner=web-2 loser=web-1; }
    assert_equal "$(<"$ROOM/runs")" "ran on $winner"
    assert_equal "$(sort "$ROOM/statuses")" "0 $winner
75 $loser"
    # the one who came second is told who was first, with its host
    assert_equal "$(wc -l <"$ROOM/errors")" 1
    grep -qE "^redislock: nightly-report: (held by|still held for its minimum hold after the run of) $winner \(pid " \
        "$ROOM/errors" || fail "$(<"$ROOM/errors")"
    run "$REDISLOCK_BIN" -u "unix://$SOCK" --status nightly-report
    assert_line_output "last run +$winner, .* exit status 0"
    assert_line_output 'runs +1, skipped 1, lost 0'
}
