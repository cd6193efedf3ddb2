"""A real cluster of this machine's processes, controllers and brokers, for tests and benchmarks.

It is the plain thing: no namespaces, no proxies, no journal. The caller must `close` it, or use it in a `with`;
if that process dies instead, a watchman kills the nodes.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

ROOT = Path(__file__).parents[2]
CONTROLLER = 100
LISTENERS_OF = {"broker": ("CLIENT", "BROKER"), "controller": ("CONTROLLER",)}
START_S_MAX = 30.0
STOP_S_MAX = 20.0
DEFAULTS = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "400",
    "controlled.shutdown.timeout.ms": "10000",
}
"""Settings of all nodes that a test may overrule."""


class NodeFailedError(Exception):
    """A node did not start, or did not stop; the text ends with the last lines of its log."""


class Watchman:
    """A process group whose first member kills all of it when this process ends, however it ends.

    It waits for the end of a pipe that only this process holds. (The kernel's own signal at a parent's death is sent
    at the death of the *thread* that made the child, and tests start nodes from threads.)
    """

    def __init__(self) -> None:
        self._process = subprocess.Popen(["sh", "-c", "cat; kill -9 0"], stdin=subprocess.PIPE, process_group=0)

    @property
    def process_group(self) -> int:
        """The group to start processes in."""
        return self._process.pid

    def close(self) -> None:
        """Kill what is left of the group."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


class LocalNode:
    """One node: its directory, its settings, and its process if it runs."""

    def __init__(
        self,
        number: int,
        directory: Path,
        settings: dict[str, str],
        watchman: Watchman,
        module: str = "broker.shell",
    ) -> None:
        self.number = number
        self.addresses = dict(each.split("://", 1) for each in settings["listeners"].split(","))
        self._watchman = watchman
        self._module = module
        self.directory = directory
        self.admin_socket = directory / "admin.sock"
        self.process: subprocess.Popen[bytes] | None = None
        self._out = directory / "out.txt"
        self._log = directory / "log.txt"
        self._file = directory / "node.properties"
        directory.mkdir()
        lines = {
            **settings,
            "node.id": str(number),
            "log.dirs": ",".join(str(directory / name) for name in settings.get("log.dirs", "data").split(",")),
            "harrow.admin.socket": str(self.admin_socket),
        }
        self._file.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def start(self) -> None:
        """Start the process, without waiting until it serves."""
        assert self.process is None
        self._out.write_bytes(b"")
        with self._out.open("ab") as out, self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", self._module, str(self._file)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=log,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                process_group=self._watchman.process_group,
            )

    def is_ready(self) -> bool:
        """Whether it has said that it serves. Raises if it has ended instead."""
        if self.process is None or self.process.poll() is not None:
            raise NodeFailedError(f"expected node {self.number} to run, found it ended\n{self.log_tail()}")
        return b"ready" in self._out.read_bytes()

    def kill(self) -> None:
        """End the process without a chance to do anything, if it runs."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def stop(self) -> int:
        """Shut down in a controlled way and return the exit status."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            raise NodeFailedError(f"node {self.number} did not stop in {STOP_S_MAX} s\n{self.log_tail()}") from None
        self.process = None
        return status

    def ask(self, target: str) -> bytes:
        """GET from the admin endpoint. Raises `OSError`, also if the node ends before it answers."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(5)
            connection.connect(str(self.admin_socket))
            connection.sendall(f"GET {target} HTTP/1.1\r\n\r\n".encode())
            answer = b"".join(iter(lambda: connection.recv(1 << 16), b""))
        _, headers_end, body = answer.partition(b"\r\n\r\n")
        if not headers_end:
            raise ConnectionError(f"expected node {self.number} to answer, found that it closed the connection")
        return body

    def state(self) -> dict[str, object]:
        """What the node believes."""
        return json.loads(self.ask("/state"))

    def quorum(self) -> dict[str, Any]:
        """What a node believes as a controller; nothing if it is none, or cannot be asked."""
        try:
            state = self.state()
        except OSError:
            return {}
        own = state.get("controller_state", state)
        assert isinstance(own, dict)
        return own if "quorum_role" in own else {}

    def replicas(self) -> list[dict[str, Any]]:
        """What a broker believes of its replicas; nothing as long as it cannot be asked."""
        try:
            found = self.state()["partitions"]
        except OSError:
            return []
        assert isinstance(found, list)
        return found

    def log_tail(self, lines: int = 20) -> str:
        """The last lines of the node's log."""
        return "\n".join(self._log.read_text().splitlines()[-lines:])


class LocalCluster:
    """Brokers 1…n and controllers from 100 on; or combined nodes 1…n, each of which is both."""

    def __init__(
        self,
        brokers: int = 3,
        controllers: int = 1,
        *,
        combined: bool = False,
        first: int = 1,
        racks: Mapping[int, str] | None = None,
        module: str = "broker.shell",
        **settings: str,
    ) -> None:
        """`first` is the number of the first broker; `racks` are those of brokers by number.

        `settings` are Kafka's names with underscores for dots; `log_dirs` are names in each node's directory. `module`
        is run by each node, with its file of settings.
        """
        with ExitStack() as on_failure:
            # Not pytest's directory: the path of a Unix socket may have 107 bytes only.
            self._directory = on_failure.enter_context(tempfile.TemporaryDirectory(prefix="harrow-"))
            watchman = Watchman()
            on_failure.callback(watchman.close)
            roles = {number: ["broker"] for number in range(first, first + brokers)}
            for number in roles if combined else range(CONTROLLER, CONTROLLER + controllers):
                roles.setdefault(number, []).append("controller")
            ports = iter(_free_ports(sum(len(LISTENERS_OF[role]) for own in roles.values() for role in own)))
            bound = {
                number: {name: f"127.0.0.1:{next(ports)}" for role in own for name in LISTENERS_OF[role]}
                for number, own in roles.items()
            }
            common = DEFAULTS | {name.replace("_", "."): value for name, value in settings.items()}
            common["controller.quorum.voters"] = ",".join(
                f"{number}@{listeners['CONTROLLER']}"
                for number, listeners in bound.items()
                if "CONTROLLER" in listeners
            )
            self.nodes: dict[int, LocalNode] = {}
            for number, listeners in bound.items():
                listening = ",".join(f"{name}://{address}" for name, address in listeners.items())
                own = {"process.roles": ",".join(roles[number]), "listeners": listening}
                if racks is not None and number in racks:
                    own["broker.rack"] = racks[number]
                directory = Path(self._directory, str(number))
                self.nodes[number] = LocalNode(number, directory, common | own, watchman, module)
            self.addresses = {
                number: listeners["CLIENT"] for number, listeners in bound.items() if "CLIENT" in listeners
            }
            self._resources = on_failure.pop_all()

    def __enter__(self) -> LocalCluster:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def bootstrap(self) -> list[str]:
        """Where clients may begin."""
        return list(self.addresses.values())

    @property
    def brokers(self) -> list[LocalNode]:
        """The brokers."""
        return [self.nodes[number] for number in self.addresses]

    def start(self) -> None:
        """Start all nodes that do not run, and wait until they serve."""
        try:
            for node in self.nodes.values():
                if node.process is None:
                    node.start()
            self.wait_until_ready()
        except BaseException:
            self.close()
            raise

    def wait_until_ready(self) -> None:
        """Wait until all nodes serve."""
        eventually(lambda: all(node.is_ready() for node in self.nodes.values()), START_S_MAX, "all nodes serve")

    def leader_of(self, topic: str, partition: int = 0) -> int:
        """The leader by the active controller's account, -1 if there is none."""
        for each in self.partitions(topic):
            if each["partition"] == partition:
                return int(each["leader"])
        raise KeyError(topic, partition)

    def active_controller(self) -> LocalNode | None:
        """The node that leads the quorum in the newest epoch, as far as the living ones tell."""
        reports = [(node.quorum(), node) for node in self.nodes.values() if node.process is not None]
        leading = [(quorum["epoch"], node) for quorum, node in reports if quorum.get("quorum_role") == "leader"]
        return max(leading, key=lambda found: found[0])[1] if leading else None

    def partitions(self, topic: str) -> list[dict[str, Any]]:
        """The active controller's view of a topic; nothing while there is none."""
        active = self.active_controller()
        known = [] if active is None else active.quorum().get("partitions", [])
        return [each for each in known if each["topic"] == topic]

    def committed(self, topic: str) -> dict[int, int]:
        """High watermarks of a topic's partitions that have a living leader now, by the leaders' account."""
        return {
            int(each["partition"]): int(each["high_watermark"])
            for node in self.brokers
            if node.process is not None
            for each in node.replicas()
            if each["topic"] == topic and each["role"] == "leader"
        }

    def wait_until_whole(self, *topics: str, limit_s: float = START_S_MAX) -> None:
        """Wait until all replicas of these topics are in sync."""

        def whole() -> bool:
            found = [self.partitions(topic) for topic in topics]
            return all(
                partitions and all(sorted(each["isr"]) == sorted(each["replicas"]) for each in partitions)
                for partitions in found
            )

        eventually(whole, limit_s, f"all replicas of {', '.join(topics)} are in sync")

    def close(self) -> None:
        """Kill what runs and remove the directory."""
        for node in self.nodes.values():
            with suppress(ProcessLookupError):
                node.kill()
        self._resources.close()


def eventually(condition: Callable[[], bool], limit_s: float, what: str) -> None:
    """Wait until a condition holds; the only way to wait here."""
    deadline = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"expected within {limit_s:.0f} s that {what}")
        time.sleep(0.02)


def _free_ports(count: int) -> list[int]:
    """Ports that were free a moment ago; all are held until the last is found, so that they differ."""
    with ExitStack() as stack:
        probes: Iterable[socket.socket] = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]
