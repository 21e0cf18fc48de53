#!/usr/bin/env bats
# Fencing, as redislock-recipes(7) has it, on real resources: PostgreSQL, SQLite and a file. The first
# holder is really paused (SIGSTOP for redislock, its guard and its job), its lock expires, the second
# one writes, and then the first one's write is really attempted, and refused.
# shellcheck disable=SC2154 # spawn assigns

bats_require_minimum_version 1.5.0

load lib/common
load lib/locks
load lib/job
load lib/page
load lib/scripts
load lib/postgres

setup_file() {
    common_setup_file
    redis_start
    postgres_start
}

teardown_file() {
    postgres_stop
    common_teardown_file
}

setup() {
    common_setup
    redis_use main
    need psql sqlite3 flock
    export REDISLOCK_URL=unix://$SOCK
    NAME=job-$BATS_TEST_NUMBER # the fences of one test are not those of another
    mkdir "$ROOM/home" "$ROOM/bin"
    ln -s "$REDISLOCK_BIN" "$ROOM/bin/redislock"
    PATH=$ROOM/bin:$PATH
    cd "$ROOM/home" || return
    # What takes so long: it says that it is there, and has its result once it may go on.
    # shellcheck disable=SC2016 # for the program
    printf '%s\n' '#!/bin/sh' ': >"at.$WHO"' 'until [ -e "go.$WHO" ]; do sleep 0.02; done' \
        'echo "report of $WHO"' >collect.sh
    chmod +x collect.sh
}

# --- two holders ---

# first JOB: the first holder runs ./JOB, and is in the middle of it. Sets CHILD and GUARD.
first() {
    WHO=first spawn first "$REDISLOCK_BIN" -t 2 "$NAME" -- "./$1"
    wait_until 5000 test -e at.first
    wait_until 5000 guard_of "$first"
    GUARD=$(guard_of "$first")
    CHILD=$(pgrep -P "$first" | grep -vx "$GUARD")
    FENCE=$(holder_field fence "lock:$NAME")
}

# pause: as when the host stands still: nothing of the first holder runs any more. Then its lock expires.
pause() {
    kill -STOP "$first"
    wait_until 5000 process_stopped "$first" # else it sees that its guard is stopped, and starts another
    kill -STOP "$GUARD"
    kill -STOP -- "-$CHILD"
    wait_until 5000 process_stopped "$CHILD"
    wait_until 5000 key_absent "lock:$NAME"
}

# second JOB [OPTION]...: the next holder runs ./JOB to its end.
second() {
    local job=$1
    shift
    : >go.second
    WHO=second run --separate-stderr timeout 30 "$REDISLOCK_BIN" "$@" -w 10 "$NAME" -- "./$job"
}

# wake: the job goes on before redislock does, so that its write is attempted for certain.
wake() {
    : >go.first
    kill -CONT -- "-$CHILD"
    wait_until 10000 process_gone "$CHILD" || fail "the job does not end: $(cat "$ROOM/first.err")"
    kill -CONT "$GUARD" "$first"
    reap first
}

# late_write JOB SHOWN: the story of this suite; SHOWN prints what stands in the resource.
late_write() {
    first "$1"
    pause
    second "$1"
    assert_status 0
    assert_no_stderr
    assert_equal "$("$2")" 'report of second'
    local after
    after=$(state_field fence "$NAME")
    ((after > FENCE)) || fail "fence $after after $FENCE"
    wake
    assert_line_stderr 'refused: (a later holder has written|fence [0-9]+ of .* is too old)'
    [[ $status != 0 ]] || fail 'the late holder thinks that all is well'
    assert_line_stderr "^redislock: $NAME: (lost the lock|the lock .*lost)"
    assert_equal "$("$2")" 'report of second'
    # who comes next is not kept out by any of it
    sed -i "s/report of/new report of/" collect.sh
    second "$1"
    assert_status 0
    assert_equal "$("$2")" 'new report of second'
    assert_equal "$(find . -name "*.$FENCE")" ''
}

# lands JOB SHOWN: the same with a job that does not compare: the late write must be seen, or the
# tests above would prove nothing.
lands() {
    first "$1"
    pause
    second "$1"
    assert_equal "$("$2")" 'report of second'
    wake
    assert_equal "$("$2")" 'report of first'
}

# without JOB REGEX: makes ./careless, which is ./JOB without the line that compares.
without() {
    grep -qE -- "$2" "$1" || fail "there is no such line in $1"
    sed -E "/$2/d" "$1" >careless
    chmod +x careless
}

# no_fence JOB SHOWN: without a fence the job does nothing.
no_fence() {
    : >go.third
    WHO=third REDISLOCK_NAME=$NAME run "./$1"
    [[ $status != 0 ]] || fail 'it ran without a fence'
    [[ ! -e at.third ]]
    assert_equal "$("$2")" ''
}

# --- PostgreSQL ---

row_shown() {
    psql -qAtX -c 'SELECT body FROM report'
}

row_job() {
    postgres_database
    example_to tables report.sql
    psql -qX -v ON_ERROR_STOP=1 -f tables
    example_to job job-row
}

@test "PostgreSQL, one row: the late write of a paused holder is refused" {
    row_job
    late_write job row_shown
}

@test "PostgreSQL, one row: without the comparison the same late write lands" {
    row_job
    without job 'WHERE old\.fence'
    lands careless row_shown
}

@test "PostgreSQL, one row: without a fence, and without a result, nothing is written" {
    row_job
    no_fence job row_shown
    printf '#!/bin/sh\nexit 3\n' >collect.sh
    second job
    assert_status 3
    printf '#!/bin/sh\n' >collect.sh
    second job
    [[ $status != 0 ]] # the CHECK
    assert_equal "$(row_shown)" ''
}

invoices_shown() {
    psql -qAtX -c 'SELECT body FROM invoice ORDER BY id DESC LIMIT 1'
}

balance() {
    psql -qAtX -c 'SELECT balance FROM account'
}

transaction_job() {
    postgres_database
    example_to tables fence.sql
    psql -qX -v ON_ERROR_STOP=1 -f tables -c 'CREATE TABLE invoice (id bigserial, body text);
        CREATE TABLE account (balance int); INSERT INTO account VALUES (100)'
    example_to job job-transaction
}

@test "PostgreSQL, a transaction: all of the late holder's writes are refused" {
    transaction_job
    late_write job invoices_shown
    assert_equal "$(balance)" 80 # two holders who came to the end, not three
    assert_equal "$(psql -qAtX -c 'SELECT count(*) FROM invoice')" 2
}

@test "PostgreSQL, a transaction: without the function the late writes land" {
    transaction_job
    without job 'SELECT fence'
    lands careless invoices_shown
    assert_equal "$(balance)" 80
}

@test "PostgreSQL, a transaction: who stands still behind the comparison is waited for, not passed" {
    transaction_job
    sed -i 's/^SELECT fence.*/&\n\\! : >between; until [ -e "go.$WHO.2" ]; do sleep 0.02; done/' job
    : >go.first
    : >go.second.2
    first job
    wait_until 5000 test -e between
    pause
    : >go.second
    WHO=second spawn second "$REDISLOCK_BIN" -w 10 "$NAME" -- ./job
    wait_until 10000 postgres_waits
    assert_equal "$(balance)" 100
    : >go.first.2
    wake
    reap second
    assert_status 0
    assert_equal "$(balance)" 80
    assert_equal "$(invoices_shown)" 'report of second'
}

# --- the lock in the database ---

summary_shown() {
    psql -qAtX -c 'SELECT body FROM summary'
}

locked_job() {
    postgres_database
    example_to tables job.sql
    psql -qX -v ON_ERROR_STOP=1 -f tables
    example_to job job-for-update
}

# The second holder has the lock in Redis, and waits for the one in the database.
second_waits() {
    first job
    pause
    : >go.second
    WHO=second spawn second "$REDISLOCK_BIN" -w 10 "$NAME" -- ./job
    wait_until 10000 postgres_waits
    assert_equal "$(holder_field command "lock:$NAME")" job
    assert_equal "$(summary_shown)" ''
}

@test "FOR UPDATE: a paused holder keeps the row, writes in its turn, and nobody writes late" {
    locked_job
    second_waits
    wake
    reap second
    assert_status 0
    assert_equal "$(summary_shown)" 'report of second'
}

@test "FOR UPDATE: the server ends the session of one that stays away, whose late write is refused" {
    locked_job
    sed -i "s/= '1h'/= '3s'/" job
    first job
    pause
    second job
    assert_status 0
    assert_equal "$(summary_shown)" 'report of second'
    wake
    assert_line_stderr 'terminating connection due to idle-in-transaction timeout'
    assert_equal "$(summary_shown)" 'report of second'
}

@test "an advisory lock, in place of the row, does the same" {
    locked_job
    local lock
    lock=$(example advisory.sql)
    sed -i "s/^SELECT name FROM job.*/$lock/" job
    grep -q pg_advisory_xact_lock job
    second_waits
    wake
    reap second
    assert_status 0
    assert_equal "$(summary_shown)" 'report of second'
}

# --- SQLite ---

sqlite_shown() {
    sqlite3 report.db 'SELECT body FROM report'
}

sqlite_job() {
    example_to tables report.sqlite
    sqlite3 report.db <tables
    example_to job job-sqlite
}

@test "SQLite: the late write of a paused holder is refused" {
    sqlite_job
    late_write job sqlite_shown
}

@test "SQLite: without the comparison the same late write lands" {
    sqlite_job
    without job 'WHERE fence'
    lands careless sqlite_shown
}

@test "SQLite: without a fence nothing is written" {
    sqlite_job
    no_fence job sqlite_shown
}

# --- a file ---

file_shown() {
    cat report.csv 2>/dev/null || true
}

@test "a file: the late write of a paused holder is refused" {
    example_to job job-file
    late_write job file_shown
}

@test "a file: without the comparison the same late write lands" {
    example_to job job-file
    sed 's/if ! \[.*/if false; then/' job >careless
    chmod +x careless
    lands careless file_shown
}

@test "a file: without a fence, or with one that is no number, nothing is written" {
    example_to job job-file
    no_fence job file_shown
    echo nonsense >report.csv.fence
    second job
    assert_status 1
    assert_equal "$(file_shown)" ''
}
