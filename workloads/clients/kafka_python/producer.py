"""Sends through `kafka.KafkaProducer`.

One `KafkaProducer` serves all logical processes of a worker: sends that are due together share batches and
requests, which is what makes a thousand acknowledged operations a second affordable next to three brokers on
two cores.

Once something has gone wrong the producer is replaced: a fresh one takes the sends to come, the old one
answers those it has and is closed. kafka-python's idempotent producer does not recover from everything (a
fatal error is for ever, and batches that were drained just before its producer id is reset are not sent at
all), and a harness must not mistake that for an unavailable broker. An old record cannot be sent again under
a new operation: kafka-python retries a batch only until it has answered it.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Sequence
from functools import partial
from typing import Final

from kafka import KafkaProducer
from kafka.errors import KafkaError, for_code

from workloads.classify import classify_failed_send
from workloads.clients.base import ClientError, ClientSettings, Done, Outcome, Partition
from workloads.clients.kafka_python.attempts import AttemptLedger
from workloads.clients.kafka_python.wire import Untyped, watched_client

RENEWAL_INTERVAL_S: Final = 2.0
"""A producer lives at least this long before it is replaced; during a long fault nearly every send asks for
it."""


class KafkaPythonProducer:
    """A producer that outlives its `KafkaProducer`s."""

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._renewing = False
        self._closed = False
        self._current = _Generation(settings)

    def send(self, partition: Partition, values: Sequence[bytes], done: Done) -> None:
        """Send records (see `workloads.clients.base.Producer`)."""
        with self._lock:
            generation = self._current
            generation.enter()
        generation.send(partition, values, done)

    def renew(self) -> None:
        """Replace the `KafkaProducer` in the background, if it is not brand new."""
        with self._lock:
            if self._closed or self._renewing or self._current.age_s() < RENEWAL_INTERVAL_S:
                return
            self._renewing = True
        threading.Thread(target=self._renew, name="producer-renewal", daemon=True).start()

    def close(self, timeout_s: float) -> None:
        """Wait for open sends and disconnect."""
        with self._lock:
            self._closed = True
            generation = self._current
        generation.close(timeout_s)

    def _renew(self) -> None:
        try:
            fresh = _Generation(self._settings)
        except ClientError:
            with self._lock:
                self._renewing = False
            return
        with self._lock:
            if self._closed:
                unwanted = fresh
            else:
                unwanted, self._current = self._current, fresh
            self._renewing = False
        unwanted.close(self._settings.delivery_timeout_ms / 1000 + 1)


class _Generation:
    """One `KafkaProducer`, its ledger, and the sends that it owes an answer."""

    def __init__(self, settings: ClientSettings) -> None:
        self._ledger = AttemptLedger()
        self._acks = settings.acks
        self._open = 0
        self._idle = threading.Condition()
        self._born = time.monotonic()
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
                allow_auto_create_topics=False,
                metrics_enabled=False,
                kafka_client=watched_client(self._ledger.watch),
            )
        except (KafkaError, OSError) as error:
            raise ClientError(type(error).__name__) from error

    def age_s(self) -> float:
        return time.monotonic() - self._born

    def enter(self) -> None:
        with self._idle:
            self._open += 1

    def send(self, partition: Partition, values: Sequence[bytes], done: Done) -> None:
        answers = _Answers(len(values), partial(self._leave, done))
        for place, value in enumerate(values):
            try:
                future = self._producer.send(partition.topic, value=value, partition=partition.partition)
            except (KafkaError, ValueError) as error:
                # Raised before the record was put into any batch (no metadata, no such partition, closed).
                answers.give(place, Outcome("fail", error=type(error).__name__))
            else:
                future.add_callback(self._acknowledged, answers, place, value)
                future.add_errback(self._failed, answers, place, value)

    def close(self, timeout_s: float) -> None:
        with self._idle:
            idle = self._idle.wait_for(lambda: self._open == 0, timeout_s)
        try:
            self._producer.close(timeout=1 if idle else 0)
        except KafkaError:
            # close() insists on flushing first, and gives up where there is something to flush. Without this the
            # thread would go on, and send the records whenever a broker comes back.
            self._producer._sender.force_close()

    def _leave(self, done: Done, outcomes: Sequence[Outcome]) -> None:
        with self._idle:
            self._open -= 1
            self._idle.notify_all()
        done(outcomes)

    def _acknowledged(self, answers: _Answers, place: int, value: bytes, metadata: Untyped) -> None:
        self._ledger.forget(value)
        if self._acks == 0:
            # Nobody answered; kafka-python makes up an offset.
            answers.give(place, Outcome("ok"))
        elif metadata.offset >= 0:
            answers.give(place, Outcome("ok", int(metadata.offset), None, self._ledger.node))
        else:
            # kafka-python takes DUPLICATE_SEQUENCE_NUMBER for success, but the broker gives it at once: the
            # record is in the leader's log, and nothing says that it is in any other.
            answers.give(place, Outcome("info", error="DuplicateSequenceNumberError"))

    def _failed(self, answers: _Answers, place: int, value: bytes, error: Exception) -> None:
        attempts = self._ledger.attempts(value)
        names = [type(error).__name__]
        if attempts and isinstance(attempts[-1], int):
            names.append(for_code(attempts[-1]).__name__)
        # A client that runs out of time says only that; what it was told at last explains more.
        described = " after ".join(dict.fromkeys(names))
        answers.give(place, Outcome(classify_failed_send(attempts), error=described))


class _Answers:
    """Gathers the outcomes of one operation's records, which two threads may give."""

    def __init__(self, count: int, done: Done) -> None:
        self._outcomes: list[Outcome] = [Outcome("info")] * count
        self._count = count
        self._done = done
        self._given = itertools.count(1)  # next() is atomic: exactly one thread sees the last number

    def give(self, place: int, outcome: Outcome) -> None:
        self._outcomes[place] = outcome
        if next(self._given) == self._count:
            self._done(self._outcomes)
