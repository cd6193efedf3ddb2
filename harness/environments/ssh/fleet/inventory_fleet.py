"""A fleet of machines that are somebody's: those of an inventory."""

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
    """Implements `harness.environments.ssh.fleet.hosts.Fleet`. Clients run here, and reach the hosts as SSH does."""

    how = "hosts of an inventory, reached by SSH"
    ours = False
    facts: Facts | None = None

    def __init__(self, hosts: Sequence[SshHost]) -> None:
        self._hosts = hosts
        self._by_node: dict[int, SshHost] = {}

    def settings(self, node_ids: Sequence[int]) -> Settings:
        """Nothing but processes; and it is known now which host is whose."""
        self._by_node = dict(zip(node_ids, self._hosts, strict=False))
        return Settings(network=False, mounts=False, endpoints=())

    def set_up(self, keeper: Supervisor, place: Path, node_ids: Sequence[int]) -> None:
        """They are there."""

    def host(self, node_id: int) -> SshHost:
        """The node's machine."""
        return self._by_node[node_id]

    def dial(self, node_id: int) -> socket.socket | None:  # noqa: ARG002
        """An address is enough."""
        return None

    def bind(self, node_id: int) -> str:
        """Where SSH listens the node can listen too, unless it is behind another address."""
        return self._by_node[node_id].address

    def reach(self, source: Endpoint, node_id: int, port: int) -> Address:
        """Clients go the way that SSH goes."""
        host = self._by_node[node_id]
        return (host.address if source == CLIENTS else host.peer), port

    def clients_socket(self) -> socket.socket:
        """Any of this machine's addresses."""
        receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        receiver.bind(("0.0.0.0", 0))  # noqa: S104 - the hosts answer from their own
        return receiver

    def cut_power(self, node_id: int) -> None:
        """Not ours to cut."""
        raise EnvironmentFailed(
            f"expected to be able to cut the power of {self.host(node_id).name}, found that it is not ours"
        )

    def last_words(self, node_id: int) -> str:  # noqa: ARG002
        """Nothing: they are somebody's."""
        return ""

    def tear_down(self) -> None:
        """Nothing was made."""
