"""The ordinary client beside the fuzzer: what it wrote and got acknowledged must be readable at the end."""

from __future__ import annotations

import threading
import time
from typing import NamedTuple

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError

from benchmarks.broker.fuzz.drawing.values import KEPT
from benchmarks.broker.fuzz.target import KEPT_PARTITIONS

_PAUSE_S = 0.01
_DRAIN_S = 60.0
_READ_S_MAX = 120.0


class Kept(NamedTuple):
    """What became of the records, by their numbers."""

    acknowledged: int
    refused: int
    """Sends that the client gave up: their records may be there or not."""

    read: int
    lost: tuple[int, ...]
    """Acknowledged, and not there."""

    doubled: int
    """There more than once, although the producer is idempotent."""

    longest_pause_s: float
    """The longest time without an acknowledgement."""


class Writing:
    """An idempotent producer with acks=all that writes numbered records until it is stopped."""

    def __init__(self, bootstrap: list[str]) -> None:
        self._bootstrap = bootstrap
        self._stop = threading.Event()
        self._acknowledged: set[int] = set()
        self._refused = 0
        self._last = time.monotonic()
        self._longest_pause_s = 0.0
        self._producer = KafkaProducer(
            bootstrap_servers=bootstrap, acks="all", enable_idempotence=True, delivery_timeout_ms=120_000, linger_ms=5
        )
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    @property
    def acknowledged(self) -> int:
        """Acknowledged records until now."""
        return len(self._acknowledged)

    def stop(self) -> None:
        """Write no more, and wait for what is under way."""
        self._stop.set()
        self._thread.join()
        self._producer.close(_DRAIN_S)

    def read_all(self) -> Kept:
        """Read the whole topic, as an ordinary consumer does. Call it after `stop`."""
        found: dict[int, int] = {}
        consumer = KafkaConsumer(bootstrap_servers=self._bootstrap, auto_offset_reset="earliest")
        partitions = [TopicPartition(KEPT, number) for number in range(KEPT_PARTITIONS)]
        consumer.assign(partitions)
        deadline = time.monotonic() + _READ_S_MAX
        ends = consumer.end_offsets(partitions)
        while any(consumer.position(each) < ends[each] for each in partitions) and time.monotonic() < deadline:
            for records in consumer.poll(timeout_ms=500).values():
                for record in records:
                    number = int(record.value)
                    found[number] = found.get(number, 0) + 1
        consumer.close()
        return Kept(
            len(self._acknowledged),
            self._refused,
            sum(found.values()),
            tuple(sorted(self._acknowledged - found.keys())),
            sum(count > 1 for count in found.values()),
            self._longest_pause_s,
        )

    def _write(self) -> None:
        number = 0
        while not self._stop.is_set():
            try:
                future = self._producer.send(KEPT, b"%d" % number, partition=number % KEPT_PARTITIONS)
            except KafkaError:
                self._refused += 1
            else:
                future.add_callback(self._was_acknowledged, number)
                future.add_errback(self._was_refused)
            number += 1
            time.sleep(_PAUSE_S)

    def _was_acknowledged(self, number: int, _: object) -> None:
        now = time.monotonic()
        self._longest_pause_s = max(self._longest_pause_s, now - self._last)
        self._last = now
        self._acknowledged.add(number)

    def _was_refused(self, _: object) -> None:
        self._refused += 1
