"""What a chaos run's log tells: who did what and when, and when the contract promises less."""

import collections
import sys

S = 1_000_000_000  # all times are in ns of CLOCK_BOOTTIME
GUARD_NS = S  # half a second at most, and what a busy machine adds
SERVER_KINDS = (
    "server-",
    "master-",
    "memory-",
    "connections-",
    "partition",
    "host-cut",
    "loss",
    "delay",
    "failover",
    "replica-",
)
KEEPER_KINDS = ("kill-keeper", "stop-keeper")


class Job:
    """What one contender did, by all of its lines."""

    def __init__(self, number, fields, spawned):
        self.id, self.name, self.spawned = number, fields["name"], spawned
        self.attach, self.words, self.pid = (
            fields["how"] == "attach",
            fields["words"].split("_"),
            fields["pid"],
        )
        self.host = fields["host"]
        self.start = self.last = self.ended = self.exited = None
        self.fence = self.slot = 0
        self.exit, self.events, self.faults = None, [], []

    def mode(self):
        return "s" if "-s" in self.words else "slots" if "-S" in self.words else "x"


class History:
    """The log, read once."""

    def __init__(self, path):
        self.jobs, self.names, self.samples, self.ends = {}, {}, [], []
        self.faults, self.losses, self.backs, self.roles, self.stalls = {}, [], [], [], []
        self.marks, self.run, self.unreadable = {}, {}, []
        self.early = collections.defaultdict(
            list
        )  # lines of jobs that were quicker than the driver
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                try:
                    time, word, *rest = line.split()
                    fields = dict(field.split("=", 1) for field in rest)
                    self._take(int(time), word, fields)
                except (ValueError, KeyError):
                    self.unreadable.append(line.strip())
        self.ttl = int(self.run.get("ttl_ms", 3000)) * 1_000_000

    def _take(self, time, word, fields):
        if word in ("start", "tick", "term", "end"):
            self._job_line(time, word, fields)
        elif word == "spawn":
            # the job may have been quicker than this line, not than what it tells
            self.jobs[int(fields["id"])] = self._known(
                int(fields["id"]), fields, int(fields.get("at", time))
            )
        elif word == "exit":
            job = self.jobs[int(fields["id"])]
            job.exited, job.exit = time, fields
            job.events = [event for event in fields.get("events", "").split(",") if event]
        elif word == "fault":
            self.faults[int(fields["n"])] = [time, None, fields]
            if "id" in fields:
                self.jobs[int(fields["id"])].faults.append(self.faults[int(fields["n"])])
        elif word == "healed":
            self.faults[int(fields["n"])][1] = time
        elif word in ("sample", "left"):
            self.samples.append((time, word, fields))
        elif word in ("hang", "orphan", "immortal"):
            self.ends.append((word, fields))
        elif word == "name":
            self.names[fields["name"]] = fields
        else:
            lists = {
                "loss": self.losses,
                "back": self.backs,
                "role": self.roles,
                "stall": self.stalls,
            }
            if word in lists:
                lists[word].append((time, fields))
            else:
                self.marks[word] = time
                self.run = fields if word == "run" else self.run

    def _known(self, number, fields, spawned):
        job = Job(number, fields, spawned)
        for time, word, early in self.early.pop(number, []):
            self._apply(job, time, word, early)
        return job

    def _job_line(self, time, word, fields):
        number = int(fields["id"])
        if number in self.jobs:
            self._apply(self.jobs[number], time, word, fields)
        else:
            self.early[number].append((time, word, fields))

    @staticmethod
    def _apply(job, time, word, fields):
        if word == "start":
            job.start, job.fence, job.slot = time, int(fields["fence"]), fields["slot"]
        elif word == "end":
            job.ended = int(fields["status"])
        job.last = max(job.last or 0, time)


class Windows:
    """When the contract promises less, and why."""

    def __init__(self, history):
        self.history, self.by_group = history, collections.defaultdict(list)
        ttl = history.ttl
        for time, fields in history.losses:
            self._add(
                fields["group"],
                time - S // 5,
                self._heal_of(time, fields["group"]) + ttl + S,
                "data loss",
            )
        for time, fields in history.backs:
            self._add(
                fields["group"],
                time - S // 5,
                time + int(fields["ms"]) * 1_000_000 + S,
                "clock back",
            )
        self._failovers()

    def _add(self, group, begin, end, why):
        self.by_group[group].append((begin, end, why))

    def _heal_of(self, time, group):
        """A server that restarts empty: the window begins when it serves again."""
        heals = [
            healed
            for begun, healed, f in self.history.faults.values()
            if f.get("group") == group and begun <= time and healed and healed >= time
        ]
        return max(heals, default=time)

    def _failovers(self):
        """From the last look before masters changed until there is one, and a lease beyond."""
        masters, open_since, last_good = set(), None, 0
        for time, fields in self.history.roles:
            state = dict(pair.split(":") for pair in fields["state"].split(","))
            now = {name for name, said in state.items() if said == "1"}
            if masters and open_since is None and (now - masters or len(now) > 1):
                open_since = last_good
            if "?" not in state.values() and len(now) == 1:
                if open_since is not None:
                    self._add("pair", open_since, time + self.history.ttl + S, "failover")
                open_since, last_good = None, time
            masters = now or masters
        if open_since is not None:
            self._add("pair", open_since, sys.maxsize, "failover")

    def group_at(self, name, time, kinds):
        group = self.history.names[name]["group"]
        for begin, end, why in self.by_group[group]:
            if begin <= time <= end and why in kinds:
                return why
        return None

    def job_at(self, job, time):
        """Why this job may be alive at `time` although its lock is not."""
        for begun, healed, fields in job.faults:
            kind = fields["kind"]
            if time < begun:
                continue
            if kind == "freeze-job" and job.last <= (healed or sys.maxsize - S) + S:
                return "frozen whole"
            if kind in KEEPER_KINDS:
                return "keeper gone"
            if kind.startswith(("kill-", "stop-")) and begun < (job.start or 0) + GUARD_NS:
                return "no guard yet"
        return None

    def overlap(self, name, time, jobs):
        """Why the lock may have had too many holders at `time`: one of `jobs`, pairs of a job and a
        time, was out of control, or the server, or the machine."""
        return (
            next(filter(None, (self.job_at(job, at) for job, at in jobs)), None)
            or self.group_at(name, time, ("data loss", "failover"))
            or self.stalled(time)
        )

    def stalled(self, time):
        for at, fields in self.history.stalls:
            if at - int(fields["ms"]) * 1_000_000 - S <= time <= at + S:
                return "stalled"
        return None


def in_flight(history, job, time):
    """Whether a request that the holder had sent may have been held up, and come after its end."""
    begin = end = None
    spans = sorted(
        (begun, healed or sys.maxsize)
        for begun, healed, fields in history.faults.values()
        if touches(history, fields, job)
    )
    for begun, healed in [*spans, (sys.maxsize, sys.maxsize)]:
        if end is not None and begun <= end + S:
            end = max(end, healed)  # one silence
            continue
        # what TCP sends again comes later by up to the length of the silence
        if end is not None and begin <= job.exited + history.ttl and end >= job.spawned:
            if time <= 2 * end - begin + history.ttl + 2 * S:
                return "in flight"
        begin, end = begun, healed
    return None


def touches(history, fields, job):
    if not fields["kind"].startswith(SERVER_KINDS):
        return False
    return fields["group"] == history.names[job.name]["group"] or (fields["group"] == "host")
