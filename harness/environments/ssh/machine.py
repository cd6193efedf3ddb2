"""One node's machine: logs in, installs the package, starts the agent, and reconnects after a power loss.

`heal_hosts` starts agents that clean up what a killed harness or agent left on hosts, according to the journal.
"""

from __future__ import annotations

import base64
import secrets
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from harness.environments.base import EnvironmentFailed, NodePlan, System
from harness.environments.machine.helpers.helper import HelperRefused
from harness.environments.ssh.agent.config import AgentConfig
from harness.environments.ssh.agent.disks import pack, unpack
from harness.environments.ssh.connection.agent_link import AgentGone, AgentLink
from harness.environments.ssh.connection.bridge import Bridge
from harness.environments.ssh.connection.facts import Facts, examine
from harness.environments.ssh.connection.hosts import SshHost, host_from_json
from harness.environments.ssh.connection.installation import install
from harness.environments.ssh.connection.ssh import SshConnection
from harness.environments.ssh.fleet import Fleet
from harness.store.journal import Entry
from nemesis.capabilities.cluster import NodeError

PROBE_PORT = 9099
_STOP_PATIENCE_S = 30.0
"""Added to the timeout of a node's shutdown."""


class NotThere(NodeError):
    """The machine lost its power, or was disconnected, before it answered."""


@dataclass(frozen=True)
class AgentSettings:
    """The settings common to all agents of a run."""

    token: str
    disk: Literal["ext4", "fuse", "power-cut", ""]
    clock: Literal["library", "real", ""]
    library: bytes  # of the clock
    peers: Mapping[int, str]


class Machine:
    """Safe to use from several threads."""

    def __init__(self, plan: NodePlan, system: System, fleet: Fleet, settings: AgentSettings) -> None:
        self.plan = plan
        self._system = system
        self._fleet = fleet
        self._settings = settings
        self._link: AgentLink | None = None
        self._missing = ""  # why it did not come back after a power cut
        self._lost = threading.Lock()
        self._bridge = Bridge(plan.socket, self._send_stream)
        self.facts: Facts | None = None
        self.came_back: Callable[[], None] = lambda: None
        """Called when the machine is back after a power loss, before anything runs on it."""

    @property
    def host(self) -> SshHost:
        """How the machine is reached."""
        return self._fleet.host(self.plan.node_id)

    @property
    def settings_plan(self) -> NodePlan:
        """The plan for the node's settings: they are written here, but with paths of the machine."""
        remote = self._there()
        return replace(self.plan, data=remote.data, socket=remote.socket, seen_at=remote.directory)

    @property
    def is_there(self) -> bool:
        """Whether an agent is connected; not while the machine is without power."""
        return self._link is not None

    def attach(self) -> None:
        """Log in, install, start the agent and send it the node's settings. Raises `EnvironmentFailed`."""
        try:
            self._attach()
        except (EnvironmentFailed, AgentGone) as error:
            raise EnvironmentFailed(self._with_last_words(error)) from error

    def _attach(self) -> None:
        host = self.host
        connection = SshConnection(host, self._fleet.dial(self.plan.node_id))
        try:
            self.facts = facts = self._fleet.facts or examine(connection)
            path = install(connection, facts)
            config = agent_config(self.plan, self._there(), self._system, host, facts, self._settings)
            link = AgentLink(connection, path, config, self._bridge.take)
            for file in sorted(self.plan.directory.rglob("*")):
                if file.is_file():
                    name = str(file.relative_to(self.plan.directory))
                    details = {"name": name, "data": pack(file.read_bytes())}
                    link.ask("files", what="write_file", details=details)
        except BaseException:
            connection.close()
            raise
        self._link = link

    def ask(self, do: str, patience_s: float | None = None, /, **details: Any) -> Any:  # noqa: ANN401
        """Send a request to the agent; `NodeError` when it refuses or is gone, `NotThere` after a power loss."""
        link = self._link
        if link is None:
            if self._missing:
                raise NodeError(self._missing)
            raise NotThere(f"expected host {self.host.name} to be there, found it without power")
        waiting = {} if patience_s is None else {"patience_s": patience_s}
        try:
            return link.ask(do, **waiting, **details)
        except AgentGone as gone:
            if self._link is link:
                raise NodeError(self._with_last_words(gone)) from gone
            # Another thread has cut the power since this one read the link.
            raise NotThere(
                f"expected host {self.host.name} to {do}, found that it lost its power or was left meanwhile"
            ) from gone

    def call(self, do: str, what: str, /, **details: object) -> Any:  # noqa: ANN401
        """Call a method of one of the agent's parts."""
        return self.ask(do, what=what, details=details)

    def lose_power(self) -> None:
        """Cut the power, restart the machine, and attach to it again. `NodeError` when it does not come back."""
        with self._lost:
            link, self._link = self._link, None
            try:
                try:
                    self._fleet.cut_power(self.plan.node_id)
                finally:
                    if link is not None:
                        link.drop()
                    self._bridge.reset()
                self.attach()
            except (EnvironmentFailed, HelperRefused, OSError) as error:
                self._missing = f"expected host {self.host.name} to come back after its loss of power, found: {error}"
                raise NodeError(self._missing) from error
        self.came_back()

    def stop_node(self, pid: int, timeout_s: float) -> int:
        """Shut the node down in a controlled way; returns its exit status."""
        command = self._system.stop_command(self._there(), pid)
        remote_command = None if command is None else _as_there(command, self.host)
        return int(self.ask("stop", timeout_s + _STOP_PATIENCE_S, command=remote_command, timeout_s=timeout_s))

    def fetch_logs(self) -> None:
        """Copy the node's logs to this machine."""
        for name in self.call("files", "log_names"):
            target = self.plan.directory / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(unpack(self.call("files", "read_log", name=name)))

    def close(self) -> None:
        """Disconnect; the agent undoes its changes. Safe to call twice."""
        self._bridge.close()
        link, self._link = self._link, None
        if link is not None:
            link.close()

    def _with_last_words(self, error: Exception) -> str:
        words = self._fleet.last_words(self.plan.node_id)
        return f"{error}; {words}" if words else str(error)

    def _there(self) -> NodePlan:
        return there(self.plan, self.host, self._settings.token)

    def _send_stream(self, part: Mapping[str, object]) -> None:
        if (link := self._link) is not None:
            link.notify("stream", **part)
        elif "end" not in part:
            self._bridge.take({"stream": part["number"], "end": True})


def there(plan: NodePlan, host: SshHost, token: str) -> NodePlan:
    """The node's plan with paths of its machine."""
    directory = _directory(host, token, plan.node_id)
    return replace(plan, directory=directory, data=directory / "data", socket=directory / "control")


def agent_config(
    plan: NodePlan, remote: NodePlan, system: System, host: SshHost, facts: Facts, settings: AgentSettings
) -> AgentConfig:
    """The config of a node's agent."""
    return AgentConfig(
        token=settings.token,
        node_id=plan.node_id,
        role=plan.role,
        place=host.directory,
        directory=str(remote.directory),
        data=str(remote.data),
        socket=str(remote.socket),
        command=_as_there(system.command(remote), host),
        log_patterns=list(system.log_patterns(plan.role)),
        disk=settings.disk,
        device=host.device if settings.disk == "power-cut" else "",
        clock=settings.clock,
        library=base64.b64encode(settings.library).decode(),
        filter="nft" if "nft" in facts.has else "iptables",
        netem="netem" in facts.has,
        harness=facts.harness_address,
        ssh_port=facts.ssh_port,
        peers={str(node_id): address for node_id, address in settings.peers.items() if node_id != plan.node_id},
        entropy=base64.b64encode(secrets.token_bytes(64)).decode() if host.device else "",
        probe_address=("0.0.0.0", PROBE_PORT),  # noqa: S104 - from the clients and from the other machines
    )


def healing_config(node_id: int, token: str, host: SshHost, facts: Facts) -> AgentConfig:
    """The config of an agent that cleans up after an earlier one."""
    directory = str(_directory(host, token, node_id))
    return AgentConfig(
        token=token,
        node_id=node_id,
        role="",
        place=host.directory,
        directory=directory,
        data="",
        socket="",
        command=(),
        log_patterns=(),
        disk="",
        device="",
        clock="",
        library="",
        filter="nft" if "nft" in facts.has else "iptables",
        netem="netem" in facts.has,
        harness=facts.harness_address,
        ssh_port=facts.ssh_port,
        peers={},
        probe_address=("", 0),
        heal=True,
    )


def _directory(host: SshHost, token: str, node_id: int) -> Path:
    return Path(host.directory, "runs", f"{token}-{node_id}")


def _as_there(command: Sequence[str], host: SshHost) -> list[str]:
    """Replace our Python in a command by the machine's."""
    return [host.python if word == sys.executable else word for word in command]


def heal_hosts(token: str, entries: Sequence[Entry]) -> Iterator[str]:
    """Clean up a run's hosts; yields a line for each item, and for each host that cannot be reached."""
    for entry in entries:
        try:
            for line in heal_host(token, entry):
                yield f"{entry['name']}: {line}"
        except EnvironmentFailed as error:
            yield str(error)


def heal_host(token: str, entry: Entry, dialled: socket.socket | None = None) -> list[str]:
    """Clean up one host. Raises `EnvironmentFailed`."""
    host = host_from_json(entry)
    connection = SshConnection(host, dialled)
    try:
        facts = examine(connection)
        config = healing_config(entry["node"], token, host, facts)
        link = AgentLink(connection, install(connection, facts), config, lambda _: None)
        result: list[str] = link.result
    finally:
        connection.close()
    return result
