#!/usr/bin/env bats
# The Debian package, from a system that has nothing to one that has nothing again: built in a clean root,
# installed in another one, used there, and purged. `make check-deb` runs it: it needs root, a mirror
# (the one in the machine's apt sources) and some minutes. Nothing outside the test's folder changes, but
# for build/deb, which gets the package.

bats_require_minimum_version 1.5.0

load ../lib/common

setup_file() {
    common_setup_file
    BASE=$FILE_ROOM/base BUILDER=$FILE_ROOM/builder CLEAN=$FILE_ROOM/clean
    DEBS=${DEBS:-$ROOT/build/deb}
    export BASE BUILDER CLEAN DEBS
    why_not >"$FILE_ROOM/why-not" || return 0
    base_make >"$FILE_ROOM/base.log" 2>&1 || {
        tail -n 30 "$FILE_ROOM/base.log" >&2
        return 1
    }
}

setup() {
    common_setup
    if [[ -s $FILE_ROOM/why-not ]]; then skip_or_fail "$(<"$FILE_ROOM/why-not")"; fi
}

# --- roots ---

# What apt gets packages from, as lines CODENAME URI COMPONENT ORIGIN.
apt_sources() {
    apt-get indextargets --format '$(CODENAME) $(REPO_URI) $(COMPONENT) $(ORIGIN)' 'Created-By: Packages' |
        sort -u
}

# Sets CODENAME, MIRROR and ORIGIN to where the release that runs here comes from.
find_mirror() {
    CODENAME=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
    read -r _ MIRROR _ ORIGIN < <(apt_sources | awk -v name="$CODENAME" '$1 == name && $3 == "main"')
}

# Prints why nothing can be tested here and fails, or prints nothing.
why_not() {
    local tool
    if [[ $(id -u) != 0 ]]; then
        echo 'only root may make a root'
        return 1
    fi
    for tool in debootstrap dpkg-buildpackage lintian apt-get unshare; do
        command -v "$tool" >/dev/null || {
            echo "$tool is not installed: tests/tools/deps deb installs it"
            return 1
        }
    done
    find_mirror
    if [[ -z $MIRROR ]]; then
        echo "apt's sources name no mirror for ${CODENAME:-this system} (apt-get update?)"
        return 1
    fi
    /usr/lib/apt/apt-helper download-file "${MIRROR%/}/dists/$CODENAME/InRelease" "$FILE_ROOM/InRelease" \
        >/dev/null 2>&1 || {
        echo "the mirror in apt's sources does not answer"
        return 1
    }
}

# The smallest system that has apt, with the sources of this one.
base_make() {
    local http_proxy=''
    find_mirror
    eval "$(apt-config shell http_proxy Acquire::http::Proxy)"
    http_proxy=$http_proxy debootstrap --variant=minbase "$CODENAME" "$BASE" "$MIRROR" </dev/null || return
    apt_sources | awk -v origin="$ORIGIN" '$4 == origin { print "deb", $2, $1, $3 }' >"$BASE/etc/apt/sources.list"
    { apt-config dump Acquire | grep -i proxy || :; } >"$BASE/etc/apt/apt.conf.d/90proxy"
    echo force-unsafe-io >"$BASE/etc/dpkg/dpkg.cfg.d/quick" # it need not survive a power cut
    cp /etc/resolv.conf "$BASE/etc/resolv.conf"
    enter "$BASE" apt-get -qq update
}

# enter ROOT COMMAND...: runs COMMAND there, with /proc, the test's room at /room, and an environment of
# its own. Mounts and processes end with it.
enter() {
    local root=$1
    shift
    mkdir -p "$root/room"
    unshare --mount --pid --fork --kill-child -- sh -c '
        mount -t proc proc "$1/proc" && mount -t devpts devpts "$1/dev/pts" &&
            mount --bind "$2" "$1/room" && root=$1 && shift 2 &&
            exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/nonexistent LC_ALL=C.UTF-8 \
                DEBIAN_FRONTEND=noninteractive REDISLOCK_CONFIG=/dev/null chroot "$root" "$@"' \
        sh "$root" "$ROOM" "$@" </dev/null
}

# As root, with the network.
install_there() { # ROOT PACKAGE...
    local root=$1
    shift
    enter "$root" apt-get -qq -y --no-install-recommends install "$@"
}

the_deb() {
    set -- "$DEBS"/redislock_*.deb
    [[ -e $1 ]] || fail "there is no package in $DEBS" || return
    DEB=$1
}

# --- the life of a package ---

@test "the package is built in a clean root, by an ordinary user, with its build dependencies alone" {
    cp -a "$BASE" "$BUILDER"
    "$ROOT/tests/tools/dist" "$ROOM/source.tar.gz"
    mkdir -p "$BUILDER/build/source"
    tar -xzf "$ROOM/source.tar.gz" -C "$BUILDER/build/source" --strip-components=1
    enter "$BUILDER" apt-get -qq -y --no-install-recommends install build-essential
    enter "$BUILDER" sh -c 'cd /build/source && apt-get -qq -y --no-install-recommends build-dep ./'
    chown -R nobody "$BUILDER/build"
    enter "$BUILDER" setpriv --reuid=nobody --regid=nogroup --clear-groups \
        sh -c 'cd /build/source && dpkg-buildpackage -us -uc'
    rm -rf "$DEBS"
    mkdir -p "$DEBS"
    cp "$BUILDER"/build/redislock* "$DEBS"
    the_deb
    [ "$(dpkg-deb -f "$DEB" Version)" = "$(<"$ROOT/VERSION")" ]
}

@test "lintian has no error and no warning" {
    the_deb
    run -0 lintian --allow-root --fail-on error,warning "$DEBS"/*.changes
}

@test "program and module are hardened, and libraries are the system's" {
    local file
    the_deb
    dpkg-deb -x "$DEB" "$ROOM/x"
    for file in "$ROOM"/x/usr/bin/redislock "$ROOM"/x/usr/lib/*/redislock/redislock-tls.so; do
        run -0 readelf -hldW --dyn-syms "$file"
        [[ $output =~ Type:\ +DYN && $output == *GNU_RELRO* && $output =~ (BIND_NOW|FLAGS_1.*NOW) ]]
        [[ $output =~ GNU_STACK.*\ RW\ + && $output == *__stack_chk_fail* ]]
    done
    run -0 readelf -dW --dyn-syms "$ROOM/x/usr/bin/redislock"
    [[ $output == *__vsnprintf_chk@* ]]
    [[ $output == *libhiredis.so* && $output == *libsodium.so* && $output != *libssl* ]]
}

# Every file and folder of ROOT but what apt and dpkg note for themselves.
content() {
    (cd "$1" && find . -xdev \( -path ./proc -o -path ./room -o -path ./tmp -o -path ./var/log -o \
        -path ./var/cache/apt -o -path ./var/lib/apt -o -path './var/lib/dpkg/*-old' \) -prune \
        -o -printf '%p %y %m %U:%G\n' | LC_ALL=C sort)
}

@test "installed by apt it has all it needs, runs, locks, and leaves nothing when it is purged" {
    the_deb
    cp -a "$BASE" "$CLEAN"
    cp "$DEB" "$ROOM/redislock.deb"
    mkdir -p "$CLEAN/room"
    content "$CLEAN" >"$ROOM/before"

    install_there "$CLEAN" /room/redislock.deb
    [ "$(enter "$CLEAN" redislock --version)" = "redislock $(<"$ROOT/VERSION")" ]
    local file
    for file in bin/redislock share/man/{man1/redislock.1,man5/redislock.conf.5,man7/redislock-recipes.7}.gz \
        share/bash-completion/completions/redislock \
        share/zsh/vendor-completions/_redislock share/fish/vendor_completions.d/redislock.fish \
        share/doc/redislock/{copyright,README.md.gz,CHANGELOG.md,changelog.gz} \
        share/doc/redislock/examples/{crontab,redislock.conf}; do
        # dh_compress leaves alone what is short.
        [ -f "$CLEAN/usr/$file" ] || [ -f "$CLEAN/usr/$file.gz" ] || fail "/usr/$file is missing"
    done
    run -1 grep -r /usr/local/bin/redislock "$CLEAN/usr/share/doc/redislock/examples"
    grep -q /usr/bin/redislock "$CLEAN/usr/share/doc/redislock/examples/nightly-report.service"

    # The server is outside, in the test's room; by TCP without TLS only to see that the module loads.
    redis_start --tcp
    run -0 enter "$CLEAN" redislock -u "unix:///room/${SOCK#"$ROOM"/}" nightly-report -c 'echo "$REDISLOCK_LOCK_KEY"'
    [ "$output" = lock:nightly-report ]
    run -75 enter "$CLEAN" redislock -u "unix:///room/${SOCK#"$ROOM"/}" nightly-report -- \
        redislock -u "unix:///room/${SOCK#"$ROOM"/}" nightly-report -- true
    [[ $output == *"nightly-report: held by "* ]]
    [ "$(rcli exists lock:nightly-report)" = 0 ]
    run -69 enter "$CLEAN" redislock -u "rediss://127.0.0.1:$(redis_port)" --connect-timeout 1s nightly-report -- true
    [[ $output != *module* ]]

    enter "$CLEAN" apt-get -qq -y --autoremove purge redislock
    content "$CLEAN" >"$ROOM/after"
    diff "$ROOM/before" "$ROOM/after"
}

# Every suite against the installed program takes as long as `make check`: SUITES names those
# to run, `all` all of them.
@test "the package's own tests pass with the package" {
    local suites=${SUITES-tests/lock.bats} packages
    [[ $suites != all ]] || suites=
    the_deb
    cp "$DEB" "$ROOM/redislock.deb"
    [ -d "$BUILDER/build/source" ]
    packages=$(sed '/^Tests:/d; /^Restrictions:/d; s/^Depends://; s/@builddeps@//; s/@//' "$ROOT/debian/tests/control" |
        tr -s ', \n' '\n' | sort -u)
    # shellcheck disable=SC2086 # words on purpose
    install_there "$BUILDER" /room/redislock.deb $packages
    enter "$BUILDER" /build/source/debian/tests/smoke
    # shellcheck disable=SC2086
    enter "$BUILDER" /build/source/debian/tests/suites $suites
}
