"""Starts a helper process and exchanges JSON lines with it over a socket.

A helper exits when its socket closes. So a killed harness leaves nothing behind: its ends of the sockets close.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.environments.base import EnvironmentFailed
from harness.environments.causes import Caused, from_json
from harness.environments.machine.helpers import programs
from harness.environments.machine.helpers.jsonl import receive_line
from harness.environments.machine.helpers.programs import module_command

_START_TIMEOUT_S = 15.0
_ANSWER_TIMEOUT_S = 60.0
_END_TIMEOUT_S = 15.0


class HelperRefused(Caused):
    """A helper could not carry out a request; the message is its reason."""


class Helper:
    """A running helper. Safe to use from several threads."""

    def __init__(self, module: str, settings: object, environment: Mapping[str, str]) -> None:
        """Start `python -m module`; `HelperRefused` when it cannot apply the settings."""
        self.name = module.rpartition(".")[2]
        self._lock = threading.Lock()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with theirs:
            command = module_command(module, str(theirs.fileno()))
            nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
            try:
                everything = _with_own_path({**os.environ, **environment})
                self._process = programs.start(command, everything, (nothing, None, None), [theirs.fileno()])
            finally:
                os.close(nothing)
        self._socket.settimeout(_START_TIMEOUT_S)
        try:
            self._exchange(settings, ())
        except (HelperRefused, EnvironmentFailed):
            self.close()
            raise
        self._socket.settimeout(_ANSWER_TIMEOUT_S)

    @property
    def pid(self) -> int:
        """The helper's process id."""
        return self._process.pid

    def ask(self, descriptors: Sequence[int] = (), **request: Any) -> Any:  # noqa: ANN401
        """Send a request and return its answer; `HelperRefused` with the helper's reason."""
        return self._exchange(request, descriptors)

    def _exchange(self, request: object, descriptors: Sequence[int]) -> Any:  # noqa: ANN401
        data = json.dumps(request).encode() + b"\n"
        with self._lock:
            try:
                sent = socket.send_fds(self._socket, [data], descriptors)
                self._socket.sendall(data[sent:])
                line, _ = receive_line(self._socket)
            except OSError as error:
                raise EnvironmentFailed(f"expected an answer of the {self.name}, found: {error}") from error
        if not line:
            raise EnvironmentFailed(f"expected the {self.name} to be running, found that it died")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise HelperRefused(answer["error"], from_json(answer.get("cause")))
        return answer["result"]

    def close(self) -> None:
        """End the helper and everything that it holds. Safe to call twice."""
        self._socket.close()
        try:
            self._process.wait(_END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _with_own_path(environment: dict[str, str]) -> dict[str, str]:
    """Add our packages to the PYTHONPATH of an environment."""
    package_root = str(Path(__file__).parents[4])
    paths = [package_root, *filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))]
    environment["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))
    return environment
