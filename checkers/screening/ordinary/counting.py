"""Counts what `checkers.verdict.metrics` has Spark count, of ordinary runs; quantiles of latency are exact here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from checkers.input.run_facts import RunFacts
from checkers.screening.columns import Groups, Longs, distinct, numbers, plain
from checkers.screening.ordinary.loaded import LOADED, LoadedHistory, spans
from checkers.screening.ordinary.resolved import ResolvedSend

Name = tuple[str, str, str | None, int | None]
Numbers = dict[Name, int]
"""Metric, name, topic and partition → number (`checkers.verdict.metrics.numbers_by_run`)."""


@dataclass(frozen=True)
class OrdinaryRun:
    """The numbers of a run in which no anomaly is possible, and its sends whose outcome was resolved."""

    numbers: Numbers
    resolved: tuple[ResolvedSend, ...]


QUANTILES: Final = (0.5, 0.95, 0.99, 1.0)
SILENCE_NS_MIN: Final = 20_000_000
"""Shorter gaps between acknowledged writes are ordinary."""


def numbers_of(history: LoadedHistory, wanted: Sequence[int]) -> dict[int, Numbers]:
    """Count in the runs of some numbers, whose rows are all well formed."""
    found: dict[int, Numbers] = {run: {} for run in wanted}
    for counted in (
        rows_in(history),
        operations_in(history),
        _latencies(history),
        sends_in(history),
        _writes(history),
        final_reads_in(history),
    ):
        for run, name, number in counted:
            if run in found:
                found[run][name] = number
    return found


Counted = Iterator[tuple[int, Name, int]]


def rows_in(history: LoadedHistory) -> Counted:
    """Count the rows of each table."""
    for table in LOADED:
        for run, number in enumerate(np.bincount(history.run[table]).tolist()):
            if number:
                yield run, ("rows", table, None, None), number


def operations_in(history: LoadedHistory) -> Counted:
    """Count the operations of each kind and status."""
    operations, run = history.tables["operations"], history.run["operations"]
    named = plain(operations.select(["kind", "status"]))
    codes = [
        np.asarray(named.column(name).combine_chunks().dictionary_encode().indices.fill_null(-1).to_numpy(), np.int64)
        for name in ("kind", "status")
    ]
    number, examples = distinct(run, *codes)
    every = np.ones(number.size, np.bool_)
    counts = Groups(number).count(every).tolist()
    for row, count in zip(examples.tolist(), counts, strict=True):
        kind, status = (named.column(name)[row].as_py() for name in ("kind", "status"))
        yield int(run[row]), ("operations", f"{kind}/{status}", None, None), count


def done_sends(history: LoadedHistory) -> tuple[Longs, Longs, Longs]:
    """Return the rows of operations that are acknowledged sends, how long each took, and when it ended."""
    operations, performed = history.tables["operations"], history.performed
    done = np.flatnonzero(performed.of("kind", "send") & performed.of("status", "ok"))
    completed = numbers(operations, "completed_ns")[done]
    return done, completed - numbers(operations, "invoked_ns")[done], completed


def _latencies(history: LoadedHistory) -> Counted:
    run, (done, latency, _) = history.run["operations"], done_sends(history)
    order = np.lexsort((latency, run[done]))
    for of_one, rows in spans(run[done][order]):
        sorted_ns = latency[order[rows]]
        for quantile in QUANTILES:
            rank = max(1, int(np.ceil(quantile * sorted_ns.size)))
            yield of_one, ("latency_ns", str(quantile), None, None), int(sorted_ns[rank - 1])


def sends_in(history: LoadedHistory) -> Counted:
    """Count the records sent by status; tell when the first and the last were acknowledged."""
    run, completed = history.run["sends"], history.of_operation("sends", "completed_ns")
    for status in ("ok", "fail", "info"):
        chosen = np.flatnonzero(history.status("sends", status))
        chosen = chosen[np.argsort(run[chosen], kind="stable")]
        for of_one, rows in spans(run[chosen]):
            yield of_one, ("sends", status, None, None), rows.stop - rows.start
            if status == "ok":
                moments = completed[chosen[rows]]
                yield of_one, ("acked", "records", None, None), moments.size
                yield of_one, ("acked", "first_ns", None, None), int(moments.min())
                yield of_one, ("acked", "last_ns", None, None), int(moments.max())


def _writes(history: LoadedHistory) -> Counted:
    """Yield the longest time without an acknowledged write that touches a fault, and from its heal to the next."""
    done, _, completed = done_sends(history)
    run = history.run["operations"][done]
    order = np.lexsort((completed, run))
    for of_one, rows in spans(run[order]):
        moments = completed[order[rows]]
        long = np.flatnonzero(np.diff(moments) >= SILENCE_NS_MIN)
        since, until = moments[long], moments[long + 1]
        for name, number in silences(history.facts[of_one], since, until).items():
            yield of_one, name, number


def silences(facts: RunFacts, since: Longs, until: Longs) -> Numbers:
    """Return for each fault the longest of some times without an acknowledged write, and when the next one came."""
    found: dict[int, dict[str, int]] = {}
    for fault in facts.faults:
        if fault.ended_ns is None or not fault.targets:
            continue
        touching = (since < fault.ended_ns) & (until > fault.started_ns)
        if not touching.any():
            continue
        of_fault = found.setdefault(fault.number, {})
        longest = int((until - since)[touching].max())
        of_fault["silence_ns"] = max(of_fault.get("silence_ns", 0), longest)
        after = touching & (until > fault.ended_ns)
        if after.any():
            recovery = int(until[after].max()) - fault.ended_ns
            of_fault["recovery_ns"] = max(of_fault.get("recovery_ns", 0), recovery)
    return {
        (metric, str(fault), None, None): value
        for fault, of_fault in found.items()
        for metric, value in of_fault.items()
    }


def final_reads_in(history: LoadedHistory) -> Counted:
    """Tell how far each partition was read in the final phase."""
    places = list(zip(*(each.to_pylist() for each in plain(history.partitions).columns), strict=True))
    of_place = {place: number for number, place in enumerate(places)}
    cluster, returned = history.tables["cluster"], history.returned
    used = np.zeros(len(places), np.bool_)
    used[history.partition["sends"]] = True
    used[returned.partition[numbers(returned.table, "values") > 0]] = True
    log_start = np.zeros(len(places), np.int64)
    np.maximum.at(log_start, history.partition["cluster"], numbers(cluster, "log_start"))
    read_to = _read_to(history, log_start)
    for number in np.flatnonzero(used).tolist():
        _, topic, partition = places[number]
        run = int(history.run_of_partition[number])
        yield run, ("final", "complete", topic, partition), 0
        yield run, ("final", "unseen", topic, partition), 0
    for run, facts in enumerate(history.facts):
        for end in facts.ends:
            place = of_place.get((facts.run_id, end.topic, end.partition))
            start = 0 if place is None else int(log_start[place])
            reached = None if place is None else read_to.get(place)
            complete = end.agreed and (end.offset <= start or (reached is not None and reached >= end.offset))
            counted = {"complete": int(complete), "agreed": int(end.agreed), "end_offset": end.offset, "unseen": 0}
            for name, value in {**counted, **({} if reached is None else {"read_to": reached})}.items():
                yield run, ("final", name, end.topic, end.partition), value


def _read_to(history: LoadedHistory, log_start: Longs) -> dict[int, int]:
    """Return how far some process read each partition from its start without a gap, in the final phase."""
    polls = history.tables["polls"]
    final = history.kind("polls", "poll") & history.status("polls", "ok") & history.phase("polls", "final")
    chosen = np.flatnonzero(final)
    partition, process = history.partition["polls"], history.of_operation("polls", "process")
    position, end = numbers(polls, "position"), numbers(polls, "next_position")
    path, _ = distinct(partition[chosen], process[chosen])
    order = np.lexsort((end[chosen], position[chosen], path))
    read_to: dict[int, int] = {}
    for _, rows in spans(path[order]):
        of_one = chosen[order[rows]]
        number = int(partition[of_one[0]])
        reached = np.maximum.accumulate(end[of_one])
        before = np.append(log_start[number], reached[:-1])
        gaps = np.flatnonzero(position[of_one] > before)
        steps = int(gaps[0]) if gaps.size else of_one.size
        if steps:
            read_to[number] = max(read_to.get(number, 0), int(reached[steps - 1]))
    return read_to
