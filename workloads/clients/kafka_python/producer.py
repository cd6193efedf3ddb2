"""Sends through `kafka.KafkaProducer`.

One `KafkaProducer` serves all logical processes of a worker: sends that are due together share batches and
requests, which is what makes a thousand acknowledged operations a second affordable next to three brokers on
two cores.

An old record cannot be sent again under a new operation: kafka-python retries a batch only until it has
answered it, and what it sends after that still belongs to the old operation (see `attempts`).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from kafka import KafkaProducer
from kafka.errors import KafkaError, for_code

from workloads.clients.base import ClientError, ClientSettings, Done, Partition, SendOutcome
from workloads.clients.classify import classify_failed_send
from workloads.clients.kafka_python.attempts import AttemptLedger
from workloads.clients.kafka_python.wire import Untyped, watched_client
from workloads.clients.outcomes import OutcomeCollector

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
