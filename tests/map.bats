#!/usr/bin/env bats
# tests/README.md leads from each fault class, and from each promise of the manual page, to tests that are
# there, and names every suite. Each rule is also shown a page that breaks it.

setup() {
    ROOT=$(cd "$BATS_TEST_DIRNAME/.." && pwd)
    COPY=$BATS_TEST_TMPDIR/copy
}

@test "tests/README.md names what is there, all of it, and nothing else" {
    run "$ROOT/tests/tools/map" "$ROOT"
    echo "$output"
    [ "$status" -eq 0 ]
    [ -z "$output" ]
}

# seen FILE SED-SCRIPT WHAT: with FILE changed so, the page is refused, with WHAT.
seen() {
    rm -rf "$COPY"
    mkdir -p "$COPY/tests/unit" "$COPY/man"
    cp "$ROOT"/tests/*.bats "$ROOT/tests/README.md" "$COPY/tests/"
    cp "$ROOT"/tests/unit/test_*.c "$COPY/tests/unit/"
    cp "$ROOT/man/redislock.1" "$COPY/man/"
    sed -i -E "$2" "$COPY/$1"
    ! cmp -s "$ROOT/$1" "$COPY/$1" || { echo "nothing is changed by $2" && return 1; }
    run "$ROOT/tests/tools/map" "$COPY"
    echo "$output"
    [ "$status" -eq 1 ] && [[ $output == *"$3"* ]]
}

@test "a page that leads nowhere, or leaves something out, is seen" {
    seen tests/lock.bats 's/^@test "any name is one lock/@test "every name is one lock/' \
        'lock has no test with the words: any name is one lock'
    seen tests/README.md 's/`faults-lost`: "an evicted key"/`faults-gone`: "an evicted key"/' 'there is no suite faults-gone'
    seen tests/README.md '/^\| `view` /d' 'view is not in the table'
    seen tests/README.md 's/^(\| `view`) /\1, `viewer` /' 'viewer, which is none'
    seen tests/README.md 's/ `cluster`: "CLUSTER FAILOVER in a loop"\.//' 'no test for: - **4**'
    seen tests/README.md '/^- \*\*32\*\*/d' 'fault class 32 does not name cluster'
    seen tests/view.bats 's/^@test "the view follows/@test "row 999: the view follows/' 'fault class 999 does not name view'
    seen tests/README.md 's/^### Failover$/### Fallover/' 'are not those of the manual page: Failover, Fallover'
    seen man/redislock.1 's/^\.Ss Failover$/.Ss Failover\n.Ss Falling over/' 'Falling over'
}

@test "row 63: two active masters are not to be used, says the manual page" {
    tr '\n' ' ' <"$ROOT/man/redislock.1" | grep -q 'Two active masters .* both grant the lock. Do not use them'
}
