#!/usr/bin/env bats
# What `make install` and `make uninstall` do to a system: its files, and none left. Nothing is built for
# it: dist.bats installs with another PREFIX, for which something is.

bats_require_minimum_version 1.5.0

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
    make --no-print-directory -C "$ROOT" "$@" DESTDIR="$AT" BUILD="${BUILD#"$ROOT"/}" </dev/null
}

# A machine without OpenSSL's headers, as far as pkg-config tells.
without_openssl() {
    printf '%s\n' '#!/bin/sh' 'case "$*" in *openssl*) exit 1 ;; *) exec pkg-config "$@" ;; esac' \
        >"$BATS_TEST_TMPDIR/pkg-config"
    chmod +x "$BATS_TEST_TMPDIR/pkg-config"
    run_make PKG_CONFIG="$BATS_TEST_TMPDIR/pkg-config" "$@"
}

files() {
    (cd "$AT" && find . -type f | LC_ALL=C sort)
}

@test "make install puts program, module, man page and completions where they are looked for" {
    run_make install
    [ "$(files)" = "./usr/local/bin/redislock
./usr/local/lib/redislock/redislock-tls.so
./usr/local/share/bash-completion/completions/redislock
./usr/local/share/fish/vendor_completions.d/redislock.fish
./usr/local/share/man/man1/redislock.1
./usr/local/share/man/man5/redislock.conf.5
./usr/local/share/man/man7/redislock-recipes.7
./usr/local/share/zsh/site-functions/_redislock" ]
    cd "$AT/usr/local"
    [ "$(stat -c %a bin/redislock share/man/man1/redislock.1)" = $'755\n644' ]
    [ "$(bin/redislock --version)" = "redislock $(cat "$ROOT/VERSION")" ]
}

# MODULEDIR is the one that is compiled in: dist.bats.
folders=(BINDIR=/b MANDIR=/m BASHDIR=/c/bash ZSHDIR=/c/zsh FISHDIR=/c/fish)

@test "each folder can be another one, for install and for uninstall" {
    run_make install "${folders[@]}"
    [ "$(files)" = "./b/redislock
./c/bash/redislock
./c/fish/redislock.fish
./c/zsh/_redislock
./m/man1/redislock.1
./m/man5/redislock.conf.5
./m/man7/redislock-recipes.7
./usr/local/lib/redislock/redislock-tls.so" ]
    run_make uninstall "${folders[@]}"
    [ "$(files)" = "" ]
}

@test "a DESTDIR with blanks and quotes is one folder" {
    AT="$BATS_TEST_TMPDIR/a \"place\" of its own"
    run_make install
    [ "$(files | wc -l)" -eq 8 ]
    [ "$(ls "$BATS_TEST_TMPDIR")" = "${AT##*/}" ]
    run_make uninstall
    [ "$(files)" = "" ]
}

@test "make install TLS=0 leaves the TLS module out, without a word" {
    run -0 --separate-stderr run_make install TLS=0
    [ "$stderr" = "" ]
    [ ! -e "$AT/usr/local/lib" ]
    "$AT/usr/local/bin/redislock" --version
}

@test "without OpenSSL's headers install goes without the module, and says so" {
    run -0 --separate-stderr without_openssl install
    [[ $stderr == *"redislock-tls.so is not built, so rediss:// will not work: OpenSSL's headers are missing"* ]]
    [ ! -e "$AT/usr/local/lib" ]
    "$AT/usr/local/bin/redislock" --version
}

@test "TLS=1 insists on the module, TLS=0 does not miss OpenSSL" {
    run -2 --separate-stderr without_openssl install TLS=1
    [[ $stderr == *"OpenSSL's headers are missing"* ]]
    [ ! -e "$AT" ]
    run -0 --separate-stderr without_openssl install TLS=0
    [ "$stderr" = "" ]
}

@test "make uninstall takes away what make install put there" {
    run_make install
    touch "$AT/usr/local/bin/other"
    run_make uninstall
    [ "$(files)" = ./usr/local/bin/other ]
    [ ! -e "$AT/usr/local/lib/redislock" ]
}
