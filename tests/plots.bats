#!/usr/bin/env bats
# The README's plots are those of the figures beside them, and it says each goal that these miss.

setup() {
    ROOT=$(cd "$BATS_TEST_DIRNAME/.." && pwd)
    PLOTS=$ROOT/docs/plots
    FIGURES=$PLOTS/bench.txt
    DRAWN=$BATS_TEST_TMPDIR/drawn
    mkdir "$DRAWN"
}

@test "each plot is what tests/bench/plot draws of docs/plots/bench.txt" {
    run "$ROOT/tests/bench/plot" "$FIGURES" "$DRAWN"
    echo "$output"
    [ "$status" -eq 0 ]
    [ -z "$output" ]
    diff -r --exclude=bench.txt "$PLOTS" "$DRAWN"
}

@test "the README shows every plot, and no other" {
    diff <(grep -oE 'docs/plots/[a-z]+\.svg' "$ROOT/README.md" | sort) \
        <(cd "$ROOT" && printf '%s\n' docs/plots/*.svg | sort)
}

@test "a figure that changes changes its plot, and no other" {
    sed -E '/^quorum:/,/^$/s/^(  5 servers +)[0-9]+/\199999/' "$FIGURES" >"$BATS_TEST_TMPDIR/other"
    run cmp -s "$FIGURES" "$BATS_TEST_TMPDIR/other"
    [ "$status" -eq 1 ]
    "$ROOT/tests/bench/plot" "$BATS_TEST_TMPDIR/other" "$DRAWN"
    run diff -rq --exclude=bench.txt "$PLOTS" "$DRAWN"
    echo "$output"
    [ "$(grep -c differ <<<"$output")" -eq 1 ]
    [[ $output == *quorum.svg* ]]
}

@test "figures without a table are named, and leave its plot as it is" {
    sed '/^held:/,/^$/d' "$FIGURES" >"$BATS_TEST_TMPDIR/part"
    run "$ROOT/tests/bench/plot" "$BATS_TEST_TMPDIR/part" "$DRAWN"
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == "plot: no table for held in "* ]]
    [ ! -e "$DRAWN/held.svg" ] && [ -e "$DRAWN/wrap.svg" ]
    run "$ROOT/tests/bench/plot" /dev/null "$DRAWN"
    echo "$output"
    [ "$status" -eq 1 ]
}

@test "the README says every goal of the bench that is missed" {
    local missed
    missed=$(sed -n 's/^  goal missed: *//p' "$FIGURES" | sed -E 's/^.*: ([0-9.]+), at most .*/\1/')
    for figure in $missed; do
        sed -n '/^### Goals that are missed/,/^##/p' "$ROOT/README.md" | grep -qwF -- "$figure" || {
            echo "the README does not say the missed goal's $figure"
            return 1
        }
    done
}
