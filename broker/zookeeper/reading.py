"""Small procedures that others are made of: read ids, write them, register a node of the session."""

from __future__ import annotations

from broker.core.ports.coordination import Answer, CallError, Create, Delete, Exists, GetData, SetData
from broker.zookeeper import paths
from broker.zookeeper.procedures import Steps
from broker.zookeeper.state import ZooKeeperState


def read_ids(path: str, *, watch: bool = False) -> Steps[tuple[int, ...] | None]:
    """The broker ids in a znode; None if there is none. Raises `BadZnode`."""
    found: Answer = yield GetData(path, watch)
    return None if found.error is not None else paths.decoded(found.data, path)


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
