# Servers as production has them: behind TLS, with replicas and sentinels, as a cluster, several at
# once. Loaded after common.bash:  load lib/servers
#
# Everything listens on the loopback and lives in a folder of its own under $ROOM, as redis.bash has it.
#
# shellcheck shell=bash

# free_port VAR: a port of the loopback that nobody has just now (below the ephemeral ones).
free_port() {
    local -n _port=$1
    local try
    for ((try = 0; try < 50; try++)); do
        _port=$((20000 + (RANDOM * 32768 + RANDOM) % 12000))
        (: >"/dev/tcp/127.0.0.1/$_port") 2>/dev/null || return 0
    done
    fail "no free port"
}

# --- TLS -----------------------------------------------------------------------------------------

# openssl, or the reason why not.
_ssl() {
    local said
    said=$(openssl "$@" 2>&1) || fail "openssl $1: $said"
}

# authority NAME: a CA; $CERTS/NAME.crt and .key.
authority() {
    _ssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 \
        -subj "/CN=$1" -keyout "$CERTS/$1.key" -out "$CERTS/$1.crt"
}

# certificate NAME CA SAN [START END]: $CERTS/NAME.crt and .key, by CA, for SAN; START and END as
# YYYYMMDDHHMMSSZ.
certificate() {
    local when=(-days 20)
    [[ $# -lt 5 ]] || when=(-startdate "$4" -enddate "$5")
    _ssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "/CN=$1" \
        -keyout "$CERTS/$1.key" -out "$CERTS/$1.csr" || return
    mkdir -p "$CERTS/$2.db"
    : >"$CERTS/$2.db/index"
    printf '[ca]\ndefault_ca=d\n[d]\ndatabase=%s\nnew_certs_dir=%s\nrand_serial=yes\ndefault_md=sha256\npolicy=p\nx509_extensions=x\nunique_subject=no\n[p]\ncommonName=supplied\n[x]\nsubjectAltName=%s\n' \
        "$CERTS/$2.db/index" "$CERTS/$2.db" "$3" >"$CERTS/$1.cnf"
    _ssl ca -batch -notext -config "$CERTS/$1.cnf" -cert "$CERTS/$2.crt" -keyfile "$CERTS/$2.key" \
        "${when[@]}" -in "$CERTS/$1.csr" -out "$CERTS/$1.crt"
}

# self_signed NAME SAN
self_signed() {
    _ssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 -subj "/CN=$1" \
        -addext "subjectAltName=$2" -keyout "$CERTS/$1.key" -out "$CERTS/$1.crt"
}

# tls_start NAME CERTIFICATE [CONFIG ARGUMENT]...: a server that speaks TLS on a port of its own, which
# tls_port tells, and plain on its Unix socket.
tls_start() {
    local name=$1 certificate=$2 port try
    shift 2
    for ((try = 0; try < 10; try++)); do
        free_port port
        redis_start "$name" --tls-port "$port" --tls-cert-file "$CERTS/$certificate.crt" \
            --tls-key-file "$CERTS/$certificate.key" --tls-ca-cert-file "$CERTS/ca.crt" \
            --tls-auth-clients no "$@" 2>"$ROOM/tls.err" || continue
        printf '%s' "$port" >"$REDIS_FOLDER/tls-port"
        return 0
    done
    fail "no TLS server: $(<"$ROOM/tls.err")"
}

tls_port() {
    _redis_folder "${1:-main}"
    cat "$REDIS_FOLDER/tls-port"
}

# --- Replicas and sentinels ----------------------------------------------------------------------

# replica_start NAME OF [CONFIG ARGUMENT]...: a server on a TCP port that follows OF, in step when
# this returns.
replica_start() {
    local name=$1 of=$2
    shift 2
    redis_start "$name" --tcp --replicaof 127.0.0.1 "$(redis_port "$of")" --repl-diskless-sync no \
        "$@" || return
    wait_until 20000 link_is_up "$name" && wait_until 20000 counts_replica "$of" "$(redis_port "$name")"
}

# counts_replica NAME PORT: the server NAME would ask its replica on PORT for an acknowledgement. To be so
# from this state on it has to send its data from a file (repl-diskless-sync no); otherwise it waits for
# the replica's first word, which comes up to a second later.
counts_replica() {
    rcli_at "$1" info replication | grep -q "port=$2,state=online"
}

link_is_up() {
    rcli_at "$1" info replication | grep -q '^master_link_status:up'
}

# role_is NAME ROLE: master or slave; for wait_until.
role_is() {
    [[ $(rcli_at "$1" role 2>/dev/null | head -n 1) == "$2" ]]
}

# sentinel_start NAME PORT-OF-MASTER QUORUM [LINE]...: a sentinel that watches `mymaster`; LINEs are
# added to its configuration.
sentinel_start() {
    local name=$1 master=$2 quorum=$3 folder=$ROOM/redis-$1 port try line
    shift 3
    mkdir -p "$folder"
    for ((try = 0; try < 10; try++)); do
        free_port port
        {
            printf 'port %s\nbind 127.0.0.1\ndir %s\n' "$port" "$folder"
            printf 'sentinel monitor mymaster 127.0.0.1 %s %s\n' "$master" "$quorum"
            printf 'sentinel down-after-milliseconds mymaster %s\n' "${DOWN_AFTER:-800}"
            printf 'sentinel failover-timeout mymaster 4000\n'
            for line in "$@"; do
                printf '%s\n' "$line"
            done
        } >"$folder/conf"
        "$REDISLOCK_TOOLS/launch" --group -- "${REDIS_SERVER:-redis-server}" "$folder/conf" --sentinel \
            </dev/null >"$folder/log" 2>&1 3>&- 4>&- &
        printf '%s' "$!" >"$folder/pid"
        printf '%s' "$port" >"$folder/port"
        _process_keep "$!"
        disown "$!"
        if wait_until 10000 _sentinel_answers "$port" "$!" 2>/dev/null; then
            process_gone "$(<"$folder/pid")" || return 0
        fi
        process_end "$(<"$folder/pid")"
    done
    fail "the sentinel does not start: $(tail -n 5 "$folder/log")"
}

_sentinel_answers() {
    process_gone "$2" || [[ $(redis-cli -p "$1" ping 2>&1) == @(PONG|*NOAUTH*) ]]
}

# scli NAME ARG...: redis-cli on a sentinel.
scli() {
    local name=$1
    shift
    redis-cli -p "$(redis_port "$name")" "$@"
}

# names_master SENTINEL PORT: for wait_until.
names_master() {
    [[ $(scli "$1" sentinel get-master-addr-by-name mymaster | tail -n 1) == "$2" ]]
}

# knows_replicas SENTINEL NUMBER: for wait_until; before that it cannot promote one.
knows_replicas() {
    (($(scli "$1" sentinel replicas mymaster | grep -c '^master-link-status$') >= $2)) &&
        scli "$1" sentinel replicas mymaster | grep -A1 '^master-link-status$' | grep -q '^ok$'
}

# --- A cluster -----------------------------------------------------------------------------------

# cluster_start REPLICAS: three masters n1 n2 n3 and, with REPLICAS=1, r1 r2 r3, ready to serve. Each
# has a Unix socket as well.
cluster_start() {
    local name nodes=() names=(n1 n2 n3) port
    [[ ${1:-0} == 0 ]] || names+=(r1 r2 r3)
    for name in "${names[@]}"; do
        _cluster_node "$name" || return
        nodes+=("127.0.0.1:$(redis_port "$name")")
    done
    if ! redis-cli --cluster create "${nodes[@]}" --cluster-replicas "${1:-0}" --cluster-yes \
        >"$ROOM/cluster.log" 2>&1; then
        fail "no cluster: $(tail -n 5 "$ROOM/cluster.log")"
        return 1
    fi
    for name in "${names[@]}"; do
        wait_until 30000 _cluster_serves "$name" || return
    done
}

_cluster_node() {
    local try bus
    for ((try = 0; try < 10; try++)); do
        free_port bus
        if redis_start "$1" --tcp --cluster-enabled yes --cluster-port "$bus" \
            --cluster-config-file nodes.conf --cluster-node-timeout "${NODE_TIMEOUT:-2000}" \
            --cluster-replica-validity-factor 0 --repl-diskless-sync-delay 0 2>"$ROOM/node.err"; then
            return 0
        fi
        rm -f "$ROOM/redis-$1/nodes.conf"
    done
    fail "no node: $(<"$ROOM/node.err")"
}

_cluster_serves() {
    rcli_at "$1" cluster info | grep -q '^cluster_state:ok' &&
        [[ $(rcli_at "$1" cluster nodes | grep -c .) -ge 3 ]]
}

# owner_of KEY: the name of the master whose slot that is. slot_of KEY: its slot.
owner_of() {
    local slot name
    slot=$(slot_of "$1")
    for name in n1 n2 n3 r1 r2 r3; do
        [[ -d $ROOM/redis-$name ]] || [[ -n ${FILE_ROOM-} && -d $FILE_ROOM/redis-$name ]] || continue
        if rcli_at "$name" cluster nodes 2>/dev/null | awk -v slot="$slot" '
            $3 ~ /myself/ && $3 ~ /master/ { for (i = 9; i <= NF; i++) { split($i, r, "-")
                if ($i !~ /\[/ && slot >= r[1] && slot <= (r[2] == "" ? r[1] : r[2])) found = 1 } }
            END { exit !found }'; then
            printf '%s\n' "$name"
            return 0
        fi
    done
    return 1
}

slot_of() {
    local name=n1
    redis-cli -s "$(redis_sock "${ASK_NODE:-$name}")" cluster keyslot "$1"
}

node_id() {
    rcli_at "$1" cluster myid
}

# another_master NAME: one that is not NAME.
another_master() {
    local name
    for name in n1 n2 n3; do
        [[ $name == "$1" ]] || { printf '%s\n' "$name" && return; }
    done
}

# --- Holders that tell -------------------------------------------------------------------------

# hold_there VAR [OPTION]... NAME: as `hold`, on URL; its events are in $ROOM/VAR.events, the span of its
# command in $ROOM/log.
hold_there() {
    local variable=$1
    shift
    rm -f "$ROOM/$variable.ready"
    spawn "$variable" bash -c 'exec 5>>"$0" "$@"' "$ROOM/$variable.events" "$REDISLOCK_BIN" -u "$URL" \
        --status-fd 5 "$@" -- "$WITNESS" --out "$ROOM/$variable.ready" --log "$ROOM/log" \
        --signals inf --exit-on TERM
    wait_for_line "$ROOM/$variable.ready" '^ready ' || fail "$(cat "$ROOM/$variable.err")"
}

# extended VAR NUMBER: so many extensions have come; for wait_until.
extended() {
    (($(grep -c '"event":"extended"' "$ROOM/$1.events") >= $2))
}

# One more extension of VAR than there are now.
one_more_extension() {
    local now
    now=$(grep -c '"event":"extended"' "$ROOM/$1.events" || true)
    wait_until 30000 extended "$1" $((now + 1))
}

# in_line_on SERVER NAME NUMBER: so many wait there for the lock NAME; for wait_until.
in_line_on() {
    [[ $(rcli_at "$1" zcard "lock:{lock:$2}:queue") == "$3" ]]
}

# --- Several servers -----------------------------------------------------------------------------

# servers_start NUMBER [CONFIG ARGUMENT]...: independent servers s1, s2 …; sets URLS to all of their
# Unix sockets, as --url takes them.
servers_start() {
    local number=$1 i
    shift
    for ((i = 1; i <= number; i++)); do
        redis_start "s$i" "$@" || return
    done
    urls_of "$number"
}

# urls_of NUMBER: sets URLS to s1 … sNUMBER.
urls_of() {
    local i
    URLS=
    for ((i = 1; i <= $1; i++)); do
        URLS+=${URLS:+,}unix://$(redis_sock "s$i")
    done
    export URLS
}

# holds_on NAME KEY: for wait_until.
holds_on() {
    [[ $(rcli_at "$1" exists "$2") == 1 ]]
}

free_on() {
    [[ $(rcli_at "$1" exists "$2") == 0 ]]
}

# quorum [OPTION]... NAME -- COMMAND: redislock on all of URLS.
quorum() {
    "$REDISLOCK_BIN" -u "$URLS" "$@"
}

# hold_all VAR [OPTION]... NAME: hold_there, on all of URLS.
hold_all() {
    URL=$URLS hold_there "$@"
}

# plain_take SERVER NAME [TOKEN]: what another program does.
plain_take() {
    assert_equal "$(rcli_at "$1" set "lock:$2" "${3:-foreign}" NX PX 60000)" OK
}

all_free() {
    local i
    for ((i = 1; i <= $1; i++)); do
        free_on "s$i" "lock:$2" || fail "s$i: $(rcli_at "s$i" get "lock:$2")" || return
    done
}
