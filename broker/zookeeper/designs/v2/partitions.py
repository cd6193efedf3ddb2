"""Adds and removes a partition as an administrator: asks its replicas, and waits until they have carried that out."""

from __future__ import annotations

from collections.abc import Sequence

from broker.core.ports.coordination import CallError, Create, Delete, Exists, GetChildren, GetData, SetData
from broker.core.ports.marks import sometimes
from broker.zookeeper import paths
from broker.zookeeper.choices import DELETION_NEEDS_LEADER
from broker.zookeeper.designs.v2 import queues
from broker.zookeeper.designs.v2.queues import ADMINISTRATOR_EPOCH, RequestKind, StateChange
from broker.zookeeper.paths import Key
from broker.zookeeper.procedures import Steps, Until
from broker.zookeeper.reading import read_ids
from broker.zookeeper.state import ZooKeeperState

CLOSED_BY_LEADER = sometimes("zookeeper: a partition's leader has its replicas closed, for its deletion")
CLOSED_BY_ADMINISTRATOR = sometimes("zookeeper: nobody leads a partition, the administrator has its replicas closed")

_LOOK_AGAIN_MS = 1_000
"""After this time a wait looks for itself: a lost connection takes the watches that it waits for."""


# --- what there is ---------------------------------------------------------------------------------------------------


def is_published(key: Key) -> Steps[bool]:
    """Whether the partition's replicas are in the tree, so that clients see it."""
    return (yield Exists(paths.replicas(key))).stat is not None


def replicas_of(key: Key) -> Steps[tuple[int, ...]]:
    """The assigned replicas; none if the partition is not published."""
    return (yield from read_ids(paths.replicas(key))) or ()


def published(topic: str) -> Steps[list[Key]]:
    """The published partitions of a topic, in order."""
    keys = []
    for name in (yield GetChildren(paths.topic(topic))).children:
        key = (topic, paths.number_of(name, paths.topic(topic)))
        if (yield from is_published(key)):
            keys.append(key)
    return sorted(keys)


# --- what changes it -------------------------------------------------------------------------------------------------


def add(zk: ZooKeeperState, key: Key, replicas: tuple[int, ...], until_ms: int) -> Steps[bool]:
    """`addPartition`: whether all replicas have started in time. Only then the partition is published."""
    for path in (paths.topic(key[0]), paths.partition(key)):
        yield Create(path)
    yield from _write_wanted(key, replicas)
    requests = yield from _send_all(zk, RequestKind.START, key, replicas)
    if len(requests) < len(replicas) or not (yield from _await_consumed(zk, requests, until_ms)):
        return False
    yield Create(paths.replicas(key), paths.encoded(replicas))
    yield Delete(paths.reassigned(key))
    return True


def undo(zk: ZooKeeperState, key: Key, until_ms: int) -> Steps[None]:
    """Take back a partition that was not published: its replicas are closed, whether they have started or not."""
    wanted = (yield from read_ids(paths.reassigned(key))) or ()
    yield from _send_all(zk, RequestKind.CLOSE, key, wanted)
    yield from _delete_znodes(zk, key, until_ms)


def remove(zk: ZooKeeperState, key: Key, until_ms: int) -> Steps[bool]:
    """`deletePartition`: whether all live replicas have closed in time. Only then it is taken out of the tree.

    The leader has them closed. If there is none, or it does not in half of the time, the administrator does (Q19).
    Requests to brokers that are down wait in their queues.
    """
    replicas = yield from replicas_of(key)
    yield from _write_wanted(key, ())
    live = [int(name) for name in (yield GetChildren(paths.IDS)).children]
    expected = [member for member in replicas if member in live]
    is_led = (yield Exists(paths.leader(key))).stat is not None
    now_ms = zk.broker.runtime.now_ms
    half_ms = until_ms if zk.chose(DELETION_NEEDS_LEADER) else now_ms + (until_ms - now_ms) // 2
    if is_led and (yield from _await_closes(zk, key, expected, half_ms)):
        zk.broker.runtime.mark(CLOSED_BY_LEADER)
    elif zk.chose(DELETION_NEEDS_LEADER):
        return False
    else:
        zk.broker.runtime.mark(CLOSED_BY_ADMINISTRATOR)
        requests = yield from _send_all(zk, RequestKind.CLOSE, key, replicas)
        prefixes = tuple(f"{paths.queue(member)}/" for member in expected)
        if not (yield from _await_consumed(zk, [one for one in requests if one.startswith(prefixes)], until_ms)):
            return False
    yield from _delete_znodes(zk, key, until_ms)
    return True


def _write_wanted(key: Key, replicas: tuple[int, ...]) -> Steps[None]:
    yield Create(paths.reassigned_topic(key[0]))
    if (yield Create(paths.reassigned(key), paths.encoded(replicas))).error is CallError.NODE_EXISTS:
        yield SetData(paths.reassigned(key), paths.encoded(replicas))


def _send_all(zk: ZooKeeperState, kind: RequestKind, key: Key, replicas: Sequence[int]) -> Steps[list[str]]:
    """Send a request to each; the znodes of those that had room for it."""
    sent = []
    for member in replicas:
        path = yield from queues.send(zk, member, StateChange(kind, key, ADMINISTRATOR_EPOCH, zk.broker_id))
        if path is not None:
            sent.append(path)
    return sent


def _delete_znodes(zk: ZooKeeperState, key: Key, until_ms: int) -> Steps[None]:
    """Delete the partition with all below it, which a replica that was elected just before may add to."""
    while zk.broker.runtime.now_ms < until_ms:
        for name in (yield GetChildren(paths.partition(key))).children:
            yield Delete(f"{paths.partition(key)}/{name}")
        if (yield Delete(paths.partition(key))).error is not CallError.NOT_EMPTY:
            break
    yield Delete(paths.reassigned(key))


# --- waiting ---------------------------------------------------------------------------------------------------------


def _await_consumed(zk: ZooKeeperState, requests: Sequence[str], until_ms: int) -> Steps[bool]:
    """`waitTillStateChangeRequestConsumed`: whether all these requests are gone in time."""
    for path in requests:
        zk.awaited.add(path)
        while (yield Exists(path, watch=True)).stat is not None:
            if not (yield from _await_change(zk, [path], until_ms)):
                return False
            zk.awaited.add(path)
        zk.awaited.discard(path)
    return True


def _await_closes(zk: ZooKeeperState, key: Key, members: Sequence[int], until_ms: int) -> Steps[bool]:
    """Whether each of these brokers gets a request to close the replica, and carries it out in time."""
    seen: set[int] = set()
    missing = list(members)
    while True:
        for member in list(missing):
            zk.awaited.add(paths.queue(member))
            if (yield from _is_to_close(key, member)):
                seen.add(member)
            elif member in seen:
                missing.remove(member)
        if not missing:
            return True
        if not (yield from _await_change(zk, [paths.queue(member) for member in missing], until_ms)):
            return False


def _is_to_close(key: Key, member: int) -> Steps[bool]:
    path = paths.queue(member)
    for name in (yield GetChildren(path, watch=True)).children:
        found = yield GetData(f"{path}/{name}")
        if found.error is None:
            change = queues.decoded(found.data, f"{path}/{name}")
            if change.kind is RequestKind.CLOSE and change.key == key:
                return True
    return False


def _await_change(zk: ZooKeeperState, watched: Sequence[str], until_ms: int) -> Steps[bool]:
    """Wait until a watch on one of these paths has fired, or it is time to look again; False if the time is over."""
    left_ms = until_ms - zk.broker.runtime.now_ms
    if left_ms <= 0:
        return False
    yield Until(lambda: any(path not in zk.awaited for path in watched), min(left_ms, _LOOK_AGAIN_MS))
    return True
