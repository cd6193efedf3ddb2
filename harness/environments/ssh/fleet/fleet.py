"""The interface of a fleet, which provides the machines of the nodes."""

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
    """Provides one machine for each node, in the order of the nodes."""

    how: str
    """Description for the report."""
    ours: bool
    """Whether the machines are VMs of this run: faults may cut their power and set their real clocks."""
    facts: Facts | None
    """The facts of every machine, if they are known without an examination."""

    def settings(self, node_ids: Sequence[int]) -> Settings:
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
