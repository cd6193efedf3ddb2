"""Starts an agent over SSH and sends it requests (the harness's end of `rpc`)."""

from __future__ import annotations

import contextlib
import itertools
import json
import queue
import shlex
import threading
from collections.abc import Callable, Mapping
from typing import Any

import paramiko

from harness.environments.base import EnvironmentFailed
from harness.environments.ssh.agent.config import AgentConfig
from harness.environments.ssh.connection.hosts import SshHost
from harness.environments.ssh.connection.rpc import SILENCE_S
from harness.environments.ssh.connection.ssh import SshConnection
from nemesis.capabilities.cluster import NodeError

_MODULE = "harness.environments.ssh.agent.agent"
_CLIENT = "harness/environments/ssh/agent/fork_client.py"
_START_TIMEOUT_S = 180.0
_ANSWER_TIMEOUT_S = 60.0
_CLOSE_TIMEOUT_S = 30.0
_STATUS_TIMEOUT_S = 1.0
"""The exit status of a command may follow the end of its output."""

_TAIL_LINES = 3
_GONE: Mapping[str, Any] = {"gone": True}
"""Stands for the answer of a lost agent."""

_LOST = (OSError, EOFError, paramiko.SSHException)
"""Exceptions of a lost connection."""

Push = Callable[[Mapping[str, Any]], None]


class AgentGone(NodeError):
    """The agent ended, or the connection to it was lost; the message has what is known of its end."""


def _command(host: SshHost, path: str) -> str:
    """The command that starts an agent on a host."""
    python = shlex.quote(host.python)
    if host.fork_server:
        place = path.split(":", 1)[0]
        return f"{python} -IS {shlex.quote(f'{place}/{_CLIENT}')} {shlex.quote(host.fork_server)} {_MODULE}"
    return f"env PYTHONPATH={shlex.quote(path)} {python} -m {_MODULE}"


class AgentLink:
    """A running agent. Safe to use from several threads."""

    def __init__(self, connection: SshConnection, path: str, config: AgentConfig, push: Push) -> None:
        """Start an agent with the package at `path`; `push` receives its notifications. Raises `EnvironmentFailed`."""
        host = connection.host
        self.name = host.name
        self._connection = connection
        self._channel = connection.open(_command(host, path), as_root=True)
        self._numbers = itertools.count(1)
        self._waiting: dict[int, queue.SimpleQueue[Mapping[str, Any]]] = {}
        self._started: queue.SimpleQueue[Mapping[str, Any]] = queue.SimpleQueue()
        self._errors = b""
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._push = push
        self._listener = threading.Thread(target=self._listen, name=f"agent {host.name}", daemon=True)
        self._listener.start()
        try:
            self._write(config._asdict())
            answer = self._started.get(timeout=_START_TIMEOUT_S)
        except _LOST:
            answer = _GONE
        except queue.Empty:
            answer = {"error": f"no answer within {_START_TIMEOUT_S:g} s"}
        if answer is _GONE:
            answer = {"error": self._ending()}
        if "error" in answer:
            self.close()
            raise EnvironmentFailed(f"expected an agent on host {host.name}, found: {answer['error']}")
        self.result = answer["result"]
        """The agent's answer to its config."""
        threading.Thread(target=self._stay, name=f"stay {host.name}", daemon=True).start()

    def ask(self, do: str, patience_s: float = _ANSWER_TIMEOUT_S, **details: Any) -> Any:  # noqa: ANN401
        """Send a request and return its answer; `NodeError` with the agent's reason, `AgentGone` when it is gone."""
        number = next(self._numbers)
        answer: queue.SimpleQueue[Mapping[str, Any]] = queue.SimpleQueue()
        with self._lock:
            self._waiting[number] = answer
        try:
            if self._over.is_set():
                raise self._gone()
            self._write({"id": number, "do": do, **details})
            reply = answer.get(timeout=patience_s)
        except _LOST as error:
            raise self._gone() from error
        except queue.Empty:
            raise NodeError(
                f"expected host {self.name} to {do} within {patience_s:g} s, found that it did not"
            ) from None
        finally:
            with self._lock:
                del self._waiting[number]
        if reply is _GONE:
            raise self._gone()
        if "error" in reply:
            raise NodeError(reply["error"])
        return reply["result"]

    def notify(self, do: str, **details: object) -> None:
        """Send a request without an answer. Does nothing when the agent is gone."""
        with contextlib.suppress(*_LOST):
            self._write({"do": do, **details})

    def close(self) -> None:
        """Close the agent's input, so that it undoes its changes, and log out. Safe to call twice."""
        with contextlib.suppress(*_LOST):
            self._channel.shutdown_write()
            self._listener.join(_CLOSE_TIMEOUT_S)
        self.drop()

    def drop(self) -> None:
        """Log out of a machine that is gone."""
        self._over.set()
        self._channel.close()
        self._connection.close()
        self._listener.join(_CLOSE_TIMEOUT_S)

    def _write(self, what: Mapping[str, object]) -> None:
        data = json.dumps(what).encode() + b"\n"
        with self._lock:
            self._channel.sendall(data)

    def _listen(self) -> None:
        try:
            with self._channel.makefile("rb") as lines:
                for line in lines:
                    self._take(json.loads(line))
        except (*_LOST, ValueError):
            pass  # the connection is lost, which is handled below
        finally:
            self._over.set()
            self._started.put(_GONE)
            with self._lock:
                for waiting in self._waiting.values():
                    waiting.put(_GONE)

    def _take(self, message: Mapping[str, Any]) -> None:
        if "push" in message:
            self._push(message["push"])
        elif "id" in message:
            with self._lock:
                waiting = self._waiting.get(message["id"])
            if waiting is not None:
                waiting.put(message)
        else:
            self._started.put(message)

    def _stay(self) -> None:
        while not self._over.wait(SILENCE_S / 4):
            self.notify("stay")

    def _gone(self) -> AgentGone:
        return AgentGone(f"expected the agent on host {self.name} to answer, found that it is gone: {self._ending()}")

    def _ending(self) -> str:
        """Describe how the agent ended, from what is known here."""
        status = self._channel.exit_status if self._channel.status_event.wait(_STATUS_TIMEOUT_S) else -1
        if status >= 0:
            ending = f"it ended with status {status}"
        else:
            ending = "it ended without a status" if self._connection.is_up else "the connection was lost"
        with self._lock, contextlib.suppress(OSError, EOFError):
            while self._channel.recv_stderr_ready() and (data := self._channel.recv_stderr(1 << 16)):
                self._errors += data
        lines = self._errors.decode(errors="replace").strip().splitlines()[-_TAIL_LINES:]
        if lines:
            ending += f", and said last: {' '.join(' '.join(lines).split())}"
        return ending
