"""A client of QEMU's control protocol (QMP): JSON lines over a Unix socket."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.environments.base import EnvironmentFailed

_POLL_S = 0.02


class Qmp:
    """The control connection of one VM. Errors are `EnvironmentFailed`."""

    def __init__(self, path: Path, alive: Callable[[], bool], timeout_s: float) -> None:
        """Connect as soon as QEMU listens."""
        self._timeout_s = timeout_s
        self._socket = connect(path, alive, timeout_s)
        self._lines = self._socket.makefile("rb")
        self._events: list[dict[str, Any]] = []
        try:
            self._lines.readline()  # the greeting
            self("qmp_capabilities")
        except OSError as error:  # QEMU listens before it has created its machine, which may fail
            self.close()
            raise EnvironmentFailed(f"expected QEMU to greet, found: {error}") from error
        except EnvironmentFailed:
            self.close()
            raise

    def __call__(self, command: str, **arguments: object) -> Any:  # noqa: ANN401
        """Execute a command; returns its result."""
        request = {"execute": command, "arguments": {key.replace("_", "-"): value for key, value in arguments.items()}}
        try:
            self._socket.sendall(json.dumps(request).encode() + b"\n")
            while line := self._lines.readline():
                answer = json.loads(line)
                if "return" in answer:
                    return answer["return"]
                if "error" in answer:
                    raise EnvironmentFailed(f"expected QEMU to {command}, found: {answer['error']['desc']}")
                self._events.append(answer)
        except (OSError, ValueError) as error:  # an incomplete line: QEMU ended while writing it
            raise EnvironmentFailed(f"expected QEMU to {command}, found: {error}") from error
        raise EnvironmentFailed(f"expected QEMU to {command}, found that it ended")

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Poll a condition, which sends commands, until it holds."""
        deadline = time.monotonic() + self._timeout_s
        while not condition():
            if time.monotonic() > deadline:
                raise EnvironmentFailed(f"expected a VM {what} within {self._timeout_s:g} s, found that it is not")
            time.sleep(_POLL_S)

    def saw(self, event: str) -> bool:
        """Whether an event was received."""
        self("query-name")  # events come with the answers
        return any(one.get("event") == event for one in self._events)

    def close(self) -> None:
        """Disconnect. Safe to call twice."""
        self._lines.close()
        self._socket.close()


def connect(path: Path, alive: Callable[[], bool], timeout_s: float) -> socket.socket:
    """Connect to a socket of QEMU as soon as it exists. Raises `EnvironmentFailed`."""
    deadline = time.monotonic() + timeout_s
    while True:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(timeout_s)
        try:
            connection.connect(str(path))
        except OSError as error:
            connection.close()
            if not alive():
                raise EnvironmentFailed("expected QEMU to run, found that it ended") from error
            if time.monotonic() > deadline:
                raise EnvironmentFailed(f"expected QEMU to listen within {timeout_s:g} s, found: {error}") from error
            time.sleep(_POLL_S)
        else:
            return connection
