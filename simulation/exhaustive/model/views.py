"""The parts of a node's state that the search reads: extracted once for every state of a node, then shared."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from broker.core.broker_node.node import BrokerNode
from broker.core.controller.node import ControllerNode
from broker.core.log.log import Log
from broker.core.metadata.records import PartitionState
from broker.core.records import decode_records, iterate_headers
from broker.core.replica import leader
from broker.core.replica.state import Role
from simulation.exhaustive.model.events import Record
from simulation.exhaustive.spec import TOPIC

_EVERYTHING = 1 << 20


class BrokerView(NamedTuple):
    """A broker and its replica. A dead one has nothing but `alive`."""

    alive: bool
    broker_epoch: int = -1
    caught_up: bool = False
    metadata_end: int = 0
    role: Role | None = None  # None: no replica
    leader: int = -1
    leader_epoch: int = -1
    partition_epoch: int = -1
    high_watermark: int = 0
    log_start: int = 0
    log: tuple[Record, ...] = ()  # from offset `log_start` on
    isr: frozenset[int] = frozenset()
    maximal_isr: frozenset[int] = frozenset()
    proposed_isr: frozenset[int] | None = None
    remote_ends: tuple[tuple[int, int], ...] = ()
    waiting: tuple[int, ...] = ()  # followers whose fetch waits here
    timers: tuple[Hashable, ...] = ()

    @property
    def log_end(self) -> int:
        """The log end offset."""
        return self.log_start + len(self.log)

    @property
    def leads(self) -> bool:
        """Whether it believes that it leads."""
        return self.role is Role.LEADER


class Registration(NamedTuple):
    """A broker as the controller sees it."""

    epoch: int
    active: bool
    fenced: bool


class ControllerView(NamedTuple):
    """The controller's decisions."""

    end_offset: int
    partition: PartitionState | None
    brokers: dict[int, Registration]
    timers: tuple[Hashable, ...]


DEAD = BrokerView(alive=False)


def view_broker(node: BrokerNode, waiting: tuple[int, ...], timers: tuple[Hashable, ...]) -> BrokerView:
    """The view of a running broker."""
    state = node.state
    replica = state.replicas.get((TOPIC, 0))
    if replica is None:
        return BrokerView(True, state.broker_epoch, state.caught_up, state.image.end_offset, timers=timers)
    pending = replica.pending_isr
    return BrokerView(
        True,
        state.broker_epoch,
        state.caught_up,
        state.image.end_offset,
        replica.role,
        replica.leader,
        replica.leader_epoch,
        replica.partition_epoch,
        replica.high_watermark,
        replica.log.start_offset,
        records_of(replica.log),
        frozenset(replica.isr),
        leader.maximal_isr(replica, state.rules),
        frozenset(pending.isr) if pending is not None else None,
        tuple(sorted((member, remote.log_end) for member, remote in replica.remotes.items())),
        waiting,
        timers,
    )


def view_controller(node: ControllerNode, timers: tuple[Hashable, ...]) -> ControllerView:
    """The view of the controller."""
    image = node.state.image
    return ControllerView(
        image.end_offset,
        image.partition(TOPIC, 0),
        {one.broker_id: Registration(one.epoch, one.active, one.fenced) for one in image.brokers.values()},
        timers,
    )


def records_of(log: Log) -> tuple[Record, ...]:
    """(leader epoch, value) of every record of a log."""
    found: list[Record] = []
    data = log.read(log.start_offset, _EVERYTHING, log.end_offset)
    for position, header in iterate_headers(data):
        for record in decode_records(data, position):
            found.append((header.leader_epoch, int.from_bytes(record.value or b"", "big")))
    return tuple(found)
