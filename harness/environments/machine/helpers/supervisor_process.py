"""The supervisor: a small single-threaded process that owns a run's namespaces, mounts and child processes.

    python -m harness.environments.machine.helpers.supervisor_process DESCRIPTOR

It exists because only a process with one thread may enter a user namespace, and so that nothing survives a killed
harness: when the other end of its socket closes, it kills all its children and exits; if it is killed itself, the
kernel kills its children; and the namespaces with all that is in them (interfaces, rules, mounts, loop devices) end
with the last process in them.

The harness sends one JSON object per line, with descriptors, and waits for one line: `{"result": …}` or
`{"error": "…"}`. The first request is the settings; its answer reports whether all of it could be created.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from harness.environments.causes import cause_of, to_json
from harness.environments.machine.helpers import programs
from harness.environments.machine.helpers.jsonl import receive_line
from harness.environments.machine.kernel import linux, process_identity
from harness.environments.network.namespaces import Switch
from harness.environments.storage.disks import Disks
from nemesis.capabilities.shapes import Shape


class SupervisorSettings(NamedTuple):
    """What the supervisor creates when it starts."""

    network: bool  # a namespace per endpoint, and the switch
    mounts: bool  # a mount namespace, for disks; needs root
    endpoints: Sequence[int]
    namespaces: Sequence[tuple[int, str]] = ()  # (endpoint, path) of namespaces that exist already


class _Children:
    """Processes that the supervisor started, by number: a pid may be reused, a number never is."""

    def __init__(self, switch: Switch | None) -> None:
        self._switch = switch
        self._children: dict[int, programs.Child] = {}

    def spawn(self, command: Sequence[str], endpoint: int, descriptors: Sequence[int]) -> tuple[int, int]:
        supervisor = os.getpid()

        def prepare() -> None:
            if self._switch is not None:
                self._switch.enter(endpoint)
            linux.die_with_parent(signal.SIGKILL)
            if os.getppid() != supervisor:  # it died before the death signal was set
                os._exit(1)

        stdin, stdout, stderr = descriptors
        child = programs.start(command, os.environ, (stdin, stdout, stderr), prepare=prepare)
        number = len(self._children) + 1
        self._children[number] = child
        return number, child.pid

    def status(self, number: int) -> int | None:
        """Exit status (negative: the signal that killed it), None while it runs. Reaps, and leaves no orphans."""
        child = self._children[number]
        if child.returncode is None:
            # Until the dead leader is reaped, its group id cannot be reused.
            if os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                return None
            self._signal_group(child, signal.SIGKILL)
            child.wait()
        return child.returncode

    def signal(self, number: int, signal_number: int) -> bool:
        """Send a signal to a child's whole group; False if the child has ended."""
        if self.status(number) is not None:
            return False
        self._signal_group(self._children[number], signal_number)
        return True

    def kill_all(self) -> None:
        for child in self._children.values():
            if child.returncode is None:
                self._signal_group(child, signal.SIGKILL)

    @staticmethod
    def _signal_group(child: programs.Child, signal_number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal_number)


class _SupervisorProcess:
    def __init__(self, settings: SupervisorSettings) -> None:
        if settings.network and os.geteuid() != 0:
            linux.become_owner_of_namespaces(0)
        if settings.mounts:
            linux.keep_mounts_to_ourselves()
        self._switch = Switch(settings.endpoints, dict(settings.namespaces)) if settings.network else None
        self._disks = Disks()
        self.children = _Children(self._switch)

    def end(self) -> None:
        """Kill all processes in the namespaces."""
        self.children.kill_all()
        if self._switch is not None:
            self._switch.kill_guests()

    def answer(self, request: dict[str, Any], descriptors: Sequence[int]) -> object:
        match request:
            case {"do": "spawn", "command": command, "endpoint": endpoint}:
                number, pid = self.children.spawn(command, endpoint, descriptors)
                return {"number": number, "pid": pid, "start_time": process_identity.start_time(pid)}
            case {"do": "status", "number": number}:
                return self.children.status(number)
            case {"do": "signal", "number": number, "signal": signal_number}:
                return self.children.signal(number, signal_number)
            case {"do": "block", "links": links} if self._switch is not None:
                self._switch.set_blocked((source, target) for source, target in links)
                return None
            case {"do": "probe", "links": links, "timeout_s": timeout_s} if self._switch is not None:
                return self._switch.probe([(source, target) for source, target in links], timeout_s)
            case {"do": "shape", "shapes": shapes} if self._switch is not None:
                return self._switch.set_shapes({(a, b): Shape(**shape) for a, b, shape in shapes})
            case {"do": "sample", "links": links, **details} if self._switch is not None:
                return asdict(self._switch.sample([(a, b) for a, b in links], **details))
            case {"do": "attach-disk", "image": image, "mount_point": mount_point}:
                return self._disks.attach(Path(image), Path(mount_point))
            case {"do": "crash-disk", "mount_point": mount_point}:
                return self._disks.crash(Path(mount_point))
            case {"do": "fill-disk", "mount_point": mount_point}:
                self._disks.fill(Path(mount_point))
                return None
            case {"do": "empty-disk", "mount_point": mount_point}:
                self._disks.make_room(Path(mount_point))
                return None
            case {"do": "detach-disk", "mount_point": mount_point, "copy": copy}:
                self._disks.detach(Path(mount_point), Path(copy))
                return None
            case _:
                raise ValueError(f"expected a request that the supervisor knows, found {request}")


def main() -> None:
    """Serve until the other end of the socket closes."""
    harness = socket.socket(fileno=int(sys.argv[1]))
    harness.set_inheritable(False)

    def send(answer: object) -> None:
        harness.sendall(json.dumps(answer).encode() + b"\n")

    settings, _ = receive_line(harness)
    if not settings:  # the harness has ended meanwhile
        return
    try:
        supervisor = _SupervisorProcess(SupervisorSettings(**json.loads(settings)))
    except OSError as error:
        send({"error": str(error), "cause": to_json(cause_of(error))})
        return
    send({"result": None})
    while True:
        line, descriptors = receive_line(harness)
        if not line:
            supervisor.end()
            return
        try:
            answer: object = {"result": supervisor.answer(json.loads(line), descriptors)}
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            answer = {"error": str(error), "cause": to_json(cause_of(error))}
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        with contextlib.suppress(ConnectionError):
            send(answer)


if __name__ == "__main__":
    main()
