#!/usr/bin/env bats
# The README's examples are copied and pasted, so they are taken out of it here, word for word, and run:
# crontab lines as cron runs them, scripts under two shells, units as systemd reads them. Only what a
# reader puts in as well is put in: where the server is, and where redislock is installed.

bats_require_minimum_version 1.5.0

load lib/common
load lib/locks

setup() {
    common_setup
    redis_start
    README=$ROOT/README.md
    HOME_DIR=$ROOM/home
    mkdir "$ROOM/bin" "$HOME_DIR"
    ln -s "$REDISLOCK_BIN" "$ROOM/bin/redislock"
    # The programs of the examples tell in ran.NAME that they were there, and with what.
    local program
    for program in report.sh send-mail.sh import.sh collect.sh publish.sh build.sh deploy.sh; do
        # shellcheck disable=SC2016 # for the program
        printf '%s\n' '#!/bin/sh' 'echo "$*" >>"ran.${0##*/}"' \
            'redislock --json --list 2>/dev/null >>"locks.${0##*/}"' \
            'until [ ! -e "wait.${0##*/}" ]; do sleep 0.05; done' >"$HOME_DIR/$program"
    done
    chmod +x "$HOME_DIR"/*.sh
    cd "$HOME_DIR" || return
}

# blocks LANGUAGE: the README's code blocks of that language, as files $ROOM/LANGUAGE.1 and so on.
blocks() {
    awk -v language="$1" -v out="$ROOM/$1" '
        $0 == "```" language { number++; inside = 1; next }
        /^```/ { inside = 0 }
        inside { print >(out "." number) }' "$README"
    [[ -s $ROOM/$1.1 ]] || fail "the README has no example in $1"
}

# here FILE: its places are ours; the server must be named in it in the one way that is replaced.
here() {
    sed -i -e "s#redis://\(cron@\)\?cache\.internal#unix://$SOCK#g" \
        -e "s#/usr/local/bin#$ROOM/bin#g" -e "s#/srv/report#$HOME_DIR#g" "$1"
    if grep -q 'redis:' "$1"; then
        fail "a server that is not cache.internal: $(grep redis: "$1")"
    fi
}

# --- cron ---

# cron_line CRONTAB NUMBER: makes ./line, which does what cron does with that line: the assignments
# above it make the environment, which is else nearly empty, and /bin/sh gets what is behind the five
# fields.
cron_line() {
    local line assignments=()
    mapfile -t assignments < <(grep -E '^[A-Z_]+=' "$1")
    line=$(grep -E '^[0-9*]' "$1" | sed -n "$2p" | sed -E 's/^([^ ]+ +){5}//')
    [[ -n $line && $line != *%* ]] || fail "no line for cron: $line" # it reads a % as a newline
    script_for line env -i HOME="$HOME_DIR" LOGNAME=root SHELL=/bin/sh \
        PATH="${CRON_PATH:-/usr/bin:/bin}" "${assignments[@]}" /bin/sh -c "$line"
}

# script_for NAME COMMAND...: makes ./NAME, which runs COMMAND.
script_for() {
    printf '#!/bin/bash\nexec' >"$1"
    printf ' %q' "${@:2}" >>"$1"
    chmod +x "$1"
}

@test "the first line of the README, on two hosts at once: one runs, the other says who" {
    blocks crontab
    here "$ROOM/crontab.1"
    export CRON_PATH=$ROOM/bin:/usr/bin:/bin # as a package installs it
    : >wait.report.sh
    cron_line "$ROOM/crontab.1" 1
    spawn one ./line
    wait_until 5000 test -s ran.report.sh
    run --separate-stderr timeout 10 ./line
    assert_status 75
    assert_no_output
    assert_one_line '^redislock: nightly-report: held by '
    rm wait.report.sh
    reap one
    assert_status 0
    assert_no_output
    assert_no_stderr
    assert_equal "$(grep -c '' ran.report.sh)" 1
}

@test "the crontab needs nothing but itself: each line runs, and does what its comment says" {
    blocks crontab
    here "$ROOM/crontab.2"
    local line program name
    for line in 1 2 3; do
        program=$(grep -E '^[0-9*]' "$ROOM/crontab.2" | sed -n "${line}p" | grep -oE '[a-z-]+\.sh')
        name=$(grep -E '^[0-9*]' "$ROOM/crontab.2" | sed -n "${line}p" | grep -oE '[^ ]+ -- ')
        name=${name% -- }
        : >"wait.$program"
        cron_line "$ROOM/crontab.2" "$line"
        spawn one ./line
        wait_until 5000 test -s "ran.$program"
        wait_for_line "locks.$program" "\"name\":\"$name\",\"held\":true"
        run --separate-stderr timeout 10 ./line
        if [[ $line == 1 ]]; then
            assert_status 75
            assert_one_line 'held by'
        else
            assert_status 0
            assert_no_stderr
        fi
        rm "wait.$program"
        reap one
        assert_status 0
        assert_equal "$(grep -c '' "ran.$program")" 1
    done
    # the second one, a moment after a host that was quick
    cron_line "$ROOM/crontab.2" 2
    run --separate-stderr timeout 10 ./line
    assert_status 0
    assert_no_stderr
    assert_equal "$(grep -c '' ran.send-mail.sh)" 1
}

@test "cron's own PATH does not have /usr/local/bin: the crontab must say it" {
    blocks crontab
    here "$ROOM/crontab.2"
    sed -i '/^PATH=/d' "$ROOM/crontab.2"
    if PATH=/usr/bin:/bin command -v redislock >/dev/null; then
        skip 'redislock is installed in /usr/bin here'
    fi
    cron_line "$ROOM/crontab.2" 1
    run -127 ./line
}

# --- scripts ---

# The README's scripts, those that begin as a script does, as $ROOM/script.1 and so on.
scripts() {
    blocks sh
    local file number=0
    for file in "$ROOM"/sh.?*; do
        [[ $(head -n 1 "$file") == '#!/bin/sh' ]] || continue
        number=$((number + 1))
    done
    assert_equal "$number" 4
    number=0
    for file in $(printf '%s\n' "$ROOM"/sh.?* | sort -t. -k2n); do
        [[ $(head -n 1 "$file") == '#!/bin/sh' ]] || continue
        number=$((number + 1))
        cp "$file" "$HOME_DIR/script.$number"
        chmod +x "$HOME_DIR/script.$number"
    done
    export PATH=$ROOM/bin:$PATH REDISLOCK_URL=unix://$SOCK
}

# in_shells TEST NUMBER: TEST SHELL for each shell, on script NUMBER with that shell as its first line.
in_shells() {
    local shell
    for shell in dash bash; do
        command -v "$shell" >/dev/null || skip_or_fail "$shell is not installed"
        sed -i "1s|.*|#!$(command -v "$shell")|" "script.$2"
        rm -f ran.* locks.*
        echo "# under $shell" # shown when something fails
        "$1" "./script.$2"    # not in a condition, where bash would go on after a failure
    done
}

released() {
    wait_until 2000 key_absent "lock:$1"
}

attached() {
    : >wait.publish.sh
    spawn one "$1"
    wait_until 5000 test -s locks.publish.sh
    grep -q '"name":"nightly-report","held":true' locks.collect.sh
    grep -q '"name":"nightly-report","held":true' locks.publish.sh
    [[ ! -e fenced ]] || grep -q -- "^--fence $(holder_field fence lock:nightly-report) " ran.publish.sh
    run --separate-stderr timeout "${2:-10}" "$1"
    assert_equal "$(grep -c '' ran.collect.sh)" 1
    [[ -n ${2-} ]] || assert_status 75
    rm wait.publish.sh
    reap one
    assert_status 0
    assert_no_stderr
    assert_equal "$(grep -c '' ran.publish.sh)" 1
    released nightly-report
    # and when it is killed
    : >wait.collect.sh
    rm ran.collect.sh
    spawn one "$1"
    wait_until 5000 test -s ran.collect.sh
    kill -KILL "${one:?}"
    rm wait.collect.sh
    reap one || true
    released nightly-report
}

@test "the script with --attach is exclusive, and frees the lock however it ends" {
    scripts
    in_shells attached 1
}

fenced() {
    attached "$1" 1 # second, for one that waits for ten minutes
}

@test "the script with a fence hands it over" {
    scripts
    : >fenced
    in_shells fenced 2
}

restarted() {
    : >wait.publish.sh
    spawn one "$1" word 'two words'
    wait_until 5000 test -s locks.publish.sh
    grep -q '"name":"nightly-report","held":true' locks.publish.sh
    run --separate-stderr timeout 10 "$1"
    assert_status 75
    rm wait.publish.sh
    reap one
    assert_status 0
    assert_equal "$(grep -c '' ran.collect.sh)" 1

    # who has lost the lock does not come to the risky step
    : >wait.collect.sh
    rm ran.collect.sh ran.publish.sh
    spawn one "$1"
    wait_until 5000 test -s ran.collect.sh
    redislock --unlock --force nightly-report
    rm wait.collect.sh
    reap one
    assert_status 79
    [[ ! -e ran.publish.sh ]]
}

@test "the script that lets redislock run it starts once, and checks" {
    scripts
    in_shells restarted 3
}

deployed() {
    : >wait.deploy.sh
    spawn one "$1"
    wait_until 5000 test -s locks.deploy.sh
    assert_between "$(key_pttl lock:deploy)" 890000 900000
    grep -q '"command":"redislock --acquire"' locks.build.sh
    rm wait.deploy.sh
    reap one
    assert_status 0
    assert_no_key lock:deploy

    # a lock that is no longer held does not deploy
    : >wait.build.sh
    rm ran.build.sh ran.deploy.sh
    spawn one "$1"
    wait_until 5000 test -s ran.build.sh
    rcli del lock:deploy
    rm wait.build.sh
    reap one
    assert_status 79
    [[ ! -e ran.deploy.sh ]]
}

@test "the deployment in steps holds its token, and stops when it is void" {
    scripts
    in_shells deployed 4
}

@test "the commands that show locks do" {
    scripts
    lock nightly-report -- true
    local file
    file=$(grep -l 'redislock --list' "$ROOM"/sh.?*)
    run sh -c "$(grep -- '--list  ' "$file")"
    assert_status 0
    assert_line_output '^nightly-report +- '
    spawn watch timeout 1 sh -c "exec $(grep -- '--watch' "$file")"
    reap watch
    assert_line_output '^nightly-report +- '
    run sh -c "$(grep -- '--json' "$file" | sed 's/|.*//')"
    assert_status 0
    assert_line_output '"last_run":\{.*"status":0\}'
    run sh -c "$(grep -- '--unlock' "$file")"
    assert_status 0
    assert_output 'the lock is free; there is nothing to remove'
}

# --- systemd ---

# unit_value KEY FILE
unit_value() {
    sed -n "s/^$1=//p" "$2"
}

units() {
    local file name
    blocks ini
    for file in "$ROOM"/ini.?*; do
        name=$(sed -nE '1s|^# /etc/systemd/system/||p' "$file")
        [[ -n $name ]] || continue
        cp "$file" "$ROOM/$name"
        here "$ROOM/$name"
    done
    [[ -s $ROOM/nightly-report.service && -s $ROOM/nightly-report.timer ]]
}

@test "systemd takes the service and the timer without a word" {
    command -v systemd-analyze >/dev/null || skip_or_fail 'systemd-analyze is not installed'
    units
    run systemd-analyze verify "$ROOM/nightly-report.service" "$ROOM/nightly-report.timer"
    assert_status 0
    # it reads all other units along: what it says of these is not about ours
    if grep nightly-report <<<"$output"; then
        fail 'it has something to say'
    fi
    # would it, if there were something?
    sed -i 's/^KillMode=.*/KillMode=sometimes/; s#^ExecStart=[^ ]*#ExecStart=/nowhere#' \
        "$ROOM/nightly-report.service"
    run systemd-analyze verify "$ROOM/nightly-report.service"
    assert_line_output 'nightly-report.*kill mode'
    assert_line_output 'nightly-report.*/nowhere'
}

@test "the service's command runs as it stands, with its environment and its credential" {
    units
    local service=$ROOM/nightly-report.service
    rcli acl setuser cron on '>secret' '~lock:*' '&lock:*' +@all
    rcli config set requirepass other
    mkdir "$ROOM/credentials"
    printf 'secret\n' >"$ROOM/credentials/$(unit_value LoadCredential "$service" | cut -d: -f1)"
    # `here` has replaced the server together with its user
    : >wait.report.sh
    # shellcheck disable=SC2046 # words, as systemd takes them apart
    script_for service env -i PATH="$ROOM/bin:/usr/bin:/bin" \
        CREDENTIALS_DIRECTORY="$ROOM/credentials" REDISLOCK_USER=cron \
        "$(unit_value Environment "$service")" $(unit_value ExecStart "$service")
    spawn one ./service
    wait_until 5000 test -s ran.report.sh
    run --separate-stderr timeout 10 ./service
    assert_status "$(unit_value SuccessExitStatus "$service")"
    assert_one_line 'held by'
    rm wait.report.sh
    reap one
    assert_status 0
}
