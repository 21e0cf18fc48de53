"""The checker's self-test: a good log passes; each violation is found, and is that one; and each
window excuses what it is for, no more. TAP on stdout."""

import os
import tempfile

import checker

MS = 1_000_000


class Story:
    """A log, by calls in any order; times in ms."""

    def __init__(self):
        self.lines = []
        self.add(0, "run seed=1 seconds=60 ttl_ms=3000")
        for name, group, mode, slots in (
            ("one-a", "one", "x", 0),
            ("loose-a", "loose", "x", 0),
            ("pair-a", "pair", "x", 0),
            ("one-shared", "one", "rw", 0),
            ("one-slots", "one", "slots", 2),
        ):
            self.add(0, f"name name={name} group={group} mode={mode} slots={slots}")
            self.job(900 + len(self.lines), 40000, 42500, name=name, fence=90000 + len(self.lines))
        self.add(41000, "calm")
        self.add(42000, "drain")
        self.add(50000, "over")

    def add(self, time, text):
        self.lines.append((time * MS, text))

    def spawn(self, number, at, name="one-a", words="-w_inf", how="run"):
        self.add(
            at,
            f"spawn id={number} pid={number + 1000} name={name} host=h1 at={at * MS} how={how} "
            f"words={words}",
        )

    def exit(self, number, at, status="status=0", events="acquired,started,exited:0,ended:0"):
        self.add(at, f"exit id={number} pid={number + 1000} {status} events={events}")

    def job(
        self,
        number,
        begin,
        end,
        name="one-a",
        fence=None,
        slot=0,
        words="-w_inf",
        how="run",
        status=0,
        spawned=None,
    ):
        """One that goes well: its redislock begins 50 ms before, and ends 5 ms after."""
        self.spawn(number, begin - 50 if spawned is None else spawned, name, words, how)
        self.start(number, begin, name, fence, slot)
        for time in range(begin + 20, end, 200):
            self.add(time, f"tick id={number} part=0")
        self.add(end, f"end status={status} id={number} part=0")
        self.exit(
            number, end + 5, f"status={status}", f"acquired,started,exited:{status},ended:{status}"
        )

    def start(self, number, begin, name="one-a", fence=None, slot=0):
        self.add(
            begin,
            f"start pid={number + 2000} host=h1 name={name} fence={fence or begin} slot={slot} "
            f"id={number} part=0",
        )

    def fault(self, number, at, until, kind, group="one", target="one-a", more=""):
        self.add(at, f"fault n={number} kind={kind} group={group} target={target} {more}")
        self.add(until, f"healed n={number}")

    def verdict(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "log")
            with open(path, "w", encoding="ascii") as file:
                file.writelines(
                    f"{time} {text}\n"
                    for time, text in sorted(self.lines, key=lambda line: line[0])
                )
            return checker.check(path)


def cases():
    """(what it is, the log, the violations expected, the windows expected)"""
    for group in (good, overlaps, fences, leases, statuses, ends, losses, freezes, delays):
        yield from group()


def good():
    story = Story()
    story.job(1, 1000, 1500)
    story.job(2, 1600, 1900, status=75)
    story.job(3, 1000, 1500, "one-shared", words="-s")
    story.job(4, 1200, 1900, "one-shared", words="-s")
    story.job(5, 1000, 1500, "one-slots", slot=1, words="-S_2")
    story.job(6, 1001, 1900, "one-slots", slot=2, words="-S_2")
    story.add(1100, "sample server=one name=one-a kind=held fence=1000 pid=1001 pttl=2900")
    yield "a good log", story, [], []


def overlaps():
    story = Story()
    story.job(1, 1000, 1500)
    story.job(2, 1300, 1900, spawned=990)
    yield "two exclusive jobs at once", story, ["overlap"], []
    story = Story()
    story.job(1, 1000, 1500, "one-shared", words="-s")
    story.job(2, 1300, 1900, "one-shared", words="-x", spawned=990)
    yield "an exclusive job beside a shared one", story, ["overlap"], []
    story = Story()
    story.job(1, 1000, 1500, "one-slots", slot=1, words="-S_2")
    story.job(2, 1300, 1900, "one-slots", slot=1, words="-S_2", spawned=990)
    yield "one slot for two", story, ["overlap"], []
    story = Story()
    for number, slot in ((1, 1), (2, 2), (3, 3)):
        story.job(number, 1000 + number, 1500, "one-slots", slot=slot, words="-S_2")
    yield "three in two slots", story, ["overlap"], []


def fences():
    story = Story()
    story.job(1, 1000, 1500, fence=7000)
    story.job(2, 1600, 1900, fence=6999)
    yield "a falling fence", story, ["falling fence"], []
    story = Story()
    story.job(1, 1000, 1500, fence=7000)
    story.job(2, 1600, 1900, fence=7000, spawned=900)
    yield "a fence given twice", story, ["falling fence"], []


def leases():
    story = Story()
    story.job(1, 1000, 1500)
    story.add(5100, "sample server=one name=one-a kind=held fence=1000 pid=1001 pttl=100")
    yield "a lock that outlives its holder", story, ["outliving"], []
    story = Story()
    story.add(5100, "sample server=one name=one-a kind=held fence=1000 pid=1 pttl=9000")
    yield "a lease longer than the TTL", story, ["outliving"], []
    story = Story()
    story.add(5100, "sample server=one name=one-a kind=held fence=1000 pid=1 pttl=-1")
    yield "a lock without expiry", story, ["leaked key"], []
    story = Story()
    story.add(49000, "left server=one name=one-a kind=held fence=1000 pid=1 pttl=100")
    yield "a lock that is there at the end", story, ["leaked key"], []
    story = Story()
    story.add(49000, "immortal server=one key=lock:{lock:one-a}:state")
    yield "a key without expiry", story, ["leaked key"], []


def statuses():
    story = Story()
    story.job(1, 1000, 1500, status=3)
    story.lines = [
        (t, text.replace("exit id=1 pid=1001 status=3", "exit id=1 pid=1001 status=0"))
        for t, text in story.lines
    ]
    yield "a status that is not the job's", story, ["wrong status"], []
    for what, status, events, words in (
        ("held, for one that waits for ever", "status=75", "held,ended:75", "-w_inf"),
        ("75 without a holder", "status=75", "ended:75", "-n"),
        ("69 without a fault", "status=69", "unavailable,ended:69", "-n"),
        ("a bug", "status=70", "ended:70", "-n"),
        ("a crash", "signal=11", "", "-n"),
    ):
        story = Story()
        story.spawn(1, 1000, words=words)
        story.exit(1, 1100, status, events)
        yield what, story, ["wrong status"], []
    story = Story()
    story.spawn(1, 950)
    story.start(1, 1000)
    story.exit(1, 1100, "status=79", "acquired,started,exited:9,ended:79")
    yield "a job killed without a reason", story, ["wrong status"], []


def ends():
    story = Story()
    story.job(1, 1000, 1500)
    story.add(2100, "tick id=1 part=1")
    yield "a process that outlives its redislock", story, ["orphan"], []
    story = Story()
    story.add(49500, "orphan pid=77 id=1")
    yield "a process that is there at the end", story, ["orphan"], []
    story = Story()
    story.add(49500, "hang id=1 name=one-a holds=0")
    yield "a contender that hangs", story, ["hang"], []
    story = Story()
    story.lines = [
        line for line in story.lines if "start" not in line[1] or "name=one-a " not in line[1]
    ]
    yield "a name that nobody gets any more", story, ["hang", "wrong status"], []
    story = Story()
    story.lines = [line for line in story.lines if line[1] != "over"]
    yield "a run that broke off", story, ["log"], []


def losses():
    for late, violations, excused in ((1900, [], ["overlap, data loss"]), (7500, ["overlap"], [])):
        story = Story()
        story.add(1500, "loss group=loose cause=restart")
        story.fault(1, 1500, 1600, "server-empty", "loose", "loose")
        story.job(1, 1000, 8000, "loose-a")
        story.job(2, late, late + 100, "loose-a", spawned=990)
        yield f"data loss, {late - 1500} ms before", story, violations, excused
    story = Story()
    story.add(1500, "loss group=loose cause=restart")
    story.job(1, 1000, 2000)
    story.job(2, 1900, 1950, spawned=990)
    yield "data loss of another server", story, ["overlap"], []

    for late, violations, excused in ((3000, [], ["overlap, failover"]), (9500, ["overlap"], [])):
        story = Story()
        for time, state in ((100, "m1:1,m2:0"), (2500, "m1:1,m2:1"), (4000, "m1:0,m2:1")):
            story.add(time, f"role state={state}")
        story.job(1, 1000, 9900, "pair-a")
        story.job(2, late, late + 100, "pair-a", spawned=990)
        yield f"failover, overlap at {late} ms", story, violations, excused


def freezes():
    for tail, violations, excused in (
        (6300, [], ["overlap, frozen whole"]),
        (8000, ["overlap"], []),
    ):
        story = Story()
        story.fault(1, 1500, 6000, "freeze-job", more="id=1")
        story.job(1, 1000, tail)
        story.job(2, 5000, 5100, spawned=990)
        yield f"frozen whole, alive {tail - 6000} ms after the thaw", story, violations, excused

    for begun, violations, excused in (
        (1300, [], ["orphan, no guard yet", "overlap, no guard yet"]),
        (2500, ["orphan", "overlap"], []),
    ):
        story = Story()
        story.spawn(1, 950)
        story.start(1, 1000)
        story.fault(1, begun, begun + 1, "kill-holder", more="id=1")
        story.exit(1, begun + 5, "signal=9", "acquired,started")
        story.add(9000, "tick id=1 part=1")
        story.job(2, 6000, 6100)
        yield f"killed {begun - 1000} ms after the start", story, violations, excused

    for kind, violations, excused in (
        ("kill-keeper", [], ["overlap, keeper gone"]),
        ("kill-waiter", ["overlap"], []),
    ):
        story = Story()
        story.fault(1, 2500, 2501, kind, more="id=1")
        story.job(1, 1000, 9000, how="attach")
        story.job(2, 6000, 6100, spawned=990)
        yield f"a script after {kind}", story, violations, excused


def delays():
    for until, violations, excused in (
        (4000, [], ["outliving, in flight"]),
        (1200, ["outliving"], []),
    ):
        story = Story()
        story.job(1, 1000, 1500)
        story.fault(1, 1100, until, "partition", target="h1:one")
        story.add(6900, "sample server=one name=one-a kind=held fence=1000 pid=1001 pttl=100")
        yield f"a request held up until {until} ms", story, violations, excused

    story = Story()
    story.add(1500, "back group=loose ms=2000")
    story.job(1, 1000, 1600, "loose-a", fence=7000)
    story.job(2, 1700, 1900, "loose-a", fence=6500)
    yield "fences after a clock was set back", story, [], ["falling fence, clock back"]

    story = Story()
    story.spawn(1, 1000, words="-n")
    story.exit(1, 9000, "status=69", "unavailable,ended:69")
    story.fault(1, 500, 8000, "server-stop", target="one")
    yield "69 while the server was stopped", story, [], []


def main():
    number = failed = 0
    for what, story, violations, excused in cases():
        number += 1
        report = story.verdict()
        found = sorted({text.partition(":")[0] for text in report.violations})
        good = found == violations and sorted(report.windows) == excused
        failed += not good
        print(f"{'ok' if good else 'not ok'} {number} - {what}")
        if not good:
            print(
                f"# expected {violations} and {excused}\n# " + report.text().replace("\n", "\n# ")
            )
    print(f"1..{number}")
    return int(failed > 0)
