"""Finds runs that may have been unavailable after the last fault was healed (`checkers.anomalies.availability`)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow.compute as pc

from checkers.screening.columns import Flags, Groups, Longs, among, distinct, known, numbers
from checkers.screening.ordinary.loaded import LoadedHistory
from history.contract import ACKS_ALL

_QUARTERS = 4


def unavailable(history: LoadedHistory) -> Iterator[Longs]:
    """Yield runs with a partition without acknowledged writes, a stuck reader or a partial ISR during the bound."""
    yield from _without_write(history)
    yield from _without_progress(history)
    yield from _without_full_isr(history)


class _Bounds:
    """The bound of each row's run."""

    def __init__(self, history: LoadedHistory, table: str) -> None:
        bounds = [(run.healed_ns, run.settings.unavailable_after_ns) for run in history.facts]
        given = [healed is not None and bound is not None for healed, bound in bounds]
        of_rows = history.run[table]
        self.given = np.array(given, np.bool_)[of_rows]
        self.healed = np.array([healed or 0 for healed, _ in bounds], np.int64)[of_rows]
        self.bound = self.healed + np.array([bound or 0 for _, bound in bounds], np.int64)[of_rows]

    def holds(self, moment: Longs) -> Flags:
        return (moment > self.healed) & (moment <= self.bound)


def _tried(groups: Groups, attempts: Flags, begins: Longs, ends: Longs, healed: Longs, bound: Longs) -> Flags:
    """Say in which groups of rows some attempt was under way in each quarter of the bound."""
    counts = [groups.count(attempts & within) for within in _in_quarters(begins, ends, healed, bound)]
    return np.asarray(np.min(counts, axis=0) > 0, np.bool_)


def _in_quarters(begins: Longs, ends: Longs, healed: Longs, bound: Longs) -> Iterator[Flags]:
    """Yield, for each quarter of the bound, which attempts were under way in it."""
    quarter = (bound - healed) / _QUARTERS
    for number in range(_QUARTERS):
        since = healed + quarter * number
        yield (begins <= since + quarter) & (ends >= since)


def telling_sends(history: LoadedHistory) -> Longs:
    """Return rows of `sends` that show what all of them do to `unavailable`, a few for each partition.

    One that was acknowledged within the bound, one that was under way in each of its quarters, the furthest that every
    reader could have read before it, and any.
    """
    bounds, ended = _Bounds(history, "sends"), _ends(history, "sends")
    partition, offset = history.partition["sends"], numbers(history.tables["sends"], "offset", -1)
    kinds = [
        np.ones(partition.size, np.bool_),
        history.status("sends", "ok") & bounds.holds(ended),
        *_in_quarters(history.of_operation("sends", "invoked_ns"), ended, bounds.healed, bounds.bound),
        _readable(history, bounds),
    ]
    chosen = []
    for kind in kinds:
        rows = np.flatnonzero(kind)
        rows = rows[np.argsort(offset[rows], kind="stable")]
        last = np.full(history.partitions.num_rows, -1, np.int64)
        last[partition[rows]] = rows  # the last assignment counts
        chosen.append(last[last >= 0])
    return np.unique(np.concatenate(chosen))


def telling_polls(history: LoadedHistory) -> Longs:
    """Return rows of `operations`, polls that show when each process polled: one for each quarter of the bound."""
    bounds, (invoked, ended) = _Bounds(history, "operations"), _spans(history)
    process, examples = distinct(numbers(history.tables["operations"], "process"))
    polled = history.performed.of("kind", "poll") & bounds.given
    chosen = []
    for within in _in_quarters(invoked, ended, bounds.healed, bounds.bound):
        rows = np.flatnonzero(polled & within)
        last = np.full(examples.size, -1, np.int64)
        last[process[rows]] = rows  # the last assignment counts
        chosen.append(last[last >= 0])
    return np.unique(np.concatenate(chosen))


def _spans(history: LoadedHistory) -> tuple[Longs, Longs]:
    """When each operation began, and when it ended; when it began if that is not known."""
    operations = history.tables["operations"]
    invoked = numbers(operations, "invoked_ns")
    return invoked, np.where(known(operations, "completed_ns"), numbers(operations, "completed_ns"), invoked)


def _readable(history: LoadedHistory, bounds: _Bounds) -> Flags:
    """Say which sends were acknowledged by all replicas, at a known offset, before the last fault was healed."""
    sends = history.tables["sends"]
    before = history.status("sends", "ok") & among(sends, "acks", ACKS_ALL) & bounds.given
    return before & (history.of_operation("sends", "completed_ns") <= bounds.healed) & known(sends, "offset")


def _ends(history: LoadedHistory, table: str) -> Longs:
    """When the operation of each row ended; when it began if that is not known."""
    completed = history.of_operation(table, "completed_ns")
    return np.where(
        history.known_of_operation(table, "completed_ns"), completed, history.of_operation(table, "invoked_ns")
    )


def _without_write(history: LoadedHistory) -> Iterator[Longs]:
    bounds, partition = _Bounds(history, "sends"), history.partition["sends"]
    number, examples = distinct(partition)
    groups = Groups(number)
    ended = _ends(history, "sends")
    acknowledged = history.status("sends", "ok") & bounds.holds(ended)
    invoked = history.of_operation("sends", "invoked_ns")
    silent = groups.count(acknowledged) == 0
    silent &= _tried(groups, bounds.given, invoked, ended, bounds.healed, bounds.bound)
    yield history.run["sends"][examples][silent]


def _without_progress(history: LoadedHistory) -> Iterator[Longs]:
    polls, sends = history.tables["polls"], history.tables["sends"]
    readable = np.full(history.partitions.num_rows, -1, np.int64)
    before = _readable(history, _Bounds(history, "sends"))
    np.maximum.at(readable, history.partition["sends"][before], numbers(sends, "offset")[before])
    bounds = _Bounds(history, "polls")
    answered = np.flatnonzero(history.kind("polls", "poll") & history.status("polls", "ok") & bounds.given)
    process, completed = history.of_operation("polls", "process"), history.of_operation("polls", "completed_ns")
    number, examples = distinct(history.partition["polls"][answered], process[answered])
    groups = Groups(number)
    early = (completed <= bounds.healed) & known(polls, "next_position")
    reached = groups.greatest(numbers(polls, "next_position")[answered], early[answered])
    progress = (numbers(polls, "records") > 0) & bounds.holds(completed)
    stuck = (groups.count(early[answered]) > 0) & (groups.count(progress[answered]) == 0)
    stuck &= reached <= readable[history.partition["polls"][answered][examples]]
    stuck_rows = answered[examples][stuck]
    trying = _trying(history, history.run["polls"][stuck_rows], process[stuck_rows])
    yield history.run["polls"][stuck_rows][trying]


def _trying(history: LoadedHistory, runs: Longs, processes: Longs) -> Flags:
    """Say which processes polled, whatever partition, in each quarter of the bound."""
    operations, bounds = history.tables["operations"], _Bounds(history, "operations")
    invoked, ended = _spans(history)
    number, _ = distinct(
        np.concatenate([history.run["operations"], runs]),
        np.concatenate([numbers(operations, "process"), processes]),
    )
    nothing = np.zeros(runs.size, np.int64)
    attempts = np.concatenate([history.performed.of("kind", "poll") & bounds.given, nothing != 0])
    times = (np.concatenate([each, nothing]) for each in (invoked, ended, bounds.healed, bounds.bound))
    return _tried(Groups(number), attempts, *times)[number[operations.num_rows :]]


def _without_full_isr(history: LoadedHistory) -> Iterator[Longs]:
    cluster, bounds = history.tables["cluster"], _Bounds(history, "cluster")
    settings = [run.settings for run in history.facts]
    known_sizes = [[size for size in (each.replication_factor, each.brokers) if size is not None] for each in settings]
    wanted, needed = history.by_run([min(sizes) if sizes else None for sizes in known_sizes], "cluster")
    at = numbers(cluster, "at_ns")
    later = np.flatnonzero(bounds.given & needed & (at > bounds.healed))
    size = np.asarray(pc.fill_null(pc.list_value_length(cluster.column("isr")), -1).to_numpy(), np.int64)
    full = among(cluster, "role", "leader") & (size >= wanted) & bounds.holds(at)
    number, examples = distinct(history.partition["cluster"][later])
    groups = Groups(number)
    silent = groups.count(full[later]) == 0
    silent &= _tried(groups, later >= 0, at[later], at[later], bounds.healed[later], bounds.bound[later])
    yield history.run["cluster"][later][examples][silent]
