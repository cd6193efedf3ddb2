"""What an agent is told first, and the lock that keeps two runs from one machine."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, NamedTuple

from harness.environments.base import EnvironmentFailed


class AgentConfig(NamedTuple):
    """All that an agent needs to know of its run."""

    token: str  # of the run
    node_id: int
    role: str
    place: str  # what is Harrow's on the machine; holds the lock
    directory: str  # the node's, made by the agent and deleted at its end
    data: str
    socket: str
    command: Sequence[str]
    log_patterns: Sequence[str]  # files in its directory to which it logs, besides what it prints
    disk: Literal["ext4", "fuse", "power-cut", ""]
    device: str  # "power-cut": the block device to mount at `data`
    clock: Literal["library", "real", ""]
    library: str  # "library": the shared object, base64
    filter: Literal["nft", "iptables"]
    netem: bool
    harness: str  # its address as this machine sees it, which is that of all clients
    ssh_port: int
    peers: Mapping[str, str]  # endpoint, as text → address
    probe_address: tuple[str, int]  # where probes are received
    entropy: str = ""  # base64; a VM from a template draws the same numbers as its siblings without it
    heal: bool = False


@contextmanager
def claim(orders: AgentConfig) -> Iterator[None]:
    """Hold the machine for one run. Raises `EnvironmentFailed` when another holds it."""
    place = Path(orders.place)
    place.mkdir(parents=True, exist_ok=True)
    lock = os.open(place / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise EnvironmentFailed(
                f"expected {place} to be nobody's, found that another run uses this machine; wait for its end"
            ) from error
        yield
    finally:
        os.close(lock)
