#!/usr/bin/env bats
# The units of redislock-recipes(7) under a real systemd: a manager of its own, in namespaces and control
# groups of its own, reads them, starts, stops and skips them. Only places and the server are put in.
# shellcheck disable=SC2154 # spawn assigns

bats_require_minimum_version 1.5.0

load lib/common
load lib/locks
load lib/scripts
load lib/page

setup_file() {
    common_setup_file
    redis_start main --tcp
    rcli acl setuser cron on '>secret' '~lock:*' '&lock:*' +@all
    mkdir "$ROOM/units" "$ROOM/bin"
    export UNITS=$ROOM/units GROUP_NAME=redislock-test.$$.$RANDOM
    ln -s "$REDISLOCK_BIN" "$ROOM/bin/redislock"
    echo secret >"$ROOM/password"
    chmod 600 "$ROOM/password"
    manager_start
}

teardown_file() {
    ROOM=$FILE_ROOM
    processes_end
    local folder
    for folder in /sys/fs/cgroup/{systemd,unified,}/"$GROUP_NAME"; do
        [[ ! -d $folder ]] || wait_until 5000 find "$folder" -depth -type d -exec rmdir {} +
    done
    common_teardown_file
}

# A manager as a user has one, so that no machine need be booted for it: /run is its own, and
# /dev/console, where it would write, a file. MANAGER is a process inside, or empty where it cannot be.
manager_start() {
    export MANAGER=
    [[ $(id -u) == 0 && -x /lib/systemd/systemd ]] || return 0
    : >"$ROOM/console"
    # shellcheck disable=SC2016 # for the shell inside
    spawn inside unshare --mount --pid --fork --kill-child --mount-proc bash -c '
        set -e
        for folder in /sys/fs/cgroup/systemd /sys/fs/cgroup/unified /sys/fs/cgroup; do
            [[ -e $folder/cgroup.procs ]] || continue
            mkdir "$folder/$GROUP_NAME"
            echo $$ >"$folder/$GROUP_NAME/cgroup.procs"
        done
        [[ ! -e /dev/console ]] || mount --bind "$ROOM/console" /dev/console
        mount -t tmpfs tmpfs /run
        mount --make-shared /run # as at the boot of a host: credentials are mounted there
        mkdir -p /run/systemd/system /run/user/0
        env -i PATH=/usr/bin:/bin HOME="$ROOM" XDG_RUNTIME_DIR=/run/user/0 SYSTEMD_LOG_LEVEL=info \
            SYSTEMD_UNIT_PATH="$UNITS" REDISLOCKTEST_ROOM="$ROOM" \
            /lib/systemd/systemd --user --unit=basic.target &
        wait'
    printf '[Unit]\nDescription=Nothing\n' >"$UNITS/basic.target"
    # shellcheck disable=SC2154 # spawn assigns
    wait_until 5000 pgrep -P "$inside" bash || return 0
    MANAGER=$(pgrep -P "$inside" bash)
    # what it says where nothing was started yet: running, or starting
    wait_until 20000 sd list-units || MANAGER=
}

# sd ARG...: systemctl, for that manager.
sd() {
    nsenter -t "$MANAGER" -m -p -- env -i PATH=/usr/bin:/bin XDG_RUNTIME_DIR=/run/user/0 \
        timeout -k 1 20 systemctl --user --no-pager "$@"
}

# is PROPERTY VALUE [UNIT]: for wait_until.
is() {
    [[ $(sd show -P "$1" "${3:-nightly-report.service}") == "$2" ]]
}

setup() {
    common_setup
    redis_use main
    HOME_DIR=$ROOM/home
    mkdir "$HOME_DIR"
    [[ -n $MANAGER ]] || skip_or_fail "no systemd can be started here: $(cat "$FILE_ROOM/inside.err")"
    unit nightly-report.service
    unit nightly-report.timer
    # There is no journal here.
    mkdir "$UNITS/nightly-report.service.d"
    printf '[Service]\nStandardError=append:%s\n' "$ROOM/journal" >"$UNITS/nightly-report.service.d/output.conf"
    # The report says when it is there, notes each TERM, and lasts until it may end.
    # shellcheck disable=SC2016 # for the program
    printf '%s\n' '#!/bin/bash' "cd '$HOME_DIR'" 'trap "echo TERM >>terms" TERM' 'pwd >>ran' \
        'until [[ -e end ]]; do sleep 0.05; done' >"$HOME_DIR/report.sh"
    chmod +x "$HOME_DIR/report.sh"
    sd daemon-reload
    sd reset-failed
    sd start nightly-report.timer # as on a host; and a service that nothing names is forgotten
    rcli del lock:nightly-report >/dev/null
}

teardown() {
    if [[ -n $MANAGER ]]; then
        sd kill -s KILL nightly-report.service 2>/dev/null || true
        sd stop nightly-report.timer
    fi
    rm -rf "${UNITS:?}"/nightly-report.service*
    common_teardown
}

# unit NAME: the example of that name, among the manager's units, under the name that it gives itself.
unit() {
    local file
    file=$(example "$1" | sed -nE '1s|^# /etc/systemd/system/||p')
    [[ -n $file ]] || fail "$1 does not say what it is called"
    mkdir -p "$(dirname "$UNITS/$file")"
    example_to "$UNITS/$file" "$1"
    HERE_URL=redis://cron@127.0.0.1:$(redis_port) ROOM=$FILE_ROOM here "$UNITS/$file"
    sed -i "s#/etc/redislock.password#$FILE_ROOM/password#" "$UNITS/$file"
}

# change REGEX REPLACEMENT: another line in the service.
change() {
    grep -qE "$1" "$UNITS/nightly-report.service" || fail "the service has no $1"
    sed -i -E "s#$1#$2#" "$UNITS/nightly-report.service"
    sd daemon-reload
}

started() {
    sd start --no-block nightly-report.service
    wait_until 20000 test -s "$HOME_DIR/ran" || fail "it does not start: $(tail -n 5 "$ROOM/journal" "$FILE_ROOM/console")"
}

ended() {
    wait_until 20000 is ActiveState "${1:-inactive}"
}

@test "systemd takes all units of the page, and the README's, without a word" {
    unit condition.conf
    awk '$0 == "```ini" { inside = 1; next } /^```/ { inside = 0 } inside' "$ROOT/README.md" >"$UNITS/readme.service"
    HERE_URL=redis://127.0.0.1:$(redis_port) ROOM=$FILE_ROOM here "$UNITS/readme.service"
    run systemd-analyze verify "$UNITS/nightly-report.service" "$UNITS/nightly-report.timer" "$UNITS/readme.service"
    assert_status 0
    # it reads all other units along: what it says of these is not about ours
    if grep -E 'nightly-report|readme' <<<"$output"; then
        fail 'it has something to say'
    fi
    # would it, if there were something?
    change '^KillMode=.*' KillMode=sometimes
    change '^ExecStart=[^ ]*' ExecStart=/nowhere
    run systemd-analyze verify "$UNITS/nightly-report.service"
    assert_line_output 'nightly-report.*kill mode'
    assert_line_output 'nightly-report.*/nowhere'
    rm "$UNITS/readme.service"
}

@test "the service logs in with its credential, runs its job under the lock, and releases it" {
    started
    assert_equal "$(cat "$HOME_DIR/ran")" "$HOME_DIR"
    assert_equal "$(holder_field command lock:nightly-report)" report.sh
    rcli client list | grep -q ' user=cron ' || fail "$(rcli client list)"
    run strings -a "/proc/$(holder_pid)/environ"
    [[ $output != *secret* ]]
    : >"$HOME_DIR/end"
    ended
    is Result success
    assert_no_key lock:nightly-report
}

# The job's pid as this side sees it.
holder_pid() {
    pgrep -f "$HOME_DIR/report.sh" | tail -n 1
}

@test "a lock that is held elsewhere is no failure of the service" {
    hold other nightly-report
    sd start nightly-report.service
    is ExecMainStatus 75
    is Result success
    ended
    # and would be one, but for its line
    change '^SuccessExitStatus=.*' ''
    run sd start nightly-report.service
    assert_status 1
    is Result exit-code
    [[ ! -e $HOME_DIR/ran ]]
    let_go other
}

@test "a server that does not answer is a failure of the service" {
    change 'REDISLOCK_URL=[^ ]*' 'REDISLOCK_URL=unix:///nowhere REDISLOCK_CONNECT_TIMEOUT=50ms'
    run sd start nightly-report.service
    assert_status 1
    is ExecMainStatus 69
    is Result exit-code
}

@test "a stop reaches the job once, is waited for, and frees the lock" {
    started
    sd stop --no-block nightly-report.service
    wait_until 20000 test -s "$HOME_DIR/terms"
    assert_key lock:nightly-report
    : >"$HOME_DIR/end"
    wait_until 20000 key_absent lock:nightly-report
    ended
    assert_equal "$(cat "$HOME_DIR/terms")" TERM
}

@test "a stop that lasts too long is a KILL of everything, and the lock stays until it expires" {
    change '^TimeoutStopSec=.*' TimeoutStopSec=1s
    started
    sd stop nightly-report.service
    ended failed
    is Result timeout
    assert_equal "$(cat "$HOME_DIR/terms")" TERM
    assert_between "$(key_pttl lock:nightly-report)" 1 60000
    rcli del lock:nightly-report
}

@test "the condition skips the service while the lock is held, and only then" {
    unit condition.conf
    sd daemon-reload
    hold other nightly-report
    sd start nightly-report.service || true
    is Result exec-condition
    is ExecMainStartTimestampMonotonic 0
    let_go other
    started
    : >"$HOME_DIR/end"
    ended
    is Result success
    # no server: the service itself says so
    change 'REDISLOCK_URL=[^ ]*' 'REDISLOCK_URL=unix:///nowhere REDISLOCK_CONNECT_TIMEOUT=50ms'
    run sd start nightly-report.service
    assert_status 1
    is ExecMainStatus 69
}

# condition OPTION...: the question without a shell around it.
condition() {
    printf '[Service]\nExecCondition=%s %s --status nightly-report\n' "$FILE_ROOM/bin/redislock" "$*" \
        >"$UNITS/nightly-report.service.d/condition.conf"
    sd daemon-reload
}

@test "without the shell around it the condition starts, or skips without a word, as the page warns" {
    condition --password-file "$FILE_ROOM/password"
    hold other nightly-report
    sd start nightly-report.service
    is ExecMainStatus 75 # that of ExecStart=
    let_go other
    condition --password-file /dev/null
    sd start nightly-report.service || true
    is Result exec-condition
    [[ ! -e $HOME_DIR/ran ]]
}

@test "the timer starts the service at two" {
    is ActiveState active nightly-report.timer
    is Triggers nightly-report.service nightly-report.timer
    sd show -P NextElapseUSecRealtime nightly-report.timer | grep -q ' 02:00:00 '
}
