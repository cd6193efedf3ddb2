"""Sorts lost records by the leader that first lacked them, and says who holds them still."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from common.wording import count, moment, partition_name
from incidents.evidence import Evidence
from incidents.model import SPANS_NAMED_MAX
from incidents.partition_history import LogCut, PartitionHistory, Sample
from incidents.rows import Row

LOST = ("lost-acked-write", "lost-read", "P-12")
"""Anomalies that say that a record is gone."""


class Takeover(NamedTuple):
    """The first leader that lacked a record: seen without it at `seen_ns`, elected after `not_before_ns`.

    `leads_on`: it led in the same epoch when it still had the record, and lost it as the leader.
    """

    epoch: int
    leader: int
    not_before_ns: int
    seen_ns: int
    log_end: int | None
    leads_on: bool = False


@dataclass
class Loss:
    """Records of one partition that one leader lacked."""

    topic: str
    partition: int
    takeover: Takeover | None
    rows: list[Row] = field(default_factory=list)

    @property
    def offsets(self) -> tuple[int, int]:
        """The first and the last lost offset."""
        known = [row["offset"] for row in self.rows if row["offset"] is not None]
        return (min(known), max(known)) if known else (0, 0)

    @property
    def last_ns(self) -> int:
        """When the last of the records was acknowledged or read."""
        return max((row["at_ns"] or 0 for row in self.rows), default=0)

    @property
    def was_acknowledged(self) -> bool:
        """Whether a client was promised one of the records; else they had only been read."""
        return any(row["anomaly"] != "lost-read" for row in self.rows)

    @property
    def acknowledged_by(self) -> int | None:
        """The broker that acknowledged all of those that were acknowledged; None if it is not one, or unknown."""
        by = {row.get("broker") for row in self.rows if row["anomaly"] == "lost-acked-write"}
        return next(iter(by)) if len(by) == 1 else None

    @property
    def first_ns(self) -> int:
        """When the first of the records was acknowledged or read."""
        return min((row["at_ns"] or 0 for row in self.rows), default=0)


def elsewhere(losses: Sequence[Loss], evidence: Sequence[str]) -> tuple[str, ...]:
    """Say of losses in partitions of which no line of evidence speaks who first lacked the records there; of a few."""
    lines = []
    for loss in sorted(losses, key=lambda one: (one.topic, one.partition)):
        name, taken = partition_name(loss.topic, loss.partition), loss.takeover
        if taken is None or any(re.search(rf"{re.escape(name)}(?!\d)", line) for line in evidence):
            continue
        log = "" if taken.log_end is None else f", with a log that ended at {count(taken.log_end)}"
        epoch = f" in leader epoch {taken.epoch}" if taken.epoch >= 0 else ""
        seen = "still led it" if taken.leads_on else "was first seen to lead it"
        lines.append(
            f"Likewise {name}: broker {taken.leader} {seen}{epoch} at {moment(taken.seen_ns)}{log}; offset"
            f" {count(loss.offsets[0])} is among the lost ones."
        )
    return tuple(lines[:SPANS_NAMED_MAX])


def losses_in(evidence: Evidence, rows: Iterable[Row]) -> list[Loss]:
    """Sort lost records by partition and by the leader that first lacked them."""
    found: dict[tuple[Any, ...], Loss] = {}
    for row in rows:
        if row["anomaly"] in LOST and row["topic"] is not None and row["partition"] is not None:
            takeover = _takeover(evidence, row)
            key = (row["topic"], row["partition"], takeover and takeover[:2])
            loss = found.setdefault(key, Loss(row["topic"], row["partition"], takeover))
            loss.rows.append(row)
    for loss in found.values():
        if loss.takeover is not None and loss.takeover.leader in holders_of_all(evidence, loss):
            loss.takeover = None  # the sample that showed its log was older than they are
    return [one for loss in found.values() for one in _by_who_acknowledged(loss)]


def _by_who_acknowledged(loss: Loss) -> list[Loss]:
    """Divide a loss without a known election by the brokers that acknowledged its records, if there are several."""
    by = {row["offset"]: row["broker"] for row in loss.rows if row["anomaly"] == "lost-acked-write"}
    if loss.takeover is not None or len({*by.values()}) < 2:
        return [loss]
    parts: dict[int | None, Loss] = {}
    for row in loss.rows:
        broker = by.get(row["offset"])
        parts.setdefault(broker, Loss(loss.topic, loss.partition, None)).rows.append(row)
    return list(parts.values())


def _takeover(evidence: Evidence, row: Row) -> Takeover | None:
    """Find the first leader after the record's acknowledgement that did not have it.

    Samples show it by the end of the leader's log; the logs after the run by the leader epoch of what is at the
    record's offset. The earlier of the two counts. A system without leader epochs has only samples: there the last one
    of a new leader from before it led shows it, too.
    """
    offset, at_ns = row["offset"], row["at_ns"] or 0
    if offset is None:
        return None
    history = evidence.history_of(row["topic"], row["partition"])
    leading = history.leading
    written_in = evidence.final_epochs(row["topic"], row["partition"]).get(offset, frozenset())
    before = [sample for sample in leading if sample.at_ns <= at_ns]
    before = before or _of_the_first_leader(evidence, leading, offset, written_in)
    epoch = before[-1].leader_epoch if before else -1
    end_before = before[-1].log_end or 0 if before else 0
    previous_ns = before[-1].at_ns if before else 0
    led_before = before[-1].broker if before else None
    had_in: tuple[int, int] | None = None  # the leader and epoch in which a sample shows the record
    for sample in leading[len(before) :]:
        log_end = sample.log_end or 0
        is_other = sample.leader_epoch > epoch or log_end < end_before  # else the sample is older than the record
        replaced = sample.leader_epoch > epoch and sample.leader_epoch in written_in
        had = log_end > offset and _loses_it_later(leading, sample, offset)
        if (is_other and log_end <= offset) or (replaced and not had):
            leads_on = had_in == (sample.broker, sample.leader_epoch)
            return Takeover(sample.leader_epoch, sample.broker, previous_ns, sample.at_ns, sample.log_end, leads_on)
        if log_end > offset:
            had_in = (sample.broker, sample.leader_epoch)
        if before and not evidence.logs_have_epochs and sample.broker != led_before:
            brought = _brought(history, sample, at_ns)
            if brought is not None and brought <= offset:
                return Takeover(sample.leader_epoch, sample.broker, previous_ns, sample.at_ns, brought)
        previous_ns, end_before, led_before = sample.at_ns, max(end_before, log_end), sample.broker
    return None


def _loses_it_later(leading: Sequence[Sample], had: Sample, offset: int) -> bool:
    """Whether a later sample of the same leader in the same epoch shows a log that ends at an offset, or before it."""
    own = (one for one in leading if (one.broker, one.leader_epoch) == (had.broker, had.leader_epoch))
    return had.leader_epoch >= 0 and any(one.at_ns > had.at_ns and (one.log_end or 0) <= offset for one in own)


def _of_the_first_leader(
    evidence: Evidence, leading: Sequence[Sample], offset: int, written_in: frozenset[int]
) -> list[Sample]:
    """Return the samples of the first leader up to the one that shows a record from before all samples, if one does.

    Those before that one are dated after the record, but show the log from before it. A later sample may also show what
    replaced the record: where the logs after the run have another record of that epoch, it does.
    """
    shown: list[Sample] = []
    for sample in leading:
        if shown and (sample.broker, sample.leader_epoch) != (shown[0].broker, shown[0].leader_epoch):
            return []
        shown.append(sample)
        if (sample.log_end or 0) > offset:
            replaced = not evidence.logs_have_epochs or sample.leader_epoch in written_in
            return shown if len(shown) == 1 or not replaced else []
    return []


def _brought(history: PartitionHistory, leads: Sample, after_ns: int) -> int | None:
    """Return where the log of a new leader ended when it was last seen before it led, if that was after `after_ns`."""
    own = [one for one in history.samples if one.broker == leads.broker and after_ns < one.at_ns < leads.at_ns]
    return own[-1].log_end if own and own[-1].role != "leader" else None


def cuts_to_follow(evidence: Evidence, loss: Loss, takeover: Takeover) -> list[LogCut]:
    """Return how other replicas then cut the records, as many as they had, off their logs to follow it, or the next.

    One whose log had been without them before has other records at their offsets; one that lost its own storage
    meanwhile cut nothing.
    """
    history, (first, last) = evidence.history_of(loss.topic, loss.partition), loss.offsets
    return [
        cut
        for cut in history.cuts
        if cut.broker != takeover.leader
        and cut.at_ns >= takeover.seen_ns
        and cut.log_end <= last
        and cut.log_end_before > first
        and not any(
            one.broker == cut.broker and one.leader_epoch >= takeover.epoch and (one.log_end or 0) <= last
            for one in history.samples
            if takeover.seen_ns <= one.at_ns < cut.before_ns
        )
        and not any(fault.lossy for fault in evidence.faults_on(cut.broker, cut.before_ns, cut.at_ns))
    ]


def held(evidence: Evidence, loss: Loss) -> Mapping[int, int]:
    """How many of the records each broker holds at their places after the run; of some the value is not known."""
    lost = {row["offset"]: row["value"] for row in loss.rows if None not in (row["offset"], row.get("value"))}
    return evidence.holders_of(loss.topic, loss.partition, lost)


def holders_of_all(evidence: Evidence, loss: Loss) -> list[int]:
    """The brokers that hold all of the records at their places after the run."""
    offsets = {row["offset"] for row in loss.rows if row["offset"] is not None}
    return sorted(broker for broker, held in held(evidence, loss).items() if held == len(offsets))


def still_held_in_part(evidence: Evidence, losses: Sequence[Loss]) -> tuple[str, ...]:
    """Say which brokers hold some of the lost records at their places after the run, of losses that are not apart."""
    total, found = 0, Counter[int]()
    for loss in losses:
        if loss.takeover is not None:
            total += len({row["offset"] for row in loss.rows})
            found.update(held(evidence, loss))
    return tuple(
        f"After the run broker {broker} still holds {count(number)} of the {count(total)} lost records that the table"
        " of anomalies has."
        for broker, number in sorted(found.items())
        if 0 < number < total
    )
