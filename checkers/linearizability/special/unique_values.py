"""Decides registers and queues whose values are written once each, so that it is known which write a read saw.

Registers (Gibbons and Korach 1997): a write and the reads of its value stand together in every order. Such a cluster's
*zone* lies between the first completion and the last invocation in it. One cluster must precede another if its first
completion is before the last invocation of the other; there is an order exactly if no two clusters must precede each
other.

    cluster of 1:  |--write 1--|          |--read 1--|
    cluster of 2:                |--w 2--|                 zone of 2 lies within that of 1: no order

Queues (Henzinger, Sezgin and Vafeiadis 2013; Bouajjani and others 2015): there is an order exactly if none of these is
found: a value dequeued that was never enqueued, or twice, or before it was enqueued; two values enqueued one after the
other and dequeued the other way round (or the first never); the answer that the queue is empty, while at every instant
of that operation some value was certainly in it.

A dequeue that never returned may have taken any value that no other dequeue returned, or none. It is as good as any
other invoked before it, and a value is in need of one the sooner, the sooner its enqueue completed: values enqueued
after it that were taken, and answers that the queue was empty, concern every value enqueued before. So they are paired
in this order, and there is an order exactly if none of the above is found then.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

from checkers.linearizability.models import State
from checkers.linearizability.operations import UNKNOWN, Operation
from checkers.linearizability.special.contradiction import (
    ALWAYS,
    FOREVER,
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


class _Item(NamedTuple):
    """A value's path through the queue. `taken`: when its dequeue was invoked, never if there is none."""

    enqueue: Operation
    dequeue: Operation | None
    enqueued: Time
    taken: Time


def decide_queue(operations: Sequence[Operation], initial: State) -> Contradiction | Linearizable | None:
    """Decide enqueues and dequeues; None if a value is enqueued twice, or a dequeue returned an unknown one."""
    if initial != ():
        return None
    enqueues: dict[State, Operation] = {}
    dequeues: list[Operation] = []
    empty: list[Operation] = []
    unreturned: list[Operation] = []
    for operation in operations:
        if operation.function == "enqueue":
            if operation.argument in enqueues:
                return None
            enqueues[operation.argument] = operation
        elif operation.completed_ns is None:
            unreturned.append(operation)
        elif operation.result is UNKNOWN:
            return None
        else:
            (empty if operation.result is None else dequeues).append(operation)
    taken: dict[State, Operation] = {}
    for dequeue in dequeues:
        enqueue, other = enqueues.get(dequeue.result), taken.get(dequeue.result)
        if enqueue is None or other is not None or completion(dequeue) < enqueue.invoked_ns:
            return contradiction([enqueue, other, dequeue])
        taken[dequeue.result] = dequeue
    missing = [one for value, one in enqueues.items() if value not in taken and one.completed_ns is not None]
    missing.sort(key=completion)
    unreturned.sort(key=lambda dequeue: dequeue.invoked_ns)
    for enqueue, dequeue in zip(missing, unreturned, strict=False):
        taken[enqueue.argument] = dequeue
    items = [
        _Item(enqueue, dequeue, completion(enqueue), FOREVER if dequeue is None else dequeue.invoked_ns)
        for enqueue, dequeue in ((enqueue, taken.get(value)) for value, enqueue in enqueues.items())
        if dequeue is not None or enqueue.completed_ns is not None
    ]
    return _overtaken(items) or _not_empty(items, empty) or LINEARIZABLE


def _overtaken(items: Sequence[_Item]) -> Contradiction | None:
    by_enqueued = sorted(items, key=lambda item: item.enqueued)
    before = 0
    last: _Item | None = None
    for item in sorted(items, key=lambda item: item.enqueue.invoked_ns):
        while before < len(by_enqueued) and by_enqueued[before].enqueued < item.enqueue.invoked_ns:
            if last is None or by_enqueued[before].taken > last.taken:
                last = by_enqueued[before]
            before += 1
        if last is not None and item.dequeue is not None and completion(item.dequeue) < last.taken:
            return contradiction([last.enqueue, last.dequeue, item.enqueue, item.dequeue])
    return None


def _not_empty(items: Sequence[_Item], empty: Sequence[Operation]) -> Contradiction | None:
    """Look for an answer `empty` that open intervals, in which a value was certainly there, cover from end to end."""
    inside = sorted((item for item in items if item.enqueued < item.taken), key=lambda item: item.enqueued)
    waiting = sorted(empty, key=lambda dequeue: dequeue.invoked_ns)
    begin: Time = ALWAYS
    end: Time = ALWAYS
    position = 0
    for dequeue in waiting:
        while position < len(inside) and inside[position].enqueued < dequeue.invoked_ns:
            item = inside[position]
            if item.enqueued >= end:
                begin = item.enqueued
            end = max(end, item.taken)
            position += 1
        until, following = end, position
        while following < len(inside) and inside[following].enqueued < until <= completion(dequeue):
            until = max(until, inside[following].taken)
            following += 1
        if begin < dequeue.invoked_ns and completion(dequeue) < until:
            return contradiction([dequeue, *_cover(inside, dequeue)])
    return None


def _cover(inside: Sequence[_Item], dequeue: Operation) -> list[Operation]:
    """Return few values that together were there all the time."""
    covering: list[Operation] = []
    at: Time = dequeue.invoked_ns
    best: _Item | None = None
    for item in inside:
        if item.enqueued >= at:
            if best is None or best.taken <= at:
                continue
            covering += [best.enqueue, *([best.dequeue] if best.dequeue else [])]
            at = best.taken
            if at > completion(dequeue):
                return covering
        if best is None or item.taken > best.taken:
            best = item
    if best is not None:
        covering += [best.enqueue, *([best.dequeue] if best.dequeue else [])]
    return covering
