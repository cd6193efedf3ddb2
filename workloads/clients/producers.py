"""What the producers of all client libraries share: replaced connections, and outcomes collected per operation.

Idempotent producers do not recover from every error. A fatal error is permanent in all three libraries. kafka-python
3.0.12 drops its producer id when a batch that it had to retry runs out of time, and never asks for another: every later
send hangs. A harness must not mistake that for an unavailable broker. So after an error a new connection takes later
sends; the old one gets a moment to answer its open sends, and is closed.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Protocol

from workloads.clients.base import ClientError, Done, Partition, SendOutcome

RENEWAL_INTERVAL_S: Final = 2.0
"""Minimum age of a connection that is replaced; in a long fault nearly every send requests a replacement."""
RETIREMENT_S: Final = 1.0
"""How long an old connection may go on answering. A send still open then may hang for ever, and with it its process."""
RECONNECT_PAUSE_S: Final = 0.2


class ProducerConnection(Protocol):
    """One producer object of a client library."""

    def send(self, partition: Partition, values: Sequence[bytes], done: Done) -> None:
        """Send records (see `workloads.clients.base.Producer`)."""
        ...

    def close(self, *, idle: bool) -> None:
        """Disconnect. Unless `idle`, sends are open: drop them."""
        ...


class RenewingProducer:
    """A producer that replaces its connections."""

    def __init__(self, connect: Callable[[], ProducerConnection]) -> None:
        """`connect` may block, and raise `ClientError`."""
        self._connect = connect
        self._lock = threading.Lock()
        self._renewing = False
        self._closed = threading.Event()
        self._current = _CountedConnection(connect())

    def send(self, partition: Partition, values: Sequence[bytes], done: Done) -> None:
        """Send records on the newest connection."""
        with self._lock:
            active = self._current
            active.enter()
        active.connection.send(partition, values, partial(active.leave, done))

    def renew(self) -> None:
        """Replace the connection in the background, unless it is new."""
        with self._lock:
            if self._closed.is_set() or self._renewing or self._current.age_s() < RENEWAL_INTERVAL_S:
                return
            self._renewing = True
        threading.Thread(target=self._renew, name="producer-renewal", daemon=True).start()

    def close(self, timeout_s: float) -> None:
        """Wait for open sends, drop those that are left, and disconnect."""
        with self._lock:
            self._closed.set()
            active = self._current
        active.close(timeout_s)

    def _renew(self) -> None:
        fresh = self._reconnect()
        with self._lock:
            unwanted = fresh
            if fresh is not None and not self._closed.is_set():
                unwanted, self._current = self._current, fresh
            self._renewing = False
        if unwanted is not None:
            unwanted.close(RETIREMENT_S)

    def _reconnect(self) -> _CountedConnection | None:
        """Connect, retrying without limit; None once the producer is closed."""
        while not self._closed.is_set():
            try:
                return _CountedConnection(self._connect())
            except ClientError:
                self._closed.wait(RECONNECT_PAUSE_S)
        return None


class _CountedConnection:
    """One connection and the number of its open sends."""

    def __init__(self, connection: ProducerConnection) -> None:
        self.connection = connection
        self._open = 0
        self._idle = threading.Condition()
        self._born = time.monotonic()

    def age_s(self) -> float:
        return time.monotonic() - self._born

    def enter(self) -> None:
        with self._idle:
            self._open += 1

    def leave(self, done: Done, outcomes: Sequence[SendOutcome]) -> None:
        with self._idle:
            self._open -= 1
            self._idle.notify_all()
        done(outcomes)

    def close(self, timeout_s: float) -> None:
        with self._idle:
            idle = self._idle.wait_for(lambda: self._open == 0, timeout_s)
        self.connection.close(idle=idle)


class OutcomeCollector:
    """Calls `done` once, when every record has its outcome. Outcomes may come from several threads."""

    def __init__(self, count: int, done: Done) -> None:
        self._outcomes: list[SendOutcome] = [SendOutcome("info")] * count
        self._count = count
        self._done = done
        self._set_count = itertools.count(1)  # next() is atomic: exactly one thread sees the last number

    def set(self, index: int, outcome: SendOutcome) -> None:
        """Set the outcome of the record at `index`. Call it exactly once per index."""
        self._outcomes[index] = outcome
        if next(self._set_count) == self._count:
            self._done(self._outcomes)
