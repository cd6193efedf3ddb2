"""The ledger of attempts: what became of every produce request that carried a record.

Only trouble is written down: a record that is acknowledged at the first attempt costs nothing here. An entry
lives until its record is answered, so the ledger is as long as the sends that are open.
"""

from __future__ import annotations

from collections.abc import Iterator

from kafka.protocol.producer import ProduceRequest
from kafka.record.memory_records import MemoryRecords

from workloads.classify import AttemptEnd, Local
from workloads.clients.kafka_python.wire import Untyped


class AttemptLedger:
    """Attempts of one producer. All methods run on the producer's sending thread."""

    def __init__(self) -> None:
        self._unanswered: dict[int, Untyped] = {}
        self._ends: dict[bytes, list[AttemptEnd]] = {}
        self.node: int | None = None
        """The broker whose answer is being handed out: who acknowledged, while an acknowledgement is
        reported."""

    def watch(self, node: int | None, request: Untyped, future: Untyped) -> None:
        """See a request leave (see `watched_client`)."""
        if not isinstance(request, ProduceRequest):
            return
        if future.failed():
            return  # refused at once: not a byte was written, so there was no attempt
        self._unanswered[id(request)] = request
        future.add_callback(self._answered, node, request)
        future.add_errback(self._broken, request)

    def attempts(self, value: bytes) -> list[AttemptEnd]:
        """Give the ends of all attempts to send this value that did not succeed, and forget them."""
        ends = self._ends.pop(value, [])
        for request in self._unanswered.values():
            if any(value in _values(records) for _, _, records in _batches(request)):
                ends.append(Local.NO_ANSWER)
        return ends

    def forget(self, value: bytes) -> None:
        """Drop what is known of a value that was acknowledged."""
        self._ends.pop(value, None)

    def _answered(self, node: int | None, request: Untyped, response: Untyped) -> None:
        self._unanswered.pop(id(request), None)
        self.node = node
        if response is None:  # acks=0: success means that it was written to the socket
            return
        refused = {
            (topic.name, partition.index): int(partition.error_code)
            for topic in response.responses
            for partition in topic.partition_responses
            if partition.error_code != 0
        }
        if refused:
            for topic, partition, records in _batches(request):
                if (topic, partition) in refused:
                    self._note(records, refused[topic, partition])

    def _broken(self, request: Untyped, _error: Exception) -> None:
        self._unanswered.pop(id(request), None)
        for _, _, records in _batches(request):
            self._note(records, Local.NO_ANSWER)

    def _note(self, records: Untyped, end: AttemptEnd) -> None:
        for value in _values(records):
            self._ends.setdefault(value, []).append(end)


def _batches(request: Untyped) -> Iterator[tuple[str, int, Untyped]]:
    for topic in request.topic_data:
        for partition in topic.partition_data:
            yield topic.name, partition.index, partition.records


def _values(records: Untyped) -> set[bytes]:
    return {bytes(record.value) for batch in MemoryRecords(bytes(records)) for record in batch}
