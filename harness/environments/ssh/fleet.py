"""Fleets, which provide the machines of the nodes: their interface, and the fleet of an inventory's hosts."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from harness.environments.base import Address, EnvironmentFailed
from harness.environments.machine.helpers.supervisor import Supervisor
from harness.environments.machine.helpers.supervisor_process import SupervisorSettings
from harness.environments.ssh.connection.facts import Facts
from harness.environments.ssh.connection.hosts import SshHost
from nemesis.capabilities.cluster import CLIENTS, Endpoint


class Fleet(Protocol):
    """Provides one machine for each node, in the order of the nodes."""

    how: str
    """Description for the report."""
    ours: bool
    """Whether the machines are VMs of this run: faults may cut their power and set their real clocks."""
    facts: Facts | None
    """The facts of every machine, if they are known without an examination."""

    def settings(self, node_ids: Sequence[int]) -> SupervisorSettings:
        """Settings of the supervisor of the clients and of the fleet's processes on this machine."""
        ...

    def set_up(self, supervisor: Supervisor, place: Path, node_ids: Sequence[int]) -> None:
        """Provide a machine for each node. Local processes run under the supervisor; files are in `place`."""
        ...

    def host(self, node_id: int) -> SshHost:
        """The node's machine."""
        ...

    def dial(self, node_id: int) -> socket.socket | None:
        """A connection to its SSH server, which no fault may cut; None: connect by address."""
        ...

    def bind(self, node_id: int) -> str:
        """The address at which the node listens for clients."""
        ...

    def reach(self, source: Endpoint, node_id: int, port: int) -> Address:
        """Where `source` reaches a port of the node, for TCP and UDP."""
        ...

    def clients_socket(self) -> socket.socket:
        """A UDP socket in the clients' network; nodes reach it at the address that their SSH server sees."""
        ...

    def cut_power(self, node_id: int) -> None:
        """Stop the node's machine as a power loss would, and start it again."""
        ...

    def last_words(self, node_id: int) -> str:
        """The state of the node's machine, in one line for an error; may be empty."""
        ...

    def tear_down(self) -> None:
        """Release the machines. Safe at any time."""
        ...


class GivenFleet:
    """Implements `Fleet`. Clients run here, and reach the hosts as SSH does."""

    how = "hosts of an inventory, reached by SSH"
    ours = False
    facts: Facts | None = None

    def __init__(self, hosts: Sequence[SshHost]) -> None:
        self._hosts = hosts
        self._by_node: dict[int, SshHost] = {}

    def settings(self, node_ids: Sequence[int]) -> SupervisorSettings:
        """Only processes; also assigns the hosts to the nodes."""
        self._by_node = dict(zip(node_ids, self._hosts, strict=False))
        return SupervisorSettings(network=False, mounts=False, endpoints=())

    def set_up(self, supervisor: Supervisor, place: Path, node_ids: Sequence[int]) -> None:
        """Nothing to do: the hosts exist."""

    def host(self, node_id: int) -> SshHost:
        """The node's machine."""
        return self._by_node[node_id]

    def dial(self, node_id: int) -> socket.socket | None:  # noqa: ARG002
        """None: connect by address."""
        return None

    def bind(self, node_id: int) -> str:
        """The host's SSH address: a node can listen there too, unless it is translated."""
        return self._by_node[node_id].address

    def reach(self, source: Endpoint, node_id: int, port: int) -> Address:
        """Clients use the SSH address, other nodes the peer address."""
        host = self._by_node[node_id]
        return (host.address if source == CLIENTS else host.peer), port

    def clients_socket(self) -> socket.socket:
        """A socket on all of this machine's addresses."""
        receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        receiver.bind(("0.0.0.0", 0))  # noqa: S104 - the hosts send from their own addresses
        return receiver

    def cut_power(self, node_id: int) -> None:
        """Not supported: the hosts belong to the user."""
        raise EnvironmentFailed(
            f"expected to be able to cut the power of {self.host(node_id).name}, found that it is not ours"
        )

    def last_words(self, node_id: int) -> str:  # noqa: ARG002
        """Nothing is known of the user's hosts."""
        return ""

    def tear_down(self) -> None:
        """Nothing to do: nothing was created."""
