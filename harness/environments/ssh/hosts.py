"""Machines that may become nodes: how each is reached, and what the environment needs of whoever provides them."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from harness.environments.base import Address
from harness.environments.machine.keeper import Keeper
from harness.environments.machine.keeper_process import Settings
from nemesis.cluster import Endpoint

if TYPE_CHECKING:
    from harness.environments.ssh.facts import Facts

SSH_PORT = 22


@dataclass(frozen=True)
class SshHost:
    """A machine with an SSH server."""

    name: str  # what the user calls it
    address: str  # where its SSH server listens
    port: int = SSH_PORT
    user: str = "root"
    key: Path | None = None  # private key; None: what the SSH agent and the usual files offer
    sudo: bool = False  # whether that user becomes root by `sudo -n`
    peer_address: str = ""  # where the other machines reach it; empty: at `address`
    directory: str = "/var/lib/harrow"  # what is ours on it
    python: str = "python3"
    known_hosts: Path | None = None  # beside the user's own
    device: str = ""  # of a machine that is ours: the disk for the node's data
    fork_server: str = ""  # of a machine that is ours: where one listens that has imported what an agent runs

    @property
    def peer(self) -> str:
        """Where the other machines reach it."""
        return self.peer_address or self.address

    def told(self) -> dict[str, object]:
        """As JSON values, for the journal."""
        return {key: str(value) if isinstance(value, Path) else value for key, value in asdict(self).items()}


def from_told(told: Mapping[str, Any]) -> SshHost:
    """A host as it was told to the journal."""
    values = {field.name: told[field.name] for field in fields(SshHost)}
    for key in ("key", "known_hosts"):
        values[key] = None if values[key] is None else Path(values[key])
    return SshHost(**values)


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

    def set_up(self, keeper: Keeper, place: Path, node_ids: Sequence[int]) -> None:
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

    def tear_down(self) -> None:
        """Give the machines back. Safe at any time."""
        ...
