"""The contenders of a chaos run: workers on hosts that fire redislock over and over.

Each worker has a name to lock and a way to do it. Who is alive, who holds, and as which process, is
known here, so that the faults can find their targets.
"""

import json
import os
import signal

from world import now_ns, start

# How the names of each group are used: suffix, mode, N of slots, the job's length in ms, and its
# workers as (how many, redislock's words). "attach" makes a script that locks itself.
USES = [
    ("a", "x", 0, (60, 400), [(9, "-w inf"), (2, "-n"), (1, "-w 2s")]),
    ("b", "x", 0, (60, 400), [(9, "-w inf"), (2, "-n"), (1, "-w inf --min-hold 500ms")]),
    ("script", "x", 0, (100, 500), [(8, "attach -w inf"), (2, "attach -n")]),
    ("shared", "rw", 0, (100, 500), [(9, "-s -w inf"), (3, "-x -w inf")]),
    ("slots", "slots", 3, (200, 900), [(10, "-S 3 -w inf"), (2, "-S 3 -n")]),
    ("long", "x", 0, (1500, 9000), [(4, "-w inf")]),
    ("longer", "x", 0, (5000, 9000), [(4, "-w inf")]),
]
# A quorum has no line: its waiters try again and again, which costs more, and it has no slots.
QUORUM_USES = [
    ("a", "x", 0, (60, 400), [(5, "-w inf"), (2, "-n")]),
    ("b", "x", 0, (60, 400), [(5, "-w inf"), (1, "-w 2s")]),
    ("script", "x", 0, (100, 500), [(4, "attach -w inf")]),
    ("shared", "rw", 0, (100, 500), [(4, "-s -w inf"), (2, "-x -w inf")]),
    ("long", "x", 0, (4000, 9000), [(3, "-w inf")]),
]
# What a script does first: as the manual page has it.
SCRIPT = (
    'REDISLOCK_FENCE=$("$0" --attach --print fence "$@") || exit; export REDISLOCK_FENCE; '
    'exec "$CHAOS_JOB" $CHAOS_WORK'
)
STATUSES = [0, 0, 0, 1, 2, 75, 79, 124, 137, 255, 1000 + signal.SIGKILL, 1000 + signal.SIGSEGV]
EVENTS_FD = 9
AT_ONCE = 8  # how many are fired in one turn: the faults are not to wait


class Worker:
    """Fires one kind of contender on one host, pauses, and does it again."""

    def __init__(self, group, name, host, words, lengths):
        self.group, self.name, self.host, self.lengths = group, name, host, lengths
        self.attach = words.startswith("attach ")
        self.words = words.removeprefix("attach ").split()
        self.due_ns = 0


class Contender:
    """One run: a redislock, or a script that calls it. `pid` is 0 once it was reaped."""

    def __init__(self, number, worker, pid, events):
        self.id, self.worker, self.pid, self.events = number, worker, pid, events
        self.state = "waiter"  # then "holder", while its job lives, then "done"

    def told(self):
        """The names of the events, with reason and status where they have one."""
        text = os.pread(self.events, 1 << 20, 0).decode(errors="replace")
        words = []
        for line in text.splitlines():
            event = json.loads(line)
            words.append(
                ":".join(str(event[key]) for key in ("event", "reason", "status") if key in event)
            )
        return words


class Crowd:
    """All workers and their contenders."""

    def __init__(self, world, log, rng, program, job, ttl):
        self.world, self.log, self.rng, self.program = world, log, rng, program
        self.alive, self.by_id, self.last_id, self.ttl = {}, {}, 0, ttl
        self.messages = os.open(
            os.path.join(world.folder, "messages"), os.O_WRONLY | os.O_APPEND | os.O_CREAT
        )
        self.drain = os.path.join(world.folder, "drain")
        self.environment = {
            "PATH": os.environ["PATH"],
            "CHAOS_LOG": log.path,
            "CHAOS_DRAIN": self.drain,
            "CHAOS_JOB": job,
            "REDISLOCK_CONFIG": "/dev/null",
            "REDISLOCK_QUIET": "1",
            "REDISLOCK_TTL": f"{ttl}ms",
            "REDISLOCK_STATUS_FD": str(EVENTS_FD),
        }
        for name in os.environ:
            if name.startswith(("ASAN_", "UBSAN_", "TSAN_")):
                self.environment[name] = os.environ[name]
        self._tail, self._rest = open(log.path, "rb"), b""
        self.workers, self.names = [], {}
        for group in world.GROUPS:
            self._hire(group)

    def _hire(self, group):
        for suffix, mode, slots, lengths, crews in QUORUM_USES if group == "three" else USES:
            name = f"{group}-{suffix}"
            self.names[name] = mode
            self.log.say("name", name=name, group=group, mode=mode, slots=slots)
            for words in [words for number, words in crews for _ in range(number)]:
                host = self.world.hosts[len(self.workers) % len(self.world.hosts)]
                self.workers.append(Worker(group, name, host, words, lengths))

    def turn(self, hiring):
        """Reads who holds by now, and fires the contenders that are due."""
        self._read_log()
        now = now_ns()
        due = [w for w in self.workers if hiring and w.due_ns is not None and w.due_ns <= now]
        for worker in sorted(due, key=lambda w: w.due_ns)[:AT_ONCE]:
            self._fire(worker)

    def _fire(self, worker):
        self.last_id += 1
        # a script answers for itself only: what it starts is not redislock's
        family = int(self.rng.random() < 0.5 and not worker.attach)
        work = (self.rng.randint(*worker.lengths), self.rng.choice(STATUSES), family)
        environment = dict(
            self.environment,
            CHAOS_ID=str(self.last_id),
            CHAOS_HOST=worker.host,
            CHAOS_NAME=worker.name,
            REDISLOCK_URL=self.world.url(worker.group),
            CHAOS_WORK=" ".join(map(str, work)),
        )
        argv = [
            self.program,
            *worker.words,
            worker.name,
            "--",
            self.environment["CHAOS_JOB"],
            *map(str, work),
        ]
        if worker.attach:
            argv = ["/bin/sh", "-c", SCRIPT, self.program, *worker.words, worker.name]
        events = os.memfd_create("events")
        # before the process is there: what it does comes later in time
        spawned = now_ns()
        with self.world.network.nodes[worker.host].inside():
            pid = start(argv, environment, self.messages, [(events, EVENTS_FD)])
        contender = Contender(self.last_id, worker, pid, events)
        self.alive[pid] = self.by_id[contender.id] = contender
        worker.due_ns = None
        self.log.say(
            "spawn",
            id=contender.id,
            pid=pid,
            name=worker.name,
            host=worker.host,
            at=spawned,
            how="attach" if worker.attach else "run",
            words="_".join(worker.words),
        )

    def reaped(self, pid, status):
        contender = self.alive.pop(pid, None)
        if contender is None:
            return False
        how = (
            {"signal": os.WTERMSIG(status)}
            if os.WIFSIGNALED(status)
            else {"status": os.WEXITSTATUS(status)}
        )
        self.log.say("exit", id=contender.id, pid=pid, **how, events=",".join(contender.told()))
        os.close(contender.events)
        del self.by_id[contender.id]
        contender.pid = 0
        worker = contender.worker
        pause = self.rng.uniform(0.4, 1.5) if "-n" in worker.words else self.rng.uniform(0.0, 0.3)
        worker.due_ns = now_ns() + int(pause * 1e9)
        return True

    def _read_log(self):
        *lines, self._rest = (self._rest + self._tail.read()).split(b"\n")
        for line in lines:
            if b" start " in line or b" end " in line:
                number = int(line.split(b" id=")[1].split()[0])
                if number in self.by_id:
                    self.by_id[number].state = "holder" if b" start " in line else "done"

    def find(self, name, wanted):
        """One of that name: a "holder" or "waiter" of the run mode, or a "script" with a lock."""
        self._read_log()
        state = "holder" if wanted == "script" else wanted
        fits = [
            c
            for c in self.alive.values()
            if c.worker.name == name
            and (wanted == "script") == c.worker.attach
            and c.state == state
        ]
        return fits[0] if fits else None

    def processes(self, contender):
        """(pid, program) of all processes of a run that can be found, by their environment."""
        mark = f"CHAOS_ID={contender.id}".encode()
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    if mark in file.read().split(b"\0"):
                        found.append((int(pid), os.readlink(f"/proc/{pid}/exe")))
            except OSError:
                pass  # it has ended meanwhile
        return found

    def keeper(self, contender):
        """The keeper process of a script; 0: there is none."""
        for pid, program in self.processes(contender):
            if pid != contender.pid and program == os.path.realpath(self.program):
                return pid
        return 0
