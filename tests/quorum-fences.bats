#!/usr/bin/env bats
# Fences under a quorum: a later holder has a larger one, whichever majorities the two had.

load lib/common
load lib/locks
load lib/servers

@test "fences rise through 200 acquisitions while minorities restart" {
    local i server seed=${SEED:-$RANDOM}
    echo "# SEED=$seed" >&3
    RANDOM=$seed
    servers_start 3 --appendonly yes --appendfsync always
    : >"$ROOM/fences"
    for ((i = 0; i < 200; i++)); do
        if ((i % 8 == 7)); then
            server=s$((RANDOM % 3 + 1))
            redis_kill9 "$server"
            quorum --connect-timeout 20 job -c 'echo $REDISLOCK_FENCE' >>"$ROOM/fences"
            redis_restart "$server"
        else
            # a lead that a majority never heard of
            ((RANDOM % 4)) || rcli_at "s$((RANDOM % 3 + 1))" hincrby "$(state_key job)" fence 100000 >/dev/null
            quorum --connect-timeout 20 job -c 'echo $REDISLOCK_FENCE' >>"$ROOM/fences"
        fi
    done
    assert_equal "$(grep -c . "$ROOM/fences")" 200
    rises "$ROOM/fences"
}
