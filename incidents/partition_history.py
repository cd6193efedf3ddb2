"""Follows partitions through the samples of the table `cluster`: leaders, ISRs, logs that were cut.

What brokers' own logs tell comes between the samples, with its exact moment (`incidents.logged_states`).
These are the stretches of time that a report draws and the evidence of incidents: what the samples show. When a
leadership can have begun or ended at most, which a verdict may rest on, is in `checkers.relations.cluster_events`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import pairwise
from operator import itemgetter
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from common.wording import count, moment, nodes, partition_name
from incidents.logged_states import LoggedState

NO_LEADER = -1


class Sample(NamedTuple):
    """What one broker said of its replica at one moment."""

    at_ns: int
    broker: int
    role: str
    leader: int
    leader_epoch: int
    log_end: int | None
    high_watermark: int | None
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    log_start: int | None = None
    cut_from: int | None = None
    """Where the log had ended before a cut, if the broker's log tells of one."""


class LeaderStretch(NamedTuple):
    """A stretch of time in which one leader of one epoch was seen, or none (`leader` is `NO_LEADER`)."""

    start_ns: int
    end_ns: int
    leader: int
    leader_epoch: int


class IsrStretch(NamedTuple):
    """A stretch of time in which the leader reported one ISR."""

    start_ns: int
    end_ns: int
    isr: tuple[int, ...]


class LogCut(NamedTuple):
    """A replica whose log end went back between two samples."""

    at_ns: int
    """Time of the later sample; the cut lies between it and `before_ns`."""
    before_ns: int
    """The same if the broker's log has the moment."""
    broker: int
    log_end_before: int
    """Where it was last seen to end; the log may have grown since, unless the broker's log tells the end."""
    log_end: int
    is_exact: bool = False
    """Whether the broker's log tells where it ended before."""

    @property
    def ends(self) -> str:
        """From where to where it was cut, as a sentence says it."""
        before = count(self.log_end_before) + ("" if self.is_exact else " or more")
        return f"from {before} to {count(self.log_end)}"

    @property
    def when(self) -> str:
        """When it was, as a sentence says it."""
        if self.at_ns == self.before_ns:
            return f"at {moment(self.at_ns)}"
        return f"between {moment(self.before_ns)} and {moment(self.at_ns)}"


@dataclass(frozen=True)
class PartitionHistory:
    """The history of one partition according to its replicas."""

    topic: str
    partition: int
    leaderships: tuple[LeaderStretch, ...]
    isrs: tuple[IsrStretch, ...]
    cuts: tuple[LogCut, ...]
    claims: tuple[tuple[int, int, int], ...]
    """(time, broker, leader epoch): a broker that called itself leader in an epoch that was over."""
    samples: tuple[Sample, ...] = ()
    """All samples, in the order of time."""
    leading: tuple[Sample, ...] = ()
    """Those of leaders of the newest epoch so far."""
    took_over: tuple[LoggedState, ...] = ()
    """What brokers' own logs tell of leaders, when they began to lead or went on to, in the order of time."""
    tellers: frozenset[int] = frozenset()
    """The brokers whose own logs tell of the partition, and so of each cut of its log there."""

    def leader_at(self, at_ns: int) -> LeaderStretch | None:
        """Return the leadership at a moment."""
        return next(
            (leadership for leadership in self.leaderships if leadership.start_ns <= at_ns < leadership.end_ns), None
        )

    def unsampled(self, since_ns: int, until_ns: int) -> str:
        """Say of a stretch of time in which no leader was sampled whom its followers named, if any of them did."""
        named = (one.leader for one in self.samples if since_ns <= one.at_ns <= until_ns and one.role == "follower")
        leaders = dict.fromkeys(leader for leader in named if leader != NO_LEADER)
        name = partition_name(self.topic, self.partition)
        if not leaders:
            return f"no sample shows who led {name}"
        return f"no leader of {name} was sampled, and its followers named {nodes(list(leaders))}"

    def newest(self, before_ns: int) -> Sample | None:
        """The last sample of a leader, or another one that tells the ISR, or the ELR, of a later leader epoch."""
        led = [sample for sample in self.leading if sample.at_ns < before_ns][-1:]
        telling = [sample for sample in self.samples if sample.at_ns < before_ns and (sample.isr or sample.elr)]
        later = [sample for sample in telling if not led or sample.leader_epoch > led[0].leader_epoch]
        return max(later, key=lambda sample: (sample.leader_epoch, sample.at_ns), default=led[0] if led else None)


def partition_history(
    cluster: pa.Table, topic: str, partition: int, logged: Sequence[LoggedState] = ()
) -> PartitionHistory:
    """Follow one partition through the samples of its replicas, which are rows of the table `cluster`.

    `logged`: what brokers' logs tell of it, in the order of time.

    The leader at any moment is the one of the highest leader epoch that any replica has called itself leader in; when
    the samples go on without it for longer than two rounds of samples, there is none.
    """
    mine = pc.and_(pc.equal(cluster.column("topic"), topic), pc.equal(cluster.column("partition"), partition))
    samples = cluster.filter(pc.and_(mine, pc.is_valid(cluster.column("at_ns")))).sort_by("at_ns")
    sampled: list[dict[str, Any]] = samples.to_pylist()
    rows = _with_logged(sampled, logged)
    took_over = tuple(state for state in logged if state.role == "leader")
    leading, claims = _leading(rows, took_over)
    # without leader epochs a log tells the moment and the ISR, and not where the replica's log ends
    told = [_of_log(state) for state in took_over if state.log_end is None and state.leader_epoch is None]
    led = list(merge(leading, told, key=itemgetter("at_ns")))
    silence_ns = 2 * _round_ns(sampled) + 1
    end_ns = rows[-1]["at_ns"] if rows else 0
    return PartitionHistory(
        topic,
        partition,
        tuple(_merged_leaderships(_leaderships(led, silence_ns, end_ns))),
        tuple(_merged_isrs(_isrs(led, end_ns))),
        tuple(_cuts(rows)),
        tuple(claims),
        tuple(_sample(row) for row in rows if row["broker"] is not None),
        tuple(_sample(row) for row in leading),
        took_over,
        frozenset(state.broker for state in logged),
    )


def _with_logged(sampled: list[dict[str, Any]], logged: Sequence[LoggedState]) -> list[dict[str, Any]]:
    """Return the samples with what logs tell between them, each as a sample of the broker at its moment.

    What a line does not tell is as it was: the ELR, but for those that are in the ISR now, and for a cut the epoch.
    """
    rows: list[dict[str, Any]] = []
    last: dict[int, dict[str, Any]] = {}
    elr: Sequence[int] = ()
    newest = -1
    ends = (_of_log(state) for state in logged if state.log_end is not None)
    for row in merge(sampled, ends, key=itemgetter("at_ns")):
        before = last.get(row["broker"], {})
        if "is_cut" in row:
            for name in ("leader", "leader_epoch", "high_watermark"):
                row[name] = before.get(name) if row[name] is None else row[name]
            if row["high_watermark"] is not None and row["high_watermark"] > row["log_end"]:
                row["high_watermark"] = None  # that of before the cut
            row["log_start"] = before.get("log_start")
            known = elr if row["role"] == "leader" else before.get("elr") or ()
            row["elr"] = [broker for broker in known if broker not in row["isr"]]
        elif row["role"] == "leader" and (row["leader_epoch"] or 0) >= newest:
            elr, newest = row["elr"] or (), row["leader_epoch"] or 0
        last[row["broker"]] = row
        rows.append(row)
    return rows


def _of_log(state: LoggedState) -> dict[str, Any]:
    return {**state._asdict(), "role": state.role}


def _sample(row: dict[str, Any]) -> Sample:
    return Sample(
        row["at_ns"],
        row["broker"],
        row["role"] or "none",
        NO_LEADER if row["leader"] is None else row["leader"],
        -1 if row["leader_epoch"] is None else row["leader_epoch"],
        row["log_end"],
        row["high_watermark"],
        tuple(sorted(row["isr"] or ())),
        tuple(sorted(row["elr"] or ())),
        row["log_start"],
        row.get("cut_from"),
    )


def _leading(
    rows: Sequence[dict[str, Any]], took_over: Sequence[LoggedState]
) -> tuple[list[dict[str, Any]], list[tuple[int, int, int]]]:
    """Split the samples of leaders into those of the newest epoch so far and those of an epoch that was over.

    Without leader epochs the brokers' logs tell who has begun to lead last. A leader whose own epoch has gone back
    leads a partition that was created anew under the same name.
    """
    newest = -1
    known: dict[int, int] = {}
    gone_back: set[int] = set()
    begun = 0
    leading: list[dict[str, Any]] = []
    claims: list[tuple[int, int, int]] = []
    for row in rows:
        if row["broker"] is None:
            continue
        epoch = -1 if row["leader_epoch"] is None else int(row["leader_epoch"])
        if 0 <= epoch < known.get(row["broker"], -1):
            gone_back.add(row["broker"])
        if epoch >= 0:
            known[row["broker"]] = epoch
        if row["role"] != "leader":
            continue
        if row["broker"] in gone_back:
            gone_back.discard(row["broker"])
            newest = epoch
        while begun < len(took_over) and took_over[begun].at_ns <= row["at_ns"]:
            begun += 1
        is_replaced = epoch < 0 < begun and took_over[begun - 1].broker != row["broker"]
        if epoch < newest or is_replaced:
            claims.append((row["at_ns"], row["broker"], epoch))
        else:
            newest = epoch
            leading.append(row)
    return leading, claims


def _round_ns(rows: Sequence[dict[str, Any]]) -> int:
    """Estimate the time between two rounds of samples: the median step of the replica sampled most often."""
    by_broker: dict[int | None, list[int]] = {}
    for row in rows:
        by_broker.setdefault(row["broker"], []).append(row["at_ns"])
    longest = max(by_broker.values(), key=len, default=[])
    steps = sorted(later - earlier for earlier, later in pairwise(longest))
    return steps[len(steps) // 2] if steps else 1_000_000_000


def _leaderships(leading: Sequence[dict[str, Any]], silence_ns: int, end_ns: int) -> Iterator[LeaderStretch]:
    for row, until_ns in zip(leading, _ends(leading, end_ns), strict=True):
        epoch = -1 if row["leader_epoch"] is None else row["leader_epoch"]
        if until_ns - row["at_ns"] > silence_ns:
            yield LeaderStretch(row["at_ns"], row["at_ns"] + silence_ns // 2, row["broker"], epoch)
            yield LeaderStretch(row["at_ns"] + silence_ns // 2, until_ns, NO_LEADER, epoch)
        else:
            yield LeaderStretch(row["at_ns"], until_ns, row["broker"], epoch)


def _isrs(leading: Sequence[dict[str, Any]], end_ns: int) -> Iterator[IsrStretch]:
    for row, until_ns in zip(leading, _ends(leading, end_ns), strict=True):
        yield IsrStretch(row["at_ns"], until_ns, tuple(sorted(row["isr"] or ())))


def _ends(leading: Sequence[dict[str, Any]], end_ns: int) -> list[int]:
    """Return for each sample when the next one was taken, for the last `end_ns`."""
    return [*(row["at_ns"] for row in leading[1:]), end_ns][: len(leading)]


def _cuts(rows: Iterable[dict[str, Any]]) -> Iterator[LogCut]:
    last: dict[int, tuple[int, int]] = {}
    for row in rows:
        broker, log_end = row["broker"], row["log_end"]
        if broker is None or log_end is None:
            continue
        before_ns, log_end_before = last.get(broker, (row["at_ns"], log_end))
        if row.get("is_cut"):
            before_ns, log_end_before = row["at_ns"], max(log_end_before, row["cut_from"] or 0)
        if log_end < log_end_before:
            is_exact = bool(row.get("is_cut")) and log_end_before == row["cut_from"]
            yield LogCut(row["at_ns"], before_ns, broker, log_end_before, log_end, is_exact)
        last[broker] = (row["at_ns"], log_end)


def _merged_leaderships(leaderships: Iterable[LeaderStretch]) -> list[LeaderStretch]:
    merged: list[LeaderStretch] = []
    for leadership in leaderships:
        if merged and (merged[-1].leader, merged[-1].leader_epoch) == (leadership.leader, leadership.leader_epoch):
            merged[-1] = merged[-1]._replace(end_ns=leadership.end_ns)
        else:
            merged.append(leadership)
    return merged


def _merged_isrs(stretches: Iterable[IsrStretch]) -> list[IsrStretch]:
    merged: list[IsrStretch] = []
    for stretch in stretches:
        if merged and merged[-1].isr == stretch.isr:
            merged[-1] = merged[-1]._replace(end_ns=stretch.end_ns)
        else:
            merged.append(stretch)
    return merged
