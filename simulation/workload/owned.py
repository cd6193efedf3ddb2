"""The partitions that a group member owns for a while: where it reads next, and how it reads them."""

from __future__ import annotations

from collections.abc import Iterable

from broker.core.messages import (
    AnyResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    MetadataRequest,
    MetadataResponse,
)
from broker.core.messages.errors import ErrorCode
from simulation.workload.clients import TOPIC, LeaderCache
from simulation.workload.recording import SimulatedHistory

Read = MetadataRequest | FetchRequest | ListOffsetsRequest
"""A request that has to do with reading."""

_EARLIEST = -2


class OwnedPartitions:
    """The positions of a member in its partitions, which it reads in turn. `route` is its view of the leaders."""

    def __init__(self, partitions: Iterable[int], route: LeaderCache) -> None:
        self.positions = dict.fromkeys(partitions, -1)
        """Where it reads next, by partition; -1 until the committed offset is known."""

        self._route = route
        self._begins = dict.fromkeys(self.positions, True)  # the next poll begins anywhere
        self._out_of_range = dict.fromkeys(self.positions, False)
        self._turn = 0
        self._partition = 0

    def unknown(self) -> list[int]:
        """Partitions whose committed offset is not known yet."""
        return [partition for partition, position in self.positions.items() if position < 0]

    def begin_at(self, partition: int, committed: int) -> bool:
        """Take a committed offset, if it is wanted; whether somebody has committed one."""
        if self.positions.get(partition, 0) >= 0:
            return False
        self.positions[partition] = max(0, committed)
        return committed > 0

    def next_read(self) -> tuple[int, Read]:
        """What to ask next, and which broker."""
        self._turn += 1
        self._partition = partition = list(self.positions)[self._turn % len(self.positions)]
        if partition not in self._route.leaders:
            return self._route.ask(), MetadataRequest(((TOPIC, ""),))
        leader, epoch = self._route.leaders[partition]
        if self._out_of_range[partition]:
            return leader, ListOffsetsRequest((ListOffsetsPartition(TOPIC, partition, _EARLIEST, epoch),))
        part = FetchPartition(TOPIC, partition, self.positions[partition], 1 << 16, epoch)
        return leader, FetchRequest((part,), max_wait_ms=100)

    def take(self, history: SimulatedHistory, op: int, response: AnyResponse | None) -> bool:
        """Take the answer to the last read; returns whether it was a poll, which is then in the history as `op`."""
        partition = self._partition
        match response:
            case MetadataResponse():
                self._route.learn(response)
            case FetchResponse() if response.partitions[0].error_code == ErrorCode.NONE:
                begins, self._begins[partition] = self._begins[partition], False
                position = self.positions[partition]
                self.positions[partition], _ = history.polled(op, response.partitions[0], position, assigned=begins)
                return True
            case ListOffsetsResponse() if response.partitions[0].error_code == ErrorCode.NONE:
                self._out_of_range[partition] = False
                self.positions[partition] = response.partitions[0].offset
                self._begins[partition] = True
            case _:
                self._route.leaders.pop(partition, None)
                if isinstance(response, FetchResponse):
                    out_of_range = response.partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
                    self._out_of_range[partition] = out_of_range
        return False
