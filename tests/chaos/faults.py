"""The faults of a chaos run: begins what the schedule says is due, and heals it in time."""

import os
import signal
import sys

from schedule import KINDS, PROCESS_KINDS, RECOVERY
from world import now_ns


class Faults:
    """Carries a schedule out. Each kind has a method of its name; false: it found no target."""

    def __init__(self, world, crowd, log, plan):
        self.world, self.crowd, self.log = world, crowd, log
        self._plan, self._heals, self._retries = list(plan), [], []
        self._rests = {}
        self.counts, self.missed = {kind: 0 for kind in KINDS}, 0

    def finish(self):
        """No more are begun; whether all that were are healed."""
        self.missed += len(self._plan) + len(self._retries)
        self._plan, self._retries = [], []
        return not self._heals

    def turn(self, seconds):
        """`seconds`: of the run so far."""
        now = now_ns()
        for heal in [h for h in self._heals if h[0] <= now]:
            if heal[2]():
                self._heals.remove(heal)
                self.log.say("healed", n=heal[1].number)
                self._rests[heal[1].busy()] = now + int(RECOVERY[heal[1].group] * 1e9)
        while self._plan and self._plan[0].at <= seconds:
            self._retries.append((now + int(2e9), self._plan.pop(0)))
        for retry in list(self._retries):  # somebody to be killed may come in a moment
            until, fault = retry
            if fault.kind not in PROCESS_KINDS and now < self._rest_until(fault):
                continue
            if self._begin(fault):
                self.counts[fault.kind] += 1
            elif now < until:
                continue
            else:
                self.missed += 1
            self._retries.remove(retry)
        self.world.network.apply()

    def _rest_until(self, fault):
        """The plan's pauses between faults of a group hold also when the machine is slow."""
        if any(fault.busy() == other.busy() for _, other, _ in self._heals):
            return sys.maxsize
        return self._rests.get(fault.busy(), 0)

    def _begin(self, fault):
        return getattr(self, "_" + fault.kind.replace("-", "_"))(fault)

    def _tell(self, fault, **more):
        self.log.say(
            "fault", n=fault.number, kind=fault.kind, group=fault.group, target=fault.target, **more
        )

    def _heal_after(self, fault, action, seconds=None):
        at = now_ns() + int((fault.seconds if seconds is None else seconds) * 1e9)
        # an action that says False is asked again
        self._heals.append((at, fault, lambda: action() is not False))

    # --- Processes --------------------------------------------------------------------------------

    def _signal(self, fault, wanted, number):
        contender = self.crowd.find(fault.target, wanted)
        if contender is None:
            return None
        self._tell(fault, id=contender.id)
        os.kill(contender.pid, number)  # not reaped yet: the number is still its own
        return contender

    def _kill_holder(self, fault):
        return self._signal(fault, "holder", signal.SIGKILL)

    def _kill_waiter(self, fault):
        return self._signal(fault, "waiter", signal.SIGKILL)

    def _kill_script(self, fault):
        return self._signal(fault, "script", signal.SIGKILL)

    def _term_holder(self, fault):
        return self._signal(fault, "holder", signal.SIGTERM)

    def _term_waiter(self, fault):
        return self._signal(fault, "waiter", signal.SIGTERM)

    def _stop(self, fault, wanted):
        contender = self._signal(fault, wanted, signal.SIGSTOP)
        if contender is not None:
            self._heal_after(
                fault, lambda: contender.pid and os.kill(contender.pid, signal.SIGCONT)
            )
        return contender

    def _stop_holder(self, fault):
        return self._stop(fault, "holder")

    def _stop_waiter(self, fault):
        return self._stop(fault, "waiter")

    def _each(self, fault, contender, pids, number):
        """Signals processes of a run, and CONT after a stop, by pidfds: they may end meanwhile."""
        handles = []
        for pid in pids:
            try:
                handles.append(os.pidfd_open(pid))
            except ProcessLookupError:
                pass
        if not handles:
            return False
        self._tell(fault, id=contender.id)
        _send(handles, number)
        if number == signal.SIGSTOP:

            def thaw():
                _send(handles, signal.SIGCONT)
                _close(handles)

            self._heal_after(fault, thaw)
        else:
            _close(handles)
        return True

    def _kill_keeper(self, fault, number=signal.SIGKILL):
        contender = self.crowd.find(fault.target, "script")
        keeper = self.crowd.keeper(contender) if contender else 0
        return keeper != 0 and self._each(fault, contender, [keeper], number)

    def _stop_keeper(self, fault):
        return self._kill_keeper(fault, signal.SIGSTOP)

    def _freeze_job(self, fault):
        """The whole of a run at once, guard included, as when its machine is paused."""
        contender = self.crowd.find(fault.target, "holder")
        return contender is not None and self._each(
            fault, contender, [pid for pid, _ in self.crowd.processes(contender)], signal.SIGSTOP
        )

    # --- Servers ----------------------------------------------------------------------------------

    def _restart(self, fault, server, empty):
        if not server.up:
            return False
        server.kill(signal.SIGKILL)
        self._tell(fault)
        if empty:
            self.log.say("loss", group=fault.group, cause="restart")

        def again():
            if server.pid != 0:
                return False  # not reaped yet
            if empty:
                server.forget()
            server.start()
            self._heal_after(fault, server.answers, 0.1)
            return True

        self._heal_after(fault, again)
        return True

    def _server_restart(self, fault):
        return self._restart(fault, self.world.servers[fault.target], False)

    def _server_empty(self, fault):
        return self._restart(fault, self.world.servers[fault.target], True)

    def _replica_kill(self, fault):
        replica = self._of_pair(False)
        return replica is not None and self._restart(fault, replica, False)

    def _server_stop(self, fault):
        server = self.world.servers[fault.target]
        if not server.up:
            return False
        server.kill(signal.SIGSTOP)
        self._tell(fault)
        self._heal_after(fault, lambda: server.up and server.kill(signal.SIGCONT))
        return True

    def _clock(self, fault, seconds):
        server = self.world.servers[fault.target]
        server.offset = getattr(server, "offset", 0) + seconds
        self._tell(fault, seconds=seconds)
        if seconds > 0:
            self.log.say("loss", group=fault.group, cause="clock")
        server.set_clock(server.offset)
        if seconds < 0:
            self.log.say("back", group=fault.group, ms=-1000 * seconds)
        self._heal_after(fault, lambda: None, 0)
        return True

    def _clock_forward(self, fault):
        return self._clock(fault, 3600 if fault.amount > 80 else 1 + fault.amount % 20)

    def _clock_back(self, fault):
        return self._clock(fault, -1 - fault.amount % 3)

    def _memory_full(self, fault):
        ask = self.world.servers[fault.target].ask

        def limit(size):
            try:
                ask("CONFIG", "SET", "maxmemory", size)
            except (OSError, RuntimeError):
                return False
            return True

        if not limit("1"):
            return False
        self._tell(fault)
        self._heal_after(fault, lambda: limit("0"))
        return True

    def _connections_cut(self, fault):
        """Every client's connection closes, and the scripts are forgotten."""
        try:
            self.world.servers[fault.target].ask("SCRIPT", "FLUSH")
            for kind in ("normal", "pubsub"):
                self.world.servers[fault.target].ask("CLIENT", "KILL", "TYPE", kind)
        except (OSError, RuntimeError):
            return False
        self._tell(fault)
        self._heal_after(fault, lambda: None, 0)
        return True

    # --- The network ------------------------------------------------------------------------------

    def _cut(self, fault, pairs):
        self.world.network.cut(fault.number, pairs)
        self._tell(fault)
        self._heal_after(fault, lambda: self.world.network.heal(fault.number))
        return True

    def _partition(self, fault):
        host, server = fault.target.split(":")
        return self._cut(fault, [(host, server), (server, host)])

    def _partition_in(self, fault):
        host, server = fault.target.split(":")
        return self._cut(fault, [(host, server)])

    def _partition_out(self, fault):
        host, server = fault.target.split(":")
        return self._cut(fault, [(server, host)])

    def _host_cut(self, fault):
        """A host cut off from every server: what it holds is lost, and others take it."""
        servers = [name for name in self.world.network.nodes if name not in self.world.hosts]
        to, back = [(fault.target, name) for name in servers], [
            (name, fault.target) for name in servers
        ]
        return self._cut(fault, [to, back, to + back][fault.amount % 3])

    def _loss(self, fault):
        self.world.network.lose(fault.number, fault.target, 5 + fault.amount // 4)
        self._tell(fault)
        self._heal_after(fault, lambda: self.world.network.heal(fault.number))
        return True

    def _delay(self, fault):
        self.world.network.slow(fault.target, 10 + fault.amount, 2000 - 15 * fault.amount)
        self._tell(fault)
        self._heal_after(fault, lambda: self.world.network.fast(fault.target))
        return True

    # --- Failovers --------------------------------------------------------------------------------

    def _of_pair(self, master):
        said = self.world.masters()
        fits = [name for name, is_master in said.items() if is_master is master]
        return self.world.servers[fits[0]] if len(fits) == 1 and None not in said.values() else None

    def _master_kill(self, fault):
        """Killed, and started again only when the other one was promoted."""
        master = self._of_pair(True)
        if master is None or not master.up:
            return False
        other = next(name for name in self.world.GROUPS["pair"] if name != master.name)
        master.kill(signal.SIGKILL)
        self._tell(fault)

        def again():
            if master.pid != 0 or not self.world.masters()[other]:
                return False
            master.start()
            return True

        self._heal_after(fault, again)
        return True

    def _master_cut(self, fault):
        """Cut off from replica and sentinels, not from the hosts: there may be two masters."""
        master = self._of_pair(True)
        if master is None:
            return False
        others = [name for name in ("m1", "m2", "v1", "v2", "v3") if name != master.name]
        one_way = fault.amount > 66
        pairs = [(master.name, name) for name in others]
        return self._cut(
            fault, pairs if one_way else pairs + [(name, master.name) for name in others]
        )

    def _failover(self, fault):
        try:
            self.world.sentinels["v1"].ask("SENTINEL", "FAILOVER", "mymaster")
        except (OSError, RuntimeError):
            return False
        self._tell(fault)
        self._heal_after(fault, lambda: None, 0)
        return True


def _send(handles, number):
    for handle in handles:
        try:
            signal.pidfd_send_signal(handle, number)
        except ProcessLookupError:
            pass


def _close(handles):
    for handle in handles:
        os.close(handle)
