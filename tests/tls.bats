#!/usr/bin/env bats
# rediss://: whom redislock trusts, what it shows of itself, and that all of it happens in time.

load lib/common
load lib/locks
load lib/servers

setup_file() {
    common_setup_file
    export CERTS=$FILE_ROOM/certs
    mkdir -p "$CERTS"
    authority ca
    authority stranger
    certificate good ca DNS:localhost,IP:127.0.0.1,IP:::1
    certificate elsewhere ca DNS:redis.example.org,IP:192.0.2.1
    certificate named ca DNS:localhost # has no address
    certificate wild ca 'DNS:*.example.org'
    certificate old ca DNS:localhost,IP:127.0.0.1 20200101000000Z 20210101000000Z
    certificate early ca DNS:localhost,IP:127.0.0.1 20990101000000Z 21000101000000Z
    certificate foreign stranger DNS:localhost,IP:127.0.0.1
    certificate client ca DNS:client
    certificate stranger-client stranger DNS:client
    self_signed alone DNS:localhost,IP:127.0.0.1
    cat "$CERTS/client.crt" "$CERTS/client.key" >"$CERTS/client.pem"
    tls_start main good
}

setup() {
    common_setup
    CERTS=$FILE_ROOM/certs
    redis_use main
    PORT=$(tls_port)
    export REDISLOCK_CACERT=$CERTS/ca.crt
}

# secure [OPTION]... -- COMMAND: redislock NAME by TLS to HOST (localhost) on PORT.
secure() {
    "$REDISLOCK_BIN" -u "rediss://${HOST:-localhost}:$PORT" --connect-timeout "${PATIENCE:-10}" "$@"
}

# refused_for REASON [OPTION]...: 77 at once, with one line, and the command does not run.
refused_for() {
    local reason=$1
    shift
    run --separate-stderr secure "$@" job -- touch "$ROOM/ran"
    assert_status 77
    assert_no_output
    assert_one_line "$reason"
    [[ ! -e $ROOM/ran ]]
}

@test "a certificate of a trusted CA for the name in the URL is good" {
    run --separate-stderr secure job -- echo ran
    assert_status 0
    assert_output ran
    assert_no_stderr
    assert_no_keys_left
}

@test "row 56: an address in the URL is looked for among the certificate's addresses" {
    HOST=127.0.0.1 run --separate-stderr secure job -- echo v4
    assert_output v4
    PORT=$(tls_port)
    tls_start named named
    PORT=$(tls_port named) HOST=127.0.0.1 refused_for 'IP address mismatch'
    PORT=$(tls_port named) run --separate-stderr secure job -- echo name
    assert_output name
}

@test "--doctor says what to do when TLS does not come about" {
    tls_start strict good --tls-auth-clients yes
    local port reason options
    while IFS='|' read -r port reason options; do
        # shellcheck disable=SC2086 # words on purpose
        PORT=$port HOST=${options:+127.0.0.1} run --separate-stderr secure --doctor $options
        assert_line_output "^failure   rediss://[^ ]*: $reason"
    done <<END
$PORT|the server's certificate is not trusted: .*; give the certificate of its authority by --cacert|--cacert $CERTS/stranger.crt
$PORT|the server's certificate is not trusted: .* mismatch; use the name that the certificate has, in --url or by --sni|--sni elsewhere
$(tls_port strict)|TLS: .*; see whether the server wants a client's certificate \\(--cert, --key\\)|
END
    tls_start aged old
    PORT=$(tls_port aged) run --separate-stderr secure --doctor
    assert_status 77
    assert_line_output '^failure .*certificate has expired; renew the server.s certificate'
}

@test "row 54: an IPv6 address is verified without its brackets" {
    [[ -e /proc/net/if_inet6 ]] && grep -q ' lo$' /proc/net/if_inet6 || skip 'no IPv6 here'
    tls_start six good --bind ::1
    PORT=$(tls_port six)
    HOST='[::1]' run --separate-stderr secure job -- echo six
    assert_output six
}

@test "row 53: a password in a rediss:// URL is decoded once" {
    tls_start closed good --requirepass '@:/#%+ é?'
    run --separate-stderr env REDISLOCK_URL="rediss://:%40%3A%2F%23%25+%20%C3%A9%3F@localhost:$(tls_port closed)" \
        "$REDISLOCK_BIN" job -- echo in
    assert_output in
    assert_no_stderr
    run --separate-stderr env REDISLOCK_URL="rediss://:wrong@localhost:$(tls_port closed)" \
        "$REDISLOCK_BIN" job -- echo in
    assert_status 77
    assert_one_line WRONGPASS
}

@test "row 56: a trusted CA does not make another host's certificate good" {
    tls_start other elsewhere
    PORT=$(tls_port other)
    refused_for "localhost:$PORT: the server's certificate is not trusted: hostname mismatch"
    HOST=127.0.0.1 refused_for 'IP address mismatch'
}

@test "a certificate of another CA, or signed by itself, is not trusted" {
    tls_start foreign foreign
    PORT=$(tls_port foreign) refused_for 'not trusted: unable to get local issuer certificate'
    tls_start alone alone
    PORT=$(tls_port alone) refused_for 'not trusted: self-signed certificate'
    PORT=$(tls_port alone) run --separate-stderr secure --cacert "$CERTS/alone.crt" job -- echo pinned
    assert_output pinned
}

@test "without --cacert the system's certificates decide, and a private CA is none of them" {
    unset REDISLOCK_CACERT
    refused_for 'not trusted: (self-signed certificate in|unable to get local issuer)'
}

@test "an expired certificate is refused, and one from the future" {
    tls_start old old
    PORT=$(tls_port old) refused_for 'not trusted: certificate has expired'
    tls_start early early
    PORT=$(tls_port early) refused_for 'not trusted: certificate is not yet valid'
}

@test "--insecure takes any certificate" {
    unset REDISLOCK_CACERT
    tls_start old old
    PORT=$(tls_port old) run --separate-stderr secure --insecure job -- echo blind
    assert_status 0
    assert_output blind
}

@test "--sni is the name that is asked for and verified" {
    tls_start other elsewhere
    PORT=$(tls_port other) run --separate-stderr secure --sni redis.example.org job -- echo other
    assert_output other
    PORT=$(tls_port other) HOST=127.0.0.1 run --separate-stderr secure --sni redis.example.org job -- echo other
    assert_output other
    refused_for 'hostname mismatch' --sni redis.example.org
}

@test "a wildcard stands for one whole label" {
    tls_start wild wild
    PORT=$(tls_port wild) run --separate-stderr secure --sni a.example.org job -- echo one
    assert_output one
    PORT=$(tls_port wild) refused_for 'hostname mismatch' --sni a.b.example.org
    PORT=$(tls_port wild) refused_for 'hostname mismatch' --sni example.org
}

@test "row 56: the name goes out as SNI, an address does not" {
    local port seen
    free_port port
    mkfifo "$ROOM/quiet" # at the end of its input s_server leaves
    exec 8<>"$ROOM/quiet"
    "$REDISLOCK_TOOLS/launch" --group -- openssl s_server -accept "127.0.0.1:$port" -tlsextdebug \
        -cert "$CERTS/good.crt" -key "$CERTS/good.key" <&8 >"$ROOM/seen" 2>&1 3>&- 4>&- 8>&- &
    seen=$!
    _process_keep "$seen"
    disown "$seen"
    wait_for_line "$ROOM/seen" '^ACCEPT'
    PORT=$port PATIENCE=0.3 HOST=127.0.0.1 run secure job -- true
    assert_status 69
    wait_for_line "$ROOM/seen" 'extension "supported_groups"|extension "supported versions"'
    assert_equal "$(grep -c 'extension "server name"' "$ROOM/seen")" 0
    PORT=$port PATIENCE=0.3 run secure job -- true
    wait_for_line "$ROOM/seen" 'extension "server name"'
    grep -q localhost "$ROOM/seen"
}

@test "--capath is a folder of hashed certificates" {
    unset REDISLOCK_CACERT
    mkdir "$ROOM/folder"
    cp "$CERTS/ca.crt" "$ROOM/folder/ca.pem"
    refused_for 'not trusted' --capath "$ROOM/folder"
    openssl rehash "$ROOM/folder"
    run --separate-stderr secure --capath "$ROOM/folder" job -- echo hashed
    assert_output hashed
}

@test "a server that wants a client certificate gets it, or says 77" {
    local protocol
    for protocol in TLSv1.2 TLSv1.3; do
        tls_start "$protocol" good --tls-auth-clients yes --tls-protocols "$protocol"
        PORT=$(tls_port "$protocol")
        run --separate-stderr secure --cert "$CERTS/client.crt" --key "$CERTS/client.key" job -- echo known
        assert_output known
        run --separate-stderr secure --cert "$CERTS/client.pem" job -- echo pem
        assert_output pem
        PATIENCE=60 refused_for "localhost:$PORT: TLS: .*(alert|certificate required)"
        PATIENCE=60 refused_for "localhost:$PORT: TLS: .*(unknown ca|alert)" \
            --cert "$CERTS/stranger-client.crt" --key "$CERTS/stranger-client.key"
    done
}

@test "a client certificate or CA file that cannot be used is said before anything is sent" {
    refused_for "cannot use the key" --cert "$CERTS/client.crt" --key "$CERTS/good.key"
    refused_for "cannot use the key .*client.crt: the file has none; check .*--key" --cert "$CERTS/client.crt"
    refused_for "cannot use the certificate .*client.key: the file has none" --cert "$CERTS/client.key" \
        --key "$CERTS/client.key"
    printf 'nonsense\n' >"$ROOM/empty.crt"
    refused_for "cannot read the trusted certificates" --cacert "$ROOM/empty.crt"
    run --separate-stderr secure --cacert "$ROOM/nowhere.crt" job -- true
    assert_status 64
    assert_one_line "--cacert.*nowhere"
}

@test "TLS 1.2 alone and TLS 1.3 alone both serve a whole run" {
    local protocol
    for protocol in TLSv1.2 TLSv1.3; do
        tls_start "$protocol" good --tls-protocols "$protocol"
        PORT=$(tls_port "$protocol") run --separate-stderr secure job -- echo "$protocol"
        assert_output "$protocol"
        assert_no_stderr
    done
}

@test "a plain-text server behind rediss:// is 69" {
    redis_start plain --tcp
    PORT=$(redis_port plain) PATIENCE=0.5 run --separate-stderr secure job -- touch "$ROOM/ran"
    assert_status 69
    assert_one_line 'no answer in time|does not speak TLS'
    [[ ! -e $ROOM/ran ]]
}

@test "a TLS server behind redis:// is 69 when it hangs up, and 76 with a hint when it says why" {
    run --separate-stderr "$REDISLOCK_BIN" -u "redis://localhost:$PORT" --connect-timeout 0.5 job -- true
    assert_status 69
    assert_one_line 'no working Redis'
    talker_start --tcp --repeat-last 'last \x15\x03\x03\x00\x02\x02\x46'
    URL=$TALKER_URL run --separate-stderr lock --connect-timeout 0.3 job -- true
    assert_status 76
    assert_one_line 'but TLS: use rediss://'
}

@test "the bytes of a TLS alert in the middle of a reply are data" {
    local pairs
    pairs=$(printf '%4096s' '' | sed 's/ /\\x15\\x03/g')
    # whatever even number of bytes has been read before, the next chunk begins like an alert
    talker_start --tcp --repeat-last \
        "raw *7\r\n\$4\r\nHELD\r\n\$8193\r\nx$pairs\r\n:60000\r\n:-1\r\n:1\r\n:0\r\n:0\r\n"
    URL=$TALKER_URL run --separate-stderr lock --connect-timeout 0.3 job -- true
    assert_status 75
    assert_one_line 'held by another program'
}

# A proxy in front of the TLS port.
tls_proxy() {
    PROXY_CONTROL=$ROOM/proxy-tls.control
    LISTENER_TCP=1 _listener_start proxy-tls "$REDISLOCK_TOOLS/proxy" --target "tcp:$PORT" \
        --control "$PROXY_CONTROL"
    PORT=${LISTENER_URL##*:}
}

@test "a handshake that stalls ends with --connect-timeout" {
    local began
    tls_proxy
    proxy_do hold s2c
    began=$(boottime_ms)
    PATIENCE=0.5 run --separate-stderr secure job -- touch "$ROOM/ran"
    assert_status 69
    assert_one_line 'no answer in time'
    assert_between "$(($(boottime_ms) - began))" 400 5000
    [[ ! -e $ROOM/ran ]]
}

@test "a handshake that stalls can be interrupted" {
    tls_proxy
    proxy_do hold s2c
    spawn stalled "$REDISLOCK_BIN" -u "rediss://localhost:$PORT" --connect-timeout 60 job -- true
    wait_until 5000 proxy_saw c2s 100
    kill -TERM "$stalled"
    reap stalled
    assert_status 143
}

@test "a connection cut within the handshake is tried again" {
    tls_proxy
    proxy_do next cut-after 200 s2c
    run --separate-stderr secure job -- echo again
    assert_status 0
    assert_output again
    assert_no_stderr
}

@test "row 1: an acquisition whose answer was cut off inside TLS is asked for again, and runs" {
    tls_proxy
    local sent
    secure job -- true
    sent=$(proxy_stat s2c)
    proxy_do next cut-after $((sent - 60)) s2c
    run --separate-stderr secure job -- echo once
    assert_status 0
    assert_output once
    assert_no_key lock:job
}

@test "a held lock is extended, waited for and handed on over TLS" {
    : >"$ROOM/events"
    spawn holder bash -c 'exec 5>>"$0" "$@"' "$ROOM/events" "$REDISLOCK_BIN" \
        -u "rediss://localhost:$PORT" -t 1.5 --status-fd 5 handed -- "$WITNESS" --out "$ROOM/ready" \
        --log "$ROOM/log" --signals inf --exit-on TERM
    wait_for_line "$ROOM/ready" '^ready '
    run --separate-stderr secure handed -- true
    assert_status 75
    assert_one_line 'held by'
    spawn waiter "$REDISLOCK_BIN" -u "rediss://localhost:$PORT" -w 20 handed -- "$WITNESS" --log "$ROOM/log"
    wait_until 5000 waits_for handed
    wait_until 15000 extended_times 3
    assert_no_process_of waiter_job
    kill -TERM "$holder"
    reap holder
    assert_status 0
    reap_quiet waiter
    assert_no_overlap "$ROOM/log"
    assert_no_key lock:handed
}

waits_for() {
    [[ $(rcli zcard "lock:{lock:$1}:queue") == 1 ]]
}

extended_times() {
    (($(grep -c '"event":"extended"' "$ROOM/events") >= $1))
}

# The waiter's command has not started while the holder's runs.
assert_no_process_of() {
    assert_equal "$(grep -c '^start' "$ROOM/log")" 1
}

@test "row 57: a TLS server that dies under a job kills neither redislock nor changes the status" {
    tls_start mortal good
    PORT=$(tls_port mortal)
    spawn job "$REDISLOCK_BIN" -u "rediss://localhost:$PORT" -t 60 job -- "$WITNESS" \
        --out "$ROOM/ready" --signals inf --exit-on TERM --exit 6
    wait_for_line "$ROOM/ready" '^ready '
    redis_kill9 mortal
    kill -TERM "$(sed -n 's/^ready //p' "$ROOM/ready")"
    reap job 20000
    assert_status 6
    assert_one_line 'cannot release the lock'
}

@test "row 81: over TLS too the command gets the caller's descriptors alone" {
    secure job -- "$WITNESS" --out "$ROOM/report"
    assert_equal "$(grep -cE '^fd ([3-9]|[0-9]{2,}) .*(socket|urandom|ssl)' "$ROOM/report")" 0
}

# The static program has no module: it is inside.
needs_module() {
    ! is_static || skip 'optional: TLS is inside this program'
}

@test "without the module rediss:// is 71 with a clear line, and redis:// works" {
    needs_module
    cp "$REDISLOCK_BIN" "$ROOM/redislock"
    local installed
    for installed in /usr{/local,}/lib{,/*}/redislock/redislock-tls.so; do
        [[ ! -e $installed ]] || skip 'optional: a module is installed here, where the program would find it'
    done
    REDISLOCK_BIN=$ROOM/redislock run --separate-stderr secure job -- true
    assert_status 71
    assert_one_line 'TLS module cannot be loaded.*redislock-tls.so'
    REDISLOCK_BIN=$ROOM/redislock run --separate-stderr lock job -- echo plain
    assert_output plain
}

@test "a module of something else is refused" {
    needs_module
    cp "$REDISLOCK_BIN" "$ROOM/redislock"
    printf 'struct { int version; } redislock_tls_module = {999};\n' >"$ROOM/other.c"
    cc -shared -fPIC -o "$ROOM/redislock-tls.so" "$ROOM/other.c"
    REDISLOCK_BIN=$ROOM/redislock run --separate-stderr secure job -- true
    assert_status 71
    assert_one_line 'belongs to another version'
}

# instructions PROGRAM: what a plain run of it costs.
instructions() {
    valgrind --tool=callgrind --callgrind-out-file=/dev/null --trace-children=no "$1" \
        -u "unix://$SOCK" job -- true 2>&1 >/dev/null | sed -n 's/.*Collected : \([0-9]*\).*/\1/p'
}

@test "a plain start loads nothing of TLS and costs no more with the module beside it" {
    not_sanitized 'what a start costs is the ordinary one'
    local with without
    run --separate-stderr strace -f -e trace=openat "$REDISLOCK_BIN" -u "unix://$SOCK" job -- true
    [[ $status == 127 ]] || refute_line_stderr 'libssl|libcrypto|redislock-tls'
    run ldd "$REDISLOCK_BIN"
    [[ $output != *libssl* && $output != *libcrypto* ]] || fail "$output"
    command -v valgrind >/dev/null || skip_or_fail 'valgrind is not installed'
    cp "$REDISLOCK_BIN" "$ROOM/redislock"
    with=$(instructions "$REDISLOCK_BIN")
    without=$(instructions "$ROOM/redislock")
    echo "# instructions with the module: $with, without: $without" >&3
    assert_between "$with" 1 $((without + without / 20))
}

@test "--doctor says that the connection is encrypted, or only seems to be" {
    run --separate-stderr "$REDISLOCK_BIN" -u "rediss://localhost:$PORT" --doctor
    assert_status 0
    assert_line_output '^ok .*encrypted'
    run --separate-stderr "$REDISLOCK_BIN" -u "rediss://localhost:$PORT" --insecure --doctor
    assert_line_output '^warning .*--insecure'
    tls_start other elsewhere
    run --separate-stderr "$REDISLOCK_BIN" -u "rediss://localhost:$(tls_port other)" \
        --connect-timeout 2 --doctor
    assert_status 77
    assert_line_output '^failure .*hostname mismatch'
}

@test "the options of TLS have variables, and a bad one is 78" {
    unset REDISLOCK_CACERT
    REDISLOCK_CACERT=$CERTS/ca.crt REDISLOCK_SNI=localhost HOST=127.0.0.1 \
        run --separate-stderr secure job -- echo variables
    assert_output variables
    REDISLOCK_INSECURE=1 run --separate-stderr secure job -- echo insecure
    assert_output insecure
    REDISLOCK_CACERT=$ROOM/nowhere run --separate-stderr secure job -- true
    assert_status 78
    assert_one_line 'REDISLOCK_CACERT'
}

@test "--list, --status, --unlock and the tokens work over TLS" {
    local token
    export REDISLOCK_URL=rediss://localhost:$PORT
    token=$("$REDISLOCK_BIN" --acquire -t 30 tokened)
    run --separate-stderr "$REDISLOCK_BIN" --status tokened
    assert_status 75
    run --separate-stderr "$REDISLOCK_BIN" --list
    assert_line_output '^tokened '
    "$REDISLOCK_BIN" --extend tokened "$token"
    "$REDISLOCK_BIN" --release tokened "$token"
    run --separate-stderr "$REDISLOCK_BIN" --status tokened
    assert_status 0
}
