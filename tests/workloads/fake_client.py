"""A client library without a cluster: the test decides the outcome of each send and what a reader gets."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from workloads.clients.base import (
    LOG_START,
    ClientError,
    ClientSettings,
    Done,
    EndOffset,
    Partition,
    Poll,
    PolledPartition,
    PolledRecord,
    PositionLostError,
    SendOutcome,
)

Logs = dict[Partition, list[bytes]]


@dataclass
class PendingSend:
    """A send that the test has yet to answer."""

    partition: Partition
    values: Sequence[bytes]
    done: Done


class FakeProducer:
    """Keeps sends until the test answers them."""

    def __init__(self, logs: Logs) -> None:
        self.logs = logs
        self.pending: list[PendingSend] = []
        self.renewals = 0
        self.closed = False

    def send(self, partition: Partition, values: Sequence[bytes], done: Done) -> None:
        self.pending.append(PendingSend(partition, values, done))

    def renew(self) -> None:
        self.renewals += 1

    def close(self, timeout_s: float) -> None:
        self.closed = True

    def acknowledge(self, send: PendingSend) -> None:
        """Append, and say where."""
        start = self.append(send)
        send.done([SendOutcome("ok", start + place, None, 3) for place in range(len(send.values))])

    def append(self, send: PendingSend) -> int:
        """Append without a word."""
        log = self.logs[send.partition]
        log.extend(send.values)
        return len(log) - len(send.values)

    def take(self, place: int = 0) -> PendingSend:
        return self.pending.pop(place)


class FakeConsumer:
    """Reads the logs as they are; `errors` are raised by the next calls, one each."""

    def __init__(self, logs: Logs, per_poll: int = 1000) -> None:
        self.logs = logs
        self.per_poll = per_poll
        self.positions: dict[Partition, int] = {}
        self.errors: list[ClientError] = []
        self.closed = False

    def assign(self, positions: Mapping[Partition, int]) -> Mapping[Partition, int]:
        self._raise()
        self.positions = {each: 0 if at == LOG_START else at for each, at in positions.items()}
        return dict(self.positions)

    def seek(self, partition: Partition, offset: int) -> None:
        self.positions[partition] = offset

    def poll(self, timeout_s: float) -> Poll:
        self._raise()
        lost = [each for each, at in self.positions.items() if at > len(self.logs[each])]
        if lost:
            raise PositionLostError("OffsetOutOfRangeError", lost)
        polled = []
        for each, at in self.positions.items():
            values = self.logs[each][at : at + self.per_poll]
            records = [PolledRecord(at + place, 0, value) for place, value in enumerate(values)]
            polled.append(PolledPartition(each, at, at + len(values), None, records))
        self.positions = {each.partition: each.next_position for each in polled}
        return Poll(polled, 3)

    def end_offset(self, partition: Partition, timeout_s: float) -> EndOffset:
        self._raise()
        return EndOffset(len(self.logs[partition]), 3)

    def close(self) -> None:
        self.closed = True

    def _raise(self) -> None:
        if self.errors:
            raise self.errors.pop(0)


class FakeLibrary:
    """Makes fakes that share one set of logs."""

    name = "fake"

    def __init__(self) -> None:
        self.logs: Logs = defaultdict(list)
        self.producers: list[FakeProducer] = []
        self.consumers: list[FakeConsumer] = []

    def producer(self, settings: ClientSettings) -> FakeProducer:
        self.producers.append(FakeProducer(self.logs))
        return self.producers[-1]

    def consumer(self, settings: ClientSettings) -> FakeConsumer:
        self.consumers.append(FakeConsumer(self.logs))
        return self.consumers[-1]


class FakeTime:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.ns = 1_000

    def now(self) -> int:
        self.ns += 1  # no two events at one instant, as on a real clock
        return self.ns

    def advance(self, seconds: float) -> None:
        self.ns += int(seconds * 1_000_000_000)
