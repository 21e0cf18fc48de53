#!/usr/bin/env bats
# The core suites once more, against Valkey; on REDIS_SERVER, or a valkey-server where it is installed.

bats_require_minimum_version 1.5.0
ROOT=$(cd "$BATS_TEST_DIRNAME/.." && pwd)

setup() {
    REDIS_SERVER=${REDIS_SERVER:-$(command -v valkey-server || true)}
    if [[ -z $REDIS_SERVER ]]; then
        skip 'optional: valkey-server is not installed'
    fi
    export REDIS_SERVER
}

# suite NAME: it passes, or its failures are shown.
suite() {
    local said
    said=$(env -u BATS_TMPDIR -u BATS_RUN_TMPDIR bats --formatter tap "$ROOT/tests/$1.bats" 3>&- 4>&-) || {
        grep -v '^ok' <<<"$said" >&2
        return 1
    }
}

@test "Valkey is what answers" {
    "$REDIS_SERVER" --version | grep -qi valkey
}

@test "locks" { suite lock; }
@test "waiting in line" { suite queue; }
@test "lost locks" { suite faults-lost; }
@test "servers behind TLS" { suite tls; }
@test "a quorum" { suite quorum && suite quorum-hold; }
@test "permissions" { suite permissions; }
