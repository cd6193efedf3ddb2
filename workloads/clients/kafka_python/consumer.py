"""Reads through `kafka.KafkaConsumer`, by assignment.

`KafkaConsumer.poll` returns what an earlier fetch returned, and nothing if no broker has answered yet: an empty
result does not describe the log, and a high watermark may be older than the poll. So every fetch is observed, and
a poll reports only what a broker answered to a fetch that was sent after the poll began: that a partition had no
records, or its high watermark.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final, NamedTuple

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError, LogTruncationError, OffsetOutOfRangeError
from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest

from workloads.clients.base import (
    LOG_START,
    POLL_RECORDS_MAX,
    ClientError,
    ClientSettings,
    EndOffset,
    Partition,
    Poll,
    PolledPartition,
    PolledRecord,
    PositionLostError,
)
from workloads.clients.kafka_python.wire import Untyped, watched_client

FETCH_WAIT_MS: Final = 100
"""How long a broker holds a fetch that finds nothing."""


class _Answer(NamedTuple):
    """A broker's latest answer to a fetch of one partition."""

    sent_ns: int
    node: int | None
    offset: int  # requested
    high_watermark: int
    empty: bool


class FetchWatch:
    """The latest answers per partition; written by the library's I/O thread, read by the polling thread.

    Several brokers may answer for one position: a leader that was deposed holds a fetch while the client, which has
    learnt of the next one, fetches from that. What a poll returns is then of either.
    """

    def __init__(self) -> None:
        self.answers: dict[Partition, list[_Answer]] = {}
        """Those for the latest position that was asked for: of each broker the last one with and without records."""

        self.end_nodes: dict[Partition, int | None] = {}

    def watch(self, node: int | None, request: Untyped, future: Untyped) -> None:
        """Observe a request that is sent (see `watched_client`)."""
        if isinstance(request, FetchRequest):
            future.add_callback(self._fetched, node, request, time.monotonic_ns())
        elif isinstance(request, ListOffsetsRequest):
            future.add_callback(self._ends_answered, node)

    def records_at(self, partition: Partition, position: int) -> _Answer | None:
        """Return the answer with the records from this position; None if none is known, or several brokers gave one."""
        answers = [one for one in self.answers.get(partition, ()) if one.offset == position and not one.empty]
        return answers[0] if len(answers) == 1 else None

    def nothing_at(self, partition: Partition, position: int, started_ns: int) -> _Answer | None:
        """Return the latest answer that there is nothing at this position, to a fetch that was sent since then."""
        answers = [one for one in self.answers.get(partition, ()) if one.offset == position and one.empty]
        return answers[-1] if answers and answers[-1].sent_ns >= started_ns else None

    def _fetched(self, node: int | None, request: Untyped, sent_ns: int, response: Untyped) -> None:
        requested = {
            (topic.topic, partition.partition): partition.fetch_offset
            for topic in request.topics
            for partition in topic.partitions
        }
        for topic in response.responses:
            for data in topic.partitions:
                offset = requested.get((topic.topic, data.partition_index))
                if data.error_code == 0 and offset is not None:
                    partition = Partition(topic.topic, data.partition_index)
                    answer = _Answer(sent_ns, node, offset, data.high_watermark, empty=not data.records)
                    others = [
                        one
                        for one in self.answers.get(partition, ())
                        if one.offset == offset and (one.node, one.empty) != (node, answer.empty)
                    ]
                    self.answers[partition] = [*others, answer]

    def _ends_answered(self, node: int | None, response: Untyped) -> None:
        for topic in response.topics:
            for data in topic.partitions:
                if data.error_code == 0:
                    self.end_nodes[Partition(topic.name, data.partition_index)] = node


class KafkaPythonConsumer:
    """A consumer without a group."""

    def __init__(self, settings: ClientSettings) -> None:
        self._watch = FetchWatch()
        self._positions: dict[Partition, int] = {}
        self._timeout_ms = settings.request_timeout_ms
        with client_errors():
            self._consumer = KafkaConsumer(
                bootstrap_servers=list(settings.bootstrap),
                **settings.security.python_options(),
                client_id=settings.client_id,
                enable_auto_commit=False,
                auto_offset_reset="none",
                # In a session a broker omits partitions without news: no answer instead of an empty one.
                enable_incremental_fetch_sessions=False,
                fetch_max_wait_ms=FETCH_WAIT_MS,
                max_poll_records=POLL_RECORDS_MAX,
                request_timeout_ms=settings.request_timeout_ms,
                bootstrap_timeout_ms=settings.request_timeout_ms,
                reconnect_backoff_max_ms=settings.reconnect_backoff_max_ms,
                metadata_max_age_ms=settings.metadata_max_age_ms,
                allow_auto_create_topics=False,
                metrics_enabled=False,
                kafka_client=watched_client(self._watch.watch),
            )

    def assign(self, positions: Mapping[Partition, int]) -> Mapping[Partition, int]:
        """Read exactly these partitions (see `workloads.clients.base.Consumer`)."""
        partitions = {partition: TopicPartition(*partition) for partition in positions}
        at_start = [partitions[partition] for partition, offset in positions.items() if offset == LOG_START]
        with client_errors():
            starts = self._consumer.beginning_offsets(at_start, self._timeout_ms) if at_start else {}
            self._consumer.assign(list(partitions.values()))
            self._positions = {}
            for partition, offset in positions.items():
                self.seek(partition, starts[partitions[partition]] if offset == LOG_START else offset)
        return dict(self._positions)

    def seek(self, partition: Partition, offset: int) -> None:
        """Continue an assigned partition from this offset."""
        with client_errors():
            self._consumer.seek(TopicPartition(*partition), offset)
        self._positions[partition] = offset

    def poll(self, timeout_s: float) -> Poll:
        """Return available records."""
        started_ns = time.monotonic_ns()
        try:
            with client_errors():
                fetched = self._consumer.poll(timeout_ms=int(timeout_s * 1000))
        except ClientError:
            # It may have skipped records before it failed, which were never returned.
            for partition, position in self._positions.items():
                self.seek(partition, position)
            raise
        polled = [self._with_records(Partition(*key), rows, started_ns) for key, rows in fetched.items()]
        return finished_poll(polled, self._positions, self._watch, started_ns)

    def end_offset(self, partition: Partition, timeout_s: float) -> EndOffset:
        """Query the partition's leader for its end; the node is the one that answered."""
        key = TopicPartition(*partition)
        self._watch.end_nodes.pop(partition, None)
        with client_errors():
            offset = self._consumer.end_offsets([key], timeout_ms=int(timeout_s * 1000))[key]
        return EndOffset(int(offset), self._watch.end_nodes.get(partition))

    def close(self) -> None:
        """Disconnect."""
        with client_errors():
            self._consumer.close(autocommit=False, timeout_ms=1_000)

    def _with_records(self, partition: Partition, records: list[Untyped], started_ns: int) -> PolledPartition:
        return with_records(partition, self._positions[partition], records, self._watch, started_ns)


def with_records(
    partition: Partition, position: int, records: list[Untyped], watch: FetchWatch, started_ns: int
) -> PolledPartition:
    """Build the result of a partition with records, with the high watermark of an answer to this poll."""
    answer = watch.records_at(partition, position)
    return PolledPartition(
        partition,
        position,
        records[-1].offset + 1,
        answer.high_watermark if answer is not None and answer.sent_ns >= started_ns else None,
        [PolledRecord(record.offset, record.leader_epoch, record.value) for record in records],
    )


def finished_poll(
    polled: list[PolledPartition], positions: dict[Partition, int], watch: FetchWatch, started_ns: int
) -> Poll:
    """Build a poll of these records and of partitions that a broker answered to be empty; updates the positions.

    Its node is the broker that answered for all of it, if it was one.
    """
    answers = [watch.records_at(each.partition, each.position) for each in polled]
    covered = {each.partition for each in polled}
    for partition, position in positions.items():
        answer = None if partition in covered else watch.nothing_at(partition, position, started_ns)
        if answer is not None:
            polled.append(PolledPartition(partition, position, position, answer.high_watermark, ()))
            answers.append(answer)
    nodes = {None if answer is None else answer.node for answer in answers}
    for each in polled:
        positions[each.partition] = each.next_position
    return Poll(polled, nodes.pop() if len(nodes) == 1 else None)


@contextmanager
def client_errors() -> Iterator[None]:
    """Convert exceptions of the library to `ClientError`."""
    try:
        yield
    except LogTruncationError as error:
        lost = [Partition(*key) for key in error.divergent_offsets]
        raise PositionLostError("LogTruncationError", lost) from error
    except OffsetOutOfRangeError as error:
        lost = [Partition(*key) for keys in error.args if isinstance(keys, dict) for key in keys]
        raise PositionLostError("OffsetOutOfRangeError", lost) from error
    except (KafkaError, KeyError, OSError, RuntimeError) as error:
        # The library's own: KeyError when a broker omits the requested offset, RuntimeError when its network
        # was closed.
        raise ClientError(type(error).__name__) from error
