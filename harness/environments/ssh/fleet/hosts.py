"""Machines that may become nodes: how each is reached."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

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
