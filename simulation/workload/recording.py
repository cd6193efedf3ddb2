"""Records what simulated clients did and saw, as rows of the history's tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from broker.core.messages import FetchedPartition
from broker.core.records import Record, decode_records, iterate_headers
from simulation.engine.event_queue import MS

_BYTES = 8
_FOREIGN = -2
"""Stands for every value that no client can have sent, in the 64 bits that the history has for it."""


def value_of(record: Record) -> int | None:
    """The number that a client sent as a record's value; None for a tombstone."""
    return None if record.value is None else number_of(record.value)


def number_of(value: bytes) -> int:
    """The number in the bytes of a value."""
    number = int.from_bytes(value, "big")
    return number if number < 1 << (8 * _BYTES - 1) else _FOREIGN


class SendRow(NamedTuple):
    op: int
    topic: str
    partition: int
    value: int
    acks: int
    offset: int | None
    ordinal: int


class ReadRow(NamedTuple):
    op: int
    topic: str
    partition: int
    offset: int
    leader_epoch: int | None
    value: int | None
    ordinal: int


class PollRow(NamedTuple):
    op: int
    topic: str
    partition: int
    position: int | None
    next_position: int
    high_watermark: int | None
    records: int
    assigned: bool


class OperationRow(NamedTuple):
    op: int
    process: int
    kind: str
    status: str
    error: str | None
    node: int | None
    phase: str
    invoked_ns: int
    completed_ns: int | None


class CommitRow(NamedTuple):
    """A committed offset that was set, or that was the answer to a question: then without a generation."""

    op: int
    group: str
    topic: str
    partition: int
    offset: int | None
    member: str
    generation: int | None
    kept_in: int


class OwnershipRow(NamedTuple):
    group: str
    topic: str
    partition: int
    process: int
    member: str
    generation: int
    since_ns: int
    until_ns: int | None
    kept_in: int


class FaultRow(NamedTuple):
    fault: int
    kind: str
    targets: tuple[int, ...]
    parameters: str
    started_ns: int
    ended_ns: int | None
    planned: int | None = None
    """The place in the schedule of the fault that it is, or is a part of."""


@dataclass(slots=True)
class SimulatedHistory:
    """Everything that the clients of one simulation saw, in the order of completion."""

    operations: list[OperationRow] = field(default_factory=list)
    sends: list[SendRow] = field(default_factory=list)
    polls: list[PollRow] = field(default_factory=list)
    reads: list[ReadRow] = field(default_factory=list)
    commits: list[CommitRow] = field(default_factory=list)
    ownerships: list[OwnershipRow] = field(default_factory=list)
    faults: list[FaultRow] = field(default_factory=list)
    next_op: int = 1
    next_value: int = 1
    next_process: int = 1

    def new_op(self) -> int:
        """Number of a new operation."""
        self.next_op += 1
        return self.next_op - 1

    def new_value(self) -> int:
        """A value that no other record has."""
        self.next_value += 1
        return self.next_value - 1

    def new_process(self) -> int:
        """Number of a new logical process."""
        self.next_process += 1
        return self.next_process - 1

    def sent(
        self,
        op: int,
        process: int,
        status: str,
        error: str | None,
        *,
        topic: str,
        partition: int,
        values: Sequence[int],
        acks: int,
        base_offset: int | None,
        node: int | None,
        from_us: int,
        to_us: int,
    ) -> None:
        """Record the outcome of a send of one batch. `base_offset` is None or -1 where the answer had none."""
        for ordinal, value in enumerate(values):
            offset = None if base_offset is None or base_offset < 0 else base_offset + ordinal
            self.sends.append(SendRow(op, topic, partition, value, acks, offset, ordinal))
        ended_ns = None if status == "info" else to_us * MS
        served_by = node if status == "ok" else None
        self.operations.append(
            OperationRow(op, process, "send", status, error, served_by, "main", from_us * MS, ended_ns)
        )

    def polled(self, op: int, part: FetchedPartition, position: int, *, assigned: bool) -> tuple[int, list[int]]:
        """Record what a poll from `position` on returned: the next position, and the records' timestamps."""
        following = position
        times: list[int] = []
        for at, header in iterate_headers(part.records):
            for record in () if header.is_control else decode_records(part.records, at):
                if record.offset >= position:
                    value = value_of(record)
                    row = ReadRow(op, part.topic, part.partition, record.offset, header.leader_epoch, value, len(times))
                    self.reads.append(row)
                    times.append(record.timestamp)
            following = max(following, header.last_offset + 1)
        self.polls.append(
            PollRow(op, part.topic, part.partition, position, following, part.high_watermark, len(times), assigned)
        )
        return following, times
