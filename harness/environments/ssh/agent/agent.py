"""The agent: runs on a node's machine while the harness is connected, and carries out its requests.

    python -m harness.environments.ssh.agent.agent

It is started as root, over SSH, and receives JSON lines on standard input (`rpc`). The first line is its config
(`config.AgentConfig`); the answer reports whether all of it could be set up. Then come requests, each carried out by a
thread of its own. It undoes all its changes when its input ends, when the harness is silent for too long, and when it
starts for a run that has died (`"heal": true`).
"""

from __future__ import annotations

import base64
import fcntl
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

from harness.environments.base import EnvironmentFailed, NodePlan
from harness.environments.machine.helpers.helper import HelperRefused
from harness.environments.machine.helpers.supervisor import Supervisor
from harness.environments.machine.helpers.supervisor_process import SupervisorSettings
from harness.environments.machine.kernel.process_identity import RUN_MARK
from harness.environments.machine.node import MachineNode
from harness.environments.machine.process_host import ProcessHost
from harness.environments.machine.wall_clock import SkewedClock
from harness.environments.ssh.agent.config import AgentConfig, claim
from harness.environments.ssh.agent.disks import AgentDisk
from harness.environments.ssh.agent.network import AgentNetwork
from harness.environments.ssh.agent.vm_clock import VmClock
from harness.environments.ssh.connection.bridge import Streams
from harness.environments.ssh.connection.rpc import RpcServer
from harness.store.journal import Journal
from nemesis.capabilities.cluster import NodeError, NodeRole
from nemesis.capabilities.disks import PageCacheLoss
from nemesis.capabilities.shapes import Shape

_RNDRESEEDCRNG = 0x5207


def stir_random_numbers(entropy: bytes) -> None:
    """Add entropy and reseed the kernel's random numbers (random(4)). Needs root."""
    descriptor = os.open("/dev/urandom", os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, entropy)
        fcntl.ioctl(descriptor, _RNDRESEEDCRNG)
    finally:
        os.close(descriptor)


_TROUBLES = (EnvironmentFailed, HelperRefused, NodeError, OSError, TypeError, ValueError, subprocess.SubprocessError)


class _Command:
    """The part of a system under test that the node needs: its commands."""

    def __init__(self, config: AgentConfig) -> None:
        self._config = config
        self.how_to_stop: Sequence[str] | None = None

    def command(self, plan: NodePlan) -> Sequence[str]:  # noqa: ARG002
        return self._config.command

    def stop_command(self, plan: NodePlan, pid: int) -> Sequence[str] | None:  # noqa: ARG002
        return self.how_to_stop

    def log_patterns(self, role: NodeRole) -> Sequence[str]:  # noqa: ARG002
        return self._config.log_patterns

    def is_ready(self, plan: NodePlan) -> bool:  # noqa: ARG002
        """Always true: the harness queries the system itself."""
        return True


class Agent:
    """The node, disk, clock and network of one machine."""

    def __init__(self, config: AgentConfig, listener: RpcServer) -> None:
        self._config = config
        self._undo = ExitStack()
        if config.entropy:
            stir_random_numbers(base64.b64decode(config.entropy))
        directory = Path(config.directory)
        self._undo.callback(shutil.rmtree, directory, ignore_errors=True)
        directory.mkdir(parents=True, mode=0o755)
        journal = Journal(directory)
        self._undo.callback(journal.finish)
        self._network = AgentNetwork(config)
        self._undo.callback(self._network.close)
        mark = {RUN_MARK: config.token}
        supervisor = Supervisor(SupervisorSettings(network=False, mounts=config.disk == "ext4", endpoints=()), mark)
        self._undo.callback(supervisor.close)
        plan = NodePlan(
            node_id=config.node_id,
            role=cast("NodeRole", config.role),
            directory=directory,
            data=Path(config.data),
            socket=Path(config.socket),
            storage="files",
        )
        self.disk = AgentDisk(config, plan, supervisor, journal, mark)
        self._undo.callback(self.disk.release)
        self.clock = self._clock()
        self._command = _Command(config)
        host = ProcessHost(supervisor, config.node_id)
        self.node = MachineNode(plan, self._command, host, self.disk.mechanism, journal, self.clock)
        self._undo.callback(self.node.kill)
        self._streams = Streams(plan.socket, listener.push)
        self._undo.callback(self._streams.close)

    def _clock(self) -> SkewedClock | VmClock | None:
        if self._config.clock == "real":
            clock = VmClock()
            self._undo.callback(clock.straighten)
            return clock
        if self._config.clock == "library":
            library = Path(self._config.directory, "clock.so")
            library.write_bytes(base64.b64decode(self._config.library))
            return SkewedClock(library, Path(self._config.directory, "clock"))
        return None

    def answer(self, request: Mapping[str, Any]) -> object:
        """Carry out a request. Raises one of `_TROUBLES`."""
        node, disk = self.node, self.node.disk
        match request:
            case {"do": "node", "what": what, "details": details}:
                return _plain(getattr(node, _allowed(what, _NODE))(**details))
            case {"do": "disk", "what": what, "details": details}:
                return _plain(getattr(disk, _allowed(what, _DISK))(**details))
            case {"do": "clock", "what": what, "details": details}:
                return getattr(node.clock, _allowed(what, _CLOCK))(**details)
            case {"do": "files", "what": what, "details": details}:
                return getattr(self.disk, _allowed(what, _FILES))(**details)
            case {"do": "stop", "command": command, "timeout_s": timeout_s}:
                self._command.how_to_stop = command
                return node.stop(timeout_s)
            case {"do": "state"}:
                return {"pid": node.pid, "alive": node.is_alive(), "paused": node.is_paused()}
            case {"do": "rules", "blocked": blocked}:
                self._network.set_blocked(blocked)
                return None
            case {"do": "shapes", "shapes": shapes}:
                return self._network.set_shapes([(a, b, Shape(**shape)) for a, b, shape in shapes])
            case {"do": "now"}:
                return time.monotonic_ns()
            case {"do": "send", **arguments}:
                self._network.send(**arguments)
                return None
            case {"do": "arrivals", **arguments}:
                return self._network.arrivals(**arguments)
            case {"do": "stream", **part}:
                self._streams.take(**part)
                return None
            case _:
                raise ValueError(f"expected a request that the agent knows, found {dict(request)}")

    def close(self) -> None:
        """Undo all changes."""
        self._undo.close()


_NODE = frozenset(
    {
        *("start", "kill", "pause", "resume", "is_paused", "is_alive", "exit_status", "log_tail"),
        *(
            "throttle",
            "unthrottle",
            "running_percent",
            "limit_memory",
            "unlimit_memory",
            "memory_limit",
            "lose_page_cache",
        ),
    }
)
_DISK = frozenset(
    {
        *("files", "flip_bit", "truncate", "remove", "wipe", "keep_copy", "go_back_to_copy"),
        *("make_trouble", "end_trouble", "met_trouble"),
    }
)
_CLOCK = frozenset({"bend", "straighten", "error_ms", "answers", "governs"})
_FILES = frozenset({"states", "contents", "restore", "log_names", "read_log", "write_file"})


def _allowed(what: str, names: frozenset[str]) -> str:
    if what not in names:
        raise ValueError(f"expected one of {', '.join(sorted(names))}, found {what!r}")
    return what


def _plain(result: object) -> object:
    if isinstance(result, PageCacheLoss):
        files = {name: list(sizes) for name, sizes in result.files.items()}
        return [result.mechanism, result.lost_bytes, files, result.survived_bytes]
    return list(result) if isinstance(result, tuple) else result


def heal(config: AgentConfig) -> list[str]:
    """Clean up after a killed agent of that run; returns a line for each item."""
    lines = AgentNetwork(config, listen=False).clear_all()
    if Path(config.directory).exists():
        shutil.rmtree(config.directory, ignore_errors=True)
        lines.append(f"{config.directory} deleted")
    return lines


def main() -> None:
    """Carry out requests until the harness is gone."""
    os.environ["PATH"] = f"{os.environ.get('PATH', '/usr/bin:/bin')}:/usr/sbin:/sbin"
    listener = RpcServer(sys.stdin.buffer, os.dup(sys.stdout.fileno()))
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # output of a child must not look like an answer
    first = listener.first()
    if first is None:
        return
    config = AgentConfig(**first)
    try:
        with claim(config):
            if config.heal:
                listener.accept(heal(config))
                return
            agent = Agent(config, listener)
            try:
                listener.accept(None)
                listener.serve(agent.answer, _TROUBLES, in_turn=lambda request: request.get("do") == "stream")
            finally:
                agent.close()
    except _TROUBLES as error:
        listener.refuse(str(error))


if __name__ == "__main__":
    main()
