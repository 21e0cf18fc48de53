#!/usr/bin/env python3
"""The checker of a chaos run: reads its log, and nothing else.

    checker.py LOG           the verdict on a log that was kept
    checker.py LOG windows   and each window of it
    checker.py --self-test   feeds itself logs with one violation each

Every line begins with a CLOCK_BOOTTIME in ns. A job is known to live from its `start` to its last
line, so what is reported as an overlap was one; a killed job may have lived up to a tick longer.

Asserted, for all names: no two jobs at once that exclude each other, and never more than N with
slots; fences rise; no lock outlives its holder by more than the TTL; every exit status is the job's
own, or redislock's with its reason; nothing runs on when its redislock has ended; no key without
expiry; nobody hangs, and everybody gets on when the faults are over.

What the contract does not promise is a window: it is counted, not excused in silence. These are:

data loss     a server that forgot its keys, or whose clock stepped forward, while somebody takes
              the lock at once: until the older holder's lease is over
failover      a replica was promoted, or both servers of the pair believed to be the master
clock back    keys live longer and, when the stored fence is lost too, fences fall
frozen whole  a job stopped together with redislock and guard: until it is stopped after the thaw
no guard yet  redislock killed or stopped in a job's first half second: what it started is free
keeper gone   the keeper of --attach was killed or stopped: the script runs on
in flight     a request of a process that has ended came to the server after a stop or a cut
stalled       the machine itself did not run the driver for a time, the reserve for killing is short

An overlap is counted for each pair of jobs, so one job that runs on may count many times.
"""

import bisect
import collections
import os
import sys

from history import History, S, Windows, in_flight, touches

STARTLED_NS = int(0.5 * S)  # what a process may still do after its end was ordered
UNREACHABLE_NS = 25 * S  # how long after a fault a status 69 may be its consequence


class Report:
    """What came out."""

    def __init__(self):
        self.violations, self.windows, self.counts = (
            [],
            collections.Counter(),
            collections.Counter(),
        )
        self.explained = []

    def violation(self, what, text):
        self.violations.append(f"{what}: {text}")

    def judge(self, why, what, text):
        """A window where there is a reason, else a violation."""
        if why:
            self.windows[f"{what}, {why}"] += 1
            self.explained.append(f"{what}, {why}: {text}")
        else:
            self.violation(what, text)

    def text(self):
        lines = ["counts: " + ", ".join(f"{what} {count}" for what, count in self.counts.items())]
        lines.append(
            "windows: "
            + ("; ".join(f"{what}: {n}" for what, n in sorted(self.windows.items())) or "none")
        )
        lines += [f"VIOLATION {text}" for text in self.violations[:40]]
        lines.append(f"violations: {len(self.violations)}")
        return "\n".join(lines)


def check_overlaps(history, windows, report):
    by_name = collections.defaultdict(list)
    for job in history.jobs.values():
        if job.start is not None:
            by_name[job.name].append(job)
    for name, jobs in by_name.items():
        slots, active = int(history.names[name]["slots"]), []
        for job in sorted(jobs, key=lambda j: j.start):
            active = [other for other in active if other.last > job.start]
            for other in active:
                if excludes(other, job):
                    why = windows.overlap(name, job.start, [(other, job.start), (job, other.last)])
                    report.judge(
                        why,
                        "overlap",
                        f"{name}: job {other.id} lived until {other.last}, job {job.id} "
                        f"began at {job.start}, {(other.last - job.start) / S:.3f} s before",
                    )
            active.append(job)
            if slots and len(active) > slots:
                why = windows.overlap(name, job.start, [(j, job.start) for j in active])
                report.judge(
                    why,
                    "overlap",
                    f"{name}: {len(active)} jobs in {slots} slots at {job.start}: "
                    f"{[j.id for j in active]}",
                )


def excludes(one, other):
    if one.mode() == other.mode() == "s":
        return False
    return not one.mode() == other.mode() == "slots" or one.slot == other.slot


def check_fences(history, windows, report):
    """A job's fence is larger than those of all that had begun before its redislock did."""
    by_name = collections.defaultdict(list)
    for job in history.jobs.values():
        if job.start is not None:
            by_name[job.name].append(job)
    for name, jobs in by_name.items():
        jobs.sort(key=lambda j: j.start)
        begun = [job.start for job in jobs]
        highest, tops = 0, []
        for job in jobs:
            highest = max(highest, job.fence)
            tops.append(highest)
        for job in jobs:
            before = bisect.bisect_left(begun, job.spawned)
            if before and job.fence <= tops[before - 1]:
                why = windows.group_at(name, job.start, ("failover", "clock back"))
                report.judge(
                    why,
                    "falling fence",
                    f"{name}: job {job.id} has {job.fence}, but {tops[before - 1]} "
                    f"was out before its redislock began",
                )
        # those that share a lock may have taken it at the same time
        seen = collections.Counter(job.fence for job in jobs if job.mode() != "s")
        for fence in [fence for fence, times in seen.items() if times > 1]:
            twins = [job for job in jobs if job.fence == fence and job.mode() != "s"]
            why = windows.group_at(name, twins[-1].start, ("failover", "clock back"))
            report.judge(
                why,
                "falling fence",
                f"{name}: {fence} was given to jobs {[job.id for job in twins]}",
            )


def check_outliving(history, windows, report):
    holders = collections.defaultdict(list)
    for job in sorted(history.jobs.values(), key=lambda j: j.spawned):
        holders[(job.name, job.pid)].append(job)
    told = set()
    for time, word, fields in history.samples:
        name, pttl = fields["name"], int(fields["pttl"])
        back = windows.group_at(name, time, ("clock back",))
        if pttl < 0:
            report.violation("leaked key", f"lock:{name} on {fields['server']} never expires")
        elif pttl * 1_000_000 > history.ttl + S:
            report.judge(back, "outliving", f"lock:{name} on {fields['server']} has {pttl} ms left")
        if word == "left" and fields["kind"] != "granted":
            why = windows.group_at(name, time, ("clock back",))
            report.judge(
                why, "leaked key", f"lock:{name} on {fields['server']} is still held at the end"
            )
        job = next((j for j in reversed(holders[(name, fields["pid"])]) if j.spawned < time), None)
        if (
            job is None
            or job.exited is None
            or fields["kind"] == "granted"
            or (job.id, fields["server"]) in told
        ):
            continue
        if time > job.exited + history.ttl + STARTLED_NS:
            told.add((job.id, fields["server"]))
            why = back or in_flight(history, job, time)
            report.judge(
                why,
                "outliving",
                f"lock:{name} on {fields['server']} is still job {job.id}'s, "
                f"{(time - job.exited) / S:.3f} s after its end",
            )


def check_statuses(history, report):
    for job in history.jobs.values():
        if job.exit is None:
            continue
        wrong = wrong_status(history, job)
        if wrong:
            report.violation(
                "wrong status",
                f"job {job.id} ({job.name}, {' '.join(job.words)}): {wrong}; "
                f"events {','.join(job.events)}",
            )


def kinds_of(job):
    return {fields["kind"] for _, _, fields in job.faults}


def wrong_status(history, job):
    """What is wrong with how it ended; None: nothing."""
    killed = {"kill-holder", "kill-waiter", "kill-script"} & kinds_of(job)
    if "signal" in job.exit:
        number = int(job.exit["signal"])
        if (number == 9 and killed) or (job.attach and job.ended == 128 + number):
            return None
        if (
            job.attach
            and number == 15
            and any(event.startswith("stopping:") for event in job.events)
        ):
            return None  # the keeper's TERM, while the shell was still on its way to the job
        return f"ended by signal {number}, which nobody sent"
    status = int(job.exit["status"])
    if not job.attach:
        closing = [event for event in job.events if event.startswith("ended:")]
        if closing != [f"ended:{status}"]:
            return f"exit status {status}, but the events say {closing}"
        if job.start is not None and any(event.startswith("stopping:") for event in job.events):
            return None if status == 79 else f"stopped for a loss, but exit status {status}"
    if job.start is not None:
        if job.ended is None and not killed:
            return f"exit status {status}, but the job was killed"
        return None if status == job.ended else f"exit status {status}, the job's was {job.ended}"
    return wrong_refusal(history, job, status)


def wrong_refusal(history, job, status):
    """A contender whose command has not begun."""
    events = {event.split(":")[0] for event in job.events}
    if status == 75:
        if "inf" in job.words:
            return "held, but it was to wait for ever"
        return None if "held" in events else "75 without a holder"
    if status == 69:
        near = [
            f
            for begun, healed, f in history.faults.values()
            if touches(history, f, job)
            and begun < job.exited
            and (healed or sys.maxsize) > job.exited - UNREACHABLE_NS
        ]
        return None if near and "unavailable" in events else "69 without a fault"
    if status == 143 and "term-waiter" in kinds_of(job):
        return None
    if (
        status == 79
        and "stopping:lost" in events | set(job.events)
        or "stopping:expired" in job.events
    ):
        return None  # stopped before the command could write its first line
    if "started" in events and {"term-holder", "term-waiter"} & kinds_of(job):
        return None  # TERM came before the job could see it
    return f"exit status {status} without a job"


def check_orphans(history, windows, report):
    for job in history.jobs.values():
        if job.last is None or job.exited is None or job.last <= job.exited + STARTLED_NS:
            continue
        why = windows.job_at(job, job.exited) or windows.stalled(job.exited)
        report.judge(
            why,
            "orphan",
            f"{job.name}: job {job.id} lived {(job.last - job.exited) / S:.3f} s longer than "
            "its redislock",
        )


def check_ends(history, report):
    for word, fields in history.ends:
        what = {"hang": "hang", "orphan": "orphan", "immortal": "leaked key"}[word]
        report.violation(
            what, " ".join(f"{key}={value}" for key, value in fields.items()) + " at the end"
        )
    for line in history.unreadable:
        report.violation("log", f"a line that makes no sense: {line}")
    if "over" not in history.marks:
        report.violation("log", "the run has not come to its end")
    calm, drain = history.marks.get("calm"), history.marks.get("drain")
    if calm is None or drain is None:
        return
    busy = {
        job.name
        for job in history.jobs.values()
        if job.start and job.start < drain and job.last > calm
    }
    for name in set(history.names) - busy:
        report.violation(
            "hang", f"{name}: nobody had it in the {(drain - calm) / S:.0f} s without faults"
        )


def check(path):
    """The verdict on a log, a Report."""
    history, report = History(path), Report()
    windows = Windows(history)
    jobs = history.jobs.values()
    report.counts.update(
        contenders=len(jobs),
        acquisitions=sum(job.start is not None for job in jobs),
        faults=len(history.faults),
        samples=len(history.samples),
    )
    report.counts["status 75"] = sum(
        job.exit is not None and job.exit.get("status") == "75" for job in jobs
    )
    report.counts["status 69"] = sum(
        job.exit is not None and job.exit.get("status") == "69" for job in jobs
    )
    report.counts["stopped for a loss"] = sum(
        any(e.startswith("stopping:") for e in job.events) for job in jobs
    )
    check_overlaps(history, windows, report)
    check_fences(history, windows, report)
    check_outliving(history, windows, report)
    check_statuses(history, report)
    check_orphans(history, windows, report)
    check_ends(history, report)
    return report


def main():
    if sys.argv[1:] == ["--self-test"]:
        import self_test

        return self_test.main()
    if (
        len(sys.argv) < 2
        or sys.argv[2:] not in ([], ["windows"])
        or not os.path.exists(sys.argv[1])
    ):
        print(__doc__, file=sys.stderr)
        return 2
    report = check(sys.argv[1])
    for line in report.explained if sys.argv[2:] else []:
        print(line)
    print(report.text())
    return int(bool(report.violations))


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    sys.exit(main())
