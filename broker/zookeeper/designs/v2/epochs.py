"""A partition's epoch, which grows with every leader: where it is kept, who raises it, who reads it."""

from __future__ import annotations

from broker.core.ports.coordination import Answer, CallError, Create, GetData, SetData
from broker.zookeeper import paths
from broker.zookeeper.choices import EPOCH_WITH_LEADER
from broker.zookeeper.paths import Key
from broker.zookeeper.procedures import Steps
from broker.zookeeper.reading import read_ids
from broker.zookeeper.state import Hosted, ZooKeeperState

NONE_YET = 0
"""Of a partition that never had a leader."""


def read_isr(key: Key) -> Steps[tuple[tuple[int, ...], int]]:
    """The in-sync replicas in the tree, and the epoch; none and 0 before there is a leader. Raises `BadZnode`."""
    found: Answer = yield GetData(paths.insync(key))
    return ((), NONE_YET) if found.error is not None else paths.decoded_with_epoch(found.data, paths.insync(key))


def write_isr(hosted: Hosted, isr: tuple[int, ...]) -> Steps[None]:
    """Write the in-sync replicas with the epoch of this leader, whatever is there (Q22, Q23)."""
    data = paths.encoded_with_epoch(isr, hosted.epoch)
    written: Answer = yield SetData(paths.insync(hosted.key), data)
    if written.error is CallError.NO_NODE:
        yield Create(paths.insync(hosted.key), data)


def raise_epoch(zk: ZooKeeperState, hosted: Hosted) -> Steps[tuple[int, ...]]:
    """`getNewEpoch`: one more than that in the tree, written with the ISR as it is, which is returned.

    With `zk-epoch-in-leader-znode` (Q20, the earlier draft): the cluster's counter, written into the leader znode.
    """
    isr, epoch = yield from read_isr(hosted.key)
    hosted.epoch = epoch + 1
    if zk.chose(EPOCH_WITH_LEADER):
        hosted.epoch = yield from _count()
        yield SetData(paths.leader(hosted.key), paths.encoded((zk.broker_id, hosted.epoch)))
    yield from write_isr(hosted, isr)
    return isr


def latest(zk: ZooKeeperState, key: Key) -> Steps[int]:
    """The epoch by which a follower tells whether a request is of the present leader."""
    if zk.chose(EPOCH_WITH_LEADER):
        named = (yield from read_ids(paths.leader(key))) or ()
        return named[1] if len(named) > 1 else NONE_YET
    return (yield from read_isr(key))[1]


def _count() -> Steps[int]:
    """The next value of the cluster's counter, which one broker at a time can get."""
    while True:
        found: Answer = yield GetData(paths.EPOCH)
        if found.stat is None:
            yield Create(paths.EPOCH, paths.encoded((NONE_YET,)))
            continue
        value = paths.decoded(found.data, paths.EPOCH)[0] + 1
        if (yield SetData(paths.EPOCH, paths.encoded((value,)), found.stat.version)).error is None:
            return value
