# What every suite loads:  load lib/common
#
# It brings `setup` and `teardown` (a suite with its own calls common_setup and common_teardown),
# and for suites with one server for all tests `setup_file` and `teardown_file` (likewise
# common_setup_file, common_teardown_file).
#
# Each test gets a folder of its own, $ROOM, short enough for Unix sockets, and stdin from
# /dev/null. Whatever a helper starts ends before the test does; so do strays that left their
# group and session, unless their environment was emptied.
#
#   common.bash    rooms, `lock`, strict mode
#   process.bash   clock, wait_until, spawn and reap, launch, processes that must be gone
#   redis.bash     real servers: start, stop, kill, freeze, restart; keys
#   faults.bash    proxy, talker, pty, witness
#   assert.bash    assertions over $status, $output and $stderr
#
# The tools are built by make into $REDISLOCK_TOOLS; the program under test is $REDISLOCK_BIN.

bats_require_minimum_version 1.5.0

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
: "${REDISLOCK_BIN:=$ROOT/build/redislock}" "${REDISLOCK_TOOLS:=$ROOT/build/tools}"
export ROOT REDISLOCK_BIN REDISLOCK_TOOLS

# shellcheck source=tests/lib/process.bash
source "$ROOT/tests/lib/process.bash"
# shellcheck source=tests/lib/redis.bash
source "$ROOT/tests/lib/redis.bash"
# shellcheck source=tests/lib/faults.bash
source "$ROOT/tests/lib/faults.bash"
# shellcheck source=tests/lib/assert.bash
source "$ROOT/tests/lib/assert.bash"

# Whether the program under test needs no other file, as `make static` builds it.
is_static() {
    ! readelf -lW "$REDISLOCK_BIN" | grep -q INTERP
}

# is_sanitized FILE: whether FILE is built with a sanitizer. sanitized: the program under test.
is_sanitized() {
    grep -qaE '__(asan|tsan)_init' "$1"
}

sanitized() {
    is_sanitized "$REDISLOCK_BIN"
}

# Skips the test where what it looks at is not the program's but the sanitizer's, as REASON says. That
# is no failure anywhere: the ordinary build runs it.
not_sanitized() {
    ! sanitized || skip "optional: $1"
}

# lease MS: a TTL, or a wait, of so long; under a sanitizer three times that, as all that a test does within a lease
# takes longer then.
lease() {
    local times=1
    ! sanitized || times=3
    printf '%dms\n' "$(($1 * times))"
}

# For a test that traces the program, or leaves it no process: at its end it does not look for leaks,
# which needs both.
without_leak_search() {
    export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0
}

# What a sanitizer finds while a test runs goes to files of that test's, which fail it at its end. What
# is found without this environment fails the run (tests/sanitizer).
_findings_begin() {
    local folder=${REDISLOCK_TOOLS%/*}/findings variable
    [[ -d $folder ]] || return 0
    FINDINGS=$folder/$(basename "$BATS_TEST_FILENAME" .bats)-$BATS_TEST_NUMBER
    rm -f "$FINDINGS".* # an earlier run's
    for variable in ASAN_OPTIONS TSAN_OPTIONS UBSAN_OPTIONS; do
        export "$variable=${!variable:+${!variable}:}log_path=$FINDINGS"
    done
}

_findings_end() {
    local found
    [[ -n ${FINDINGS-} ]] || return 0
    if found=$("$ROOT/tests/tools/findings" "$FINDINGS".*); then
        fail "a sanitizer found something: $found"
        return 1
    fi
    rm -f "$FINDINGS".*
}

# Enters the scope whose folder is $1. A deep TMPDIR would make socket paths too long for the
# kernel (107 bytes): then the room is elsewhere, and leaves a note where.
_room_enter() {
    ROOM=$1
    if ((${#ROOM} > 60)); then
        ROOM=$(mktemp -d /tmp/redislock.XXXXXX)
        printf '%s' "$ROOM" >"$1/room"
    fi
    mkdir -p "$ROOM/pids"
    export ROOM REDISLOCKTEST_ROOM=$ROOM # the second marks all descendants
}

_room_leave() {
    processes_end
    if [[ -f $1/room ]]; then
        rm -rf "$(<"$1/room")"
    fi
}

# The user's own settings must not reach the program under test.
_environment_clean() {
    local variable
    for variable in "${!REDISLOCK_@}"; do
        case $variable in
        REDISLOCK_BIN | REDISLOCK_TOOLS | REDISLOCK_STRICT) ;;
        *) unset "$variable" ;;
        esac
    done
    unset REDIS_URL REDISCLI_AUTH CREDENTIALS_DIRECTORY
}

common_setup_file() {
    _environment_clean
    _room_enter "$BATS_FILE_TMPDIR"
    FILE_ROOM=$ROOM
    export FILE_ROOM
}

common_teardown_file() {
    ROOM=$FILE_ROOM REDISLOCKTEST_ROOM=$FILE_ROOM
    _room_leave "$BATS_FILE_TMPDIR"
}

common_setup() {
    exec </dev/null # a developer's terminal as stdin would change what redislock does
    _environment_clean
    _room_enter "$BATS_TEST_TMPDIR"
    _findings_begin
    if [[ ! -x $REDISLOCK_TOOLS/witness ]]; then
        fail "the test tools are not in $REDISLOCK_TOOLS: run \`make tests\`"
    fi
}

common_teardown() {
    _room_leave "$BATS_TEST_TMPDIR"
    _findings_end
}

setup_file() { common_setup_file; }
teardown_file() { common_teardown_file; }
setup() { common_setup; }
teardown() { common_teardown; }

# lock ARG...: redislock on the current server ($URL, else the one redis_start or redis_use set).
# Another address for one call:  URL=$PROXY_URL lock NAME -- COMMAND
lock() {
    "$REDISLOCK_BIN" -u "${URL:-unix://$SOCK}" "$@"
}

# Skips the test for REASON; fails it where everything was to be installed (REDISLOCK_STRICT=1).
skip_or_fail() {
    if [[ ${REDISLOCK_STRICT:-0} == 1 ]]; then
        fail "would be skipped: $1"
        return 1
    fi
    skip "$1"
}
