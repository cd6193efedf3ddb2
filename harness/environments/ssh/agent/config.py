"""The config of an agent, and the lock that keeps two runs from using one machine."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, NamedTuple

from harness.environments.base import EnvironmentFailed


class AgentConfig(NamedTuple):
    """The config that an agent receives first."""

    token: str  # of the run
    node_id: int
    role: str
    place: str  # Harrow's directory on the machine; holds the lock
    directory: str  # the node's, created by the agent and deleted at its end
    data: str
    socket: str
    command: Sequence[str]
    log_patterns: Sequence[str]  # log files in its directory, besides its output
    disk: Literal["ext4", "fuse", "power-cut", ""]
    device: str  # "power-cut": the block device to mount at `data`
    clock: Literal["library", "real", ""]
    library: str  # "library": the shared object, base64
    filter: Literal["nft", "iptables"]
    netem: bool
    harness: str  # its address as this machine sees it; also that of all clients
    ssh_port: int
    peers: Mapping[str, str]  # endpoint, as text → address
    probe_address: tuple[str, int]  # where probes are received
    entropy: str = ""  # base64; without it a VM from a template draws the same random numbers as the others
    heal: bool = False


@contextmanager
def claim(config: AgentConfig) -> Iterator[None]:
    """Lock the machine for one run. Raises `EnvironmentFailed` when another run holds the lock."""
    place = Path(config.place)
    place.mkdir(parents=True, exist_ok=True)
    lock = os.open(place / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise EnvironmentFailed(
                f"expected {place} to be unlocked, found that another run uses this machine; wait for its end"
            ) from error
        yield
    finally:
        os.close(lock)
