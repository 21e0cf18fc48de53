#!/usr/bin/env bats
# What leaves the house: the source archive, which anybody can build without git, to the same bytes
# wherever it lies; how it is installed; and the package's files and the examples, which say what the rest
# of the tree says.

bats_require_minimum_version 1.5.0

load lib/common
load lib/page

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
        grep -vxE 'gcc|make|libc6-dev|bash|util-linux' | sort -u
}

@test "the package is built with what make deps installs for a build" {
    [ "$(sed -n '/^Build-Depends:/,/^[A-Z]/p' "$ROOT/debian/control" | grep -oE '(lib[a-z]+-dev|pkg-config)' | sort)" = \
        "$(needed_for build)" ]
}

@test "the package's tests have what make deps installs for the suites" {
    [ "$(sed -n '/^Tests: suites/,$p' "$ROOT/debian/tests/control" | sed -nE 's/^ +([a-z0-9-]+),?$/\1/p' | sort)" = \
        "$({ needed_for demo && needed_for check; } | sort -u)" ]
}

# --- the examples: they are the manual pages', which other suites run ---

@test "the examples are the manual pages', word for word" {
    local file name page
    while read -r file name page; do
        PAGE=$page example "$name" >"$ROOM/block"
        diff "$ROOM/block" "$ROOT/docs/examples/$file"
        printf '%s\n' "$file" >>"$ROOM/files"
    done <<'END'
crontab                crontab                redislock-recipes.7
deploy-in-steps.sh     deploy                 redislock-recipes.7
exclusive.sh           attach-fence           redislock-recipes.7
nightly-report.service nightly-report.service redislock-recipes.7
nightly-report.timer   nightly-report.timer   redislock-recipes.7
redislock.conf         file                   redislock.conf.5
END
    [ "$(LC_ALL=C ls "$ROOT/docs/examples")" = "$(<"$ROOM/files")" ]
}
