"""Small procedures that others are made of: begin a session, register in it, read what there is, write ids."""

from __future__ import annotations

from collections.abc import Callable

from broker.core.ports.coordination import (
    Answer,
    CallError,
    Create,
    Delete,
    Exists,
    GetChildren,
    GetData,
    OpenSession,
    SetData,
)
from broker.zookeeper import paths
from broker.zookeeper.paths import Key
from broker.zookeeper.procedures import Steps
from broker.zookeeper.state import ZooKeeperState

PartitionsOf = Callable[[str], Steps[list[Key]]]
"""The partitions that a topic has, in order, by its name."""


def begin_session(zk: ZooKeeperState) -> None:
    """Ask for a session."""
    zk.broker.runtime.effects.append(OpenSession(zk.broker.settings.broker_session_timeout_ms))


def listener_address(zk: ZooKeeperState) -> bytes:
    """Where clients and brokers reach this broker, as it is in its znode."""
    listener = (zk.broker.settings.advertised_listeners or zk.broker.settings.listeners)[0]
    return f"{listener.host}:{listener.port}".encode()


def read_ids(path: str, *, watch: bool = False) -> Steps[tuple[int, ...] | None]:
    """The broker ids in a znode; None if there is none. Raises `BadZnode`."""
    found: Answer = yield GetData(path, watch)
    return None if found.error is not None else paths.decoded(found.data, path)


def is_published(key: Key) -> Steps[bool]:
    """Whether the partition's replicas are in the tree, so that clients see it; not with a controller."""
    return (yield Exists(paths.replicas(key))).stat is not None


def replicas_of(key: Key) -> Steps[tuple[int, ...]]:
    """The assigned replicas; none if the partition is not published."""
    return (yield from read_ids(paths.replicas(key))) or ()


def partitions_of(topic: str) -> Steps[list[Key]]:
    """The partitions of a topic, in order, published or not."""
    path = paths.topic(topic)
    names: tuple[str, ...] = (yield GetChildren(path)).children
    return sorted((topic, paths.number_of(name, path)) for name in names)


def published(topic: str) -> Steps[list[Key]]:
    """The published partitions of a topic, in order."""
    found = []
    for key in (yield from partitions_of(topic)):
        if (yield from is_published(key)):
            found.append(key)
    return found


def write_ids(path: str, ids: tuple[int, ...]) -> Steps[None]:
    """Write broker ids, whatever is there (Q22): no version, so a zombie's write succeeds too (Z-02)."""
    written: Answer = yield SetData(path, paths.encoded(ids))
    if written.error is CallError.NO_NODE:
        yield Create(path, paths.encoded(ids))


def register(zk: ZooKeeperState, path: str, data: bytes = b"") -> Steps[None]:
    """Create an ephemeral node of this session, in the place of one that an earlier session of this broker left."""
    while (yield Create(path, data, ephemeral=True)).error is CallError.NODE_EXISTS:
        found: Answer = yield Exists(path)
        if found.stat is not None:
            if found.stat.owner == zk.session:
                return
            yield Delete(path)
