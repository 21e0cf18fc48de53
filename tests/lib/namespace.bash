# A network of its own, in which packets can be made to vanish without a word: no RST, no ICMP. Loaded
# after common.bash and faults.bash:  load lib/namespace
#
# shellcheck shell=bash

# namespace_start: servers and redislock run in it from here on; sets NAMESPACE to the pid that keeps
# it. Skips the test where that is not allowed.
namespace_start() {
    local program real
    [[ $(id -u) == 0 ]] || skip_or_fail 'only root may make a network' || return
    command -v nft >/dev/null && command -v nsenter >/dev/null ||
        skip_or_fail 'nft or nsenter is not installed' || return
    "$REDISLOCK_TOOLS/launch" --group -- unshare -n sh -c 'ip link set lo up &&
        nft add table inet hole && nft add chain inet hole in "{ type filter hook input priority 0; }" &&
        echo ready && exec sleep infinity' </dev/null >"$ROOM/namespace" 2>&1 3>&- 4>&- &
    NAMESPACE=$!
    _process_keep "$NAMESPACE"
    disown "$NAMESPACE"
    if ! wait_for_line "$ROOM/namespace" '^ready' 5000 2>/dev/null; then
        skip_or_fail "no network of its own here: $(<"$ROOM/namespace")"
        return
    fi
    mkdir "$ROOM/inside"
    for program in redis-server redis-cli redislock; do
        real=$REDISLOCK_BIN
        [[ $program == redislock ]] || real=$(command -v "$program")
        printf '#!/bin/sh\nexec nsenter -t %s -n -- %s "$@"\n' "$NAMESPACE" "$real" >"$ROOM/inside/$program"
        chmod +x "$ROOM/inside/$program"
    done
    PATH=$ROOM/inside:$PATH
    REDISLOCK_BIN=$ROOM/inside/redislock
    export PATH REDISLOCK_BIN
}

# swallow PORT: packets to and from it vanish, until heal.
swallow() {
    nsenter -t "$NAMESPACE" -n -- nft add rule inet hole in tcp dport "$1" drop
    nsenter -t "$NAMESPACE" -n -- nft add rule inet hole in tcp sport "$1" drop
}

# swallow_requests PORT: connections are made, but what they carry to it vanishes, until heal.
swallow_requests() {
    nsenter -t "$NAMESPACE" -n -- nft add rule inet hole in tcp dport "$1" meta length gt 100 drop
}

# sending PORT: an open connection has bytes on their way to it; for wait_until.
sending() {
    nsenter -t "$NAMESPACE" -n -- ss -Htn state established dport = ":$1" | awk '$2 > 0 { n++ } END { exit !n }'
}

# undelivered PORT: the closed connections to it whose bytes the system still tries to deliver.
undelivered() {
    nsenter -t "$NAMESPACE" -n -- ss -Htn state fin-wait-1 dport = ":$1"
}

nothing_undelivered() {
    [[ -z $(undelivered "$1") ]]
}

heal() {
    nsenter -t "$NAMESPACE" -n -- nft flush chain inet hole in
}
