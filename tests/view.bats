#!/usr/bin/env bats
# --list --watch: a live view on a terminal, looked at through tmux as a person would see it.
# shellcheck disable=SC2154 # spawn and hold assign

load lib/common
load lib/one_server
load lib/locks
load lib/queue
load lib/scripts

setup() {
    one_server_setup
    export REDISLOCK_URL=unix://$SOCK LOGNAME=deploy LC_ALL=C.UTF-8
    need tmux
}

teardown() {
    mux kill-server 2>/dev/null || true
    common_teardown
}

# A tmux of this test alone, without anybody's configuration.
mux() {
    TMUX='' tmux -u -S "$ROOM/tmux" -f /dev/null "$@"
}

# terminal COLUMNS ROWS: a shell on it, whose prompt is "ready$".
terminal() {
    mux new-session -d -x "$1" -y "$2" "env PS1='ready\$ ' ENV= dash -i" 3>&-
    wait_until 5000 shows '^ready\$'
}

# type TEXT: and Return.
type_line() {
    mux send-keys -l "$1"
    mux send-keys Enter
}

screen() {
    mux capture-pane -p
}

# shows REGEX, shows_not REGEX: a line of the screen; for wait_until.
shows() {
    screen | grep -qE -- "$1"
}

shows_not() {
    ! shows "$1"
}

sees() {
    wait_until "${2:-8000}" shows "$1" 2>/dev/null || fail "no line $1 on: $(screen)"
}

# view [OPTION]...: the live view, in a terminal of 130x20.
view() {
    terminal "${COLUMNS_WANTED:-130}" 20
    type_line "stty -a >$ROOM/before; $REDISLOCK_BIN --list --watch=100ms $*"
    sees 'q quits'
}

# back_as_before STATUS: the shell is back, on its own screen, with its settings.
back_as_before() {
    sees '^ready\$$' # else what is typed is echoed before the prompt, and its output stands behind it
    type_line "echo status=\$?; stty -a >$ROOM/after; echo done-\$((6*7))"
    sees '^done-42$'
    assert_equal "$(screen | grep '^status=')" "status=$1"
    diff "$ROOM/before" "$ROOM/after"
    assert_equal "$(mux display -p '#{alternate_on} #{cursor_flag}')" '0 1'
    if shows 'q quits|NAME +HOLDER'; then
        fail "the view has left something: $(screen)"
    fi
}

@test "the view shows holder, age, a bar for the time left, waiters and the last result" {
    lock backup -c 'exit 4' || true
    hold one -t 30 report
    stand two report
    view
    sees "^redislock: 2 locks under 'lock:'; q quits$"
    sees '^ +NAME +HOLDER +AGE +LEFT +WAIT +LAST RUN$'
    sees "^\[#{7,10}-{0,3}\] report +[^ ]+ $one witness +[0-9.]+m?s +(30s|2[0-9](\.[0-9]+)?s) +1 +-$"
    sees '^ +backup +- +- +- +0 +20[0-9-]{8} [0-9:]{8} status 4$'
    assert_equal "$(mux display -p '#{alternate_on} #{cursor_flag}')" '1 0'
    mux send-keys q
    back_as_before 0
    let_go one
    reap two
}

@test "the view has a place for everything in 80 columns" {
    lock a-name-that-is-longer-than-others -c 'exit 4' || true
    hold one -t 30 report
    COLUMNS_WANTED=80 view
    sees "^\[#{7,10}-{0,3}\] report +[^ ]+ [0-9 a-z]+ +[0-9.]+m?s +(30s|2[0-9](\.[0-9]+)?s) +0 +-$"
    sees '^ +a-name-tha +- +- +- +0 +status 4, [0-9.]+m?s ago$'
    mux send-keys q
    back_as_before 0
    let_go one
}

@test "the view follows what happens: new locks, new holders, waiters, results; the bar runs down" {
    view
    sees "^redislock: 0 locks under"
    hold one -t 30 report
    sees "report +[^ ]+ $one witness"
    rcli pexpire lock:report 12000 >/dev/null
    sees '^\[#{3,4}-{6,7}\] report'
    stand two report
    sees "report .* 1 +-$"
    let_go one
    reap two
    sees "report +- +- +- +0 .* status 0$"
    rcli flushall >/dev/null
    sees "^redislock: 0 locks under"
    wait_until 5000 shows_not report
    mux send-keys q
    back_as_before 0
}

@test "the view fits the terminal, also when that is resized" {
    local i
    for i in {1..30}; do
        rcli set "lock:ümläut-€-$i" x px 60000 >/dev/null
    done
    view
    sees '^…$'
    assert_between "$(screen | grep -c 'another program')" 10 18
    mux resize-window -x 50 -y 10
    sees "^ +NAME +HOLDER? *"
    wait_until 5000 no_line_over 50
    wait_until 5000 rows_are 6
    mux resize-window -x 120 -y 45
    wait_until 5000 rows_are 30
    wait_until 5000 shows_not '^…$'
    assert_equal "$(screen | grep -c 'q quits')" 1
    mux resize-window -x 1 -y 1
    mux resize-window -x 130 -y 20
    sees 'q quits'
    mux send-keys x Enter Space # no key of ours
    sees 'q quits'
    mux send-keys q
    back_as_before 0
}

no_line_over() {
    [[ $(screen | wc -L) -le $1 ]]
}

rows_are() {
    [[ $(screen | grep -c '\[*.*ümläut') == "$1" ]]
}

@test "whatever ends the view, the terminal is as it was" {
    view
    mux send-keys C-c
    back_as_before 130
    local signal pid
    for signal in TERM HUP QUIT; do
        type_line "clear; $REDISLOCK_BIN --list --watch=100ms"
        sees 'q quits'
        pid=$(view_pid)
        kill -"$signal" "$pid"
        wait_until 5000 process_gone "$pid"
        back_as_before "$((128 + $(kill -l "$signal")))"
    done
    type_line "clear; $REDISLOCK_BIN --list --watch=100ms"
    sees 'q quits'
    mux send-keys C-z # does not stop it: the shell would be left on our screen
    sees 'q quits'
    mux send-keys q
    back_as_before 0
}

# The process that shows the view.
view_pid() {
    local shell
    shell=$(mux display -p '#{pane_pid}')
    tr -d ' ' <"/proc/$shell/task/$shell/children"
}

@test "the view outlives a server that is away, and says so" {
    redis_start own
    redis_use own
    export REDISLOCK_URL=unix://$SOCK
    hold one -t 6 report
    view --connect-timeout 300ms
    sees "report +[^ ]+ $one"
    redis_kill9 own
    sees "^unix://$SOCK: .*Connection refused$"
    redis_restart own
    sees "report +[^ ]+ $one" 15000 # its holder has put it back
    wait_until 5000 shows_not 'refused'
    mux send-keys q
    back_as_before 0
}

@test "nothing raw reaches the screen, whatever names and servers say" {
    rcli set $'lock:esc\e[2Jgone' x px 60000 >/dev/null
    rcli set 'lock:%1B[2Jgone' x px 60000 >/dev/null
    LOGNAME=$'\e[2Jroot' hold one last
    view
    sees 'esc|x1b.2Jgone'
    sees 'last '
    mux send-keys q
    back_as_before 0
    let_go one
    talker_start --repeat-last "reply -ERR bad \\x1b[2J news"
    run on_pty "$REDISLOCK_BIN" -u "$TALKER_URL" --list --watch=50ms <<'STEPS'
expect ERR bad
wait
STEPS
    [[ $output != *$'\e[2J'* ]]
}

@test "an error before the view begins is told without touching the screen" {
    terminal 100 20
    type_line "$REDISLOCK_BIN -u unix://$ROOM/nobody --connect-timeout 100ms --list --watch; echo status=\$?"
    sees '^status=69$'
    sees 'no working Redis$'
    assert_equal "$(mux display -p '#{alternate_on}')" 0
}

@test "without a terminal on both sides the view is plain text" {
    lock job -- true
    spawn plain "$REDISLOCK_BIN" --list --watch=50ms
    wait_until 5000 has_heads "$ROOM/plain.out"
    process_end "$plain"
    run cat -v "$ROOM/plain.out"
    [[ $output != *'^['* ]]
    # stdout a terminal, stdin not: nobody could quit
    run on_pty bash -c '"$REDISLOCK_BIN" --list --watch=50ms </dev/null' <<'STEPS'
expect NAME
expect NAME
send \x03
wait 130
STEPS
    assert_status 0
    [[ $output != *$'\e[?1049h'* ]]
}

has_heads() {
    (($(grep -c ^NAME "$1") >= 2))
}

@test "--json with --watch on a terminal is JSON, not the view" {
    need jq
    lock job -- true
    run on_pty "$REDISLOCK_BIN" --list --json --watch=50ms <<'STEPS'
expect "name":"job"
expect "name":"job"
send \x03
wait 130
STEPS
    assert_status 0
    [[ $output != *$'\e[?1049h'* ]]
}
