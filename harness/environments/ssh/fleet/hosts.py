"""Machines that can run nodes, with their SSH settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

SSH_PORT = 22


@dataclass(frozen=True)
class SshHost:
    """A machine with an SSH server."""

    name: str  # the user's name for it
    address: str  # where its SSH server listens
    port: int = SSH_PORT
    user: str = "root"
    key: Path | None = None  # private key; None: those of the SSH agent and of the usual files
    sudo: bool = False  # whether commands run as root by `sudo -n`
    peer_address: str = ""  # its address for the other machines; empty: `address`
    directory: str = "/var/lib/harrow"  # Harrow's directory on it
    python: str = "python3"
    known_hosts: Path | None = None  # besides the user's own
    device: str = ""  # only of our own VMs: the disk for the node's data
    fork_server: str = ""  # only of our own VMs: the socket of the fork server

    @property
    def peer(self) -> str:
        """Its address for the other machines."""
        return self.peer_address or self.address

    def to_json(self) -> dict[str, object]:
        """Convert a host to JSON values, for the journal."""
        return {key: str(value) if isinstance(value, Path) else value for key, value in asdict(self).items()}


def host_from_json(data: Mapping[str, Any]) -> SshHost:
    """Convert the JSON values of `SshHost.to_json` back to a host."""
    values = {field.name: data[field.name] for field in fields(SshHost)}
    for key in ("key", "known_hosts"):
        values[key] = None if values[key] is None else Path(values[key])
    return SshHost(**values)
