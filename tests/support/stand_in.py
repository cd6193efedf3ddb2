"""A minimal system under test: on command it listens, dials, echoes and writes files.

The server half runs as the node's process and takes its orders over the node's control socket. Its half in the test
implements `harness.environments.base.System`.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.environments.base import Addresses, NodePlan, ReplicaState, Traits
from nemesis.capabilities.cluster import Capability, NodeRole, PartitionView, VoterView

_LEDGER = "ledger.json"


class StandIn:
    """The test's half."""

    name = "stand-in"
    traits = Traits()

    def __init__(self, command: Sequence[str] | None = None, *, deaf_to_sigterm: bool = False) -> None:
        self._command = command
        self._deaf = deaf_to_sigterm

    def listeners(self, role: NodeRole) -> Sequence[str]:
        return ["CONTROLLER"] if role == "controller" else ["CLIENT", "BROKER"]

    def configure(self, plan: NodePlan, plans: Sequence[NodePlan], addresses: Addresses) -> None:
        settings = {
            "listen": [addresses.bind(plan.node_id, name) for name in self.listeners(plan.role)],
            "data": str(plan.data),
            "socket": str(plan.socket),
            "ledger": plan.storage == "page-cache",
            "deaf": self._deaf,
        }
        (plan.directory / "settings.json").write_text(json.dumps(settings))

    def command(self, plan: NodePlan) -> Sequence[str]:
        return self._command or [sys.executable, "-m", "tests.support.stand_in", str(plan.directory / "settings.json")]

    def cannot(self, network: str, page_cache: str) -> frozenset[Capability]:
        return frozenset()

    def stop_command(self, plan: NodePlan, pid: int) -> Sequence[str] | None:
        return None

    def log_patterns(self, role: NodeRole) -> Sequence[str]:
        return ()

    def is_ready(self, plan: NodePlan) -> bool:
        try:
            return order(plan, do="ready") is True
        except (OSError, ValueError):  # nobody is there, or what was there is gone
            return False

    def unfit(self, plans: Sequence[NodePlan]) -> str | None:
        return None

    def replicas(self, plan: NodePlan) -> Sequence[ReplicaState]:
        return ()

    def view(self, plans: Sequence[NodePlan]) -> Sequence[PartitionView]:
        return ()

    def active_controller(self, plans: Sequence[NodePlan]) -> int | None:
        return None

    def voters(self, plans: Sequence[NodePlan]) -> Sequence[VoterView]:
        return ()

    def lose_page_cache(self, plan: NodePlan) -> Mapping[str, tuple[int, int]]:
        synced = json.loads((plan.directory / _LEDGER).read_text())
        changed = {}
        for path in plan.data.iterdir():
            before, after = path.stat().st_size, synced.get(path.name, 0)
            os.truncate(path, after)
            if before != after:
                changed[path.name] = (before, after)
        return changed

    def disk_changed(self, plan: NodePlan) -> None:
        ledger = plan.directory / _LEDGER
        ledger.write_text(json.dumps({path.name: path.stat().st_size for path in plan.data.iterdir()}))


def order(plan: NodePlan, **request: Any) -> Any:
    """Tell a node's process to do something; returns its answer."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as control:
        control.settimeout(5)
        control.connect(str(plan.socket))
        control.sendall(json.dumps(request).encode() + b"\n")
        return json.loads(control.makefile().readline())


def reply_is(plan: NodePlan, expected: Any, timeout_s: float = 5.0, **request: Any) -> bool:
    """Whether a node's process comes to give this answer within the time."""
    deadline = time.monotonic() + timeout_s
    while (answer := order(plan, **request)) != expected:
        if time.monotonic() > deadline:
            return bool(answer == expected)
        time.sleep(0.01)
    return True


class _Server:
    """The node's half."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._data = Path(settings["data"])
        self._ledger = Path(sys.argv[1]).parent / _LEDGER if settings["ledger"] else None
        self._synced: dict[str, int] = {}
        self._heard: list[str] = []
        self._dialled: dict[str, socket.socket] = {}
        self._echoes: dict[str, list[str]] = {}
        self._broken: set[str] = set()
        if self._ledger is not None:
            self._ledger.write_text("{}")
            for path in self._data.iterdir():
                self._note(path.name)
        for host, port in settings["listen"]:
            server = socket.create_server((host, port))
            threading.Thread(target=self._accept, args=(server,), daemon=True).start()

    def _note(self, name: str) -> None:
        if self._ledger is not None:
            self._synced[name] = (self._data / name).stat().st_size
            aside = self._ledger.with_suffix(".new")
            aside.write_text(json.dumps(self._synced))
            aside.replace(self._ledger)

    def _accept(self, server: socket.socket) -> None:
        while True:
            connection, _ = server.accept()
            threading.Thread(target=self._echo, args=(connection,), daemon=True).start()

    def _echo(self, connection: socket.socket) -> None:
        with contextlib.suppress(ConnectionError), connection, connection.makefile("rb") as lines:
            for line in lines:
                self._heard.append(line.decode().strip())
                connection.sendall(line)

    def _collect(self, name: str) -> None:
        try:
            for line in self._dialled[name].makefile("rb"):
                self._echoes[name].append(line.decode().strip())
        except ConnectionResetError:
            self._broken.add(name)

    def obey(self, request: dict[str, Any]) -> Any:
        match request:
            case {"do": "ready"}:
                return True
            case {"do": "dial", "to": [host, port], "as": name}:
                self._dialled[name] = socket.create_connection((host, port), timeout=5)
                self._dialled[name].settimeout(None)
                self._echoes[name] = []
                threading.Thread(target=self._collect, args=(name,), daemon=True).start()
            case {"do": "try-to-dial", "to": [host, port]}:
                try:
                    socket.create_connection((host, port), timeout=5).close()
                except OSError as error:
                    return str(error)
                return "connected"
            case {"do": "broken", "as": name}:
                return name in self._broken
            case {"do": "say", "as": name, "text": text}:
                self._dialled[name].sendall(text.encode() + b"\n")
            case {"do": "heard"}:
                return self._heard
            case {"do": "echoes", "as": name}:
                return self._echoes[name]
            case {"do": "time"}:
                return time.time(), time.monotonic()
            case {"do": "hoard", "bytes": count}:
                try:
                    b"x" * count
                except MemoryError:
                    return "MemoryError"
                return "held"
            case {"do": "append", "file": name, "bytes": count, "sync": sync}:
                try:
                    self._append(name, count, sync=sync)
                except OSError as error:
                    return errno.errorcode[error.errno or 0]
            case {"do": "read", "file": name}:
                try:
                    return (self._data / name).stat().st_size, len((self._data / name).read_bytes())
                except OSError as error:
                    return errno.errorcode[error.errno or 0]
        return None

    def _append(self, name: str, count: int, *, sync: bool) -> None:
        path = self._data / name
        with path.open("ab", buffering=0) as file:
            file.write(b"x" * count)
            if sync:
                os.fsync(file.fileno())
        if sync:
            directory = os.open(self._data, os.O_RDONLY)
            os.fsync(directory)
            os.close(directory)
            self._note(name)


def main() -> None:
    """Serve until killed, or politely asked to end."""
    settings = json.loads(Path(sys.argv[1]).read_text())
    server = _Server(settings)
    signal.signal(signal.SIGTERM, signal.SIG_IGN if settings["deaf"] else lambda *_: os._exit(0))
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as control:
        control.bind(settings["socket"])
        control.listen()
        print("serving", flush=True)
        while True:
            connection, _ = control.accept()
            with connection, connection.makefile("rw") as stream:
                for line in stream:
                    stream.write(json.dumps(server.obey(json.loads(line))) + "\n")
                    stream.flush()


if __name__ == "__main__":
    main()
