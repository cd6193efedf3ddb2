"""Tracks the outcome of every produce request that carried a record.

Only failed attempts are stored: a record that is acknowledged at the first attempt costs nothing here. An entry
is kept until its record is answered, so the ledger is bounded by the number of open sends.

kafka-python 3.0.12 reports a batch that ran out of time as failed, and then sends it: it selects what
to send before it checks timeouts, and does not check afterwards. So a failure is classified when all selected batches
were sent, and until then acknowledgements are stored, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock, get_ident

from kafka.protocol.producer import ProduceRequest
from kafka.record.memory_records import MemoryRecords

from workloads.clients.classify import AttemptEnd, Local
from workloads.clients.kafka_python.wire import Untyped


class AttemptLedger:
    """Attempts of one producer. All methods run on its sending thread unless they say otherwise."""

    def __init__(self) -> None:
        self._unanswered: dict[int, Untyped] = {}
        self._ends: dict[bytes, list[AttemptEnd]] = {}
        self._handing_over: set[int] = set()
        self._failures: list[Callable[[], None]] = []
        self._closed = False
        self._lock = Lock()
        self.node: int | None = None
        """The broker whose answer is being processed: during an acknowledgement, the broker that sent it."""

    @contextmanager
    def handing_over(self) -> Iterator[None]:
        """Store acknowledgements from before a record is sent until its callbacks are attached.

        On any thread.
        """
        self._handing_over.add(get_ident())
        try:
            yield
        finally:
            self._handing_over.discard(get_ident())

    def when_sent(self, report: Callable[[], None]) -> None:
        """Call `report`, which classifies a failure, when all selected batches were sent. On any thread."""
        with self._lock:
            if not self._closed:
                self._failures.append(report)
                return
        report()

    def all_sent(self) -> None:
        """Classify failures: no selected batch is left to be sent."""
        if self._failures:
            with self._lock:
                failures, self._failures = self._failures, []
            for report in failures:
                report()

    def close(self) -> None:
        """Classify present and later failures at once: nothing is sent any more. On any thread."""
        with self._lock:
            self._closed = True
        self.all_sent()

    def watch(self, node: int | None, request: Untyped, future: Untyped) -> None:
        """Observe a request that is sent (see `watched_client`)."""
        if not isinstance(request, ProduceRequest):
            return
        if future.failed():
            return  # refused at once: not a byte was written, so there was no attempt
        self._unanswered[id(request)] = request
        future.add_callback(self._answered, node, request)
        future.add_errback(self._broken, request)

    def attempts(self, value: bytes) -> list[AttemptEnd]:
        """Return the ends of all unsuccessful attempts to send this value, and forget them."""
        ends = self._ends.pop(value, [])
        for request in self._unanswered.values():
            if any(value in _values(records) for _, _, records in _batches(request)):
                ends.append(Local.NO_ANSWER)
        return ends

    def forget(self, value: bytes) -> None:
        """Forget an acknowledged value."""
        self._ends.pop(value, None)

    def _answered(self, node: int | None, request: Untyped, response: Untyped) -> None:
        self._unanswered.pop(id(request), None)
        self.node = node
        if response is None:  # acks=0: success means that it was written to the socket
            return
        remembered = {
            (topic.name, partition.index): int(partition.error_code)
            for topic in response.responses
            for partition in topic.partition_responses
            if partition.error_code != 0 or self._handing_over or self._failures
        }
        if remembered:
            for topic, partition, records in _batches(request):
                if (topic, partition) in remembered:
                    self._remember(records, remembered[topic, partition])

    def _broken(self, request: Untyped, _error: Exception) -> None:
        self._unanswered.pop(id(request), None)
        for _, _, records in _batches(request):
            self._remember(records, Local.NO_ANSWER)

    def _remember(self, records: Untyped, end: AttemptEnd) -> None:
        for value in _values(records):
            self._ends.setdefault(value, []).append(end)


def _batches(request: Untyped) -> Iterator[tuple[str, int, Untyped]]:
    for topic in request.topic_data:
        for partition in topic.partition_data:
            yield topic.name, partition.index, partition.records


def _values(records: Untyped) -> set[bytes]:
    return {bytes(record.value) for batch in MemoryRecords(bytes(records)) for record in batch}
