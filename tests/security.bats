#!/usr/bin/env bats
# What the manual page says under SECURITY CONSIDERATIONS: where a password can be seen and where not,
# what hostile names, values and servers can do, and how the program is built.
# shellcheck disable=SC2030,SC2031 # each test is a process of its own
# shellcheck disable=SC2154,SC2153 # spawn and hold assign
# shellcheck disable=SC2016 # the command's shell expands

load lib/common
load lib/locks
load lib/servers
load lib/scripts
load lib/job

WORD=Gr-7x_unlikely # the password; nothing else has it

setup_file() {
    common_setup_file
    redis_start --tcp --requirepass "$WORD"
    redis_start plain
}

setup() {
    common_setup
    redis_use main
    export REDISCLI_AUTH=$WORD # for redis-cli alone
    rcli flushall >/dev/null
    unset REDISCLI_AUTH
    redis-cli -s "$(redis_sock plain)" flushall >/dev/null
    printf '%s\n' "$WORD" >"$ROOM/password"
    printf 'REDISLOCK_URL=redis://:%s@127.0.0.1:%s\n' "$WORD" "$(redis_port)" >"$ROOM/config"
    chmod 600 "$ROOM/password" "$ROOM/config"
    mkdir "$ROOM/credentials"
    cp "$ROOM/password" "$ROOM/credentials/redislock-password"
}

# way WAY: sets WITH (what stands before the program) and GIVEN (its options) so that the password comes
# that way.
way() {
    local address
    address=redis://127.0.0.1:$(redis_port)
    WITH=(env) GIVEN=(-u "$address")
    case $1 in
    argument) GIVEN=(-u "redis://:$WORD@127.0.0.1:$(redis_port)") ;;
    config) GIVEN=(--config "$ROOM/config") ;;
    file) GIVEN+=(--password-file "$ROOM/password") ;;
    credential) WITH+=("CREDENTIALS_DIRECTORY=$ROOM/credentials") ;;
    variable) WITH+=("REDISLOCK_URL=redis://:$WORD@127.0.0.1:$(redis_port)") GIVEN=() ;;
    auth) WITH+=("REDISCLI_AUTH=$WORD") ;;
    esac
}

WAYS=(argument config file credential variable auth)

# refute_secret FILE...: it stands in none of them, in no spelling.
refute_secret() {
    local file hit encoded
    encoded=$(printf %s "$WORD" | base64)
    for file in "$@"; do
        [[ -r $file ]] || fail "$file cannot be read" || return
        hit=$(grep -aciE -- "$WORD|$encoded" "$file") || true
        [[ $hit == 0 ]] || fail "the password is in $file: $(tr '\0' '\n' <"$file" | grep -aiE "$WORD|$encoded")" ||
            return
    done
}

# The living processes of this test that run redislock: itself, its guard, a keeper.
redislocks() {
    local pid
    for pid in $(_strays); do
        [[ $(readlink "/proc/$pid/exe") != "$(readlink -f "$REDISLOCK_BIN")" ]] || printf '%s\n' "$pid"
    done
}

# --- Passwords ----------------------------------------------------------------------------------

@test "row 83: a password is in no argument, message, event, key or environment of a job, whichever way it comes" {
    local one pid child
    for one in "${WAYS[@]}"; do
        way "$one"
        rm -f "$ROOM/report"
        spawn job "${WITH[@]}" bash -c 'exec 5>"$0" "$@"' "$ROOM/events" "$REDISLOCK_BIN" "${GIVEN[@]}" \
            -v --status-fd 5 -t 900ms k -- "$WITNESS" --out "$ROOM/report" --report --signals inf --exit-on TERM
        wait_for_line "$ROOM/report" '^ready'
        wait_until 10000 guard_of "$job"
        wait_for_line "$ROOM/job.err" 'extended the lock'
        child=$(sed -n 's/^ready //p' "$ROOM/report")
        for pid in "$job" "$(guard_of "$job")" "$child"; do
            refute_secret "/proc/$pid/cmdline" "/proc/$pid/comm"
            # what the caller has in the environment the command gets as it came
            [[ $one == @(variable|auth) ]] || refute_secret "/proc/$pid/environ"
        done
        [[ $one == @(variable|auth) ]] || refute_secret "$ROOM/report"
        REDISCLI_AUTH=$WORD rcli get lock:k >"$ROOM/value"
        let_go job
        assert_status 0
        REDISCLI_AUTH=$WORD rcli hgetall 'lock:{lock:k}:state' >>"$ROOM/value"
        [[ -s $ROOM/events && -s $ROOM/value ]]
        refute_secret "$ROOM/job.out" "$ROOM/job.err" "$ROOM/events" "$ROOM/value"
    done
}

@test "row 83: nor in what the other ways of use say, in either format, as text, JSON or for the journal" {
    local one use words format journal
    : >"$ROOM/said"
    journal=$(stat -c '%d:%i' "$ROOM/said")
    for one in "${WAYS[@]}"; do
        way "$one"
        for use in '--status k' '--status --json k' '--list' '--list --json' '--doctor' '--unlock --force k' \
            '--acquire k' '--check k x' 'k true'; do
            read -ra words <<<"$use"
            for format in text json; do
                JOURNAL_STREAM=$journal "${WITH[@]}" "$REDISLOCK_BIN" "${GIVEN[@]}" -v --log-format "$format" \
                    --status-fd 2 "${words[@]}" >>"$ROOM/said" 2>&1 || true
            done
        done
    done
    grep -q '^<6>' "$ROOM/said"
    [[ $(wc -l <"$ROOM/said") -gt 100 ]] || fail "too little is said: $(<"$ROOM/said")"
    refute_secret "$ROOM/said"
}

@test "row 83: nor when the login is refused, nobody answers, or the server says it back" {
    local one
    redis_start other --tcp --requirepass another
    talker_start --tcp --repeat-last "reply -ERR invalid password '$WORD' for $WORD"
    for one in "${WAYS[@]}"; do
        for port in "$(redis_port other)" 1 "${TALKER_URL##*:}"; do
            redis_port() { printf '%s\n' "$port"; }
            printf 'REDISLOCK_URL=redis://:%s@127.0.0.1:%s\n' "$WORD" "$port" >"$ROOM/config"
            way "$one"
            "${WITH[@]}" "$REDISLOCK_BIN" "${GIVEN[@]}" -v --connect-timeout 100ms k true >>"$ROOM/said" 2>&1 &&
                fail 'it ran'
            "${WITH[@]}" "$REDISLOCK_BIN" "${GIVEN[@]}" --connect-timeout 100ms --doctor >>"$ROOM/said" 2>&1 &&
                fail 'healthy'
        done
    done
    grep -q WRONGPASS "$ROOM/said"
    refute_secret "$ROOM/said"
}

@test "row 83: the password of the sentinels is kept as well" {
    redis_start master --tcp
    sentinel_start s1 "$(redis_port master)" 1 "requirepass $WORD"
    spawn job bash -c 'exec 5>"$0" "$@"' "$ROOM/events" "$REDISLOCK_BIN" -v --status-fd 5 -t 900ms \
        -u "redis+sentinel://127.0.0.1:$(redis_port s1)/mymaster" --sentinel-password-file "$ROOM/password" \
        k -- "$WITNESS" --out "$ROOM/report" --report --signals inf --exit-on TERM
    wait_for_line "$ROOM/report" '^ready'
    wait_until 10000 guard_of "$job"
    local pid
    for pid in "$job" "$(guard_of "$job")" "$(sed -n 's/^ready //p' "$ROOM/report")"; do
        refute_secret "/proc/$pid/cmdline" "/proc/$pid/environ"
    done
    let_go job
    assert_status 0
    refute_secret "$ROOM/job.err" "$ROOM/job.out" "$ROOM/events" "$ROOM/report"
}

@test "row 83: a script's keeper has the password in no argument and no environment" {
    printf '%s\n' "$REDISLOCK_BIN -u redis://127.0.0.1:$(redis_port) --password-file $ROOM/password --attach k || exit" \
        'read -r _ <"$ROOM/go"' >"$ROOM/script"
    mkfifo "$ROOM/go"
    spawn script bash "$ROOM/script"
    wait_until 10000 keepers_are 1
    refute_secret "/proc/$(keepers)/cmdline" "/proc/$(keepers)/environ"
    echo >"$ROOM/go"
    reap script
    assert_status 0
}

# The owners of /proc/PID: root's where the kernel writes no core and lets nobody look in.
owners() {
    local pid
    for pid in "$@"; do
        stat -c %u "/proc/$pid/status"
    done | sort -u
}

# As a user without privileges: $AS, and $BIN, a program that it may run.
as_user() {
    AS=() BIN=$REDISLOCK_BIN USER_ID=$EUID
    ((EUID == 0)) || return 0
    command -v setpriv >/dev/null || skip_or_fail 'no setpriv'
    USER_ID=$((100000000 + (RANDOM << 15) + RANDOM))
    AS=(setpriv --reuid "$USER_ID" --regid "$USER_ID" --clear-groups --)
    SHARED=$(mktemp -d /tmp/redislock.XXXXXX)
    chmod 755 "$SHARED"
    install -m 755 "$REDISLOCK_BIN" "$WITNESS" "$SHARED"
    BIN=$SHARED/redislock
}

teardown() {
    common_teardown
    [[ -z ${SHARED-} ]] || rm -r "$SHARED"
}

@test "row 83: who has a password shows its memory and environment to root alone, and so does its guard" {
    as_user
    local who
    way auth
    spawn with "${AS[@]}" env "REDISCLI_AUTH=$WORD" "$BIN" "${GIVEN[@]}" k -- sleep 99
    spawn without "${AS[@]}" "$BIN" -u "redis://127.0.0.1:1" --on-error run --connect-timeout 100ms k -- sleep 99
    wait_until 10000 guard_of "$with"
    wait_until 10000 guard_of "$without"
    assert_equal "$(owners "$without" "$(guard_of "$without")")" "$USER_ID" # or this would show nothing
    assert_equal "$(owners "$with" "$(guard_of "$with")")" 0
    for who in "$with" "$(guard_of "$with")"; do
        run "${AS[@]}" cat "/proc/$who/environ"
        assert_status 1
        run "${AS[@]}" head -c 1 "/proc/$who/mem"
        assert_status 1
    done
    # the command is as any other
    assert_equal "$(owners "$(pgrep -P "$with" -x sleep)")" "$USER_ID"
    process_end "$with"
    process_end "$without"
}

@test "row 83: a crash leaves no core file of a redislock that has a password" {
    need python3
    not_sanitized 'the sanitizers write no core files'
    cat >"$ROOM/crash.py" <<'PY'
import os, resource, signal, subprocess, sys, time
room, argv = os.environ["ROOM"], sys.argv[1:]
ready = f"{room}/crash.ready"
if os.path.exists(ready):
    os.unlink(ready)
resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY,) * 2)
job = subprocess.Popen(argv + ["--", "sh", "-c", 'echo >"$0"; exec sleep 99', ready], cwd=room)
end = time.monotonic() + 10
while not os.path.exists(ready) and time.monotonic() < end:
    time.sleep(0.01)
os.kill(job.pid, signal.SIGSEGV)
_, status = os.waitpid(job.pid, 0)
print("core" if os.WCOREDUMP(status) else "none", os.WTERMSIG(status))
PY
    [[ $(ulimit -H -c) == unlimited ]] || skip_or_fail 'optional: core files are forbidden here'
    run python3 "$ROOM/crash.py" "$REDISLOCK_BIN" -u "unix://$(redis_sock plain)" k
    [[ $output == 'core 11' ]] || skip 'optional: this system writes no core files'
    rm -f "$ROOM"/core*
    local one
    for one in "${WAYS[@]}"; do
        way "$one"
        run --separate-stderr python3 "$ROOM/crash.py" "${WITH[@]}" "$REDISLOCK_BIN" "${GIVEN[@]}" k
        assert_output 'none 11'
        run ! compgen -G "$ROOM/core*"
        REDISCLI_AUTH=$WORD rcli del lock:k
    done
}

@test "row 83: in its own memory redislock keeps one copy of a password, for the next login" {
    need python3
    ((EUID == 0)) || skip 'optional: needs root to look'
    not_sanitized 'the sanitizers keep what was freed'
    cat >"$ROOM/copies.py" <<'PY'
import re, sys
pid, word = sys.argv[1], open(sys.argv[2], "rb").read().strip()
found = 0
with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
    for line in maps:
        start, end, mode = re.match(r"([0-9a-f]+)-([0-9a-f]+) (\S+)", line).groups()
        if mode.startswith("rw"):
            memory.seek(int(start, 16))
            found += memory.read(int(end, 16) - int(start, 16)).count(word)
print(found)
PY
    local one expected
    for one in "${WAYS[@]}"; do
        way "$one"
        spawn job "${WITH[@]}" "$REDISLOCK_BIN" "${GIVEN[@]}" -v -t 900ms k -- sleep 99
        wait_for_line "$ROOM/job.err" 'extended the lock'
        expected=1
        [[ $one != @(variable|auth) ]] || expected=2 # and the environment, which is the caller's
        run python3 "$ROOM/copies.py" "$job" "$ROOM/password"
        assert_output "$expected"
        process_end "$job"
    done
}

@test "a configuration file with a password that everybody may read is warned about" {
    chmod 644 "$ROOM/config"
    run --separate-stderr "$REDISLOCK_BIN" --config "$ROOM/config" k true
    assert_status 0
    assert_one_line "^redislock: k: $ROOM/config:1: .*every user of this host may read"
    refute_line_stderr "$WORD"
    local mode
    for mode in 640 600 400; do
        chmod "$mode" "$ROOM/config"
        run --separate-stderr "$REDISLOCK_BIN" --config "$ROOM/config" k true
        assert_status 0
        assert_no_stderr
    done
    printf 'REDISLOCK_URL=unix://%s\nREDISLOCK_TTL=5\n' "$(redis_sock plain)" >"$ROOM/config"
    chmod 644 "$ROOM/config"
    run --separate-stderr "$REDISLOCK_BIN" --config "$ROOM/config" k true # nothing secret in it
    assert_status 0
    assert_no_stderr
}

# --- Hostile names, values and servers ------------------------------------------------------------

ATTACK=$'\e]0;owned\a\xc2\x9b31m\r\b\x7f\xff\n'

# refute_raw TEXT: control bytes but newlines, C1 controls, or what is not UTF-8.
refute_raw() {
    if LC_ALL=C grep -qP '[\x00-\x09\x0b-\x1f\x7f]|\xc2[\x80-\x9f]' <<<"$1"; then
        fail "control bytes: $(cat -v <<<"$1")"
    fi
    iconv -f UTF-8 -t UTF-8 <<<"$1" >/dev/null || fail "no UTF-8: $(cat -v <<<"$1")"
}

encoded() {
    printf '%s' "$1" | od -An -v -tx1 | tr -d ' \n' | sed 's/../%&/g' | tr a-f A-F
}

# hostile_keys NAME FORM: the holder, the line and the state of NAME, and who shares NAME-shared. FORM is
# encoded, as redislock itself writes words that are attacks, or raw, as only an attacker would.
hostile_keys() {
    local evil=$ATTACK now token=5a84baf77f787836078ffd9654266310704071dc name holder waiter
    now=$(date +%s)000
    [[ $2 == raw ]] || evil=$(encoded "$ATTACK")
    holder=$now:60000:h$evil:b:4711:u$evil:c$evil waiter=60000:h$evil:b:12:u$evil:c$evil
    rcli set "lock:$1" "redislock1:$token:17:held:$holder" px 60000
    rcli zadd "lock:{lock:$1-shared}:holders" "$((now + 600000))" "redislock1:$token:18:shared:$holder"
    for name in "$1" "$1-shared"; do
        rcli zadd "lock:{lock:$name}:queue" "${now}000" "x:p:$token:$waiter"
        rcli zadd "lock:{lock:$name}:leases" "$((now + 600000))" "$token"
        rcli hset "lock:{lock:$name}:state" fence 17 runs 1 skips 1 losses 1 last_host "l$evil" \
            last_start "$now" last_ms 5 last_status 0
    done
    [[ $2 != raw ]] || rcli hset "lock:{lock:$1}:state" runs "1$evil" last_ms "$evil" last_status "$evil" slots "$evil"
}

@test "hostile names and values never reach a terminal or a log raw, whatever shows them" {
    redis_use plain
    local form use words shown=0
    for form in raw encoded; do
        rcli flushall >/dev/null
        hostile_keys evil "$form" >/dev/null
        hostile_keys "$(encoded "$ATTACK")" "$form" >/dev/null
        rcli set "lock:$ATTACK" x px 60000 >/dev/null
        for use in '--status evil evil-shared' '--status --json evil evil-shared' '--list' '--list --json' '--list --watch=50ms' \
            '-v evil true' '-w 50ms -v evil true' '-s evil true' '-S 2 evil true' '--acquire evil' '--doctor' \
            '--attach evil' '--unlock evil' '--unlock --force evil-shared' '--unlock --force evil'; do
            read -ra words <<<"$use"
            for format in text json; do
                quickly timeout 1 "$REDISLOCK_BIN" -u "unix://$SOCK" --status-fd 2 --log-format "$format" "${words[@]}"
                refute_raw "$output$stderr" || fail "by $use" || return
                [[ $output$stderr != *owned* ]] || shown=$((shown + 1))
            done
        done
    done
    ((shown >= 20)) || fail "only $shown showed anything of it"
    # and a hostile NAME and option, which somebody else may have chosen too
    for use in --status -v --unlock --acquire; do
        quickly lock "$use" -- "$ATTACK" true
        refute_raw "$output$stderr"
        quickly lock "$use" --prefix "$ATTACK" -t "$ATTACK" k true
        refute_raw "$output$stderr"
    done
    quickly lock k "$ATTACK"
    assert_status 127
    refute_raw "$output$stderr"
}

@test "hostile values do not reach the line of a waiter, the question of --unlock and the live view" {
    redis_use plain
    local form
    for form in raw encoded; do
        rcli flushall >/dev/null
        hostile_keys evil "$form" >/dev/null
        run on_pty "$REDISLOCK_BIN" -u "unix://$SOCK" -w 300ms evil true <<<wait
        refute_attack
        run on_pty "$REDISLOCK_BIN" -u "unix://$SOCK" --unlock evil <<'STEPS'
expect \?
send n\r
wait
STEPS
        refute_attack
        run on_pty "$REDISLOCK_BIN" -u "unix://$SOCK" --list --watch=50ms <<'STEPS'
expect evil
send q
wait
STEPS
        refute_attack
    done
}

refute_attack() {
    [[ -n $output ]] || fail 'nothing is shown'
    if LC_ALL=C grep -qP '\x1b\]0;owned|\xc2\x9b31m|\x7f|\xff' <<<"$output"; then
        fail "shown: $(cat -v <<<"$output")"
    fi
}

@test "what a hostile server says of itself is escaped in every line of --doctor" {
    talker_start --repeat-last 'when INFO raw $54\r\nredis_version:\e]0;owned\x07\xc2\x9b31m\xff\r\nrole:\e]0;owned\r\n\r\n\r\n' \
        'when ROLE raw *1\r\n$11\r\n\e]0;owned\x07\xff\r\n' 'when ACL raw $11\r\n\e]0;owned\x07\xff\r\n' \
        'when CONFIG raw *2\r\n$4\r\nsave\r\n$11\r\n\e]0;owned\x07\xff\r\n' \
        'reply -ERR \e]0;owned\x07\xc2\x9b31m\xff'
    quickly "$REDISLOCK_BIN" -u "$TALKER_URL" --connect-timeout 300ms -v --doctor
    [[ $status != 0 && $output == *owned* ]] || fail "$status: $output"
    refute_raw "$output$stderr"
}

@test "hostile replies cost neither memory nor work: giant strings, lines, arrays and depths, endlessly" {
    need python3
    not_sanitized 'the sanitizers need memory of their own'
    cat >"$ROOM/hostile.py" <<'PY'
import itertools, os, socket, subprocess, sys, threading, time
path, program = f"{os.environ['ROOM']}/hostile", os.environ["REDISLOCK_BIN"]
kilo = b"a" * 1024
forms = {
    "a string of 2 GiB": (b"$2147483647\r\n", kilo * 64),
    "a string of 500 MB": (b"$500000000\r\n", kilo * 64),
    "a string of 9 MB": (b"$9000000\r\n", kilo * 64),
    "a line without an end": (b"+", kilo * 64),
    "an error without an end": (b"-ERR ", kilo * 64),
    "a number without an end": (b":", b"1" * 65536),
    "an array of strings": (b"*2000000000\r\n", (b"$1024\r\n" + kilo + b"\r\n") * 64),
    "an array of empty arrays": (b"*1000000\r\n", b"*0\r\n" * 16384),
    "arrays of a million in each other": (b"", b"*1000000\r\n" * 4096),
    "depth without an end": (b"", b"*1\r\n" * 16384),
    "replies that nobody asked for": (b"", b"+OK\r\n" * 16384),
}
uses = (["k", "true"], ["-w", "1", "k", "true"], ["--status", "k"], ["--list"], ["--doctor"], ["--acquire", "k"])

def talk(connection, form):
    try:
        connection.recv(65536)
        connection.sendall(form[0])
        for _ in range(3000):  # 192 MB, if anybody takes them
            connection.sendall(form[1])
        connection.recv(1)
    except OSError:
        pass
    connection.close()

def serve(listener, form):
    try:
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=talk, args=(connection, form), daemon=True).start()
    except OSError:
        pass

wrong = worst = 0
for (name, form), use in itertools.product(forms.items(), uses):
    if os.path.exists(path):
        os.unlink(path)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(16)
        threading.Thread(target=serve, args=(listener, form), daemon=True).start()
        job = subprocess.Popen([program, "-u", f"unix://{path}", "--connect-timeout", "500ms"] + use,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        began = time.monotonic()
        limit = threading.Timer(15, job.kill)
        limit.start()
        said = job.stdout.read().decode(errors="replace")
        _, status, usage = os.wait4(job.pid, 0)
        took = time.monotonic() - began
        limit.cancel()
        listener.shutdown(socket.SHUT_RDWR)
    status = os.waitstatus_to_exitcode(status)
    work = usage.ru_utime + usage.ru_stime
    worst = max(worst, usage.ru_maxrss)
    if status not in (69, 76) or usage.ru_maxrss > 24000 or work > 5 or len(said) > 4000 or not said:
        print(f"{name}, {use}: {status}, {usage.ru_maxrss} kB, {took:.1f} s, {work:.1f} s of work, {said[:300]}")
        wrong += 1
        if wrong == 3:
            break
print(f"at most {worst} kB")
sys.exit(wrong > 0)
PY
    run python3 "$ROOM/hostile.py"
    assert_status 0
    [[ $output =~ ^at\ most\ [0-9]+\ kB$ ]]
}

# --- How it is built ------------------------------------------------------------------------------

# hardened FILE: position-independent, nothing both writable and executable, all of its relocations done
# and read-only at the start, no paths of its own to search for libraries.
hardened() {
    local headers
    headers=$(readelf -hldW "$1") || fail "$1 is not read" || return
    [[ $headers =~ Type:\ +DYN ]] || fail "$1: not position-independent" || return
    [[ $headers == *GNU_RELRO* ]] || fail "$1: no RELRO" || return
    [[ $headers =~ FLAGS_1.*NOW || $headers == *BIND_NOW* ]] || fail "$1: not bound at the start" || return
    [[ $headers =~ GNU_STACK.*\ RW\ + ]] || fail "$1: an executable stack" || return
    ! grep -qE '^ +LOAD .* RWE ' <<<"$headers" || fail "$1: writable and executable" || return
    ! grep -qE '\((RPATH|RUNPATH|TEXTREL)\)' <<<"$headers" || fail "$1: RPATH or TEXTREL" || return
    is_sanitized "$1" || readelf -sW --dyn-syms "$1" | grep -q ' __stack_chk_fail' || fail "$1: no stack protector"
}

@test "the program and its TLS module are hardened" {
    local module=${REDISLOCK_BIN%/*}/redislock-tls.so
    ! is_static || skip 'optional: a static program is bound when it is built; static.bats looks at it'
    hardened "$REDISLOCK_BIN"
    readelf -lW "$REDISLOCK_BIN" | grep -q INTERP # and not a library
    [[ ! -e $module ]] || hardened "$module"
    sanitized || readelf -sW --dyn-syms "$REDISLOCK_BIN" | grep -qE ' __(v?s?n?printf|memcpy)_chk' ||
        fail 'not built with _FORTIFY_SOURCE'
}

@test "what is not hardened is seen" {
    need cc
    printf 'int main(void) { return 0; }\n' >"$ROOM/main.c"
    local flags number=0
    local all='-pie -fPIE -Wl,-z,relro -Wl,-z,now -fstack-protector-all'
    for flags in "$all" "$all -no-pie" "$all -Wl,-z,norelro" "$all -Wl,-z,lazy" "$all -Wl,-z,execstack" \
        "$all -Wl,-rpath,/tmp" "$all -fno-stack-protector"; do
        # shellcheck disable=SC2086 # words on purpose
        cc $flags -o "$ROOM/main-$number" "$ROOM/main.c"
        number=$((number + 1))
    done
    hardened "$ROOM/main-0"
    for ((number--; number > 0; number--)); do
        run hardened "$ROOM/main-$number"
        assert_status 1
    done
}
