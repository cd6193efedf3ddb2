"""What the records of a log say, and who wants to know what became of them.

Sending, reading back and recording are the same for every workload that lives on logs; what differs is in here.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Protocol

from workloads.clients.base import Partition, PolledPartition
from workloads.clients.classify import Status
from workloads.values import encode_value


class Payload(Protocol):
    """What the records carry. The thread that sends calls `load` and `waits`, any thread `sent`, readers' `read`."""

    def load(self, process: int, partition: Partition, values: Sequence[int], choices: random.Random, /) -> list[bytes]:
        """Give the payloads of a send that is about to start, one for each value."""
        ...

    def sent(self, values: Sequence[int], status: Status) -> None:
        """Hear how the send of these values ended."""
        ...

    def read(self, polled: PolledPartition) -> None:
        """Hear what a reader of this worker was given."""
        ...

    def waits(self, process: int, /) -> int | None:
        """Tell since when (ns) a process whose send has ended waits for something else; None: it may send."""
        ...

    def close(self) -> None:
        """Give up what is still open."""
        ...


class Numbers:
    """Nothing but the values themselves."""

    def load(self, _process: int, _partition: Partition, values: Sequence[int], _choices: random.Random) -> list[bytes]:
        """Encode the values."""
        return [encode_value(value) for value in values]

    def sent(self, values: Sequence[int], status: Status) -> None:
        """Nobody waits for it: the history has it."""

    def read(self, polled: PolledPartition) -> None:
        """Nobody waits for it: the history has it."""

    def waits(self, _process: int) -> int | None:
        """No process waits for more than its send."""
        return None

    def close(self) -> None:
        """Nothing is open."""
