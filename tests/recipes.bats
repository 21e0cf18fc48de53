#!/usr/bin/env bats
# The README's examples and those of redislock-recipes(7) are copied and pasted, so they are taken out of
# there, word for word, and run: crontab lines as cron runs them, scripts under two shells, commands as
# they stand. Only what a reader puts in as well is put in: where the server is, and where redislock is
# installed. Beside this suite, cron.bats has the crontab under cron daemons, systemd.bats the units
# under systemd, fencing.bats the jobs with a fence, and moving-over.bats the lines of other programs.
# shellcheck disable=SC2154 # spawn assigns

bats_require_minimum_version 1.5.0

load lib/common
load lib/locks
load lib/scripts
load lib/page

setup() {
    common_setup
    redis_start
    README=$ROOT/README.md
    home_make
    # The programs of the examples tell in ran.NAME that they were there, and with what.
    local program
    for program in report send-mail import collect publish build deploy backup maintenance; do
        # shellcheck disable=SC2016 # for the program
        printf '%s\n' '#!/bin/sh' 'echo "$*" >>"ran.${0##*/}"' \
            'redislock --json --list 2>/dev/null >>"locks.${0##*/}"' \
            'until [ ! -e "wait.${0##*/}" ]; do sleep 0.05; done' >"$HOME_DIR/$program.sh"
    done
    chmod +x "$HOME_DIR"/*.sh
}

# blocks LANGUAGE: the README's code blocks of that language, as files $ROOM/LANGUAGE.1 and so on.
blocks() {
    awk -v language="$1" -v out="$ROOM/$1" '
        $0 == "```" language { number++; inside = 1; next }
        /^```/ { inside = 0 }
        inside { print >(out "." number) }' "$README"
    [[ -s $ROOM/$1.1 ]] || fail "the README has no example in $1"
}

# ran PROGRAM NUMBER: so often, or more; for wait_until.
ran() {
    (($(cat "ran.$1" 2>/dev/null | wc -l) >= $2))
}

# --- the page ---

@test "every example of the page is run by a suite" {
    local name names=0
    while IFS= read -r name; do
        names=$((names + 1))
        grep -qE "(example|example_to [^ ]+|unit|pairs|script|line_of) $name( |\"|\)|\$)" "$ROOT"/tests/{recipes,moving-over,cron,systemd,fencing}.bats ||
            fail "nobody runs the example $name"
    done < <(examples)
    ((names >= 20)) || fail "only $names examples were found"
    # and every display that looks like one has a name
    assert_equal "$(grep -c '^#!/bin/sh' "$ROOT/man/redislock-recipes.7")" \
        "$(while IFS= read -r name; do example "$name" | head -n 1; done < <(examples) | grep -c '^#!')"
}

@test "the page shows the examples as they are run" {
    need mandoc
    mandoc -Tascii "$ROOT/man/redislock-recipes.7" | sed 's/.\x08//g; s/^ *//' | sort -u >"$ROOM/page"
    local name
    while IFS= read -r name; do
        example "$name"
    done < <(examples) | sed 's/^ *//' | sort -u >"$ROOM/examples"
    run comm -23 "$ROOM/examples" "$ROOM/page"
    assert_output ''
}

@test "the configuration file is read, and its password is used" {
    example_to conf redislock.conf
    rcli acl setuser cron on '>secret' '~lock:*' '&lock:*' +@all
    rcli config set requirepass other
    echo secret >password
    chmod 600 password
    sed -i "s#/etc/redislock.password#$PWD/password#" conf
    here conf # the user goes with the server's name
    run env REDISLOCK_USER=cron "$REDISLOCK_BIN" --config conf job -- echo ran
    assert_status 0
    assert_output ran
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
        PATH=/usr/bin:/bin "${assignments[@]}" /bin/sh -c "$line"
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

# cron_lines CRONTAB NUMBER...: each of these lines runs, and does what its comment says.
cron_lines() {
    local line program name crontab=$1
    shift
    for line; do
        program=$(grep -E '^[0-9*]' "$crontab" | sed -n "${line}p" | grep -oE '[a-z-]+\.sh')
        name=$(grep -E '^[0-9*]' "$crontab" | sed -n "${line}p" | grep -oE '[^ ]+ -- ')
        name=${name% -- }
        : >"wait.$program"
        cron_line "$crontab" "$line"
        spawn one ./line
        wait_until 5000 test -s "ran.$program"
        wait_for_line "locks.$program" "\"name\":\"$name\",\"held\":true"
        run --separate-stderr timeout 10 ./line
        if grep -E '^[0-9*]' "$crontab" | sed -n "${line}p" | grep -q ' -E 0 '; then
            assert_status 0
            assert_no_stderr
        else
            assert_status 75
            assert_one_line 'held by'
        fi
        rm "wait.$program"
        reap one
        assert_status 0
        assert_equal "$(grep -c '' "ran.$program")" 1
    done
}

# late_host CRONTAB NUMBER: a moment after a host that was quick, the mail is not sent again.
late_host() {
    cron_line "$1" "$2"
    run --separate-stderr timeout 10 ./line
    assert_status 0
    assert_no_stderr
    assert_equal "$(grep -c '' ran.send-mail.sh)" 1
}

@test "the README's crontab needs nothing but itself, and does what it says" {
    blocks crontab
    here "$ROOM/crontab.2"
    cron_lines "$ROOM/crontab.2" 1
    late_host "$ROOM/crontab.2" 1
}

@test "the page's crontab needs nothing but itself: each line runs, and does what its comment says" {
    example_to crontab crontab
    here crontab
    assert_equal "$(grep -cE '^[0-9*]' crontab)" 3
    cron_lines crontab 1 2 3
    late_host crontab 2
}

@test "cron's own PATH does not have /usr/local/bin: the crontab must say it" {
    example_to crontab crontab
    here crontab
    sed -i '/^PATH=/d' crontab
    if PATH=/usr/bin:/bin command -v redislock >/dev/null; then
        skip 'redislock is installed in /usr/bin here'
    fi
    cron_line crontab 1
    run -127 ./line
}

# --- scripts ---

# script NAME: the example of the page as ./script.
script() {
    at_home
    example_to script "$1"
}

# in_shells TEST: TEST SHELL for each shell, on ./script with that shell as its first line.
in_shells() {
    local shell
    for shell in dash bash; do
        command -v "$shell" >/dev/null || skip_or_fail "$shell is not installed"
        sed -i "1s|.*|#!$(command -v "$shell")|" script
        rm -f ran.* locks.*
        echo "# under $shell" # shown when something fails
        "$1" ./script         # not in a condition, where bash would go on after a failure
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
    reap_quiet one
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
    script attach
    in_shells attached
    # the README has the same one
    blocks sh
    diff -u <(example attach) "$(grep -l '^redislock --attach' "$ROOM"/sh.?*)"
}

fenced() {
    attached "$1" 1 # second, for one that waits for ten minutes
}

@test "the script with a fence hands it over" {
    script attach-fence
    : >fenced
    in_shells fenced
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
    script restart
    in_shells restarted
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
    script deploy
    in_shells deployed
}

@test "the commands that show locks do" {
    at_home
    blocks sh
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

# --- so many at once ---

# line_of NAME [NUMBER]: a command of the example NAME, as a script of that name and number.
line_of() {
    at_home
    script_for "$1.${2:-1}" /bin/sh -c "$(example "$1" | sed -n "${2:-1,\$}p")"
}

@test "at most three backups at once, each with a number of its own" {
    line_of slots
    grep -q REDISLOCK_SLOT slots.1
    : >wait.backup.sh
    local host
    for host in one two three; do
        spawn "$host" ./slots.1
    done
    wait_until 5000 ran backup.sh 3
    assert_equal "$(sort ran.backup.sh | tr '\n' ' ')" '/scratch/1 /scratch/2 /scratch/3 '
    spawn four ./slots.1
    wait_until 5000 waiting_for backups 1
    assert_equal "$(wc -l <ran.backup.sh)" 3
    rm wait.backup.sh
    for host in one two three four; do
        reap "$host"
        assert_status 0
    done
    assert_equal "$(wc -l <ran.backup.sh)" 4
}

# waiting_for NAME NUMBER: so many stand in line; for wait_until.
waiting_for() {
    [[ $(rcli zcard "lock:{lock:$1}:queue") == "$2" ]]
}

@test "backups run together, a maintenance alone, and who comes behind it waits" {
    line_of shared 1
    line_of shared 2
    backups_and_maintenance shared.1 shared.2
}

@test "a place and a shared lock: three at once, and no maintenance beside them" {
    line_of both
    line_of shared 2
    backups_and_maintenance both.1 shared.2
    : >wait.backup.sh
    local host
    rm ran.*
    for host in one two three four; do
        spawn "$host" ./both.1
    done
    wait_until 5000 ran backup.sh 3
    wait_until 5000 waiting_for backups 1
    # who waits for a place does not share the lock yet
    assert_equal "$(rcli zcard 'lock:{lock:storage}:holders')" 3
    rm wait.backup.sh
    for host in one two three four; do
        reap "$host"
        assert_status 0
    done
}

backups_and_maintenance() {
    : >wait.backup.sh
    : >wait.maintenance.sh
    spawn one "./$1"
    spawn two "./$1"
    wait_until 5000 ran backup.sh 2
    spawn alone "./$2"
    wait_until 5000 waiting_for storage 1
    spawn late "./$1"
    wait_until 5000 waiting_for storage 2
    [[ ! -e ran.maintenance.sh ]]
    assert_equal "$(wc -l <ran.backup.sh)" 2
    rm wait.backup.sh
    wait_until 5000 ran maintenance.sh 1
    assert_equal "$(wc -l <ran.backup.sh)" 2
    rm wait.maintenance.sh
    local host
    for host in one two alone late; do
        reap "$host"
        assert_status 0
    done
    assert_equal "$(wc -l <ran.backup.sh)" 3
}

# --- containers ---

# container VAR: the entry point as the first process of a container.
container() {
    spawn "$1" unshare --pid --fork --kill-child --mount-proc ./script ./serve.sh "$1"
}

# shellcheck disable=SC2016 # for the programs
containers() {
    [[ $(id -u) == 0 ]] || skip_or_fail 'needs root for namespaces'
    unshare --pid --fork --mount-proc true 2>/dev/null || skip_or_fail 'no namespaces here'
    script entrypoint
    printf '%s\n' '#!/bin/sh' 'echo start >>migrations' \
        'if [ ! -e migrated ]; then' 'until [ -e go ]; do sleep 0.02; done' 'echo migrate >>migrations' \
        ': >migrated' 'fi' 'echo end >>migrations' >migrate.sh
    printf '%s\n' '#!/bin/sh' '[ -e migrated ] || echo too early >>served' 'echo "$1 as $$" >>served' >serve.sh
    chmod +x migrate.sh serve.sh
}

@test "of containers that start at once one migrates, and all serve afterwards" {
    containers
    local host
    for host in one two three; do
        container "$host"
    done
    wait_until 10000 waiting_for migrate 2
    [[ ! -e served ]]
    assert_equal "$(cat migrations)" start
    : >go
    for host in one two three; do
        reap "$host"
        assert_status 0
    done
    assert_equal "$(tr '\n' ' ' <migrations)" 'start migrate end start end start end '
    assert_equal "$(sort served | tr '\n' ' ')" 'one as 1 three as 1 two as 1 '
}

@test "a container whose migration fails, or is killed, serves nothing and frees the lock" {
    containers
    container one
    wait_until 10000 test -e migrations
    kill -KILL "$one"
    reap one || true
    assert_key lock:migrate # until it expires
    rcli del lock:migrate
    printf '#!/bin/sh\nexit 3\n' >migrate.sh
    container two
    reap two
    assert_status 3
    assert_no_key lock:migrate
    [[ ! -e served ]]
}
