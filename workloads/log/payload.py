"""Defines the payload of a log's records: how it is created, and who is notified of its outcome.

Sending, reading back and recording are the same for every workload on logs; a `Payload` is what differs.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Protocol

from workloads.clients.base import Partition, PolledPartition
from workloads.clients.classify import Status
from workloads.values import encode_value


class Payload(Protocol):
    """Creates payloads. The sending thread calls `load` and `waits`, any thread `sent`, reader threads `read`."""

    def load(self, process: int, partition: Partition, values: Sequence[int], choices: random.Random, /) -> list[bytes]:
        """Return the payloads of a send that is about to start, one for each value."""
        ...

    def sent(self, values: Sequence[int], status: Status) -> None:
        """Receive the outcome of the send of these values."""
        ...

    def read(self, polled: PolledPartition) -> None:
        """Receive what a reader of this worker polled."""
        ...

    def waits(self, process: int, /) -> int | None:
        """Return since when (ns) a process whose send has ended waits for a result; None: it may send."""
        ...

    def close(self) -> None:
        """Record open commands as unknown."""
        ...


class Numbers:
    """Payloads that consist of their values only."""

    def load(self, _process: int, _partition: Partition, values: Sequence[int], _choices: random.Random) -> list[bytes]:
        """Encode the values."""
        return [encode_value(value) for value in values]

    def sent(self, values: Sequence[int], status: Status) -> None:
        """Do nothing: the history has the outcome."""

    def read(self, polled: PolledPartition) -> None:
        """Do nothing: the history has the outcome."""

    def waits(self, _process: int) -> int | None:
        """Return None: no process waits for more than its send."""
        return None

    def close(self) -> None:
        """Do nothing: no command is open."""
