"""Decides registers whose values are written once each (Gibbons and Korach 1997).

A write and the reads of its value stand together in every order. Such a cluster's *zone* lies between the first
completion and the last invocation in it. One cluster must precede another if its first completion is before the last
invocation of the other; there is an order exactly if no two clusters must precede each other.

    cluster of 1:  |--write 1--|          |--read 1--|
    cluster of 2:                |--w 2--|                 zone of 2 lies within that of 1: no order
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from checkers.linearizability.models import State
from checkers.linearizability.operations import UNKNOWN, Operation
from checkers.linearizability.special.contradiction import (
    ALWAYS,
    LINEARIZABLE,
    Contradiction,
    Linearizable,
    Time,
    completion,
    contradiction,
)

_WRITES = frozenset({"write", "put"})
_READS = frozenset({"read", "get"})


class _Cluster:
    """The write of a value and its reads."""

    __slots__ = ("completed", "completed_by", "invoked", "invoked_by", "write")

    def __init__(self, write: Operation | None) -> None:
        self.write = write
        self.completed: Time = ALWAYS if write is None else completion(write)
        self.completed_by = write
        self.invoked: Time = ALWAYS if write is None else write.invoked_ns
        self.invoked_by = write

    def witnesses(self) -> tuple[Operation | None, ...]:
        return self.write, self.completed_by, self.invoked_by


def decide_register(operations: Sequence[Operation], initial: State) -> Contradiction | Linearizable | None:
    """Decide reads and writes; None if a value is written twice, or something else was done."""
    clusters: dict[State, _Cluster] = {initial: _Cluster(None)}
    for operation in operations:
        if operation.function in _WRITES:
            if operation.argument in clusters:
                return None
            clusters[operation.argument] = _Cluster(operation)
        elif operation.function not in _READS:
            return None
    unread = {value for value, cluster in clusters.items() if cluster.write and cluster.write.completed_ns is None}
    for operation in operations:
        if operation.function in _WRITES or operation.result is UNKNOWN:
            continue
        cluster = clusters.get(operation.result)
        if cluster is None:
            return contradiction([operation])
        completed = completion(operation)
        if cluster.write is not None and completed < cluster.write.invoked_ns:
            return contradiction([cluster.write, operation])
        unread.discard(operation.result)
        if completed < cluster.completed:
            cluster.completed, cluster.completed_by = completed, operation
        if operation.invoked_ns > cluster.invoked:
            cluster.invoked, cluster.invoked_by = operation.invoked_ns, operation
    return _decide_zones([cluster for value, cluster in clusters.items() if value not in unread])


def _decide_zones(clusters: Sequence[_Cluster]) -> Contradiction | Linearizable:
    forward = sorted((one for one in clusters if one.completed < one.invoked), key=lambda one: one.completed)
    for earlier, later in zip(forward, forward[1:], strict=False):
        if later.completed < earlier.invoked:
            return contradiction([*earlier.witnesses(), *later.witnesses()])
    begins = [cluster.completed for cluster in forward]
    for cluster in clusters:
        if cluster.completed >= cluster.invoked:
            index = bisect_left(begins, cluster.invoked) - 1
            if index >= 0 and cluster.completed < forward[index].invoked:
                return contradiction([*forward[index].witnesses(), *cluster.witnesses()])
    return LINEARIZABLE
