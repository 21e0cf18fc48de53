#!/usr/bin/env bats
# `make static`: one file with TLS inside, which runs where there is nothing else.

load lib/common
load lib/locks
load lib/servers
load lib/scripts
load lib/namespace
load lib/trouble

setup_file() {
    common_setup_file
    env -u MAKEFLAGS make --no-print-directory -C "$ROOT" static </dev/null >"$FILE_ROOM/make" 2>&1 3>&- ||
        { cat "$FILE_ROOM/make" >&2 && false; }
    export CERTS=$FILE_ROOM/certs
    mkdir "$CERTS"
    authority ca
    certificate good ca DNS:cache.test
}

setup() {
    common_setup
    CERTS=$FILE_ROOM/certs
    STATIC=$ROOT/build-static/redislock
    EMPTY=$ROOM/root
    mkdir "$EMPTY"
    cp "$STATIC" "$EMPTY/redislock"
}

# alone [OPTION]... NAME COMMAND: in a root that has nothing but the program and what a test put there.
alone() {
    run --separate-stderr nsenter -t "$NAMESPACE" -n -- chroot "$EMPTY" /redislock "$@"
}

@test "it is one file: no interpreter, no library to load, nothing both writable and executable" {
    local headers
    headers=$(readelf -hldW "$STATIC")
    [[ $headers =~ Type:\ +EXEC ]]
    [[ $headers != *INTERP* && $headers != *NEEDED* ]]
    [[ $headers =~ GNU_STACK.*\ RW\ + && $headers == *GNU_RELRO* ]]
    run ! grep -qE '^ +LOAD .* RWE ' <<<"$headers"
    assert_equal "$("$STATIC" --version)" "redislock $(<"$ROOT/VERSION")"
}

@test "its start does not look for the program's own path" {
    strace -e trace=readlink,readlinkat -o "$ROOM/calls" "$STATIC" --version
    assert_equal "$(grep -c readlink "$ROOM/calls")" 0
}

@test "in an empty root it takes a lock, runs a command and gives the lock back" {
    namespace_start
    redis_start main --tcp
    alone -u "redis://127.0.0.1:$(redis_port)" job /redislock --version
    assert_status 0
    assert_output "redislock $(<"$ROOT/VERSION")"
    assert_no_stderr
    assert_free job
    touch "$EMPTY/data"
    alone -u "redis://127.0.0.1:$(redis_port)" job /data
    assert_status 126
}

@test "in an empty root names are found in /etc/hosts" {
    namespace_start
    redis_start main --tcp
    mkdir "$EMPTY/etc"
    echo '127.0.0.1 cache.test' >"$EMPTY/etc/hosts"
    alone -u "redis://cache.test:$(redis_port)" job /redislock --version
    assert_status 0
    assert_no_stderr
    alone -u "redis://elsewhere.test:$(redis_port)" --connect-timeout 500ms job /redislock --version
    assert_status 69
    assert_one_line 'elsewhere\.test'
}

@test "in an empty root names are asked of DNS" {
    need dnsmasq
    namespace_start
    redis_start main --tcp
    mkdir "$EMPTY/etc"
    echo 'nameserver 127.0.0.1' >"$EMPTY/etc/resolv.conf"
    spawn dns nsenter -t "$NAMESPACE" -n -- dnsmasq --keep-in-foreground --no-resolv --no-hosts \
        --conf-file=/dev/null --pid-file= --user=root --listen-address=127.0.0.1 \
        --address=/cache.test/127.0.0.1 --log-facility=-
    wait_until 5000 nsenter -t "$NAMESPACE" -n -- sh -c 'ss -lun | grep -q ":53 "'
    alone -u "redis://cache.test:$(redis_port)" job /redislock --version
    assert_status 0
    assert_no_stderr
}

@test "in an empty root TLS is inside, and trusts whom it is told to" {
    namespace_start
    tls_start main good
    mkdir "$EMPTY/etc"
    echo '127.0.0.1 cache.test other.test' >"$EMPTY/etc/hosts"
    cp "$CERTS/ca.crt" "$EMPTY/ca.crt"
    alone -u "rediss://cache.test:$(tls_port)" --cacert /ca.crt job /redislock --version
    assert_status 0
    assert_no_stderr
    alone -u "rediss://other.test:$(tls_port)" --cacert /ca.crt job /redislock --version
    assert_status 77
    assert_one_line 'other\.test'
    alone -u "rediss://cache.test:$(tls_port)" job /redislock --version
    assert_status 77
}
