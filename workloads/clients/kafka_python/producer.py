"""Sends through `kafka.KafkaProducer`, and tracks the outcome of every produce request that carried a record.

One `KafkaProducer` serves all logical processes of a worker: sends that are due together share batches and
requests, which is what makes a thousand acknowledged operations a second affordable next to three brokers on
two cores.

An old record cannot be sent again under a new operation: kafka-python retries a batch only until it has
answered it, and what it sends after that still belongs to the old operation.

Only failed attempts are stored: a record that is acknowledged at the first attempt costs nothing here. An entry
is kept until its record is answered, so the ledger is bounded by the number of open sends. kafka-python 3.0.12 reports
a batch that ran out of time as failed, and then sends it: it selects what to send before it checks timeouts, and does
not check afterwards. So a failure is classified when all selected batches were sent, and until then acknowledgements
are stored, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from threading import Lock, get_ident
from typing import Final

from kafka import KafkaProducer
from kafka.errors import KafkaError, for_code
from kafka.protocol.producer import ProduceRequest
from kafka.record.memory_records import MemoryRecords

from workloads.clients.base import ClientError, ClientSettings, Done, Partition, SendOutcome
from workloads.clients.classify import AttemptEnd, Local, classify_failed_send
from workloads.clients.kafka_python.wire import Untyped, watched_client
from workloads.clients.producers import OutcomeCollector

CLOSE_S: Final = 1.0


class KafkaPythonConnection:
    """One `KafkaProducer` and the ledger of its attempts."""

    def __init__(self, settings: ClientSettings) -> None:
        self._ledger = AttemptLedger()
        self._acks = settings.acks
        self._may_send = False
        """Whether the sending thread still ran after the connection was closed."""
        try:
            self._producer = KafkaProducer(
                bootstrap_servers=list(settings.bootstrap),
                **settings.security.python_options(),
                client_id=settings.client_id,
                acks=settings.acks,
                enable_idempotence=settings.idempotence,
                linger_ms=settings.linger_ms,
                request_timeout_ms=settings.request_timeout_ms,
                delivery_timeout_ms=settings.delivery_timeout_ms,
                max_block_ms=settings.request_timeout_ms,
                bootstrap_timeout_ms=settings.request_timeout_ms,
                reconnect_backoff_max_ms=settings.reconnect_backoff_max_ms,
                metadata_max_age_ms=settings.metadata_max_age_ms,
                allow_auto_create_topics=False,
                metrics_enabled=False,
                kafka_client=watched_client(self._ledger.watch, self._ledger.all_sent),
            )
        except (KafkaError, OSError) as error:
            raise ClientError(type(error).__name__) from error

    def send(self, partition: Partition, values: Sequence[bytes], done: Done) -> None:
        """Send records (see `workloads.clients.base.Producer`)."""
        collector = OutcomeCollector(len(values), done)
        with self._ledger.handing_over():
            for index, value in enumerate(values):
                self._send(partition, collector, index, value)

    def _send(self, partition: Partition, collector: OutcomeCollector, index: int, value: bytes) -> None:
        try:
            future = self._producer.send(partition.topic, value=value, partition=partition.partition)
        except (KafkaError, ValueError) as error:
            # Raised before the record was put into any batch (no metadata, no such partition, closed).
            collector.set(index, SendOutcome("fail", error=type(error).__name__))
        except RuntimeError as error:
            # The library's own when its network was closed while the send was waiting for metadata.
            collector.set(index, SendOutcome("info", error=type(error).__name__))
        else:
            future.add_callback(self._acknowledged, collector, index, value)
            future.add_errback(
                lambda error: self._ledger.when_sent(partial(self._failed, collector, index, value, error))
            )

    def close(self, *, idle: bool) -> None:
        """Disconnect. Without `idle`, batches are dropped first: `KafkaProducer.close` would flush them."""
        sender = self._producer._sender
        if not idle:
            sender.force_close()
            sender.join(CLOSE_S)
        with suppress(KafkaError):  # a sending thread that hangs is a daemon
            self._producer.close(timeout=CLOSE_S)
        self._may_send = sender.is_alive()
        self._ledger.close()

    def _acknowledged(self, collector: OutcomeCollector, index: int, value: bytes, metadata: Untyped) -> None:
        self._ledger.forget(value)
        if self._acks == 0:
            # No broker answers; kafka-python makes up an offset.
            collector.set(index, SendOutcome("ok"))
        elif metadata.offset >= 0:
            collector.set(index, SendOutcome("ok", int(metadata.offset), None, self._ledger.node))
        else:
            # kafka-python takes DUPLICATE_SEQUENCE_NUMBER for success, but the broker answers it at once: the
            # record is in the leader's log, but perhaps in no other.
            collector.set(index, SendOutcome("info", error="DuplicateSequenceNumberError"))

    def _failed(self, collector: OutcomeCollector, index: int, value: bytes, error: Exception) -> None:
        if self._may_send:
            collector.set(index, SendOutcome("info", error=type(error).__name__))
            return
        attempts = self._ledger.attempts(value)
        names = [type(error).__name__]
        if attempts and isinstance(attempts[-1], int) and attempts[-1] != 0:
            names.append(for_code(attempts[-1]).__name__)
        # A client that times out reports only that; the last answer of a broker explains more.
        described = " after ".join(dict.fromkeys(names))
        collector.set(index, SendOutcome(classify_failed_send(attempts), error=described))


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
