"""Judges by the profile `jepsen-kafka`: finds the anomalies of the checker of Jepsen's Kafka workload, by its rules.

Positions are ranks of offsets among the known offsets of a partition, so that gaps do not count. If an offset is
known with several values, the first reported has the position, and the others have none; a value at several
offsets has the last. Δ is the difference of two positions, 1 where one of them is unknown.

A value that was polled and never sent is `phantom-read` here; Jepsen's checker fails on it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from checkers.foreign.operations import SUBSCRIPTIONS, TRANSACTIONS, KafkaOperation, KafkaRecord

LEGAL = frozenset({"int-send-skip", "G0", "G0-realtime"})
"""Writes of transactions interleave."""
LEGAL_WITH_SUBSCRIBE = frozenset({"poll-skip", "nonmonotonic-poll"})
"""A group may move a partition between two polls."""
PartitionValue = tuple[Hashable, Hashable]
"""A partition and a value."""
Edge = tuple[int, int]


class KindCounts(NamedTuple):
    """How often each kind was found, and which of them the workload does not allow."""

    counts: Mapping[str, int]
    bad: frozenset[str]


@dataclass(frozen=True)
class _Log:
    """What is known of the log of one partition."""

    values: list[list[Hashable]]
    """By position: the values known there, first reported first."""

    def positions(self) -> dict[Hashable, int]:
        return {held[0]: position for position, held in enumerate(self.values)}

    def first(self) -> dict[Hashable, int]:
        found: dict[Hashable, int] = {}
        for position, held in enumerate(self.values):
            for value in held:
                found.setdefault(value, position)
        return found

    def last(self) -> dict[Hashable, int]:
        return {value: position for position, held in enumerate(self.values) for value in held}


class _History:
    """The base relations of one history."""

    def __init__(self, operations: Sequence[KafkaOperation]) -> None:
        self.operations = operations
        self.clients = [operation for operation in operations if operation.f in TRANSACTIONS]
        self.read = {
            (record.key, record.value)
            for operation in self.clients
            if operation.type == "ok"
            for record in operation.polls
        }
        self.committed = [self._is_committed(operation) for operation in self.clients]
        self.writer: dict[PartitionValue, int] = {}
        for number, operation in enumerate(self.clients):
            for record in operation.sends:
                self.writer[record.key, record.value] = number
        self.logs = {key: _Log(values) for key, values in self._known().items()}
        self.position = {
            (key, value): position for key, log in self.logs.items() for value, position in log.positions().items()
        }

    def _is_committed(self, operation: KafkaOperation) -> bool:
        return operation.type == "ok" or (
            operation.type == "info" and any((record.key, record.value) in self.read for record in operation.sends)
        )

    def _known(self) -> dict[Hashable, list[list[Hashable]]]:
        offsets: dict[Hashable, dict[int, list[Hashable]]] = defaultdict(dict)
        for operation, committed in zip(self.clients, self.committed, strict=True):
            for record in (*operation.polls, *(operation.sends if committed else ())):
                if record.offset is not None:
                    held = offsets[record.key].setdefault(record.offset, [])
                    if record.value not in held:
                        held.append(record.value)
        return {key: [held for _, held in sorted(by_offset.items())] for key, by_offset in offsets.items()}

    def step(self, before: KafkaRecord, after: KafkaRecord) -> int:
        """Δ of two records of one partition."""
        begin = self.position.get((before.key, before.value))
        end = self.position.get((after.key, after.value))
        return 1 if begin is None or end is None else end - begin


def judge_kafka(operations: Sequence[KafkaOperation], *, with_ww: bool = True) -> KindCounts:
    """Find the kinds of a history. `with_ww`: sends to one partition that follow each other in its log depend."""
    history = _History(operations)
    counts: Counter[str] = Counter()
    for rule in (_log_kinds, _read_kinds, _lost, _within, _polls_of_processes, _sends_of_processes):
        counts.update(rule(history))
    cycles = Counter(_cycles(history, with_ww=with_ww))
    cycles_by_reads = Counter(_cycles(history, with_ww=False)) if with_ww and cycles else cycles
    counts += cycles
    legal = set(LEGAL)
    if any(operation.f == "subscribe" for operation in operations):
        legal |= LEGAL_WITH_SUBSCRIBE
    legal |= {kind for kind in cycles if kind.startswith("G1c") and not cycles_by_reads[kind]}
    return KindCounts(dict(sorted(counts.items())), frozenset(kind for kind in counts if kind not in legal))


def _log_kinds(history: _History) -> Iterator[str]:
    for log in history.logs.values():
        counted = Counter(value for held in log.values for value in held)
        yield from ("inconsistent-offsets" for held in log.values if len(held) > 1)
        yield from ("duplicate" for times in counted.values() if times > 1)


def _read_kinds(history: _History) -> Iterator[str]:
    failed = _sent(history, "fail")
    acknowledged = _sent(history, "ok")
    yield from ("unseen" for record in acknowledged if record not in history.read)
    yield from ("phantom-read" for record in history.read if record not in history.writer)
    for operation in history.clients:
        polled = {(record.key, record.value) for record in operation.polls}
        sent = {(record.key, record.value) for record in operation.sends}
        yield from ("precommitted-read" for _ in polled & sent)
        if operation.type == "ok":
            yield from ("G1a" for _ in polled & failed)


def _sent(history: _History, status: str) -> set[PartitionValue]:
    return {(sent.key, sent.value) for each in history.clients if each.type == status for sent in each.sends}


def _lost(history: _History) -> Iterator[str]:
    """Values that lie no further than one that was read, are committed, and were not read themselves."""
    committed = {
        (record.key, record.value)
        for operation, is_committed in zip(history.clients, history.committed, strict=True)
        if is_committed
        for record in operation.sends
    }
    for key, log in history.logs.items():
        bound = max((position for value, position in log.first().items() if (key, value) in history.read), default=-1)
        for value, position in log.last().items():
            record = (key, value)
            if position <= bound and record not in history.read and record in committed:
                yield "lost-write"


def _within(history: _History) -> Iterator[str]:
    """Steps within one operation; a repeat is no progress either."""
    for operation in history.clients:
        for what, records in (("poll", operation.polls), ("send", operation.sends)):
            for key, mine in _by_key(records).items():
                if what == "poll" and key in operation.rebalanced:
                    continue
                for before, after in pairwise(mine):
                    step = history.step(before, after)
                    if step > 1:
                        yield f"int-{what}-skip"
                    elif step < 1:
                        yield f"int-nonmonotonic-{what}"


def _polls_of_processes(history: _History) -> Iterator[str]:
    reached: dict[Hashable, dict[Hashable, KafkaRecord]] = defaultdict(dict)
    for operation in history.operations:
        mine = reached[operation.process]
        if operation.f in SUBSCRIPTIONS:
            _forget(mine, operation)
            continue
        for key, records in _by_key(operation.polls).items():
            step = history.step(mine[key], records[0]) if key in mine else 1
            if step > 1:
                yield "poll-skip"
            elif step < 1:
                yield "nonmonotonic-poll"
            if operation.type == "ok":
                mine[key] = records[-1]


def _sends_of_processes(history: _History) -> Iterator[str]:
    reached: dict[Hashable, dict[Hashable, KafkaRecord]] = defaultdict(dict)
    for operation in history.operations:
        mine = reached[operation.process]
        if operation.f in SUBSCRIPTIONS:
            _forget(mine, operation)
        elif operation.type != "fail":
            for key, records in _by_key(operation.sends).items():
                if key in mine and history.step(mine[key], records[0]) < 1:
                    yield "nonmonotonic-send"
                mine[key] = records[-1]


def _forget(reached: dict[Hashable, KafkaRecord], operation: KafkaOperation) -> None:
    if operation.type in ("ok", "info"):
        for key in [key for key in reached if key not in operation.named]:
            del reached[key]


def _by_key(records: Iterable[KafkaRecord]) -> dict[Hashable, list[KafkaRecord]]:
    by_key: dict[Hashable, list[KafkaRecord]] = {}
    for record in records:
        by_key.setdefault(record.key, []).append(record)
    return by_key


def _cycles(history: _History, *, with_ww: bool) -> Iterator[str]:
    """G0 and G1c; `-realtime` where a cycle is closed only by one operation having ended before another began.

    A history whose operations depend on each other in no way proves nothing: `empty-transaction-graph`.
    """
    ww = _ww(history) if with_ww else set()
    wr = {
        (writer, reader)
        for reader, operation in enumerate(history.clients)
        for record in operation.polls
        if (writer := history.writer.get((record.key, record.value), reader)) != reader
    }
    size, realtime, succession = _realtime(history.clients)
    if not ww and not wr and not succession:
        yield "empty-transaction-graph"
        return
    plain_ww = on_cycles(components(size, ww), ww)
    timed_ww = on_cycles(components(size, [*ww, *realtime]), ww) - plain_ww
    plain_wr = on_cycles(components(size, ww | wr), wr)
    timed_wr = on_cycles(components(size, [*ww, *wr, *realtime]), wr) - plain_wr
    for kind, found in (("G0", plain_ww), ("G0-realtime", timed_ww), ("G1c", plain_wr), ("G1c-realtime", timed_wr)):
        yield from (kind for _ in found)


def _ww(history: _History) -> set[Edge]:
    edges = set()
    for key, log in history.logs.items():
        for before, after in pairwise(log.values):
            first, second = history.writer.get((key, before[0])), history.writer.get((key, after[0]))
            if first is not None and second is not None and first != second:
                edges.add((first, second))
    return edges


def _realtime(operations: Sequence[KafkaOperation]) -> tuple[int, list[Edge], bool]:
    """Return the nodes, the edges of time, and whether any operation began after another had ended.

    There is a node for each ok completion, and they follow each other in time, so that the edges are linear in number::

        a ok ──▶ moment 1 ──▶ moment 2 ──▶ b, invoked after moment 2
                              ▲
        c ok ─────────────────┘
    """
    begun = len(operations)
    moments = sorted((each.completed, number) for number, each in enumerate(operations) if each.type == "ok")
    edges = [(begun + turn, begun + turn + 1) for turn in range(len(moments) - 1)]
    edges += [(number, begun + turn) for turn, (_, number) in enumerate(moments)]
    invoked = sorted((each.invoked, number) for number, each in enumerate(operations))
    turn, succession = -1, False
    for record, number in invoked:
        while turn + 1 < len(moments) and moments[turn + 1][0] < record:
            turn += 1
        if turn >= 0:
            edges.append((begun + turn, number))
            succession = True
    return begun + len(moments), edges, succession


def components(size: int, edges: Iterable[tuple[int, int]]) -> list[int]:
    """Number the strongly connected components (Tarjan, 1972): two nodes on a common cycle have one number.

    Linear in nodes and edges.
    """
    following: list[list[int]] = [[] for _ in range(size)]
    for begin, end in edges:
        following[begin].append(end)
    found = [-1] * size
    lowest = [0] * size
    component = [-1] * size
    waiting: list[int] = []
    clock = numbered = 0
    for root in range(size):
        if found[root] >= 0:
            continue
        path = [(root, 0)]
        while path:
            node, turn = path.pop()
            if turn == 0:
                found[node] = lowest[node] = clock
                clock += 1
                waiting.append(node)
            descended = False
            neighbours = following[node]
            for index in range(turn, len(neighbours)):
                other = neighbours[index]
                if found[other] < 0:
                    path.append((node, index + 1))
                    path.append((other, 0))
                    descended = True
                    break
                if component[other] < 0:
                    lowest[node] = min(lowest[node], found[other])
            if descended:
                continue
            if lowest[node] == found[node]:
                while True:
                    member = waiting.pop()
                    component[member] = numbered
                    if member == node:
                        break
                numbered += 1
            if path:
                parent = path[-1][0]
                lowest[parent] = min(lowest[parent], lowest[node])
    return component


def on_cycles(component: Sequence[int], edges: Iterable[tuple[int, int]]) -> set[tuple[int, int]]:
    """Keep the edges that lie on a cycle."""
    return {(begin, end) for begin, end in edges if component[begin] == component[end]}
