"""The fleet of an inventory's hosts, which belong to the user."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from pathlib import Path

from harness.environments.base import Address, EnvironmentFailed
from harness.environments.machine.helpers.supervisor import Supervisor
from harness.environments.machine.helpers.supervisor_process import Settings
from harness.environments.ssh.fleet.facts import Facts
from harness.environments.ssh.fleet.hosts import SshHost
from nemesis.capabilities.cluster import CLIENTS, Endpoint


class GivenFleet:
    """Implements `harness.environments.ssh.fleet.fleet.Fleet`. Clients run here, and reach the hosts as SSH does."""

    how = "hosts of an inventory, reached by SSH"
    ours = False
    facts: Facts | None = None

    def __init__(self, hosts: Sequence[SshHost]) -> None:
        self._hosts = hosts
        self._by_node: dict[int, SshHost] = {}

    def settings(self, node_ids: Sequence[int]) -> Settings:
        """Only processes; also assigns the hosts to the nodes."""
        self._by_node = dict(zip(node_ids, self._hosts, strict=False))
        return Settings(network=False, mounts=False, endpoints=())

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
