"""Samples the replicas during a simulation: the rows of the table `cluster`, as in a real run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from broker.core.log.log import Log
from broker.core.ports.files import StorageError
from broker.core.records import MalformedBatch, decode_records, iterate_headers
from broker.core.replica.state import Replica
from simulation.engine.cluster import EventStep, SimulatedCluster
from simulation.engine.event_queue import MS
from simulation.engine.node_views import broker_state, brokers
from simulation.workload.clients import TOPIC
from simulation.workload.recording import value_of

INTERVAL_US = 500 * MS


class ReplicaSample(NamedTuple):
    """One replica as its broker saw it; the columns of the table `cluster`."""

    at_ns: int
    broker: int
    topic: str
    partition: int
    role: str
    leader: int
    leader_epoch: int
    log_start: int
    log_end: int
    high_watermark: int
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    broker_epoch: int


class ReplicaSampler:
    """An observer that samples a broker's replicas at intervals, and whenever leader or ISR have changed."""

    def __init__(self) -> None:
        self.samples: list[ReplicaSample] = []
        self._due_us: dict[int, int] = {}
        self._seen: dict[tuple[int, tuple[str, int]], tuple[object, ...]] = {}

    def after(self, cluster: SimulatedCluster, step: EventStep) -> None:
        """See `Observer.after`."""
        state = broker_state(cluster.machines[step.node_id].node)
        if state is None:
            return
        due = cluster.now_us >= self._due_us.get(step.node_id, 0)
        if due:
            self._due_us[step.node_id] = cluster.now_us + INTERVAL_US
        for key, replica in state.replicas.items():
            standing = (replica.role, replica.leader, replica.leader_epoch, replica.isr, replica.elr)
            if due or self._seen.get((step.node_id, key)) != standing:
                self._seen[step.node_id, key] = standing
                self.samples.append(_sample_of(cluster.now_us, replica, state.broker_epoch))

    def crashed(self, cluster: SimulatedCluster, node_id: int, lost_bytes: int) -> None:
        """See `Observer.crashed`. A dead broker has no replicas to sample."""


def _sample_of(now_us: int, replica: Replica, broker_epoch: int) -> ReplicaSample:
    return ReplicaSample(
        now_us * MS,
        replica.broker_id,
        replica.topic,
        replica.partition,
        replica.role.value,
        replica.leader,
        replica.leader_epoch,
        replica.log.start_offset,
        replica.log.end_offset,
        replica.high_watermark,
        replica.isr,
        replica.elr,
        broker_epoch,
    )


_EVERYTHING = 1 << 62


class ReplicaLog(NamedTuple):
    """One replica's log: `data` holds whole batches from `start` to `end`, or to where the log is damaged."""

    start: int
    end: int
    high_watermark: int
    data: bytes
    damage: str = ""
    """What is in the log instead of a whole batch; "" if nothing is."""


class ReplicaRecord(NamedTuple):
    """One record of a log; `value` is None for a tombstone, `crc` is its batch's checksum."""

    offset: int
    leader_epoch: int
    value: int | None
    crc: int


def replica_logs(cluster: SimulatedCluster) -> dict[tuple[int, int], ReplicaLog]:
    """The logs of the main topic on the brokers that are up, by broker and partition."""
    found = {}
    for broker_id, state in brokers(cluster):
        for (topic, partition), replica in state.replicas.items():
            if topic != TOPIC:
                continue
            log = replica.log
            data, damage = _content(log)
            found[broker_id, partition] = ReplicaLog(
                log.start_offset, log.end_offset, replica.high_watermark, data, damage
            )
    return found


def records_of(data: bytes) -> Iterator[ReplicaRecord]:
    """Decode whole batches; control batches are passed over."""
    for at, header in iterate_headers(data):
        if not header.is_control:
            for record in decode_records(data, at):
                yield ReplicaRecord(record.offset, header.leader_epoch, value_of(record), header.crc)


def _content(log: Log) -> tuple[bytes, str]:
    """The whole batches of a log up to the first damage, which a flawed broker may leave, and what that is."""
    content = bytearray()
    offset = log.start_offset
    try:
        while data := log.read(offset, _EVERYTHING, log.end_offset):
            for at, header in iterate_headers(data):
                if header.last_offset < offset:
                    return bytes(content), f"expected a batch at {offset} or later, found one that ends before it"
                for _ in () if header.is_control else decode_records(data, at):
                    pass
                content += data[at : at + header.size]
                offset = header.last_offset + 1
    except (StorageError, MalformedBatch) as error:
        return bytes(content), f"at {offset}: {error}"
    return bytes(content), ""
