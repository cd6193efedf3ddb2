"""Defines the interface between a worker process and a workload."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from history.clock import RunClock
from workloads.clients.base import ClientLibrary, Partition
from workloads.config import WorkerConfig
from workloads.recording import Recorder


@dataclass(frozen=True)
class Context:
    """The configuration and services that a workload gets from its worker."""

    config: WorkerConfig
    library: ClientLibrary
    recorder: Recorder
    clock: RunClock


@dataclass(frozen=True)
class Unread:
    """A partition that a final read has not read to the end."""

    process: int
    partition: Partition
    position: int | None  # None: not assigned yet
    end: int


class Workload(Protocol):
    """One worker's share of a workload. Methods are called from one thread, in this order."""

    def start(self) -> None:
        """Connect and start. Raises `ClientError` if no broker can be reached within the timeout."""
        ...

    def failure(self) -> Exception | None:
        """Return the exception that broke the workload itself, if any did."""
        ...

    def open(self) -> int:
        """Count operations in flight that change something."""
        ...

    def drain(self) -> None:
        """Start no more operations that change something; reads continue. Returns at once."""
        ...

    def begin_final(self, ends: Mapping[Partition, int]) -> None:
        """Make every reader read every partition from its start to these ends. Returns at once."""
        ...

    def unread(self) -> Sequence[Unread]:
        """List what the final reads have not reached; empty when they are complete."""
        ...

    def stop(self) -> None:
        """Stop all threads; record open operations that change something as unknown."""
        ...


@runtime_checkable
class Refusable(Protocol):
    """A workload of which the system may refuse a part for good; the rest goes on."""

    def refusal(self) -> str | None:
        """Return what the system refuses, one line: what was expected, what was found, what to do; None: nothing."""
        ...
