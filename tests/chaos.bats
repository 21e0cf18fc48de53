#!/usr/bin/env bats
# The chaos run's checker finds what it is there for, and its schedule follows from the seed. The run
# itself is `make chaos`.

chaos=$BATS_TEST_DIRNAME/chaos

@test "the checker finds each violation in a log that has it, and grants each window where it belongs" {
    run python3 -B "$chaos/checker.py" --self-test
    printf '%s\n' "$output" | grep -v '^ok' # all there is to see, when it fails
    [[ $status -eq 0 ]]
    [[ $(grep -c '^ok' <<<"$output") -ge 39 ]]
}

@test "the checker has no good word for a log that is empty" {
    run python3 -B "$chaos/checker.py" /dev/null
    [[ $status -eq 1 && $output == *'the run has not come to its end'* ]]
}

# plan SEED: what would be done to whom, in which order.
plan() {
    PYTHONPATH=$chaos python3 -B -c '
import sys
from schedule import schedule
from world import World
names = {group: [f"{group}-a", f"{group}-script"] for group in World.GROUPS}
for fault in schedule(int(sys.argv[1]), 47, names, World.GROUPS, ["h1", "h2"]):
    print(fault.at, fault.kind, fault.group, fault.target, fault.seconds, fault.amount)' "$1"
}

@test "the same seed plans the same faults in the same order, another one others" {
    [[ $(plan 1) == "$(plan 1)" && $(plan 1) != "$(plan 2)" ]]
    [[ $(plan 1 | wc -l) -gt 50 ]]
}

@test "a run too short to tell anything is refused" {
    run python3 -B "$chaos/run" --seconds 5
    [[ $status -eq 2 ]]
}
