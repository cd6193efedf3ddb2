"""The queues of state-change requests, one for each broker: what is in them, and how a request is added.

Every request leaves three lines in the log, of when it was requested, received and completed.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from broker.core.ports.coordination import Answer, Create, Delete, GetChildren, GetData
from broker.core.ports.marks import sometimes
from broker.zookeeper import paths
from broker.zookeeper.paths import BadZnode, Key
from broker.zookeeper.procedures import Steps
from broker.zookeeper.state import ZooKeeperState

SHRUNK = sometimes("zookeeper: a full queue of state changes is shrunk, its start-replica requests are dropped")
FULL = sometimes("zookeeper: a queue of state changes is full even after it was shrunk")
NO_QUEUE = sometimes("zookeeper: a state change is for a broker that has no queue")

QUEUE_LENGTH_MAX = 8
"""With so many requests in it a queue is full."""

ADMINISTRATOR_EPOCH = -1
"""The epoch of requests by administrators, who lead nothing."""


class RequestKind(StrEnum):
    """What a request asks of a replica."""

    START = "start-replica"
    CLOSE = "close-replica"


class StateChange(NamedTuple):
    """A request. `sender` is the broker that leads the partition, or that carries out an administrator's command."""

    kind: RequestKind
    key: Key
    epoch: int
    sender: int

    @property
    def by_administrator(self) -> bool:
        """Whether no leader has sent it."""
        return self.epoch == ADMINISTRATOR_EPOCH

    @property
    def what(self) -> str:
        """Its subject, for the log."""
        return f"{self.kind} for topic {self.key[0]} partition {self.key[1]}"

    @property
    def origin(self) -> str:
        """Its sender, for the log."""
        return f"{'administrator' if self.by_administrator else 'leader'} {self.sender}"


def encoded(change: StateChange) -> bytes:
    """A request as it is in its znode."""
    return f"{change.kind} {change.key[0]} {change.key[1]} {change.epoch} {change.sender}".encode()


def decoded(data: bytes, path: str) -> StateChange:
    """The inverse of `encoded`. Raises `BadZnode`."""
    expected = f"{' or '.join(RequestKind)} with topic, partition, epoch and broker id"
    try:
        kind, topic, partition, epoch, sender = data.decode().split(" ")
        return StateChange(RequestKind(kind), (topic, int(partition)), int(epoch), int(sender))
    except ValueError:
        raise BadZnode(path, expected, data) from None


def send(zk: ZooKeeperState, to: int, change: StateChange) -> Steps[str | None]:
    """`sendStateChange`: add a request to a broker's queue; its znode, or None if there is no queue or no room.

    A full queue is shrunk first, by whoever finds it full: `FollowerStateChangeQueueFull` only if it still is.
    """
    path = paths.queue(to)
    found: Answer = yield GetChildren(path)
    if found.error is not None:
        zk.broker.runtime.mark(NO_QUEUE)
        zk.broker.runtime.log("error", f"no queue for broker id {to}: {change.what} is lost")
        return None
    if len(found.children) >= QUEUE_LENGTH_MAX:
        left = yield from _shrink(zk, path, found.children)
        if left >= QUEUE_LENGTH_MAX:
            zk.broker.runtime.mark(FULL)
            zk.broker.runtime.log("error", f"FollowerStateChangeQueueFull: broker id {to}, {change.what} is lost")
            return None
    created: Answer = yield Create(paths.request_prefix(to), encoded(change), sequential=True)
    who = "administrator" if change.by_administrator else "leader"
    zk.broker.runtime.log(
        "info",
        f"{who}, broker id {zk.broker_id}, requested {change.what}, to broker id {to}, at epoch {change.epoch}",
    )
    return created.path if created.error is None else None


def _shrink(zk: ZooKeeperState, path: str, names: Sequence[str]) -> Steps[int]:
    """Keep one close-replica for each partition, that of the highest epoch; how many are left (Z-08)."""
    zk.broker.runtime.mark(SHRUNK)
    kept: dict[Key, tuple[int, str]] = {}
    drop = []
    for name in names:
        found: Answer = yield GetData(f"{path}/{name}")
        if found.error is not None:
            continue  # the broker has removed it
        change = decoded(found.data, f"{path}/{name}")
        epoch, other = kept.get(change.key, (change.epoch, ""))
        if change.kind is RequestKind.START or change.epoch < epoch:
            drop.append(name)
            continue
        drop += [other] if other else []
        kept[change.key] = change.epoch, name
    for name in drop:
        yield Delete(f"{path}/{name}")
    return len(kept)


def received(zk: ZooKeeperState, change: StateChange) -> None:
    """Log that this broker has taken a request up."""
    zk.broker.runtime.log(
        "info",
        f"follower, broker id {zk.broker_id}, received {change.what}, from {change.origin}, at epoch {change.epoch}",
    )


def completed(zk: ZooKeeperState, change: StateChange) -> None:
    """Log that this broker has done what a request asks for."""
    zk.broker.runtime.log(
        "info",
        f"follower, broker id {zk.broker_id}, completed {change.what}, request from {change.origin}, "
        f"at epoch {change.epoch}",
    )
