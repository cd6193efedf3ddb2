"""What the environment needs of whoever provides the machines."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from harness.environments.base import Address
from harness.environments.machine.helpers.supervisor import Supervisor
from harness.environments.machine.helpers.supervisor_process import Settings
from harness.environments.ssh.fleet.facts import Facts
from harness.environments.ssh.fleet.hosts import SshHost
from nemesis.capabilities.cluster import Endpoint


class Fleet(Protocol):
    """Where machines come from: one for each node, in the order of the nodes."""

    how: str
    """In words, for the report."""
    ours: bool
    """Whether the machines were made for this run: their power and their real clocks may be tampered with."""
    facts: Facts | None
    """What is known of every machine, where nobody need look."""

    def settings(self, node_ids: Sequence[int]) -> Settings:
        """What the keeper of the clients, and of what the fleet runs on this machine, is to make."""
        ...

    def set_up(self, keeper: Supervisor, place: Path, node_ids: Sequence[int]) -> None:
        """Have a machine for each node. Processes on this machine are the keeper's, files are in `place`."""
        ...

    def host(self, node_id: int) -> SshHost:
        """The node's machine."""
        ...

    def dial(self, node_id: int) -> socket.socket | None:
        """A connection to its SSH server, where it takes more than its address; no fault may cut it."""
        ...

    def bind(self, node_id: int) -> str:
        """The address at which the node listens for clients."""
        ...

    def reach(self, source: Endpoint, node_id: int, port: int) -> Address:
        """Where `source` reaches a port of the node, TCP or UDP alike."""
        ...

    def clients_socket(self) -> socket.socket:
        """A UDP socket where the clients are, which the nodes reach by the address that their SSH server sees."""
        ...

    def cut_power(self, node_id: int) -> None:
        """End the node's machine as a loss of power would, and have it running again."""
        ...

    def last_words(self, node_id: int) -> str:
        """What is known of the node's machine beyond what its agent says, in one line for an error; may be empty."""
        ...

    def tear_down(self) -> None:
        """Give the machines back. Safe at any time."""
        ...
