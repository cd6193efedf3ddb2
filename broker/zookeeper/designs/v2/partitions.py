"""Adds and removes a partition as an administrator: asks its replicas, and waits until they have carried that out."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from broker.core.ports.coordination import CallError, Create, Delete, Exists, GetChildren, GetData, SetData
from broker.zookeeper import paths
from broker.zookeeper.designs.v2 import queues
from broker.zookeeper.designs.v2.queues import ADMINISTRATOR_EPOCH, RequestKind, StateChange
from broker.zookeeper.paths import Key
from broker.zookeeper.procedures import Steps
from broker.zookeeper.reading import read_ids, replicas_of
from broker.zookeeper.requests.deletion import await_change, close_replicas, delete_znodes
from broker.zookeeper.state import ZooKeeperState

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
    yield from delete_znodes(zk, key, until_ms)


def remove(zk: ZooKeeperState, key: Key, until_ms: int) -> Steps[bool]:
    """`deletePartition`: whether all live replicas have closed in time. Only then it is taken out of the tree.

    Requests to brokers that are down wait in their queues.
    """
    replicas = yield from replicas_of(key)
    yield from _write_wanted(key, ())
    live = [int(name) for name in (yield GetChildren(paths.IDS)).children]
    expected = [member for member in replicas if member in live]

    def have_closed(until_ms: int) -> Steps[bool]:
        requests = yield from _send_all(zk, RequestKind.CLOSE, key, replicas)
        prefixes = tuple(f"{paths.queue(member)}/" for member in expected)
        return (yield from _await_consumed(zk, [one for one in requests if one.startswith(prefixes)], until_ms))

    if not (yield from close_replicas(zk, key, partial(_await_closes, zk, key, expected), have_closed, until_ms)):
        return False
    yield from delete_znodes(zk, key, until_ms)
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


# --- waiting ---------------------------------------------------------------------------------------------------------


def _await_consumed(zk: ZooKeeperState, requests: Sequence[str], until_ms: int) -> Steps[bool]:
    """`waitTillStateChangeRequestConsumed`: whether all these requests are gone in time."""
    for path in requests:
        zk.awaited.add(path)
        while (yield Exists(path, watch=True)).stat is not None:
            if not (yield from await_change(zk, [path], until_ms)):
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
        if not (yield from await_change(zk, [paths.queue(member) for member in missing], until_ms)):
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
