"""Measures how long writes were not acknowledged under each fault, and how long the cluster took to recover."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np

from common.wording import partition_name
from incidents.partition_history import PartitionHistory
from reports.data.joined import Joined
from reports.data.stored_run import Integers, Run

FAULTS_MAX = 200


@dataclass(frozen=True)
class Outage:
    """What one fault did to writers. Lengths of time are nanoseconds, None if they are not known."""

    number: int
    kind: str
    targets: tuple[int, ...]
    started_ns: int
    ended_ns: int | None
    gap_ns: int | None
    """The longest time of the main phase without an acknowledged write in any partition."""
    worst_gap_ns: int | None
    """The longest time without an acknowledged write in one partition."""
    worst_partition: str
    recovered_ns: int | None
    """From the end of the fault until every partition had acknowledged a write again, in whatever phase."""
    isr_ns: int | None
    """From the end of the fault until every partition's ISR was full again."""


def outages(run: Run, joined: Joined, histories: Sequence[PartitionHistory]) -> list[Outage]:
    """Measure each of the first `FAULTS_MAX` faults that took effect."""
    times, places = joined.acknowledged.acknowledged_ns, joined.acknowledged.partition
    everywhere = _with_the_start(times[times <= run.main_end_ns], run.main_start_ns)
    by_partition = {
        partition_name(topic, partition): times[places == index]
        for index, (topic, partition) in enumerate(joined.partitions)
    }
    written = {name: own for name, own in by_partition.items() if own.size and own[0] <= run.main_end_ns}
    held = [fault for fault in run.faults if fault["took_hold"] and fault["started_ns"] is not None]
    return [_outage(fault, run, everywhere, written, histories) for fault in held[:FAULTS_MAX]]


def _with_the_start(times: Integers, main_start_ns: int | None) -> Integers:
    """Acknowledgements with the start of the main phase before them: writers have waited for the first one since."""
    if main_start_ns is None or not times.size or times[0] <= main_start_ns:
        return times
    return np.insert(times, 0, main_start_ns)


def quiet_gap_ns(run: Run, joined: Joined) -> int | None:
    """Return the longest time without an acknowledged write that no fault touches: what to compare the others with."""
    times = joined.acknowledged.acknowledged_ns
    times = times[times <= run.main_end_ns]
    if times.size < 2:
        return None
    quiet = np.ones(times.size - 1, dtype=np.bool_)
    for fault in run.faults:
        started_ns = fault["started_ns"] or 0
        ended_ns = run.span_ns[1] if fault["ended_ns"] is None else fault["ended_ns"]
        quiet &= (times[1:] < started_ns) | (times[:-1] > ended_ns)
    gaps = np.diff(times)[quiet]
    return int(gaps.max()) if gaps.size else None


def _outage(
    fault: dict[str, Any],
    run: Run,
    everywhere: Integers,
    written: dict[str, Integers],
    histories: Sequence[PartitionHistory],
) -> Outage:
    started_ns = int(fault["started_ns"])
    ended_ns = None if fault["ended_ns"] is None else int(fault["ended_ns"])
    until_ns = run.main_end_ns if ended_ns is None else ended_ns
    in_main = {name: times[times <= run.main_end_ns] for name, times in written.items()}
    gaps = {name: _longest_gap(times, started_ns, until_ns, run.main_end_ns) for name, times in in_main.items()}
    worst = max(gaps, key=lambda name: gaps[name] or 0, default="")
    return Outage(
        number=fault["fault"] or 0,
        kind=fault["kind"] or "unknown",
        targets=tuple(fault["targets"] or ()),
        started_ns=started_ns,
        ended_ns=ended_ns,
        gap_ns=_longest_gap(everywhere, started_ns, until_ns, run.main_end_ns),
        worst_gap_ns=gaps.get(worst),
        worst_partition=worst,
        recovered_ns=None if ended_ns is None else _until_all_wrote(written, ended_ns),
        isr_ns=None if ended_ns is None else _until_isr_full(histories, ended_ns, run.number("replication_factor")),
    )


def _longest_gap(times: Integers, start_ns: int, end_ns: int, main_end_ns: int) -> int | None:
    """Return the longest interval between neighbours in `times` that touches [start, end].

    It may begin before the fault and end after it: for a waiting writer only the whole gap counts. After the
    last acknowledgement of all, the end of the main phase closes the interval.
    """
    if not times.size or start_ns > main_end_ns:
        return None
    borders = np.append(times, max(main_end_ns, int(times[-1])))
    touching = (borders[1:] > start_ns) & (borders[:-1] < end_ns)
    gaps = np.diff(borders)[touching]
    return int(gaps.max()) if gaps.size else None


def _until_all_wrote(written: dict[str, Integers], ended_ns: int) -> int | None:
    waits = []
    for times in written.values():
        index = int(np.searchsorted(times, ended_ns))
        if index == times.size:
            return None
        waits.append(int(times[index]) - ended_ns)
    return max(waits, default=None)


def _until_isr_full(histories: Sequence[PartitionHistory], ended_ns: int, replication_factor: int | None) -> int | None:
    """Return how long after the end of a fault the last ISR was full again; None if one was not.

    Of the partitions that were there at that end: topics come and go.
    A full ISR that was last seen before that end does not count if the next sample shows a smaller one: it may have
    shrunk before the end already.
    """
    waits = []
    for history in histories:
        if not history.samples or not history.samples[0].at_ns <= ended_ns <= history.samples[-1].at_ns:
            continue
        size = replication_factor or max((len(stretch.isr) for stretch in history.isrs), default=0)
        sampled = [sample.at_ns for sample in history.leading if sample.at_ns > ended_ns]
        waited = None
        for stretch, later in zip_longest(history.isrs, history.isrs[1:]):
            if stretch.end_ns <= ended_ns or len(stretch.isr) < size:
                continue
            is_old = stretch.start_ns <= ended_ns and later is not None and len(later.isr) < size
            if not is_old or any(at_ns < later.start_ns for at_ns in sampled):
                waited = max(0, stretch.start_ns - ended_ns)
                break
        if waited is None:
            return None
        waits.append(waited)
    return max(waits, default=None)
