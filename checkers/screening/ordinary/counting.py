"""Counts what `checkers.verdict.metrics` has Spark count, of ordinary runs; quantiles of latency are exact here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from checkers.input.run_facts import RunFacts
from checkers.screening.columns import Groups, Longs, distinct, known, numbers, plain
from checkers.screening.kernel_rows import nowhere
from checkers.screening.ordinary.loaded import LOADED, LoadedHistory, spans

Name = tuple[str, str, str | None, int | None]
Numbers = dict[Name, int]
"""Metric, name, topic and partition → number (`checkers.verdict.metrics.numbers_by_run`)."""

QUANTILES: Final = (0.5, 0.95, 0.99, 1.0)
SILENCE_NS_MIN: Final = 20_000_000
"""Shorter gaps between acknowledged writes are ordinary."""


def numbers_of(history: LoadedHistory, wanted: Sequence[int]) -> dict[int, Numbers]:
    """Count in the runs of some numbers, whose rows are all well formed."""
    found: dict[int, Numbers] = {run: {} for run in wanted}
    for counted in (_rows(history), _operations(history), _sends(history), _writes(history), _final_reads(history)):
        for run, name, number in counted:
            if run in found:
                found[run][name] = number
    return found


Counted = Iterator[tuple[int, Name, int]]


def _rows(history: LoadedHistory) -> Counted:
    for table in LOADED:
        for run, number in enumerate(np.bincount(history.run[table]).tolist()):
            if number:
                yield run, ("rows", table, None, None), number


def _operations(history: LoadedHistory) -> Counted:
    operations, performed, run = history.tables["operations"], history.performed, history.run["operations"]
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
    done = np.flatnonzero(performed.of("kind", "send") & performed.of("status", "ok"))
    latency = numbers(operations, "completed_ns")[done] - numbers(operations, "invoked_ns")[done]
    order = np.lexsort((latency, run[done]))
    for of_one, rows in spans(run[done][order]):
        sorted_ns = latency[order[rows]]
        for quantile in QUANTILES:
            rank = max(1, int(np.ceil(quantile * sorted_ns.size)))
            yield of_one, ("latency_ns", str(quantile), None, None), int(sorted_ns[rank - 1])


def _sends(history: LoadedHistory) -> Counted:
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
    operations, performed, run = history.tables["operations"], history.performed, history.run["operations"]
    done = np.flatnonzero(performed.of("kind", "send") & performed.of("status", "ok"))
    completed = numbers(operations, "completed_ns")
    order = done[np.lexsort((completed[done], run[done]))]
    for of_one, rows in spans(run[order]):
        moments = completed[order[rows]]
        long = np.flatnonzero(np.diff(moments) >= SILENCE_NS_MIN)
        since, until = moments[long], moments[long + 1]
        for fault, number in _silences(history.facts[of_one], since, until).items():
            for metric, value in number.items():
                yield of_one, (metric, str(fault), None, None), value


def _silences(facts: RunFacts, since: Longs, until: Longs) -> Mapping[int, dict[str, int]]:
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
    return found


def _final_reads(history: LoadedHistory) -> Counted:
    places = list(zip(*(each.to_pylist() for each in plain(history.partitions).columns), strict=True))
    of_place = {place: number for number, place in enumerate(places)}
    reads, cluster = history.tables["reads"], history.tables["cluster"]
    used = np.zeros(len(places), np.bool_)
    used[history.partition["sends"]] = True
    used[history.partition["reads"][~nowhere(reads) & known(reads, "value")]] = True
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
