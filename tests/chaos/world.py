"""The world of a chaos run: hosts and servers in network namespaces, joined by a bridge.

Runs as pid 1 of namespaces of its own (see `run`): nothing here has a way out, and nothing outlives
it. The bridge is in the driver's own network namespace, so every cut, loss and delay is made there,
by nftables and tc. Servers are spoken to through Unix sockets, which no network fault touches.
"""

import contextlib
import ctypes
import os
import signal
import socket
import struct
import subprocess
import threading
import time

_libc = ctypes.CDLL(None, use_errno=True)
_NEWNET, _NEWUTS = 0x40000000, 0x04000000
PORT, SENTINEL_PORT = 6379, 26379


class Log:
    """The one file that everybody appends to; a line is one write."""

    def __init__(self, path):
        self.path = path
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def say(self, word, **fields):
        rest = "".join(f" {key}={value}" for key, value in fields.items())
        os.write(self._fd, f"{now_ns()} {word}{rest}\n".encode())


def now_ns():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def tool(*words, text=None, check=True):
    done = subprocess.run(words, input=text, text=True, capture_output=True, check=False)
    if check and done.returncode != 0:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip()}")
    return done.returncode == 0


def start(argv, environment, stdout, keep=()):
    """A process with default signals and only these descriptors: `keep` are pairs (ours, its)."""
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, stdout, 1),
        (os.POSIX_SPAWN_DUP2, stdout, 2),
    ]
    actions += [(os.POSIX_SPAWN_DUP2, ours, its) for ours, its in keep]
    return os.posix_spawn(
        argv[0],
        argv,
        environment,
        file_actions=actions,
        setpgroup=0,
        setsigmask=[],
        setsigdef=[signal.SIGPIPE, signal.SIGINT, signal.SIGTERM, signal.SIGHUP],
    )


class Node:
    """A network namespace with one address, 10.0.0.N, at the bridge's port `v<name>`."""

    def __init__(self, name, number):
        self.name, self.address, self.port = name, f"10.0.0.{number}", f"v{name}"
        self.keeper = subprocess.Popen(
            [
                "unshare",
                "--net",
                "--uts",
                "sh",
                "-c",
                f"hostname {name}; echo; exec sleep infinity >&2",
            ],
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        if self.keeper.stdout.readline() != b"\n":
            raise RuntimeError(f"no network namespace for {name}")
        self._net = os.open(f"/proc/{self.keeper.pid}/ns/net", os.O_RDONLY)
        self._uts = os.open(f"/proc/{self.keeper.pid}/ns/uts", os.O_RDONLY)
        tool(
            "ip",
            "link",
            "add",
            self.port,
            "type",
            "veth",
            "peer",
            "name",
            "eth0",
            "netns",
            str(self.keeper.pid),
        )
        tool("ip", "link", "set", self.port, "master", "chaos", "up")
        with self.inside():
            tool("ip", "link", "set", "lo", "up")
            tool("ip", "address", "add", f"{self.address}/24", "dev", "eth0")
            tool("ip", "link", "set", "eth0", "up")

    @contextlib.contextmanager
    def inside(self):
        """This thread, and what it starts, is on that host meanwhile."""
        _enter(self._net, _NEWNET)
        _enter(self._uts, _NEWUTS)
        try:
            yield
        finally:
            _enter(Network.home_net, _NEWNET)
            _enter(Network.home_uts, _NEWUTS)


def _enter(fd, kind):
    if _libc.setns(fd, kind) != 0:
        raise OSError(ctypes.get_errno(), "setns")


class Network:
    """The bridge, and the trouble on it."""

    home_net = home_uts = -1

    def __init__(self):
        Network.home_net = os.open("/proc/self/ns/net", os.O_RDONLY)
        Network.home_uts = os.open("/proc/self/ns/uts", os.O_RDONLY)
        tool("ip", "link", "add", "chaos", "type", "bridge", "forward_delay", "0")
        tool("ip", "link", "set", "chaos", "up")
        self.nodes = {}
        self._rules, self._changed = {}, True
        self.apply()
        tool("ip", "link", "add", "probe", "type", "veth", "peer", "name", "other")
        self.has_netem = tool(
            "tc", "qdisc", "add", "dev", "probe", "root", "netem", "delay", "1ms", check=False
        )
        tool("ip", "link", "del", "probe")

    def node(self, name):
        if name not in self.nodes:
            self.nodes[name] = Node(name, 10 + len(self.nodes))
        return self.nodes[name]

    def apply(self):
        """Puts into force what cut, lose and heal have asked for, in one step."""
        if not self._changed:
            return
        self._changed = False
        rules = "".join(f"    {rule}\n" for group in self._rules.values() for rule in group)
        hook = "type filter hook forward priority 0; policy accept;"
        table = f"table bridge chaos {{\n  chain cut {{\n    {hook}\n{rules}  }}\n}}\n"
        tool("nft", "-f", "-", text="table bridge chaos\ndelete table bridge chaos\n" + table)

    def cut(self, key, pairs):
        """Nothing gets from the first to the second node of each pair, after apply()."""
        self._rules[key] = [
            f'iifname "{self.nodes[a].port}" oifname "{self.nodes[b].port}" drop' for a, b in pairs
        ]
        self._changed = True

    def lose(self, key, name, percent):
        port = self.nodes[name].port
        self._rules[key] = [
            f'{way} "{port}" numgen random mod 100 < {percent} drop'
            for way in ("iifname", "oifname")
        ]
        self._changed = True

    def heal(self, key):
        self._changed = self._rules.pop(key, None) is not None or self._changed

    def slow(self, name, delay_ms, kbit):
        """Delay on the way to a node: netem, or where the kernel has none, a narrow link."""
        how = (
            ["netem", "delay", f"{delay_ms}ms", f"{delay_ms // 2}ms"]
            if self.has_netem
            else ["tbf", "rate", f"{kbit}kbit", "burst", "4kb", "limit", "32kb"]
        )
        tool("tc", "qdisc", "replace", "dev", self.nodes[name].port, "root", *how)

    def fast(self, name):
        tool("tc", "qdisc", "del", "dev", self.nodes[name].port, "root", check=False)


class Resp:
    """Just enough of Redis's protocol, on a Unix socket, with a quarter of a second to answer."""

    def __init__(self, path):
        self._path, self._file, self._lock = path, None, threading.Lock()

    def __call__(self, *words):
        """The answer; a RuntimeError holds the server's refusal, an OSError that there is none."""
        with self._lock:
            try:
                if self._file is None:
                    link = socket.socket(socket.AF_UNIX)
                    link.settimeout(0.25)
                    link.connect(self._path)
                    self._file = link.makefile("rwb")
                parts = [str(word).encode() for word in words]
                self._file.write(
                    b"*%d\r\n" % len(parts)
                    + b"".join(b"$%d\r\n%s\r\n" % (len(p), p) for p in parts)
                )
                self._file.flush()
                return self._read()
            except (OSError, ValueError) as problem:
                self._file = None
                raise OSError(f"{self._path}: {problem}") from problem

    def _read(self):
        line = self._file.readline()
        if not line.endswith(b"\r\n"):
            raise OSError("no answer")
        kind, rest = line[:1], line[1:-2].decode()
        if kind == b"-":
            raise RuntimeError(rest)
        if kind == b"*":
            return [self._read() for _ in range(int(rest))]
        if kind == b"$":
            return None if rest == "-1" else self._file.read(int(rest) + 2)[:-2].decode()
        return int(rest) if kind == b":" else rest


class Server:
    """A redis-server, or sentinel, on a node, in a folder of its own that a restart may keep."""

    def __init__(self, world, name, lines, sentinel=False):
        self.world, self.name, self.sentinel = world, name, sentinel
        self.node = world.network.node(name)
        self.folder = os.path.join(world.folder, name)
        self.ask = Resp(os.path.join(self.folder, "sock"))
        self.pid = 0
        self.up = False  # started, and not killed since
        os.mkdir(self.folder)
        own = [
            "bind 0.0.0.0",
            "protected-mode no",
            f"dir {self.folder}",
            f"unixsocket {self.folder}/sock",
            f"port {SENTINEL_PORT if sentinel else PORT}",
            *lines,
        ]
        with open(f"{self.folder}/conf", "w", encoding="ascii") as file:
            file.write("\n".join(own) + "\n")
        self.set_clock(0)
        self.start()

    def set_clock(self, seconds):
        with open(
            f"{self.folder}/clock", "r+b" if os.path.exists(f"{self.folder}/clock") else "wb"
        ) as file:
            file.write(struct.pack("=q", seconds))

    def start(self):
        environment = {"PATH": os.environ["PATH"], "CLOCKSTEP_FILE": f"{self.folder}/clock"}
        if not self.sentinel:
            environment["LD_PRELOAD"] = self.world.clockstep
        with open(f"{self.folder}/out", "ab") as out, self.node.inside():
            self.pid = start(
                [
                    self.world.redis_server,
                    f"{self.folder}/conf",
                    *(["--sentinel"] if self.sentinel else []),
                ],
                environment,
                out.fileno(),
            )
        self.up = True

    def answers(self):
        try:
            return self.ask("PING") == "PONG"
        except (OSError, RuntimeError):
            return False

    def forget(self):
        for name in os.listdir(self.folder):
            if name.startswith(("appendonlydir", "dump", "appendonly.aof")):
                tool("rm", "-rf", f"{self.folder}/{name}")

    def kill(self, number):
        self.up = self.up and number != signal.SIGKILL
        os.kill(self.pid, number)  # our child, reaped only by us: the number cannot be another's


class World:
    """All of it. Groups are what --url names: one, loose, pair, three."""

    GROUPS = {"one": ["one"], "loose": ["loose"], "pair": ["m1", "m2"], "three": ["q1", "q2", "q3"]}

    def __init__(self, folder, log, clockstep, redis_server, hosts):
        self.folder, self.log, self.clockstep, self.redis_server = (
            folder,
            log,
            clockstep,
            redis_server,
        )
        self.network = Network()
        self.hosts = [f"h{number + 1}" for number in range(hosts)]
        for name in self.hosts:
            self.network.node(name)
        keep = ["appendonly yes", "appendfsync always", 'save ""']
        forget = ["appendonly no", 'save ""']
        pair = ["appendonly yes", 'save ""', "repl-diskless-sync yes", "repl-diskless-sync-delay 0"]
        self.servers = {"one": Server(self, "one", keep), "loose": Server(self, "loose", forget)}
        for name in self.GROUPS["three"]:
            self.servers[name] = Server(self, name, keep)
        self.servers["m1"] = Server(self, "m1", pair)
        master = self.network.nodes["m1"].address
        self.servers["m2"] = Server(self, "m2", [*pair, f"replicaof {master} {PORT}"])
        await_that(30, "the servers", lambda: all(s.answers() for s in self.servers.values()))
        await_that(
            30,
            "the replica",
            lambda: "master_link_status:up" in self.servers["m2"].ask("INFO", "replication"),
        )
        watch = [
            f"sentinel monitor mymaster {master} {PORT} 2",
            "sentinel down-after-milliseconds mymaster 1500",
            "sentinel failover-timeout mymaster 5000",
        ]
        self.sentinels = {
            name: Server(self, name, watch, sentinel=True) for name in ("v1", "v2", "v3")
        }
        await_that(30, "the sentinels", lambda: all(s.answers() for s in self.sentinels.values()))
        await_that(30, "the sentinels' acquaintance", self._sentinels_know)

    def _sentinels_know(self):
        for sentinel in self.sentinels.values():
            answer = sentinel.ask("SENTINEL", "MASTER", "mymaster")
            known = dict(zip(answer[::2], answer[1::2]))
            if known["num-slaves"] != "1" or known["num-other-sentinels"] != "2":
                return False
        return True

    def url(self, group):
        address = {name: self.network.nodes[name].address for name in self.network.nodes}
        if group == "pair":
            return (
                "redis+sentinel://"
                + ",".join(address[name] for name in self.sentinels)
                + "/mymaster"
            )
        return " ".join(f"redis://{address[name]}" for name in self.GROUPS[group])

    def masters(self):
        """Which of the pair say that they are a master; None for one that does not answer."""
        said = {}
        for name in self.GROUPS["pair"]:
            try:
                said[name] = self.servers[name].ask("ROLE")[0] == "master"
            except (OSError, RuntimeError):
                said[name] = None
        return said


def await_that(seconds, what, condition):
    end = time.monotonic() + seconds
    while True:
        with contextlib.suppress(OSError, RuntimeError):
            if condition():
                return
        if time.monotonic() > end:
            raise RuntimeError(f"{what}: not ready after {seconds} s")
        time.sleep(0.02)
