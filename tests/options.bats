#!/usr/bin/env bats
# Each option, from the command line, the environment and the file; bad values; the file.
# shellcheck disable=SC2030,SC2031 # each test is a process of its own
# shellcheck disable=SC2317 # each_way calls
# shellcheck disable=SC2154 # spawn and hold assign

load lib/common
load lib/one_server
load lib/locks

setup_file() {
    one_server_setup_file
    redis_start secret --requirepass s3cret
}

setup() {
    one_server_setup
    export LOGNAME=deploy
    BASE=
}

# given OPTION[=VALUE]: sets GIVEN to the beginning of a redislock command line with that option,
# given in the way that WAY says. $ROOM/base holds lines that the file has before.
given() {
    local option=${1%%=*} value=1 word=--$1 url=("-u" "unix://$SOCK")
    local variable=${option^^}
    variable=REDISLOCK_${variable//-/_}
    [[ $1 != *=* ]] || value=${1#*=}
    [[ $option != url ]] || url=()
    printf '%s' "$BASE" >"$ROOM/conf"
    case $WAY in
    words) GIVEN=("$REDISLOCK_BIN" "${url[@]}" --config "$ROOM/conf" "$word") ;;
    variable) GIVEN=(env "$variable=$value" "$REDISLOCK_BIN" "${url[@]}" --config "$ROOM/conf") ;;
    file)
        printf '%s=%s\n' "$variable" "$value" >>"$ROOM/conf"
        GIVEN=("$REDISLOCK_BIN" "${url[@]}" --config "$ROOM/conf")
        ;;
    esac
}

# each_way FUNCTION OPTION[=VALUE]: runs FUNCTION with the option given in each of the three ways.
each_way() {
    local WAY
    for WAY in words variable file; do
        echo "given: $2 by $WAY"
        rcli flushall >/dev/null
        rm -f "$ROOM/out"
        given "$2"
        "$1"
    done
}

# Redislock with the option given, run to its end.
run_given() {
    quickly "${GIVEN[@]}" "$@"
}

# --- Every option, in every way -----------------------------------------------------------------

@test "every option of --help has its test here" {
    local option
    run "$REDISLOCK_BIN" --help
    while read -r option; do
        case $option in
        command | help | version | config) continue ;; # the command line's alone, or with its own
        attach | print | acquire | extend | release | check) continue ;;         # attach.bats, tokens.bats
        status | list | watch | json | unlock | force | doctor) continue ;;      # operators.bats, view.bats …
        cacert | capath | cert | key | sni | insecure) continue ;;               # tls.bats
        sentinel-user | sentinel-password-file | wait-replicas) continue ;;      # sentinel.bats, replicas.bats
        shared | exclusive | slots) continue ;;                                  # shared.bats, slots.bats
        esac
        grep -qE "each_way [a-z_]+ '?$option(=|'?$)" "$BATS_TEST_FILENAME" ||
            fail "--$option is not tested in every way"
    done < <(sed -nE 's/^ .*--([a-z-]+)( [A-Za-z|]+)?(  .*)?$/\1/p' <<<"$output")
}

@test "--url" {
    check() {
        run_given job -- true
        assert_status 0
        assert_key "$(state_key job)"
    }
    each_way check url="unix://$SOCK"
}

@test "--user" {
    printf 'pw\n' >"$ROOM/password"
    rcli acl setuser cron reset on '>pw' allkeys allcommands >/dev/null
    check() {
        run_given --password-file "$ROOM/password" job -- redis-cli -s "$SOCK" client list
        assert_status 0
        assert_line_output 'user=cron'
    }
    each_way check user=cron
}

@test "--password-file" {
    printf 's3cret\nsecond line\n' >"$ROOM/password"
    redis_use secret
    export REDISCLI_AUTH=s3cret # redis-cli's
    check() {
        quickly env -u REDISCLI_AUTH "${GIVEN[@]}" job -- true
        assert_status 0
    }
    each_way check password-file="$ROOM/password"
}

@test "--prefix" {
    check() {
        # shellcheck disable=SC2016
        run_given job -c 'echo "$REDISLOCK_LOCK_KEY"'
        assert_output app:job
    }
    each_way check prefix=app:
}

@test "--connect-timeout" {
    SOCK=$ROOM/nobody
    check() {
        local began
        began=$(boottime_ms)
        run_given job -- true
        assert_status 69
        assert_between $(($(boottime_ms) - began)) 100 8000 # the default is 10 s
    }
    rcli() { :; }
    each_way check connect-timeout=100ms
}

@test "--on-error" {
    BASE=$'REDISLOCK_CONNECT_TIMEOUT=50ms\n'
    SOCK=$ROOM/nobody
    rcli() { :; }
    check_skip() {
        run_given job -- touch "$ROOM/out"
        assert_status 0
        assert_one_line 'nobody: No such file or directory; skipping this run'
        [[ ! -e $ROOM/out ]]
    }
    check_run() {
        run_given job -c 'echo "${REDISLOCK_FENCE-none}"; exit 3'
        assert_status 3
        assert_output none
        assert_one_line 'nobody: No such file or directory; running WITHOUT A LOCK'
    }
    each_way check_skip on-error=skip
    each_way check_run on-error=run
}

@test "--ttl" {
    check() {
        run_given job -- redis-cli -s "$SOCK" eval \
            'return {redis.call("get", "lock:job"), redis.call("pttl", "lock:job")}' 0
        assert_status 0
        assert_equal "$(cut -d: -f6 <<<"${lines[0]}")" 90500
        assert_between "${lines[1]}" 80000 90500
    }
    each_way check ttl=90.5
}

@test "--wait" {
    check() {
        rcli set lock:job theirs >/dev/null
        run_given job -- true
        assert_status 75
        assert_one_line 'gave up after waiting [0-9]+ms'
    }
    each_way check wait=100ms
}

@test "--nonblock" {
    BASE=$'REDISLOCK_WAIT=inf\n'
    check() {
        rcli set lock:job theirs >/dev/null
        run_given job -- true
        assert_status 75
        refute_line_stderr 'gave up'
    }
    each_way check nonblock
}

@test "--min-hold" {
    check() {
        run_given job -- true
        assert_between "$(key_pttl lock:job)" 1 60000
    }
    each_way check min-hold=1m
}

@test "--jitter: nothing happens before the delay is over, and a signal ends it" {
    check() {
        spawn job "${GIVEN[@]}" job -- true
        if wait_until 150 key_exists "$(state_key job)" 2>/dev/null; then
            fail 'it did not wait'
        fi
        kill -TERM "$job"
        reap job
        assert_status 143
        assert_no_key "$(state_key job)"
    }
    each_way check jitter=3650d
}

@test "--jitter: after a short delay the command runs" {
    quickly lock --jitter 1ms job -- true
    assert_status 0
    assert_no_stderr
}

@test "--no-restore" {
    check() {
        # the command deletes the lock under itself
        run_given -t 400ms job -c 'redis-cli -s "$SOCK" del lock:job; sleep 30'
        assert_status 79
        assert_one_line 'lost the lock: its key vanished; stopping'
    }
    each_way check no-restore
}

@test "--on-lost" {
    check_warn() {
        spawn job "${GIVEN[@]}" -t 400ms job -- "$WITNESS" --out "$ROOM/out" --signals inf \
            --exit-on TERM --exit 4
        wait_for_line "$ROOM/out" '^ready'
        rcli set lock:job theirs >/dev/null
        wait_for_line "$ROOM/job.err" 'lost the lock: .*; the command runs on all the same'
        kill -TERM "$job"
        reap job
        assert_status 4
    }
    each_way check_warn on-lost=warn
}

@test "--max-runtime" {
    check() {
        run_given job -- sleep 30
        assert_status 124
        assert_one_line 'has run for its --max-runtime; stopping the command with SIGTERM'
        assert_no_key lock:job
    }
    each_way check max-runtime=100ms
}

@test "--signal" {
    check() {
        run_given --max-runtime 200ms job -- "$WITNESS" --signals inf --exit-on USR1
        assert_status 124
        assert_line_output '^signal .*USR1'
        assert_one_line 'with SIGUSR1'
    }
    each_way check signal=USR1
}

@test "--kill-after" {
    check() {
        spawn job "${GIVEN[@]}" --max-runtime 100ms job -- "$WITNESS" --ignore TERM --sleep inf
        reap job 8000 # the default is 10 s
        assert_status 124
    }
    each_way check kill-after=100ms
}

@test "--foreground" {
    check() {
        spawn job "${GIVEN[@]}" job -- "$WITNESS" --out "$ROOM/out"
        reap job
        assert_equal "$(witness_field "$ROOM/out" pgid)" "$job"
    }
    each_way check foreground
}

@test "--wait-descendants" {
    check() {
        run_given job -c '(sleep 0.2; touch "$ROOM/out") >/dev/null 2>&1 &'
        assert_status 0
        [[ -e $ROOM/out ]] || fail 'it did not wait'
    }
    each_way check wait-descendants
}

@test "--conflict-exit-code" {
    check() {
        rcli set lock:job theirs >/dev/null
        run_given job -- true
        assert_status 0
        assert_one_line held
    }
    each_way check conflict-exit-code=0
    quickly lock -E 255 job -- true
    assert_status 255
}

@test "--quiet" {
    check() {
        rcli set lock:job theirs >/dev/null
        run_given job -- true
        assert_status 75
        assert_no_stderr
    }
    each_way check quiet
}

@test "--quiet-for: silent while the holder is younger" {
    check() {
        hold first job
        run_given job -- true
        assert_status 75
        assert_no_stderr
        let_go first
    }
    each_way check quiet-for=1h
}

@test "--verbose: says what is being done" {
    check() {
        run_given job -- true
        assert_status 0
        assert_equal "${#stderr_lines[@]}" 2
        [[ ${stderr_lines[0]} =~ ^redislock:\ job:\ acquired\ the\ lock,\ fence\ [0-9]+$ ]]
        assert_equal "${stderr_lines[1]}" 'redislock: job: released the lock'
    }
    each_way check verbose
}

@test "--log-format" {
    check() {
        rcli set lock:job theirs >/dev/null
        run_given job -- true
        [[ $stderr == '{"time":"'*'","level":"notice","name":"job","message":"held by '*'"}' ]]
    }
    each_way check log-format=json
}

@test "--status-fd" {
    check() {
        "${GIVEN[@]}" job -- true 7>"$ROOM/out"
        grep -q '"event":"acquired"' "$ROOM/out"
    }
    each_way check status-fd=7
}

@test "--config, REDISLOCK_CONFIG: another file; the command line's counts" {
    printf 'REDISLOCK_CONFLICT_EXIT_CODE=42\n' >"$ROOM/one"
    printf 'REDISLOCK_CONFLICT_EXIT_CODE=43\n' >"$ROOM/two"
    rcli set lock:job theirs >/dev/null
    quickly lock -q --config "$ROOM/one" job -- true
    assert_status 42
    REDISLOCK_CONFIG=$ROOM/two quickly lock -q job -- true
    assert_status 43
    REDISLOCK_CONFIG=$ROOM/two quickly lock -q --config "$ROOM/one" job -- true
    assert_status 42
}

# --- Which one counts ---------------------------------------------------------------------------

# The TTL that redislock chooses with these arguments, in ms.
chosen_ttl() {
    lock --config "$ROOM/base" "$@" job -- redis-cli -s "$SOCK" get lock:job | cut -d: -f6
}

@test "the command line goes before the environment, that before the file, that before the default" {
    : >"$ROOM/base"
    assert_equal "$(chosen_ttl)" 60000
    printf 'REDISLOCK_TTL=10\n' >"$ROOM/base"
    assert_equal "$(chosen_ttl)" 10000
    export REDISLOCK_TTL=20
    assert_equal "$(chosen_ttl)" 20000
    assert_equal "$(chosen_ttl -t 30)" 30000
    assert_equal "$(chosen_ttl -t 30 --ttl=40)" 40000
}

@test "a flag can be taken back by a source that counts more" {
    rcli set lock:job theirs >/dev/null
    printf 'REDISLOCK_QUIET=yes\n' >"$ROOM/base"
    quickly lock --config "$ROOM/base" job -- true
    assert_no_stderr
    REDISLOCK_QUIET=no quickly lock --config "$ROOM/base" job -- true
    assert_one_line held
}

@test "a bad value that a better source overrides is not judged" {
    printf 'REDISLOCK_TTL=soon\n' >"$ROOM/base"
    assert_equal "$(REDISLOCK_TTL=20 chosen_ttl)" 20000
    assert_equal "$(REDISLOCK_TTL=later chosen_ttl -t 30)" 30000
    REDIS_URL=nonsense quickly lock job -- true
    assert_status 0
}

@test "of -n and -w the last one counts, over whatever the environment says" {
    rcli set lock:job theirs >/dev/null
    quickly lock -n -w 100ms job -- true
    assert_status 75
    assert_one_line 'gave up after waiting'
    quickly lock -w inf -n job -- true
    assert_status 75
    refute_line_stderr 'gave up'
    REDISLOCK_WAIT=inf quickly lock -n job -- true
    assert_status 75
    REDISLOCK_NONBLOCK=1 quickly lock -w 100ms job -- true
    assert_one_line 'gave up after waiting'
}

@test "REDIS_URL is read last: behind -u, REDISLOCK_URL and the file" {
    redis_start other
    printf 'REDISLOCK_URL=unix://%s\n' "$(redis_sock main)" >"$ROOM/file"
    export REDIS_URL
    REDIS_URL=unix://$(redis_sock other)
    local name
    "$REDISLOCK_BIN" by-redis-url true
    "$REDISLOCK_BIN" -u "unix://$(redis_sock main)" by-word true
    REDISLOCK_URL=unix://$(redis_sock main) "$REDISLOCK_BIN" by-variable true
    "$REDISLOCK_BIN" --config "$ROOM/file" by-file true
    assert_equal "$(rcli_at other keys '*')" "$(state_key by-redis-url)"
    for name in by-word by-variable by-file; do
        assert_key "$(state_key "$name")"
    done
}

@test "a bad REDIS_URL is named as such: 78" {
    REDIS_URL=http://x quickly "$REDISLOCK_BIN" job true
    assert_status 78
    assert_one_line "REDIS_URL: 'http://x' does not begin with redis://"
}

@test "REDISCLI_AUTH is read last: behind the URL, --password-file and the credential" {
    mkdir "$ROOM/credentials"
    printf 's3cret\n' >"$ROOM/good"
    printf 'wrong\n' >"$ROOM/bad"
    secret() {
        quickly env "$@" "$REDISLOCK_BIN" -u "unix://$(redis_sock secret)" \
            "${WORDS[@]}" job true
    }
    WORDS=()
    secret REDISCLI_AUTH=s3cret
    assert_status 0
    secret REDISCLI_AUTH=wrong
    assert_status 77
    secret REDISCLI_AUTH=
    assert_status 77
    WORDS=(--password-file "$ROOM/good")
    secret REDISCLI_AUTH=wrong
    assert_status 0
    WORDS=(--password-file "$ROOM/bad")
    secret REDISCLI_AUTH=s3cret
    assert_status 77

    # a credential goes before REDISCLI_AUTH and behind --password-file; none is no error
    WORDS=()
    secret REDISCLI_AUTH=s3cret CREDENTIALS_DIRECTORY="$ROOM/credentials"
    assert_status 0
    cp "$ROOM/good" "$ROOM/credentials/redislock-password"
    secret REDISCLI_AUTH=wrong CREDENTIALS_DIRECTORY="$ROOM/credentials"
    assert_status 0
    cp "$ROOM/bad" "$ROOM/credentials/redislock-password"
    secret REDISCLI_AUTH=s3cret CREDENTIALS_DIRECTORY="$ROOM/credentials"
    assert_status 77
    WORDS=(--password-file "$ROOM/good")
    secret CREDENTIALS_DIRECTORY="$ROOM/credentials"
    assert_status 0
}

# --- Bad values ---------------------------------------------------------------------------------

# assert_bad OPTION VALUE...: each value is refused on the command line, and the first in each way,
# before anything is done.
assert_bad() {
    local option=$1 value variable WAY
    variable=REDISLOCK_${option^^}
    variable=${variable//-/_}
    shift
    for WAY in variable file; do
        assert_bad_value "$1"
    done
    WAY=words
    for value in "$@"; do
        assert_bad_value "$value"
    done
    [[ ! -e $ROOM/ran ]]
}

assert_bad_value() {
    local expected origin
    echo "$option='$1' by $WAY"
    given "$option=$1"
    run_given job -- touch "$ROOM/ran"
    case $WAY in
    words) expected=64 origin="--$option: " ;;
    variable) expected=78 origin="$variable: " ;;
    file) expected=78 origin="$ROOM/conf:1: $variable: " ;;
    esac
    assert_status "$expected"
    if [[ $stderr == *$'\n'* || $stderr != "redislock: job: $origin"*"'$1'"* ]]; then
        fail "one line that names $origin and '$1' was expected: $stderr"
    fi
}

@test "rows 24, 25: a bad duration names its option, its value and its source: 64, 78" {
    assert_bad ttl 0 -1 0.0004 1e3 '5 m' '' 9223372036854775808 100000000000000000000 1.5ms 1,5 0x10 \
        ' 5' '5 ' 5s5 inf nan . s +5 5M 0ms 0.0 3651d 1d1h
    assert_bad wait -1 forever '' infinite
    assert_bad connect-timeout 0 x
    assert_bad max-runtime -1 1w
    assert_bad kill-after 0 -5
    assert_bad quiet-for 0 .
    assert_bad min-hold -1 x
    assert_bad jitter 1e1 99999999999d
    assert_equal "$(rcli dbsize)" 0
}

@test "row 74: a bad number, word, signal, descriptor or prefix names option, value and source" {
    assert_bad conflict-exit-code 256 -1 600 x '' 1.0 ' 1' 99999999999999999999
    assert_bad on-lost kil KILL '' 'kill|warn'
    assert_bad on-error no ''
    assert_bad log-format xml
    assert_bad signal FOO 0 99 STOP '' -9
    assert_bad status-fd 99 x -1 ''
    assert_bad prefix 'a{b' 'a}b' 'a b'
    assert_bad password-file "$ROOM/not-there" "$ROOM" ''
    assert_bad user ''
    assert_bad url redis:// redis://h:0 redis://h:70000 http://h redis://h/x redis://h%zz unix:// ''
    assert_equal "$(rcli dbsize)" 0
}

@test "a flag in the environment or the file takes 1, 0, yes and no: anything else is 78" {
    local option value WAY
    for option in quiet no-restore nonblock verbose; do
        for WAY in variable file; do
            for value in 2 true ''; do
                given "$option=$value"
                run_given job -- touch "$ROOM/ran"
                assert_status 78
                [[ $stderr == *"'$value' is not 1, 0, yes or no" ]]
            done
        done
        for value in 1 0 yes no; do
            given "$option=$value"
            run_given job -- true
            assert_status 0
        done
        quickly lock "--$option=1" job -- touch "$ROOM/ran"
        assert_status 64
        assert_one_line "^redislock: --$option takes no value"
    done
    [[ ! -e $ROOM/ran ]]
}

@test "rows 24, 25: good durations are exact to the millisecond, up to ten years" {
    local duration ms
    while read -r duration ms; do
        quickly lock -t "$duration" job -- redis-cli -s "$SOCK" eval \
            'return {redis.call("get", "lock:job"), redis.call("pttl", "lock:job")}' 0
        assert_status 0
        assert_equal "$(cut -d: -f6 <<<"${lines[0]}")" "$ms"
        assert_between "${lines[1]}" $((ms - 400)) "$ms"
        assert_no_key lock:job
    done <<'END'
1.5 1500
500ms 500
90 90000
1.5h 5400000
2m 120000
0.0005h 1800
1.001 1001
00010 10000
3650d 315360000000
END
}

@test "a TTL too short for the grace is refused, with the number that would do" {
    local least
    quickly lock -t 0.3 job -- touch "$ROOM/ran"
    assert_status 64
    assert_one_line '--ttl is too short for its grace: at least [0-9]+ms is needed'
    quickly lock -t 10 -k 20 job -- touch "$ROOM/ran"
    assert_status 64
    assert_one_line '--ttl is too short for this --kill-after: at least [0-9]+ms is needed'
    least=$(grep -oE 'at least [0-9]+' <<<"$stderr" | grep -oE '[0-9]+')
    quickly lock -t "$((least - 1))ms" -k 20 job -- touch "$ROOM/ran"
    assert_status 64
    [[ ! -e $ROOM/ran ]]
    quickly lock -t "${least}ms" -k 20 job -- true
    assert_status 0
}

@test "a blank or comma within an address is told how to be written" {
    run --separate-stderr "$REDISLOCK_BIN" -u "unix:///run/my redis.sock" job true
    assert_status 64
    assert_one_line "--url: .* stands behind a blank or comma but is no address; within one they are %20 and %2C\$"
    run --separate-stderr "$REDISLOCK_BIN" -u "unix:///run/redis.sock,http://x" job true
    assert_one_line "'http://x' does not begin with redis://"
}

@test "who gives one of two options that do not go together is told where the other one is set" {
    printf 'REDISLOCK_SLOTS=2\n' >"$ROOM/conf"
    run --separate-stderr "$REDISLOCK_BIN" --config "$ROOM/conf" -s job true
    assert_status 64
    assert_one_line '^redislock: job: --shared and --slots exclude each other; REDISLOCK_SLOTS is set in '"$ROOM/conf:1$"
    REDISLOCK_WAIT_REPLICAS=1 run --separate-stderr "$REDISLOCK_BIN" -u redis://a,redis://b job true
    assert_status 64
    assert_one_line '; REDISLOCK_WAIT_REPLICAS is set in the environment$'
    REDISLOCK_URL='redis://a redis://a' run --separate-stderr "$REDISLOCK_BIN" job true
    assert_status 78
    assert_one_line 'named twice; [^;]*; REDISLOCK_URL is set in the environment$'
    REDIS_URL='redis://a redis://a' run --separate-stderr "$REDISLOCK_BIN" job true
    assert_status 78
    assert_one_line 'named twice; [^;]*; REDIS_URL is set in the environment$'
    printf '\nREDISLOCK_URL=redis://a redis://b\n' >"$ROOM/conf"
    run --separate-stderr "$REDISLOCK_BIN" --config "$ROOM/conf" --acquire job
    assert_status 64
    assert_one_line "^redislock: job: a token is of one server; .*; REDISLOCK_URL is set in $ROOM/conf:2$"
    run --separate-stderr "$REDISLOCK_BIN" --config "$ROOM/conf" --list --watch
    assert_status 64
    assert_one_line "^redislock: --watch shows one server; .*; REDISLOCK_URL is set in $ROOM/conf:2$"
}

@test "an empty name of a configuration file is refused, and says where it is from" {
    run --separate-stderr "$REDISLOCK_BIN" --config '' job true
    assert_status 64
    assert_one_line "^redislock: job: --config: '' is not the path of a file\$"
    REDISLOCK_CONFIG='' run --separate-stderr "$REDISLOCK_BIN" job true
    assert_status 78
    assert_one_line "^redislock: job: REDISLOCK_CONFIG: '' is not the path of a file\$"
}

@test "a TTL too short for the grace is 78 when one of the two came from environment or file, and says where" {
    refused() {
        assert_status 78
        assert_one_line "--ttl is too short for .* the command must be stopped$1$"
    }
    local in_ttl='; REDISLOCK_TTL is set in' in_grace='; REDISLOCK_KILL_AFTER is set in'
    REDISLOCK_TTL=0.3 quickly lock job -- true
    refused "$in_ttl the environment"
    printf '\nREDISLOCK_TTL=300ms\n' >"$ROOM/conf"
    quickly lock --config "$ROOM/conf" job -- true
    refused "$in_ttl $ROOM/conf:2"
    REDISLOCK_TTL=10 quickly lock -k 20 job -- true
    refused "$in_ttl the environment"
    REDISLOCK_KILL_AFTER=20 quickly lock -t 10 job -- true
    refused "$in_grace the environment"
    printf 'REDISLOCK_KILL_AFTER=20\n' >"$ROOM/conf"
    REDISLOCK_TTL=10 quickly lock --config "$ROOM/conf" job -- true
    refused "$in_ttl the environment$in_grace $ROOM/conf:1"
    REDISLOCK_KILL_AFTER=20 quickly lock -t 10 -k 1 job -- true
    assert_status 0
    REDISLOCK_TTL=300ms quickly lock -t 0.3 job -- true
    assert_status 64
    assert_one_line 'the command must be stopped$'
}

@test "unknown, ambiguous and incomplete options, and missing operands: 64, one line" {
    bad() {
        quickly lock "$@"
        assert_status 64
        assert_no_output
        assert_one_line "$PATTERN; try 'redislock --help'"
    }
    PATTERN="unknown option '--frobnicate'" bad --frobnicate=secret job true
    refute_line_stderr secret
    PATTERN="unknown option '-Z'" bad -qZ job true
    PATTERN="option '--no' is ambiguous: --nonblock or --no-restore" bad --no job true
    PATTERN='--json goes with --status and --list only' bad --json job true
    PATTERN='--json goes with --status and --list only' bad --doctor --json
    PATTERN='--watch goes with --list only' bad --watch job true
    PATTERN='--watch goes with --list only' bad --status --watch=1s job
    PATTERN='--force goes with --unlock only' bad --force --release job token
    PATTERN='--print goes with --attach only' bad --print fence --acquire job
    PATTERN='--ttl needs a value \(DUR\)' bad --ttl
    PATTERN='NAME and COMMAND are missing' bad
    PATTERN='COMMAND is missing' bad job
    PATTERN='COMMAND is missing' bad job --
    PATTERN='NAME is missing' bad -c true
    PATTERN='--command and a COMMAND exclude each other' bad -c true job false
    PATTERN='--command takes one LINE, and there is more behind it' bad job -c true false
}

# --- The file -----------------------------------------------------------------------------------

@test "the file takes comments, blank lines, blanks around =, quotes, CRLF and a last line without end" {
    printf '# a comment\n\n  \t\n \tREDISLOCK_PREFIX = "app:" \r\n#REDISLOCK_TTL=bad\nREDISLOCK_TTL='"'90s'"'\nREDISLOCK_QUIET=1' >"$ROOM/base"
    quickly lock --config "$ROOM/base" job -- redis-cli -s "$SOCK" get app:job
    assert_status 0
    assert_equal "$(cut -d: -f6 <<<"$output")" 90000
    rcli set app:job theirs >/dev/null
    quickly lock --config "$ROOM/base" job -- true
    assert_status 75
    assert_no_stderr
}

@test "of two lines for one option in a file the last one counts" {
    printf 'REDISLOCK_TTL=10\nREDISLOCK_TTL=20\n' >"$ROOM/base"
    assert_equal "$(chosen_ttl)" 20000
}

@test "a file that is no good names itself and the line: 78" {
    bad_file() {
        printf '%b' "$1" >"$ROOM/base"
        quickly lock --config "$ROOM/base" job -- touch "$ROOM/ran"
        assert_status 78
        assert_one_line "^redislock: job: $ROOM/base:$2"
    }
    bad_file 'REDISLOCK_QUIET=1\nREDISLOCK_TTLL=5\n' "2: 'REDISLOCK_TTLL' is not a setting"
    bad_file 'TTL=5\n' "1: 'TTL' is not a setting"
    bad_file '\nnonsense\n' '2: is not a line of the form'
    bad_file 'REDISLOCK_PREFIX="app:\n' "1: 'REDISLOCK_PREFIX' has an opening quote"
    bad_file 'REDISLOCK_CONFIG=/x\n' "1: 'REDISLOCK_CONFIG' cannot be set in a file"
    bad_file 'REDISLOCK_COMMAND=true\n' "1: 'REDISLOCK_COMMAND' cannot be set in a file"
    bad_file 'REDISLOCK_HELP=1\n' "1: 'REDISLOCK_HELP' cannot be set in a file"
    bad_file 'REDISLOCK_TTL=5\0\n' ' .*it holds a NUL byte'
    [[ ! -e $ROOM/ran ]]
}

@test "a file that was asked for and cannot be read: 78" {
    quickly lock --config "$ROOM/not-there" job -- touch "$ROOM/ran"
    assert_status 78
    assert_one_line "$ROOM/not-there: .*No such file"
    REDISLOCK_CONFIG=$ROOM quickly lock job -- touch "$ROOM/ran"
    assert_status 78
    assert_one_line "$ROOM: .*[Dd]irectory"
    [[ ! -e $ROOM/ran ]]
}
