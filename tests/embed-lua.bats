#!/usr/bin/env bats
# How src/lua gets into the program: what is stripped, what is inserted, what is refused.

setup() {
    EMBED=$BATS_TEST_DIRNAME/tools/embed-lua
    IN=$BATS_TEST_TMPDIR/in
    OUT=$BATS_TEST_TMPDIR/out/lua
    mkdir -p "$IN/lib"
}

script() { # NAME LINES...
    local name=$1
    shift
    printf '%s\n' "$@" >"$IN/$name.lua"
}

embedded_is() { # NAME LINES...: and no newline at the end
    local name=$1
    shift
    cmp <(printf '%s\n' "$@" | head -c -1) "$OUT/$name.lua"
}

refuses() { # EXPECTED, with the scripts as they are
    run "$EMBED" "$IN" "$OUT"
    [ "$status" -eq 1 ] && [[ $output == "embed-lua: "*"$1"* ]] && [ ! -e "$OUT/scripts.c" ]
}

@test "comments, indentation and blank lines go, code stays" {
    script one '-- What it does' '' 'if a then -- why' $'\t  return 1' '    -- inner' 'end'
    "$EMBED" "$IN" "$OUT"
    embedded_is one 'if a then' 'return 1' 'end'
}

@test "what looks like a comment inside a string stays" {
    script one "return '--' .. \"a -- 'b\" .. '\\'--' -- gone"
    "$EMBED" "$IN" "$OUT"
    embedded_is one "return '--' .. \"a -- 'b\" .. '\\'--'"
}

@test "an include line is replaced by the lib file, which is no script of its own" {
    printf '%s\n' '-- shared' 'local function two()' '  return 2' 'end' >"$IN/lib/two.lua"
    script one '-- include two' 'return two()'
    "$EMBED" "$IN" "$OUT"
    embedded_is one 'local function two()' 'return 2' 'end' 'return two()'
    run grep -c '^extern' "$OUT/scripts.h"
    [ "$output" = 1 ]
}

@test "the program gets the same bytes, length and SHA1" {
    script re-lease 'local t = {"a\\b??=", '"'\"'"', "	"}' 'return t[1] % 2'
    "$EMBED" "$IN" "$OUT"
    cat >"$BATS_TEST_TMPDIR/show.c" <<'C'
#include "lua/scripts.h"
#include <stdio.h>
int main(void)
{
    const struct script *s = &SCRIPT_RE_LEASE;
    printf("%s %s %zu\n", s->name, s->sha1, s->length);
    return fwrite(s->text, 1, s->length, stdout) == s->length && s->text[s->length] == 0 ? 0 : 1;
}
C
    "${CC:-cc}" -std=c11 -Wall -Wextra -Wpedantic -Werror -I"$BATS_TEST_TMPDIR/out" \
        -o "$BATS_TEST_TMPDIR/show" "$BATS_TEST_TMPDIR/show.c" "$OUT/scripts.c"
    "$BATS_TEST_TMPDIR/show" >"$BATS_TEST_TMPDIR/shown"
    cmp <(tail -n +2 "$BATS_TEST_TMPDIR/shown") "$OUT/re-lease.lua"
    [ "$(head -n 1 "$BATS_TEST_TMPDIR/shown")" = \
        "re-lease $(sha1sum <"$OUT/re-lease.lua" | cut -c1-40) $(wc -c <"$OUT/re-lease.lua")" ]
}

@test "what cannot be stripped safely is refused, and nothing is written" {
    script one 'return [[long]]'
    refuses "a long string"
    script one 'return [==[long]==]'
    refuses "a long string"
    script one '--[[ long' ']] return 1'
    refuses "a long comment"
    script one "return 'open"
    refuses "runs over the end"
}

@test "includes that cannot be resolved are refused" {
    script one '-- include nowhere' 'return 1'
    refuses "cannot read"
    script one '-- include ../one' 'return 1'
    refuses "not a lib name"
    printf '%s\n' '-- include two' 'return 1' >"$IN/lib/two.lua"
    script one '-- include two' 'return 1'
    refuses "includes in turn"
}

@test "an empty script, a bad name and an empty folder are refused" {
    refuses "no scripts"
    script one '-- nothing but words'
    refuses "holds no code"
    script 'One' 'return 1'
    refuses "has only a-z"
}

@test "a second run takes away the text of a script that is gone" {
    script one 'return 1'
    script two 'return 2'
    "$EMBED" "$IN" "$OUT"
    rm "$IN/two.lua"
    "$EMBED" "$IN" "$OUT"
    [ "$(cd "$OUT" && echo *)" = "one.lua scripts.c scripts.h" ]
}
