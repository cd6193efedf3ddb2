"""Real ZooKeeper servers for tests: Debian's package `zookeeper`, as processes on loopback with own directories."""

from __future__ import annotations

import contextlib
import importlib.util
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

JAR = Path("/usr/share/java/zookeeper.jar")
MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
_START_S = 60
_TICK_MS = 200
"""Sessions time out after 2 to 20 ticks."""


@cache
def missing() -> str:
    """Why there can be no ensemble here; "" if one has been started, and stopped, without trouble."""
    if importlib.util.find_spec("kazoo") is None:
        return "zookeeper: kazoo is not installed: pip install 'harrow[zookeeper]'"
    if shutil.which("java") is None or not JAR.exists():
        return "zookeeper: no server is installed: apt-get install zookeeper"
    try:
        with TemporaryDirectory(prefix="harrow-zk-") as directory, ensemble(Path(directory), 1):
            return ""
    except RuntimeError as error:
        return f"zookeeper: {error}"


class Ensemble:
    """Servers that run. `hosts` is what clients connect to."""

    def __init__(self, directory: Path, ports: list[tuple[int, int, int]]) -> None:
        self.directory = directory
        self.ports = ports
        self.hosts = ",".join(f"127.0.0.1:{client}" for client, _, _ in ports)
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, member: int) -> None:
        """Start a server, numbered from 0."""
        home = self.directory / str(member)
        (home / "data").mkdir(parents=True, exist_ok=True)
        (home / "data" / "myid").write_text(f"{member + 1}\n")
        lines = [f"dataDir={home / 'data'}", f"clientPort={self.ports[member][0]}", "clientPortAddress=127.0.0.1"]
        lines += [f"tickTime={_TICK_MS}", "initLimit=50", "syncLimit=20", "4lw.commands.whitelist=*"]
        lines += ["admin.enableServer=false", "maxClientCnxns=0"]
        if len(self.ports) > 1:
            lines += [f"server.{at + 1}=127.0.0.1:{peer}:{vote}" for at, (_, peer, vote) in enumerate(self.ports)]
        (home / "zoo.cfg").write_text("\n".join(lines) + "\n")
        command = ["java", "-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", str(JAR), MAIN, str(home / "zoo.cfg")]
        with (home / "log").open("ab") as log:
            self._processes[member] = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, cwd=home)

    def kill(self, member: int) -> None:
        """Kill a server."""
        process = self._processes.pop(member, None)
        if process is not None:
            process.kill()
            process.wait()

    def await_serving(self, members: list[int]) -> None:
        """Wait until these servers serve. Raises RuntimeError."""
        deadline = time.monotonic() + _START_S
        while not all(self._serves(member) for member in members):
            dead = [member for member in members if self._processes[member].poll() is not None]
            if dead or time.monotonic() > deadline:
                last = (self.directory / str((dead or members)[0]) / "log").read_text(errors="replace")[-300:]
                raise RuntimeError(f"expected servers that serve, found none after {_START_S} s: {last!r}")
            time.sleep(0.05)

    def _serves(self, member: int) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.ports[member][0]), 1) as link:
            link.sendall(b"srvr")
            answer = b""
            while piece := link.recv(4096):
                answer += piece
            return b"Mode: " in answer
        return False

    def close(self) -> None:
        """Kill all servers."""
        for member in list(self._processes):
            self.kill(member)


@contextlib.contextmanager
def ensemble(directory: Path, members: int) -> Iterator[Ensemble]:
    """Servers in this directory, which serve; killed at the end. Raises RuntimeError."""
    with contextlib.ExitStack() as taken:
        sockets = [taken.enter_context(socket.socket()) for _ in range(3 * members)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        numbers = [one.getsockname()[1] for one in sockets]
    servers = Ensemble(directory, [tuple(numbers[3 * at : 3 * at + 3]) for at in range(members)])
    try:
        for member in range(members):
            servers.start(member)
        servers.await_serving(list(range(members)))
        yield servers
    finally:
        servers.close()
