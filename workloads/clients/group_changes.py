"""What a member of a group owns and where it reads on: the part that all client libraries share."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from workloads.clients.base import Partition, PolledPartition, PolledRecord
from workloads.clients.optional_interfaces import Assigned, Revoked


class GroupChanges:
    """Stores assignments and revocations until the member takes them. A library's thread may write while it does.

    A library may tell only of the partitions that change (cooperative), so what the member holds is kept here.
    """

    def __init__(self, now: Callable[[], int], assignor: str) -> None:
        self._now = now  # the run's clock, in nanoseconds
        self._incremental = assignor == "cooperative"
        self._held: frozenset[Partition] = frozenset()
        self._untaken: deque[Assigned | Revoked] = deque()

    def __len__(self) -> int:
        return len(self._untaken)

    def assigned(self, member: str, generation: int, partitions: frozenset[Partition]) -> None:
        """Store an assignment, of all partitions that the member owns from now on."""
        self._held = self._held | partitions if self._incremental else partitions
        self._untaken.append(Assigned(self._now(), member, generation, self._held))

    def revoked(self, partitions: frozenset[Partition]) -> None:
        """Store that the member gave these partitions up, or lost them."""
        self._held -= partitions
        self._untaken.append(Revoked(self._now(), partitions))

    def take(self) -> Sequence[Assigned | Revoked]:
        """Return what was stored since the last call, in order."""
        return [self._untaken.popleft() for _ in range(len(self._untaken))]


def position_of(positions: dict[Partition, int], partition: Partition, first: int) -> int:
    """Return the offset that a member asked for when it got the record at `first`: less, if offsets are missing."""
    return min(positions.get(partition, first), first)


def polled_by_member(
    positions: dict[Partition, int], partition: Partition, records: Sequence[PolledRecord]
) -> PolledPartition:
    """Build the result of a partition with records, of which no high watermark is known; updates the positions."""
    position, end = position_of(positions, partition, records[0].offset), records[-1].offset + 1
    positions[partition] = end
    return PolledPartition(partition, position, end, None, records)
