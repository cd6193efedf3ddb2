"""What a worker process asks of a workload."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from history import RunClock
from workloads.clients.base import ClientLibrary, Partition
from workloads.config import WorkerConfig
from workloads.recording import Recorder


@dataclass(frozen=True)
class Context:
    """What a workload works with."""

    orders: WorkerConfig
    library: ClientLibrary
    recorder: Recorder
    clock: RunClock


@dataclass(frozen=True)
class Unread:
    """A partition that a final read has not reached the end of."""

    process: int
    partition: Partition
    position: int | None  # None: not even assigned
    end: int


class Workload(Protocol):
    """One worker's share of a workload. Methods are called from one thread, in this order."""

    def start(self) -> None:
        """Connect and begin. Raises `ClientError` if no broker can be reached in the time allowed."""
        ...

    def failure(self) -> Exception | None:
        """Tell what broke the workload itself, if anything did."""
        ...

    def open(self) -> int:
        """Count operations that change something, were started and have not ended."""
        ...

    def drain(self) -> None:
        """Start no more operations that change something; reading goes on. Returns at once."""
        ...

    def begin_final(self, ends: Mapping[Partition, int]) -> None:
        """Have every reader read every partition from its start to these ends. Returns at once."""
        ...

    def unread(self) -> Sequence[Unread]:
        """Tell what the final reads have not reached; empty when they are complete."""
        ...

    def stop(self) -> None:
        """End everything, recording as unknown what is open and would change something."""
        ...
