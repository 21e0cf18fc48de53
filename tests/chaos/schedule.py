"""The schedule of a chaos run: all of its faults, from the seed alone.

The seed fixes which faults come, in which order, at which planned time and at which target (a name,
a server, a host). It does not fix which process holds a name at that moment, nor who wins a race: a
run cannot be replayed to the millisecond.
"""

import random

# kind: how often, and the groups it is for: "all" are those that hit a process of a run.
KINDS = {
    "kill-holder": (10, "all"),
    "kill-waiter": (6, "all"),
    "kill-keeper": (4, "all"),
    "kill-script": (4, "all"),
    "term-holder": (3, "all"),
    "term-waiter": (3, "all"),
    "stop-holder": (6, "all"),
    "stop-waiter": (4, "all"),
    "stop-keeper": (3, "all"),
    "freeze-job": (3, "all"),
    "server-restart": (8, "one three"),
    "server-empty": (8, "loose three"),
    "server-stop": (8, "one loose three pair"),
    "clock-forward": (4, "loose"),
    "clock-back": (4, "loose"),
    "memory-full": (6, "one loose"),
    "connections-cut": (6, "one loose three pair"),
    "partition": (10, "one loose three pair"),
    "partition-in": (8, "one loose three pair"),
    "partition-out": (8, "one loose three pair"),
    "host-cut": (10, "host"),
    "loss": (8, "host"),
    "delay": (8, "host"),
    "master-kill": (6, "pair"),
    "master-cut": (6, "pair"),
    "failover": (6, "pair"),
    "replica-kill": (2, "pair"),
}
PROCESS_KINDS = [kind for kind, (_, where) in KINDS.items() if where == "all"]
# After these a group is left alone for so many seconds beyond the fault itself.
RECOVERY = {"pair": 9.0, "three": 4.5, "one": 1.0, "loose": 2.0, "host": 0.5}


class Fault:
    """A line of the schedule."""

    def __init__(self, number, at, kind, group, target, seconds, amount):
        self.number, self.at, self.kind, self.group = number, at, kind, group
        self.target, self.seconds, self.amount = target, seconds, amount

    def busy(self):
        """What has no other server or network fault at the same time; None: a process's fault."""
        if self.kind in PROCESS_KINDS:
            return None
        return self.target if self.group == "host" else self.group


def schedule(seed, seconds, names, groups, hosts):
    """All faults of a run of so many seconds; `names` by group."""
    rng = random.Random(seed)
    kinds, weights = list(KINDS), [often for often, _ in KINDS.values()]
    free_at, faults, at = {}, [], 2.0
    while at < seconds - 2:
        kind = rng.choices(kinds, weights)[0]
        where = list(groups) if KINDS[kind][1] == "all" else KINDS[kind][1].split()
        group = rng.choice(where)
        short, long = rng.uniform(0.2, 1.5), rng.uniform(1.5, 5.5)
        lasts = round(2.0 + long if kind == "host-cut" else rng.choice([short, long]), 2)
        lasts = min(lasts, seconds - at - 0.5)
        if kind in PROCESS_KINDS:
            target = rng.choice(_fitting(kind, names[group]))
        elif group == "host":
            target = rng.choice(hosts)
        elif kind.startswith("partition"):
            target = rng.choice(hosts) + ":" + rng.choice(groups[group])
        else:
            target = rng.choice(groups[group])
        fault = Fault(len(faults) + 1, at, kind, group, target, lasts, rng.randint(1, 100))
        if fault.busy() is not None and free_at.get(fault.busy(), 0) > at:
            continue  # something else, at this time
        free_at[fault.busy()] = at + lasts + RECOVERY.get(group, 0)
        faults.append(fault)
        at += rng.uniform(0.05, 0.55)
    return faults


def _fitting(kind, names):
    scripts = [name for name in names if name.endswith("-script")]
    if kind in ("kill-keeper", "stop-keeper", "kill-script"):
        return scripts
    runs = [name for name in names if name not in scripts]
    # half of them at long jobs, which live long enough to be guarded and extended
    return runs + [name for name in runs if "-long" in name] * 2
