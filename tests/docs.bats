#!/usr/bin/env bats
# The texts that people read say the same: --help, the manual page, the README and the completions of
# three shells name the same options, and the manual page and the README every exit status. Each
# text is read in its own form, so an option too few or too many in any of them fails here. So does a
# way of use, a key, a kind of value, a member of the JSON, a label or a permission that the manual page
# does not know, and one it only believes in.

bats_require_minimum_version 1.5.0

load lib/common
load lib/locks
load lib/job
load lib/page

setup_file() {
    common_setup_file
    ROOT=$(cd "$BATS_TEST_DIRNAME/.." && pwd)
    REDISLOCK_BIN=${REDISLOCK_BIN:-$ROOT/build/redislock}
    MAN=$ROOT/man/redislock.1
    README=$ROOT/README.md
    PROBE=redislock-docs-probe # a command that no machine has
    export ROOT REDISLOCK_BIN MAN README PROBE

    mkdir "$BATS_FILE_TMPDIR/bin"
    printf '#!/bin/sh\n' >"$BATS_FILE_TMPDIR/bin/$PROBE"
    chmod +x "$BATS_FILE_TMPDIR/bin/$PROBE"
    PATH=$BATS_FILE_TMPDIR/bin:$PATH
    : >"$BATS_FILE_TMPDIR/probe.conf"
    printf 'secret\n' >"$BATS_FILE_TMPDIR/probe.password"
    export PATH
}

need() {
    command -v "$1" >/dev/null || skip_or_fail "$1 is not installed"
}

# --- the options in each text, as sorted lines SHORT|LONG|VALUE; [=VALUE] may be left out ---

options_of_help() {
    "$REDISLOCK_BIN" --help |
        sed -nE 's/^ +(-(.), )?--([a-z-]+)( ([^ ]+)|(\[=[A-Z]+\]))?( {2,}.*)?$/\2|\3|\5\6/p' | sort
}

options_of_man() {
    sed -n '/^\.Sh OPTIONS/,/^\.Sh ENVIRONMENT/p' "$MAN" |
        sed -nE 's/ \| /|/g
                 s/^\.It Fl (.)( Ar [^ ]+)? , Fl -([a-z-]+)( (Ar|Cm) (.+))?$/\1|\3|\6/p
                 s/^\.It Fl -([a-z-]+) Ns Op = Ns Ar (.+)$/|\1|[=\2]/p
                 s/^\.It Fl -([a-z-]+)( (Ar|Cm) (.+))?$/|\1|\4/p' | sort
}

options_of_readme() {
    sed -n '/^### Options/,/^### Exit status/p' "$README" |
        sed -nE 's/\\\|/\x01/g
                 s/^\| `(-(.), )?--([a-z-]+)( ([^`]+)|(\[=[A-Z]+\]))?` \|.*/\2|\3|\5\6/
                 T
                 s/\x01/|/g; p' | sort
}

# The options that choose another way of use than to run a command: the usage lines have them.
modes_of_help() {
    "$REDISLOCK_BIN" --help | sed -n '1,/^$/p' | grep -oE -- '--[a-z]+' | cut -c3- | sort
}

# Those that stand on the command line only.
unset_of_help() {
    modes_of_help
    printf '%s\n' command force help json print version watch
}

# What a completion is to offer: each option by itself, and whether an argument follows it.
words_of_help() {
    local modes
    modes=" $(modes_of_help | tr '\n' ' ')"
    options_of_help | while IFS='|' read -r short long value; do
        case $long,$value in
        help,* | version,*) value=ends ;;
        *,\[*) value='' ;;
        *) value=${value:+argument} ;;
        esac
        [[ $modes != *" $long "* ]] || value=mode
        [[ -z $short ]] || echo "-$short ${value:-flag}"
        echo "--$long ${value:-flag}"
    done | sort
}

# Options with fixed values, as lines LONG|VALUE|VALUE...
choices_of_help() {
    options_of_help | sed -nE 's/^.?\|([a-z-]+)\|([a-z]+(\|[a-z]+)+)$/\1|\2/p'
}

# --- completions, really loaded: `offers_SHELL` reads command lines and prints, for each, the line
# --- `= LINE` and then what its shell offers at its end, one a line

offers_bash() {
    env -u BASH_ENV bash --norc --noprofile -c '
        source "$1"
        while IFS= read -r line; do
            read -ra COMP_WORDS <<<"$line"
            [[ $line != *" " ]] || COMP_WORDS+=("")
            COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMP_LINE=$line COMP_POINT=${#line}
            _redislock
            printf "= %s\n" "$line"
            printf "%s\n" "${COMPREPLY[@]}" | sort -u
        done' bash "$ROOT/completions/redislock.bash"
}

offers_fish() {
    fish --no-config -c '
        source $argv[1]
        while read -l line
            echo "= $line"
            complete -C "$line" | string replace -r "\t.*" ""
        end
        true' "$ROOT/completions/redislock.fish"
}

# Completion runs in a line editor on a pseudo-terminal; every compadd is written down.
offers_zsh() {
    local dir=$BATS_TEST_TMPDIR
    cat >"$dir/lines"
    : >"$dir/offers"
    cat >"$dir/inner.zsh" <<'ZSH'
PS1= PS2=
fpath=($COMPLETIONS $fpath)
autoload -Uz compinit && compinit -D -u
compadd() {
    local -a hits
    if [[ -z ${@[(r)-(O|A|D)*]} ]]; then
        builtin compadd -O hits "$@"
        (( $#hits )) && print -lr -- $hits >>$DIR/offers
    fi
    builtin compadd "$@"
}
quietly() { _main_complete; compstate[insert]= compstate[list]=; }
every_line() {
    local line
    for line in "${(@f)$(<$DIR/lines)}"; do
        print -r -- "= $line" >>$DIR/offers
        BUFFER=$line CURSOR=$#line
        zle complete-quietly
    done
    BUFFER=exit
    zle accept-line
}
zle -C complete-quietly complete-word quietly
zle -N every-line every_line
bindkey '^G' every-line
ZSH
    DIR=$dir COMPLETIONS=$ROOT/completions timeout 60 zsh -f -c '
        zmodload zsh/zpty
        zpty shell zsh -f -i
        zpty -w shell "source $DIR/inner.zsh"
        zpty -w -n shell $'\''\a'\''
        while zpty -r shell chunk; do :; done' </dev/null >/dev/null 2>&1
    cat "$dir/offers"
}

# Has shell $1 complete the lines on stdin, all in one go: starting a shell is what takes time.
ask() {
    "offers_$1" >"$BATS_TEST_TMPDIR/answers"
}

# What was offered behind the line $1.
offers() {
    awk -v line="= $1" '/^= / { inside = $0 == line; found += inside; next }
        inside && NF { print } END { exit !found }' "$BATS_TEST_TMPDIR/answers" | sort -u
}

# The same lines as words_of_help, found out from a shell: the options it offers (a list in
# $BATS_TEST_TMPDIR/options), and for each whether a command may stand behind it and one more word
# (so it is a flag, and the word is NAME), behind two (it took one), or not at all.
words_of_completion() {
    local option what
    while read -r option; do
        what=mode
        ! offers "redislock $option x x ${PROBE%be}" | grep -qx "$PROBE" || what=argument
        case $option in -c | --command) what=argument ;; esac # and no command besides
        ! offers "redislock $option x ${PROBE%be}" | grep -qx "$PROBE" || what=flag
        case $option in -h | --help | -V | --version) what=ends ;; esac
        echo "$option $what"
    done <"$BATS_TEST_TMPDIR/options" | sort
}

check_completion() {
    need "$1"
    local option long values probe=${PROBE%be} files=$BATS_FILE_TMPDIR

    printf '%s\n' 'redislock -' 'redislock --' | ask "$1"
    { offers 'redislock -' && offers 'redislock --'; } | sed 's/=$//' | grep -E '^--?[A-Za-z]' |
        sort -u >"$BATS_TEST_TMPDIR/options"
    {
        while read -r option; do
            printf '%s\n' "redislock $option x $probe" "redislock $option x x $probe"
        done <"$BATS_TEST_TMPDIR/options"
        while IFS='|' read -r long values; do echo "redislock --$long "; done < <(choices_of_help)
        printf '%s\n' 'redislock --signal ' "redislock $probe" \
            "redislock --config $files/probe.c" "redislock --password-file $files/probe.p" \
            "redislock -t 10s job $probe" "redislock -qt 10s job -- $probe" \
            "redislock -- job $probe" "redislock job $PROBE $files/probe.c" \
            "redislock --attach=1 job $probe" "redislock -q --status job $probe" \
            "redislock --watch=1 job $probe" \
            "redislock -c true job $probe" "redislock job -c $probe"
    } | ask "$1"

    diff -u <(words_of_help) <(words_of_completion)
    while IFS='|' read -r long values; do
        diff -u <(tr '|' '\n' <<<"$values" | sort) <(offers "redislock --$long ")
    done < <(choices_of_help)
    offers 'redislock --signal ' | grep -qx TERM
    offers "redislock --config $files/probe.c" | grep -q 'probe\.conf$'
    offers "redislock --password-file $files/probe.p" | grep -q 'probe\.password$'

    offers "redislock -t 10s job $probe" | grep -qx "$PROBE"
    offers "redislock -qt 10s job -- $probe" | grep -qx "$PROBE"
    offers "redislock -- job $probe" | grep -qx "$PROBE"
    offers "redislock job $PROBE $files/probe.c" | grep -q 'probe\.conf$'
    [[ -z $(offers "redislock $probe") ]]
    [[ -z $(offers "redislock -c true job $probe") ]]
    [[ -z $(offers "redislock --attach=1 job $probe") ]]
    [[ -z $(offers "redislock -q --status job $probe") ]]
    offers "redislock --watch=1 job $probe" | grep -qx "$PROBE"
    [[ -z $(offers "redislock job -c $probe") ]]
}

# --- a value that an option takes, and the parser ---

value_for() {
    case $1 in
    url) echo "unix://$BATS_TEST_TMPDIR/none.sock" ;;
    config) echo "$BATS_FILE_TMPDIR/probe.conf" ;;
    password-file | sentinel-password-file) echo "$BATS_FILE_TMPDIR/probe.password" ;;
    cacert | capath | cert | key) echo "$BATS_FILE_TMPDIR/probe.conf" ;;
    sentinel-user | sni) echo probe ;;
    wait-replicas) echo 2 ;;
    prefix) echo 'probe:' ;;
    user) echo probe ;;
    ttl) echo 30s ;;
    signal) echo INT ;;
    status-fd) echo 2 ;;
    slots) echo 3 ;;
    conflict-exit-code) echo 3 ;;
    command) echo true ;;
    on-lost) echo warn ;;
    on-error) echo fail ;;
    log-format) echo json ;;
    attach) echo "$$" ;;
    print) echo fence ;;
    *) echo 20ms ;;
    esac
}

TOKEN=redislock1:0123456789abcdef0123456789abcdef01234567:1:held:1:60000:host:boot:1:user:command

# Runs redislock with a server that does not exist; the outcome in $status.
try() {
    local tail=(docs -- true)
    case " $* " in
    *' -c '* | *' --command'*) tail=(docs) ;;
    *' --attach'* | *' --acquire '* | *' --status '* | *' --unlock '*) tail=(docs) ;;
    *' --extend '* | *' --release '* | *' --check '*) tail=(docs "$TOKEN") ;;
    *' --list '* | *' --doctor '*) tail=() ;;
    *' --json '*) tail=(--status docs) ;; # these do not stand alone
    *' --watch'*) tail=(--list) ;;
    *' --force '*) tail=(--unlock docs) ;;
    *' --print'*) tail=(--attach docs) ;;
    esac
    run -"${expected:-69}" env REDIS_URL="unix://$BATS_TEST_TMPDIR/none.sock" \
        REDISLOCK_CONNECT_TIMEOUT=10ms "${variables[@]}" "$REDISLOCK_BIN" "$@" "${tail[@]}"
}

# --- the tests ---

@test "every text lists at least the options everybody needs" {
    # Guards the readers above: one that finds nothing would agree with another that finds nothing.
    for text in help man readme; do
        "options_of_$text" | grep -qx 'u|url|URL'
        "options_of_$text" | grep -qx 'n|nonblock|'
        "options_of_$text" | grep -qx '|on-lost|kill|warn'
    done
}

@test "the manual page has the options of --help" {
    diff -u <(options_of_help) <(options_of_man)
}

@test "the README has the options of --help" {
    diff -u <(options_of_help) <(options_of_readme)
}

@test "bash completes the options of --help, their values, and the command" {
    check_completion bash
}

@test "zsh completes the options of --help, their values, and the command" {
    check_completion zsh
}

@test "fish completes the options of --help, their values, and the command" {
    check_completion fish
}

@test "the parser accepts every option of --help, in each of its forms" {
    variables=()
    while IFS='|' read -r short long value; do
        [[ $long != help && $long != version ]] || continue
        if [[ $value == \[* ]]; then
            try "--$long"
            try "--$long=$(value_for "$long")"
        elif [[ -n $value ]]; then
            try "--$long" "$(value_for "$long")"
            try "--$long=$(value_for "$long")"
            [[ -z $short ]] || try "-$short" "$(value_for "$long")"
        else
            try "--$long"
            [[ -z $short ]] || try "-$short"
        fi
    done < <(options_of_help)
    expected=64 try --no-such-option
    for option in -h --help -V --version; do
        run -0 --separate-stderr "$REDISLOCK_BIN" "$option"
        [[ -n $output && -z $stderr ]]
    done
}

# The variables that the manual page names in the paragraph of each option, as lines LONG VARIABLE.
variables_of_man() {
    sed -n '/^\.Sh OPTIONS/,/^\.Sh ENVIRONMENT/p' "$MAN" | awk '
        /^\.It Fl/ { match($0, /Fl -[a-z-]+/); long = substr($0, RSTART + 4, RLENGTH - 4) }
        /^\.Ev REDISLOCK_/ { print long, $2 }' | sort -u
}

@test "the manual page names the variable of every option" {
    diff -u <(options_of_help | cut -d'|' -f2 | grep -vxF "$(unset_of_help)" |
        while read -r long; do
            upper=${long^^}
            echo "$long REDISLOCK_${upper//-/_}"
        done | sort) <(variables_of_man)
}

@test "every variable that the manual page names is read" {
    while read -r long variable; do
        variables=("$variable=$(value_for "$long")")
        options_of_help | grep -q "|$long|." || variables=("$variable=yes")
        try
        case $long in
        user | sentinel-user | sni | prefix) ;; # any text is a value
        config | password-file)
            variables=("$variable=$BATS_TEST_TMPDIR/no-such-file")
            expected=78 try
            ;;
        *)
            variables=("$variable=nonsense")
            expected=78 try
            [[ $output == *"$variable"* ]]
            ;;
        esac
    done < <(variables_of_man)
}

@test "what has no variable in the manual page is taken from no variable and from no file" {
    while read -r long; do
        variable=REDISLOCK_${long^^}
        variables=("$variable=nonsense")
        try
        variables=()
        printf '%s=1\n' "$variable" >"$BATS_TEST_TMPDIR/file.conf"
        expected=78 try --config "$BATS_TEST_TMPDIR/file.conf"
        [[ $output == *"'$variable' cannot be set in a file"* ]]
    done < <(unset_of_help)
}

@test "the manual page has the ways of use of --help in its synopsis, and says what their statuses are" {
    sed -n '/^\.Sh SYNOPSIS/,/^\.Sh DESCRIPTION/p' "$MAN" >"$BATS_TEST_TMPDIR/synopsis"
    diff -u <(modes_of_help) \
        <(sed 's/^\.Fl //; T; s/ | /\n/g' "$BATS_TEST_TMPDIR/synopsis" | sed -nE 's/^-([a-z]+).*/\1/p' |
            sort -u)
    diff -u <(modes_of_help) <(sed -n '/^\.Sh EXIT STATUS/,/^\.Sh SIGNALS/p' "$MAN" |
        grep '^\.It Fl' | grep -oE -- '-[a-z]+' | cut -c2- | sort)
}

# The default values that --help names, as lines LONG VALUE, and whether a text says them too.
defaults_of_help() {
    "$REDISLOCK_BIN" --help | tr '\n' ' ' | sed -E 's/ +/ /g; s/ (-., )?--([a-z-]+) /\n\2 /g' |
        sed -nE 's/^([a-z-]+) .*\(default ([^ )]+)\).*/\1 \2/p'
}

@test "the manual page and the README give the defaults of --help" {
    defaults_of_help | grep -qx 'ttl 60s'
    while read -r long value; do
        paragraph=$(awk -v it="^[.]It .*Fl -$long( |$)" '
            $0 ~ it { inside = 1; next } /^[.](It|El)/ { inside = 0 } inside' "$MAN")
        grep -qE "^\.(Li|Cm) $value(\\\\&)? \." <<<"${paragraph##*Default:}" || {
            echo "the manual page: --$long has not the default $value"
            false
        }
        grep -E "^\| \`(-., )?--$long\b" "$README" | sed 's/`//g' | grep -q "| $value |\$" || {
            echo "the README: --$long has not the default $value"
            false
        }
    done < <(defaults_of_help)
}

# Exit statuses: those of the header, and those that a text lists.
statuses_of_header() {
    sed -nE 's/^ *STATUS_[A-Z_]+ = ([0-9]+).*/\1/p' "$ROOT/src/base/status.h" | grep -vx 0 |
        sed 's/^128$/128+N/' | sort
}

@test "the manual page has every exit status" {
    diff -u <(statuses_of_header) <(sed -n '/^\.Sh EXIT STATUS/,/^\.Sh SIGNALS/p' "$MAN" |
        sed -nE 's/^\.It ([0-9]+)(\+ Ns Ar N)?$/\1\2/; T; s/\+ Ns Ar N/+N/; p' | sort)
}

@test "the README has every exit status" {
    diff -u <(statuses_of_header) <(sed -n '/^### Exit status/,/^## /p' "$README" |
        sed -nE 's/^\| ([0-9]+(\+N)?) \|.*/\1/p' | sort)
}

@test "--help has every exit status" {
    diff -u <(statuses_of_header) <("$REDISLOCK_BIN" --help |
        sed -nE 's/^Exit status: .*(128\+N).*/\1/p; s/^ +([0-9]+) .*/\1/p' | sort)
}

@test "the manual page has every event of --status-fd" {
    diff -u <(grep -ohE '(event_begin|tell|tell_reason)\([^"]*"[a-z]+"' "$ROOT"/src/*/*.c |
        sed -E 's/.*"([a-z]+)"/\1/' | sort -u) \
        <(sed -n '/^\.Sh EVENTS/,/^\.Sh KEYS/p' "$MAN" | sed -nE 's/^\.It Cm ([a-z]+)$/\1/p' | sort)
}

@test "the events of a run are those that the manual page shows" {
    redis_start
    # shellcheck disable=SC2031 # not the one of a subshell
    "$REDISLOCK_BIN" -u "unix://$SOCK" --status-fd 3 job -- true 3>"$ROOM/events"
    diff -u <(sed -n '/^\.Sh EVENTS/,/^\.Sh KEYS/p' "$MAN" | grep -E '^(\{|    ")' |
        sed -e ':more' -e '/,$/{' -e N -e 's/\n *//' -e 'b more' -e '}' | without_numbers) \
        <(without_numbers <"$ROOM/events")
}

# Events without what differs from run to run.
without_numbers() {
    sed -E 's/("time":)"[^"]*"/\1/; s/("(fence|pid|duration_ms)":)[0-9]+/\1/g'
}

@test "the manual page has every key, and every kind of value" {
    sed -n '/^\.Sh KEYS/,/^\.Sh INTEROP/p' "$MAN" >"$BATS_TEST_TMPDIR/keys"
    diff -u <(sed -nE 's/^ *make_beside\(.*, prefix, "([a-z]+):?", .*/\1/p' "$ROOT/src/lock/keys.c" |
        sort) <(sed -nE 's/^\.It .*\}:([a-z]+).*/\1/p' "$BATS_TEST_TMPDIR/keys" | sort)
    diff -u <(sed -nE 's/.*\{"([a-z]+)", HOLDER_[A-Z]+\}.*/\1/p' "$ROOT/src/lock/holder.c" | sort) \
        <(awk '/^\.Li KIND/ { inside = 1 } /^\.Li START|^Members/ { inside = 0 }
            inside && /^\.Cm/ { print $2 }' "$BATS_TEST_TMPDIR/keys" | sort -u)
}

# The words of the ACL user that the manual page proposes.
acl_of_man() {
    sed -n '/^ACL SETUSER/,/^\.Ed/p' "$MAN" | sed '/^\.Ed/d' | tr -s ' \n' '\n'
}

@test "the ACL of the manual page has every command that is sent or that a script runs, and no other" {
    diff -u <({
        grep -ohE "redis\.p?call\('[A-Z]+'" "$ROOT"/src/lua/*.lua "$ROOT"/src/lua/lib/*.lua |
            sed "s/.*('//"
        grep -ohE '"[A-Z]{3,}"' "$ROOT"/src/redis/{client,login,script}.c | grep -v AUTH # anybody may
        grep -ohE 'words\[\] = \{"[A-Z]+' "$ROOT"/src/lock/*.c | sed 's/.*"//'
        grep -ohE '"CLUSTER", "[A-Z]+"' "$ROOT/src/redis/topology.c" | sed 's/", "/|/'
    } | tr -d "\"'" | tr '[:upper:]' '[:lower:]' | sort -u) \
        <(acl_of_man | sed -n 's/^+//p' | sort)
}

@test "the manual page has every command that --doctor asks beyond that ACL" {
    diff -u <(grep -ohE '\{"[A-Z]+"(, "[A-Z]+")?' "$ROOT/src/command/examine.c" |
        sed -E 's/\{"([A-Z]+)"(, "(WHOAMI)")?.*/\1|\3/; s/\|$//' | tr '[:upper:]' '[:lower:]' |
        grep -vxF "$(acl_of_man | sed -n 's/^+//p')" | sort -u) \
        <(sed -n '/^\.Ss Permissions/,/^\.Sh/p' "$MAN" | tr ' ' '\n' |
            grep -xE '\+(ping|info|role|acl\|whoami)' | cut -c2- | sort -u)
}

# as_cron COMMAND...: runs it with that user for redislock.
as_cron() {
    REDISLOCK_USER=cron REDISCLI_AUTH=PASSWORD "$@"
}

@test "the ACL of the manual page, word for word, is enough for all of it, and nothing is done without" {
    local one two waiter words kind other
    redis_start
    mapfile -t words < <(acl_of_man)
    assert_equal "$(rcli "${words[@]}")" OK
    for kind in -x -s -S2; do
        [[ $kind == -S2 ]] && other=-S2 || other=-x
        as_cron hold one -v -t 4 "$kind" "job$kind"
        [[ $kind == -x ]] || as_cron hold two -t 4 "$kind" "job$kind"
        run as_cron lock -n "$other" "job$kind" -- true
        assert_status 75
        run as_cron lock -w 50ms "$other" "job$kind" -- true
        assert_status 75
        as_cron spawn waiter lock -v -w inf "$other" "job$kind" -- true
        wait_for_line "$ROOM/waiter.err" 'waiting, 0 ahead; '
        wait_for_line "$ROOM/one.err" 'extended the lock'
        let_go one
        assert_status 0
        refute_line_stderr cannot
        [[ $kind == -x ]] || let_go two
        reap waiter
        assert_status 0
        refute_line_stderr 'cannot|poll'
        run as_cron lock --min-hold 50ms "$kind" "job$kind" -- true
        assert_status 0
    done
    as_cron hold one -t "$(lease 1000)" vanished
    rcli del lock:vanished
    wait_for_line "$ROOM/one.err" 'put back'
    let_go one
    assert_status 0
    rcli lpush lock:list x
    run as_cron lock list -- true
    assert_status 76
    assert_equal "$(rcli acl log)" ''

    # The other ways of use.
    local token
    for kind in -x -s -S2; do
        [[ $kind == -S2 ]] && other=-S2 || other=-x
        token=$(as_cron lock --acquire "$kind" "step$kind")
        [[ $kind != -S2 ]] || as_cron lock --acquire -S2 step-S2 # the other slot
        run as_cron lock --extend "step$kind" "$token"
        assert_status 0
        run as_cron lock --check "step$kind" "$token"
        assert_status 0
        as_cron spawn waiter lock -v -w inf "$other" "step$kind" -- true
        wait_for_line "$ROOM/waiter.err" 'waiting, 0 ahead; '
        run as_cron lock --status "step$kind"
        assert_status 75
        run as_cron lock --release "step$kind" "$token"
        assert_status 0
        reap waiter
        assert_status 0
        run as_cron lock --release "step$kind" "$token"
        assert_status 79
    done
    printf '%s\n' '"$REDISLOCK_BIN" -u "unix://$SOCK" -t 1 --attach --status-fd 7 script 7>>"$ROOM/events" || exit' \
        'until [ "$(grep -c extended "$ROOM/events")" -ge 2 ]; do sleep 0.05; done' >"$ROOM/script"
    run as_cron timeout 20 sh "$ROOM/script"
    assert_status 0
    wait_for_line "$ROOM/events" '"event":"released"'
    run as_cron lock inside -- env REDISLOCK_URL="unix://$SOCK" "$REDISLOCK_BIN" --check
    assert_status 0
    run as_cron lock --list --json
    assert_status 0
    assert_line_output '"name":"script"'
    as_cron hold one -t 1 taken
    run as_cron lock --unlock --force taken
    assert_status 0
    reap one
    assert_status 79
    assert_equal "$(rcli acl log)" ''

    # --doctor asks more, and is told so; with what the page proposes for it, all of it.
    run as_cron lock --doctor
    assert_status 0
    assert_line_output '^warning +ROLE is refused'
    rcli acl log reset
    rcli acl setuser cron +ping +info +role '+acl|whoami'
    run as_cron lock --doctor
    assert_status 0
    refute_line_in "$output" refused
    assert_equal "$(rcli acl log)" ''
}

@test "what the manual page says of the words that a user may do without" {
    local words
    redis_start
    mapfile -t words < <(acl_of_man)
    rcli "${words[@]}"
    rcli acl setuser cron -scan -hgetall -zrangebyscore
    run as_cron lock job -- true
    assert_status 0
    for way in '--check job' '--status job' --list '--unlock job'; do
        # shellcheck disable=SC2086 # words on purpose
        REDISLOCK_TOKEN=$TOKEN run as_cron lock $way
        assert_status 77
    done
    rcli acl setuser cron +zrangebyscore
    REDISLOCK_TOKEN=$TOKEN run as_cron lock --check job
    assert_status 79
    rcli acl setuser cron +hgetall
    run as_cron lock --status job
    assert_status 0
    run as_cron lock --unlock job
    assert_status 0
    run as_cron lock --list
    assert_status 77
}

@test "every example of a server in the manual page is taken, and then looked for" {
    export PAGE=redislock.1 REDISLOCK_CONNECT_TIMEOUT=100ms
    local name
    mkdir "$ROOM/bin"
    ln -s "$REDISLOCK_BIN" "$ROOM/bin/redislock"
    for name in tls sentinel cluster quorum; do
        # No such host can be there: a name without an address is 69, a URL that is not taken is 64.
        example "$name" | sed -E "s#/etc/ssl/ours.pem#$ROOM/ours.pem#
            s#(//|,)([a-z0-9.]+)#\\1\\2.invalid#g" >"$ROOM/line"
        grep -q 'invalid' "$ROOM/line"
        touch "$ROOM/ours.pem"
        PATH=$ROOM/bin:$PATH run sh "$ROOM/line"
        assert_status 69
    done
}

# --- redislock.conf(5) ---

# The keys of that page with their examples, as lines KEY=VALUE, or with $1 as lines LONG KEY.
keys_of_conf() {
    sed -n '/^\.Sh KEYS/,/^\.Sh PERM/p' "$ROOT/man/redislock.conf.5" | sed 's/\\&//g' | awk -v options="${1-}" '
        /^\.It Ev/ { key = $3; value = $NF }
        /^\.Fl -.* :$/ { if (options) print substr($2, 2), key; else print key "=" value }'
}

@test "redislock.conf(5) has every option that can stand in a file, and no other" {
    diff -u <(variables_of_man | grep -v '^config ') <(keys_of_conf options | sort)
}

@test "every example of redislock.conf(5) is taken from a file" {
    variables=()
    keys_of_conf | grep -qx 'REDISLOCK_TTL=2m'
    while IFS= read -r line; do
        printf '%s\n' "$line" | sed "s#=/etc/.*#=$BATS_FILE_TMPDIR/probe.password#
            s#redis://cache.internal.*#unix://$BATS_TEST_TMPDIR/none.sock#" >"$BATS_TEST_TMPDIR/file.conf"
        try --config "$BATS_TEST_TMPDIR/file.conf"
    done < <(keys_of_conf)
}

@test "the file, the message and the precedence of redislock.conf(5) are as it shows them" {
    redis_start
    export PAGE=redislock.conf.5
    example file | sed "s#redis://cache.internal:6379/2#unix://$SOCK#; s#/etc/redislock.password#$ROOM/password#" \
        >"$ROOM/conf"
    rcli acl setuser cron on '>secret' '~lock:*' '&lock:*' +@all
    echo secret >"$ROOM/password"
    run "$REDISLOCK_BIN" --config "$ROOM/conf" job -- echo ran
    assert_status 0
    assert_output ran

    printf '\n\nREDISLOCK_TLL=2m\n' >"$ROOM/conf"
    run "$REDISLOCK_BIN" --config "$ROOM/conf" job -- echo ran
    assert_status 78
    assert_output "$(example message | sed "s#/etc/redislock.conf#$ROOM/conf#")"

    printf 'REDISLOCK_TTL=9m\nREDISLOCK_QUIET=yes\nREDISLOCK_TTL=2m\n' >"$ROOM/conf"
    printf '#!/bin/sh\nredis-cli -s "%s" get lock:job | cut -d: -f6\n' "$SOCK" >"$ROOM/job"
    chmod +x "$ROOM/job"
    cd "$ROOM"
    export REDISLOCK_CONFIG=$ROOM/conf REDISLOCK_URL=unix://$SOCK
    mkdir bin
    ln -s "$REDISLOCK_BIN" bin/redislock
    PATH=$ROOM/bin:$PATH run sh -c "$(example precedence)"
    assert_output '120000
180000
240000'
    hold one job
    run "$REDISLOCK_BIN" job -- true
    assert_output ''
    REDISLOCK_QUIET=no run "$REDISLOCK_BIN" job -- true
    assert_line_output 'held by'
}

# --- what is printed for operators ---

# Locks of every kind: all members and labels come up.
every_kind() {
    redis_start
    hold one exclusive
    spawn waiter lock -v -w inf exclusive -- true
    wait_for_line "$ROOM/waiter.err" 'waiting, 0 ahead; '
    lock run -- true
    hold two -s shared
    hold three -S 2 slots
    lock --min-hold 60 residue -- true
    rcli set lock:foreign token px 60000
    rcli set lock:granted "$(rcli get lock:exclusive | sed 's/:held:/:granted:/')" px 60000
}

# $1: where the section begins and ends in the page.
words_of_section() {
    sed -n "/^\.S[hs] $1/,/^\.S[hs] $2/p" "$MAN"
}

@test "the manual page has every member of the JSON, every kind and mode, and no other" {
    every_kind
    lock --json --list >"$ROOM/json"
    words_of_section 'As JSON' 'Taking a lock away' >"$ROOM/page"
    diff -u <(grep -oE '"[a-z_]+":' "$ROOM/json" | tr -d '":' | sort -u) \
        <(grep -E '^(\.It|\.Va)' "$ROOM/page" | grep -oE 'Va .*' | sed 's/^Va //' | tr -s ' ,' '\n' |
            grep -E '^[a-z_]+$' | sort -u)
    sed -nE 's/.*words\[\] = \{(.*)\};/\1/p; s/.*modes\[\] = \{("exclusive".*)\};/\1/p' \
        "$ROOT/src/command/show.c" | tr -d '" ' | tr ',' '\n' | sort -u >"$ROOM/words"
    diff -u "$ROOM/words" \
        <(sed -n 's/^\.Cm //p' "$ROOM/page" | tr -s ' ,' '\n' | grep -E '^[a-z]+$' | sort -u)
    diff -u <(grep -oE '"(kind|mode)":"[a-z]+"' "$ROOM/json" | cut -d'"' -f4 | sort -u) \
        <(grep -vxE '' "$ROOM/words" | grep -vx slots)
}

@test "the manual page and the README have every label of --status, and the page every column of --list" {
    every_kind
    lock --status exclusive slots run >"$ROOM/text" || [[ $? -eq 75 ]]
    while IFS= read -r label; do
        words_of_section 'Who holds it' 'As JSON' | grep -qE "(^  |^\.Li )$label( |$)"
    done < <(sed -nE 's/^  (.{10})  .*/\1/p' "$ROOM/text" | sed 's/ *$//' | sort -u)
    diff -u <(lock --status run | sed -nE 's/^  (.{10})  .*/\1/p') \
        <(sed -n '/^\$ redislock --status/,/^```/p' "$README" | sed -nE 's/^  (.{10})  .*/\1/p' |
            tail -n 3)
    diff -u <(lock --list | head -n 1 | sed -E 's/ {2,}/\n/g; s/WAIT /WAIT\n/') \
        <(words_of_section 'Who holds it' 'As JSON' | sed -nE 's/^\.It Li ([A-Z ]+)$/\1/p')
}

# A line of --doctor without what differs from server to server.
doctor_lines() {
    sed -E 's/ (rediss?|unix):[^ ]*//; s/[0-9.]+ ?m?s/N/g; s/(version|as) .*/\1/
            s/that (is not encrypted|does not leave).*//'
}

@test "what the README shows of --doctor is what it says" {
    redis_start
    rcli config set maxmemory 100mb
    rcli config set maxmemory-policy allkeys-lru
    rcli config set appendonly yes
    run lock --doctor
    assert_status 0
    diff -u <(sed -n '/^\$ redislock --doctor/,/^```/p' "$README" | sed '1d;$d' | doctor_lines |
        grep -v 'the connection') <(doctor_lines <<<"$output" | grep -v 'the connection')
}

@test "the manual pages are clean" {
    need mandoc
    # Whether other pages are installed here says nothing about these.
    run mandoc -Tlint "$ROOT"/man/*.[1-8]
    findings=$(grep -vE 'referenced manual not found|outdated mandoc\.db|^$' <<<"$output" || true)
    [[ -z $findings ]] || {
        echo "$findings"
        false
    }
}

@test "the README's examples for the shell are shell" {
    sed -n '/^ *```sh$/,/^ *```$/p' "$README" | sed '/^ *```/d' >"$BATS_TEST_TMPDIR/examples.sh"
    [[ -s $BATS_TEST_TMPDIR/examples.sh ]]
    bash -n "$BATS_TEST_TMPDIR/examples.sh"
}

@test "the README's architecture names every file of the rooms that it goes through file by file" {
    sed -n '/^## Architecture/,/^The flow/p' "$README" >"$BATS_TEST_TMPDIR/house"
    for file in "$ROOT"/src/{command,job,lock,redis}/*.c; do
        name=${file##*/}
        grep -qE "(^|[^a-z_])${name%.c}([^a-z_]|\$)" "$BATS_TEST_TMPDIR/house" || {
            echo "not in the architecture: ${file#"$ROOT"/}"
            false
        }
    done
}

# links FILE: fails on a relative one that leads nowhere.
links() {
    local target
    while read -r target; do
        [[ -e $(dirname "$1")/$target ]] || {
            echo "$1: no such file: $target"
            return 1
        }
    done < <(grep -oE '\]\([^):#]+\)' "$1" | sed -E 's/^\]\((.*)\)$/\1/')
}

@test "the links of the README and of the documents lead to files of the tree" {
    for page in "$ROOT"/*.md "$ROOT"/docs/*.md "$ROOT"/docs/decisions/*.md "$ROOT"/tests/*.md; do
        links "$page"
    done
    echo 'see [this](README.md) and [that](../nowhere.md)' >"$BATS_TEST_TMPDIR/page.md"
    touch "$BATS_TEST_TMPDIR/README.md"
    run links "$BATS_TEST_TMPDIR/page.md"
    assert_status 1
    assert_line_output '../nowhere.md'
}

@test "CONTRIBUTING.md names files and targets that are there" {
    while read -r file; do
        [[ -e $ROOT/$file ]] || {
            echo "no such file: $file"
            false
        }
    done < <(grep -oE '(tests|src|docs|debian|man|completions)/[A-Za-z0-9_./-]+' "$ROOT/CONTRIBUTING.md" |
        grep -vE 'NAME|BEHAVIOUR|MODULE' | sed 's/\.$//' | sort -u)
    while read -r target; do
        grep -qE "^$target:( |\$)" "$ROOT/Makefile" || {
            echo "no such target: make $target"
            false
        }
    done < <(grep -oE '`make [a-z-]+' "$ROOT/CONTRIBUTING.md" | cut -d' ' -f2 | sort -u)
}

@test "every decision has its place in the index, under its title, and says what was rejected and where it is" {
    for page in "$ROOT"/docs/decisions/*.md; do
        grep -qxF -- "- [$(sed -n '1s/^# //p' "$page")](decisions/${page##*/})" "$ROOT/docs/README.md" || {
            echo "docs/README.md has no line for ${page##*/}, or another title"
            false
        }
        for heading in '## What was rejected' '## Where'; do
            grep -qxF "$heading" "$page"
        done
    done
}
