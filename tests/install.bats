#!/usr/bin/env bats
# What `make install` and `make uninstall` do to a system: six files, and none left.

setup() {
    ROOT=$(cd "$BATS_TEST_DIRNAME/.." && pwd)
    AT=$BATS_TEST_TMPDIR/root
    # Under `make check` MAKEFLAGS hands over its variables, so nothing is built twice.
    if [ -n "${REDISLOCK_BIN:-}" ]; then
        BUILD=${REDISLOCK_BIN%/redislock}
    else
        BUILD=build
    fi
}

run_make() {
    make --no-print-directory -C "$ROOT" "$@" PREFIX=/usr DESTDIR="$AT" BUILD="${BUILD#"$ROOT"/}" </dev/null
}

@test "make install puts program, man page and completions where a shell looks for them" {
    run_make install
    cd "$AT"
    run find . -type f
    [ "$(sort <<<"$output")" = "./usr/bin/redislock
./usr/lib/redislock/redislock-tls.so
./usr/share/bash-completion/completions/redislock
./usr/share/fish/vendor_completions.d/redislock.fish
./usr/share/man/man1/redislock.1
./usr/share/zsh/site-functions/_redislock" ]
    [ "$(stat -c %a usr/bin/redislock usr/share/man/man1/redislock.1)" = $'755\n644' ]
    [ "$(usr/bin/redislock --version)" = "redislock $(cat "$ROOT/VERSION")" ]
}

@test "make install TLS=0 leaves the TLS module out" {
    run_make install TLS=0
    [ ! -e "$AT/usr/lib" ]
    "$AT/usr/bin/redislock" --version
}

@test "make uninstall takes away what make install put there" {
    run_make install
    touch "$AT/usr/bin/other"
    run_make uninstall
    [ "$(cd "$AT" && find . -type f)" = ./usr/bin/other ]
}
