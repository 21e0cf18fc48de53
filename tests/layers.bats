#!/usr/bin/env bats
# The house rules that a compiler does not know: which room may look into which, who may use a
# library, what a script may touch. Each rule is also shown a tree that breaks it.

setup() {
    ROOT=$(cd "$BATS_TEST_DIRNAME/.." && pwd)
    LAYERS=$BATS_TEST_DIRNAME/tools/layers
    TREE=$BATS_TEST_TMPDIR/src
    mkdir -p "$TREE"/{base,cli,redis,lock,job,command,lua}
}

expanded_scripts() {
    "$ROOT/tests/tools/embed-lua" "$ROOT/src/lua" "$BATS_TEST_TMPDIR/lua"
}

need() {
    command -v "$1" >/dev/null || skip "$1 is not installed"
}

refuses_include() { # FILE INCLUDE EXPECTED
    echo "#include $2" >"$TREE/$1"
    run "$LAYERS" includes "$TREE"
    rm "${TREE:?}/$1"
    [ "$status" -eq 1 ] || return 1
    [[ $output == "$1:1: "*"$3"* ]]
}

accepts_include() {
    echo "#include $2" >"$TREE/$1"
    run "$LAYERS" includes "$TREE"
    rm "${TREE:?}/$1"
    [ "$status" -eq 0 ] && [ -z "$output" ]
}

refuses_script() { # LINES EXPECTED
    printf '%s\n' "$1" >"$BATS_TEST_TMPDIR/bad.lua"
    run "$LAYERS" scripts "$BATS_TEST_TMPDIR/bad.lua"
    [ "$status" -eq 1 ] && [[ $output == *"$2"* ]]
}

@test "every include in src looks down" {
    run "$LAYERS" includes "$ROOT/src"
    echo "$output"
    [ "$status" -eq 0 ]
}

@test "an include that looks up is seen" {
    refuses_include base/log.c '"cli/config.h"' "base is below cli"
    refuses_include cli/url.c '"redis/client.h"' "cli is below redis"
    refuses_include redis/client.c '"lock/lease.h"' "redis is below lock"
    refuses_include lock/lease.c '"command/run.h"' "lock is below command"
    refuses_include job/spawn.h '  "command/run.h"' "job is below command"
    accepts_include command/run.c '"base/log.h"'
    accepts_include lock/lease.c '"redis/client.h"'
    accepts_include main.c '"command/run.h"'
}

@test "job and lock do not know each other, nor job the scripts" {
    refuses_include job/keeper.c '"lock/lease.h"' "do not know each other"
    refuses_include lock/lease.c '"job/spawn.h"' "do not know each other"
    refuses_include job/keeper.c '"lua/scripts.h"' "no business with scripts"
    accepts_include lock/lease.c '"lua/scripts.h"'
}

@test "a room without a floor and a path that does not start in src are seen" {
    mkdir "$TREE/attic"
    refuses_include attic/old.c '"base/log.h"' "has no floor"
    refuses_include lock/lease.c '"lease.h"' "is not written from src"
}

@test "hiredis and libsodium stay in their rooms" {
    refuses_include lock/lease.c '<hiredis/hiredis.h>' "hiredis is for"
    refuses_include redis/socket.c '<hiredis.h>' "hiredis is for"
    refuses_include base/log.c '<sodium.h>' "libsodium is for"
    refuses_include base/secret.h '<sodium.h>' "libsodium is for"
    refuses_include redis/client.c '<hiredis/hiredis.h>' "hiredis is for"
    accepts_include redis/reply.c '<hiredis/hiredis.h>'
    accepts_include base/token.c '<sodium.h>'
}

@test "only main.c exits, only the job's child leaves by _exit" {
    run grep -rnE '(^|[^_[:alnum:]])(exit|quick_exit|abort)[[:space:]]*\(' "$ROOT/src" --include='*.[ch]' \
        --exclude=main.c
    echo "$output"
    [ "$status" -eq 1 ]
    run grep -rlE '(^|[^[:alnum:]])_[eE]xit[[:space:]]*\(' "$ROOT/src" --include='*.[ch]'
    for file in "${lines[@]}"; do
        [[ $file == "$ROOT"/src/job/* ]] || { echo "$file calls _exit" && return 1; }
    done
}

@test "nothing in src uses a function that cannot be used safely" {
    run grep -rnE '(^|[^_[:alnum:]])(strcpy|strcat|sprintf|vsprintf|gets|alloca|system|popen|mktemp|tmpnam|atoi|atol)[[:space:]]*\(' \
        "$ROOT/src" --include='*.[ch]'
    echo "$output"
    [ "$status" -eq 1 ]
}

@test "lock returns results and prints nothing" {
    run grep -rnE '(^|[^_[:alnum:]])(log_(error|warning|notice|info)|d?printf|fprintf|puts|fputs|perror)[[:space:]]*\(' \
        "$ROOT/src/lock"
    echo "$output"
    [ "$status" -eq 1 ]
}

@test "every source and header opens with a comment that says what it is" {
    while IFS= read -r file; do
        [ "$(head -c 2 "$file")" = "/*" ] || { echo "$file" && return 1; }
    done < <(find "$ROOT/src" -name '*.[ch]')
}

@test "scripts touch only the keys they are given" {
    expanded_scripts
    run "$LAYERS" scripts "$BATS_TEST_TMPDIR"/lua/*.lua
    echo "$output"
    [ "$status" -eq 0 ]
}

@test "a script that makes up a key is seen" {
    refuses_script "redis.call('GET', 'lock:a')" "not one of KEYS"
    refuses_script "redis.call('GET', KEYS[1] .. ':x')" "not one of KEYS"
    refuses_script "redis.call('SET', ARGV[1], KEYS[1])" "not one of KEYS"
    refuses_script "redis.call(ARGV[1], KEYS[1])" "not written out"
    refuses_script "local k = ARGV[1] return redis.pcall('GET', k)" "not one of KEYS"
    refuses_script "local function f(key)
        return redis.call('GET', key)
        end
        return f('lock:a')" "argument 1 of f"
    printf '%s\n' "local a, b = KEYS[1], KEYS[2]" \
        "local function f(x, key)" "return redis.call('GET', key)" "end" \
        "redis.call('TIME')" "redis.call('PUBLISH', ARGV[1], '')" \
        "return {f(1, b), redis.call('GET', a), redis.call('SET', KEYS[2], f(2, KEYS[1]))}" \
        >"$BATS_TEST_TMPDIR/good.lua"
    run "$LAYERS" scripts "$BATS_TEST_TMPDIR/good.lua"
    echo "$output"
    [ "$status" -eq 0 ]
}

@test "scripts are Lua 5.1 by the compiler's word" {
    need luac
    expanded_scripts
    luac -p "$BATS_TEST_TMPDIR"/lua/*.lua
}

@test "scripts pass luacheck" {
    need luacheck
    expanded_scripts
    luacheck --quiet --std lua51 --read-globals redis KEYS ARGV -- "$BATS_TEST_TMPDIR"/lua/*.lua
}
