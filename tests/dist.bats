#!/usr/bin/env bats
# What leaves the house: the source archive, which anybody can build without git, to the same bytes
# wherever it lies; how it is installed; and the package's files and the examples, which say what the rest
# of the tree says.

bats_require_minimum_version 1.5.0

load lib/common

# One build of the archive in each of two folders, for all tests here. What this make was told (another
# compiler, a sanitizer) holds for them too, but for its folder.
setup_file() {
    common_setup_file
    SHORT=$FILE_ROOM/a LONG="$FILE_ROOM/another place/that has a longer name"
    export SHORT LONG
    mkdir -p "$SHORT" "$LONG"
    make_in "$ROOT" dist ARCHIVE="$FILE_ROOM/source.tar.gz"
    tar -xzf "$FILE_ROOM/source.tar.gz" -C "$SHORT" --strip-components=1
    tar -xzf "$FILE_ROOM/source.tar.gz" -C "$LONG" --strip-components=1
    make_in "$SHORT" PREFIX=/usr all
    make_in "$LONG" PREFIX=/usr all
}

make_in() { # FOLDER ARGUMENT...
    local folder=$1
    shift
    env -u GIT_DIR -u TESTS make --no-print-directory -C "$folder" BUILD=build "$@" </dev/null
}

installed() {
    (cd "$1" && find . -type f | LC_ALL=C sort)
}

# --- the archive ---

@test "two builds of the archive in folders of different names are the same, bit for bit" {
    cmp "$SHORT/build/redislock" "$LONG/build/redislock"
    cmp "$SHORT/build/redislock-tls.so" "$LONG/build/redislock-tls.so"
    # Else the names would be in the debug information, which is what could differ.
    run ! grep -aqF "$FILE_ROOM" "$LONG/build/redislock"
}

@test "the archive makes itself again, without git, after a build, under another umask" {
    umask 077
    make_in "$SHORT" dist ARCHIVE="$ROOM/again.tar.gz"
    cmp "$FILE_ROOM/source.tar.gz" "$ROOM/again.tar.gz"
}

@test "the archive has sorted names in one folder, one date, and nobody's user" {
    run -0 tar --utc --full-time --numeric-owner -tvzf "$FILE_ROOM/source.tar.gz"
    [ "$(awk '{ print $2, $4, $5 }' <<<"$output" | sort -u | wc -l)" -eq 1 ]
    [ "$(awk '{ print $2 }' <<<"$output" | sort -u)" = 0/0 ]
    [ "$(awk '{ print $1 }' <<<"$output" | sort -u)" = $'-rw-r--r--\n-rwxr-xr-x' ]
    tar -tzf "$FILE_ROOM/source.tar.gz" >"$ROOM/names"
    LC_ALL=C sort -c "$ROOM/names"
    run ! grep -v "^redislock-$(<"$ROOT/VERSION")/" "$ROOM/names"
    if [ -e "$ROOT/.git" ]; then
        [ "$(git -C "$ROOT" ls-files | wc -l)" -eq "$(wc -l <"$ROOM/names")" ]
    fi
}

# --- installing what was built from it ---

@test "PREFIX: the program finds its module where make install put it" {
    make_in "$SHORT" install PREFIX=/usr DESTDIR="$ROOM/root"
    [ "$(installed "$ROOM/root")" = "./usr/bin/redislock
./usr/lib/redislock/redislock-tls.so
./usr/share/bash-completion/completions/redislock
./usr/share/fish/vendor_completions.d/redislock.fish
./usr/share/man/man1/redislock.1
./usr/share/man/man5/redislock.conf.5
./usr/share/man/man7/redislock-recipes.7
./usr/share/zsh/site-functions/_redislock" ]
    redis_start --tcp # nobody loads the module before a server has answered
    run "$ROOM/root/usr/bin/redislock" -u "rediss://127.0.0.1:$(redis_port)" --connect-timeout 1s x -- true
    assert_status 71
    [[ $output == *"/usr/lib/redislock/redislock-tls.so: cannot open"* ]]
}

@test "MODULEDIR: another folder for the module is compiled in, at the price of one file, and used" {
    local url
    redis_start --tcp
    url=rediss://127.0.0.1:$(redis_port)
    run -0 make_in "$LONG" install PREFIX=/opt MODULEDIR="$ROOM/modules" DESTDIR="$ROOM/root"
    [ "$(grep -c '^  cc ' <<<"$output")" -eq 1 ]
    run "$ROOM/root/opt/bin/redislock" -u "$url" --connect-timeout 1s x -- true
    [[ $output == *"$ROOM/modules/redislock-tls.so: cannot open"* ]]
    mkdir "$ROOM/modules"
    mv "$ROOM/root$ROOM/modules/redislock-tls.so" "$ROOM/modules"
    run "$ROOM/root/opt/bin/redislock" -u "$url" --connect-timeout 1s x -- true
    assert_status 69
    [[ $output != *module* ]]
}

# --- the package's files ---

@test "the package has the version of the program" {
    [ "$(sed -n '1s/^redislock (\(.*\)) .*/\1/p' "$ROOT/debian/changelog")" = "$(<"$ROOT/VERSION")" ]
}

# The rows of tests/tools/deps for apt-get, of a tier, without what each Debian has or build-essential brings.
needed_for() {
    awk -v tier="$1" '$1 == tier && NF == 6 { print $3 }' "$ROOT/tests/tools/deps" |
        grep -vxE 'gcc|make|libc6-dev|bash' | sort -u
}

@test "the package is built with what make deps installs for a build" {
    [ "$(sed -n '/^Build-Depends:/,/^[A-Z]/p' "$ROOT/debian/control" | grep -oE '(lib[a-z]+-dev|pkg-config)' | sort)" = \
        "$(needed_for build)" ]
}

@test "the package's tests have what make deps installs for the suites" {
    [ "$(sed -n '/^Tests: suites/,$p' "$ROOT/debian/tests/control" | sed -nE 's/^ +([a-z0-9-]+),?$/\1/p' | sort)" = \
        "$({ needed_for demo && needed_for check; } | sort -u)" ]
}

# --- the examples: they are the README's and the manual page's, which other suites run ---

# readme_block LINE: the README's code block that has LINE, with its end.
readme_block() {
    awk -v line="$1" '
        /^```[a-z]+$/ { inside = 1; block = ""; found = 0; next }
        /^```$/ { if (inside && found) { printf "%s", block; exit } inside = 0 }
        inside { block = block $0 "\n"; if ($0 == line) found = 1 }' "$ROOT/README.md"
}

same_as_readme() { # EXAMPLE LINE
    readme_block "$2" >"$ROOM/block"
    diff "$ROOM/block" "$ROOT/docs/examples/$1"
}

@test "the examples are the README's" {
    same_as_readme crontab 'REDISLOCK_URL=redis://cache.internal'
    same_as_readme deploy-in-steps.sh 'export REDISLOCK_TOKEN # between steps: a variable that is not shown in logs'
    same_as_readme exclusive.sh 'fence=$(redislock --attach --print fence -w 10m nightly-report) || exit'
    same_as_readme nightly-report.service '# /etc/systemd/system/nightly-report.service'
    same_as_readme nightly-report.timer '# /etc/systemd/system/nightly-report.timer'
    [ "$(ls "$ROOT/docs/examples")" = "crontab
deploy-in-steps.sh
exclusive.sh
nightly-report.service
nightly-report.timer
redislock.conf" ]
}

@test "the example of /etc/redislock.conf is the manual page's, and is read to its last line" {
    sed -n '/^A file may look like this/,/^\.Ed/p' "$ROOT/man/redislock.1" | grep '^[#R]' |
        diff - "$ROOT/docs/examples/redislock.conf"
    redis_start --tcp
    printf 'secret\n' >"$ROOM/password"
    rcli acl setuser cron on '>secret' '~*' '&*' '+@all'
    # Its places are ours.
    sed -e "s,cache\.internal:6379,127.0.0.1:$(redis_port)," -e "s,/etc/redislock.password,$ROOM/password," \
        "$ROOT/docs/examples/redislock.conf" >"$ROOM/redislock.conf"
    run -0 env REDISLOCK_CONFIG="$ROOM/redislock.conf" "$REDISLOCK_BIN" nightly-report -- \
        redis-cli -s "$SOCK" -n 2 pttl lock:nightly-report
    ((output > 110000 && output <= 120000))
}
