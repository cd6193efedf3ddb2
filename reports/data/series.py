"""Computes throughput, latency quantiles and reading progress in equal bins of the run's clock."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from reports.data.joined import Acknowledged, Joined, Positions
from reports.data.stored_run import Booleans, Integers

BINS_MAX = 600
QUANTILES = (0.5, 0.95, 0.99)

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Bins:
    """Equal intervals of at least a second; times are seconds since the origin of the run's clock."""

    start_s: float
    width_s: float
    size: int

    @property
    def edges_s(self) -> Floats:
        """Return the `size` + 1 borders."""
        return self.start_s + self.width_s * np.arange(self.size + 1, dtype=np.float64)

    def of(self, at_ns: Integers) -> Integers:
        """Return the bin of each time; times outside belong to the first or last bin."""
        indices = np.floor((at_ns / 1e9 - self.start_s) / self.width_s).astype(np.int64)
        return np.clip(indices, 0, self.size - 1)


@dataclass(frozen=True, eq=False)
class Throughput:
    """Operations completed per second. `info` counts at completion, or at invocation if there was none."""

    acknowledged_sends: Floats
    ok_polls: Floats
    fail: Floats
    info: Floats


@dataclass(frozen=True, eq=False)
class ReadingProgress:
    """Offsets, summed over all partitions, at the end of each bin."""

    acknowledged: Floats
    """The end of what was acknowledged."""
    live: Floats
    """How far the foremost live reader came, in each partition."""
    final: Floats
    """How far the slowest reader of the final phase came; NaN before it begins."""


def bins_over(start_ns: int, end_ns: int) -> Bins:
    """Cover a span of time with at most `BINS_MAX` bins of a whole number of seconds."""
    start_s = np.floor(start_ns / 1e9)
    span_s = max(end_ns / 1e9 - start_s, 1.0)
    width_s = float(max(1.0, np.ceil(span_s / BINS_MAX)))
    return Bins(float(start_s), width_s, int(np.ceil(span_s / width_s)))


def throughput(joined: Joined, bins: Bins) -> Throughput:
    """Count operations per second by how they ended."""
    operations = joined.operations
    ended_ns = np.where(operations.completed_ns < 0, operations.invoked_ns, operations.completed_ns)
    index = bins.of(ended_ns)

    def rate(chosen: Booleans) -> Floats:
        return np.bincount(index[chosen], minlength=bins.size) / bins.width_s

    return Throughput(
        acknowledged_sends=rate(operations.ok & operations.send),
        ok_polls=rate(operations.ok & operations.poll),
        fail=rate(operations.fail),
        info=rate(~operations.ok & ~operations.fail),
    )


def latency_quantiles_ms(joined: Joined, bins: Bins) -> Floats:
    """Return one row per quantile of `QUANTILES`: latency of sends that completed ok; NaN for a bin without any."""
    operations = joined.operations
    chosen = operations.ok & operations.send & (operations.completed_ns >= 0) & (operations.invoked_ns >= 0)
    index = bins.of(operations.completed_ns[chosen])
    latency_ms = (operations.completed_ns[chosen] - operations.invoked_ns[chosen]) / 1e6
    result = np.full((len(QUANTILES), bins.size), np.nan)
    order = np.argsort(index, kind="stable")
    filled, starts = np.unique(index[order], return_index=True)
    for where, group in zip(filled.tolist(), np.split(latency_ms[order], starts[1:]), strict=False):
        result[:, where] = np.quantile(group, QUANTILES)
    return result


def progress(joined: Joined, bins: Bins) -> ReadingProgress:
    """Compute how far records were acknowledged, and how far they were read."""
    acknowledged, positions = joined.acknowledged, joined.positions
    live = ~positions.final
    return ReadingProgress(
        acknowledged=_acknowledged_end(acknowledged, bins, len(joined.partitions)),
        live=_frontier(
            positions.partition[live],
            positions.next_position[live],
            positions.completed_ns[live],
            bins,
            len(joined.partitions),
        ),
        final=_slowest_final_reader(positions, bins, len(joined.partitions)),
    )


def _acknowledged_end(acknowledged: Acknowledged, bins: Bins, partitions: int) -> Floats:
    end = np.where(acknowledged.offset < 0, 0, acknowledged.offset + 1)
    return _frontier(acknowledged.partition, end, acknowledged.acknowledged_ns, bins, partitions)


def _slowest_final_reader(positions: Positions, bins: Bins, partitions: int) -> Floats:
    """Take, bin by bin, the reader that has come least far among all that read in the final phase."""
    slowest = np.full(bins.size, np.nan)
    for process in np.unique(positions.process[positions.final]):
        mine = positions.final & (positions.process == process)
        frontier = _frontier(
            positions.partition[mine],
            positions.next_position[mine],
            positions.completed_ns[mine],
            bins,
            partitions,
        )
        frontier[: int(bins.of(positions.completed_ns[mine]).min())] = np.nan
        slowest = np.fmin(slowest, frontier)
    return slowest


def _frontier(partition: Integers, end: Integers, at_ns: Integers, bins: Bins, partitions: int) -> Floats:
    """Sum over partitions the running maximum of `end`."""
    highest = np.zeros((max(partitions, 1), bins.size))
    known = partition >= 0
    np.maximum.at(highest, (partition[known], bins.of(at_ns[known])), end[known])
    total: Floats = np.maximum.accumulate(highest, axis=1).sum(axis=0)
    return total
