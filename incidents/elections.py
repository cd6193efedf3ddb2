"""Finds the decisive election of a loss: the one whose leader was the first without the lost records.

A headline names it where leaders were elected more than once after the records were acknowledged or read, and the
message chart of a real run marks it. Both take it from `Incident.election`, so that they cannot differ.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from incidents.evidence import Evidence
from incidents.model import Election
from incidents.partition_history import PartitionHistory, Sample
from incidents.takeovers import Loss

_ONE_MOMENT_NS: Final = 2_000_000_000
"""Within which a controller elects the leaders of several partitions after one fault, as samples show it."""


def decisive_election(evidence: Evidence, losses: Iterable[Loss], name: str) -> Election | None:
    """Return the earliest decisive election of losses, of those that have an anomaly of this name."""
    found = [_election(evidence, loss, name) for loss in losses if any(row["anomaly"] == name for row in loss.rows)]
    known = [election for election in found if election is not None]
    first = min(known, key=lambda one: (one.seen_ns, one.topic, one.partition), default=None)
    later = first is not None and any(one.seen_ns - first.seen_ns > _ONE_MOMENT_NS for one in known)
    return replace(first, is_only=False) if first is not None and later else first


def _election(evidence: Evidence, loss: Loss, name: str) -> Election | None:
    """The decisive election of a loss, among those after the last of the records with an anomaly of this name."""
    takeover = loss.takeover
    if takeover is None or takeover.leads_on:
        return None
    written_ns = max((row["at_ns"] or 0 for row in loss.rows if row["anomaly"] == name), default=loss.last_ns)
    history = evidence.history_of(loss.topic, loss.partition)
    elected = list(_elected(history, written_ns))
    until = [sample for sample in elected if sample.at_ns <= takeover.seen_ns]
    if not until or (until[-1].broker, until[-1].leader_epoch) != (takeover.leader, takeover.epoch):
        return None  # that leader led already when it had the records
    epochs = _epochs_after(history, written_ns) or [sample.leader_epoch for sample in elected]
    number = sum(epoch <= takeover.epoch for epoch in epochs)
    return Election(loss.topic, loss.partition, takeover.leader, takeover.epoch, until[-1].at_ns, number, len(epochs))


def _epochs_after(history: PartitionHistory, after_ns: int) -> list[int]:
    """The leader epochs that began after a moment, and had a leader: maybe only its followers were sampled in one."""
    known = [sample for sample in history.samples if sample.leader >= 0 and sample.leader_epoch >= 0]
    before = max((sample.leader_epoch for sample in known if sample.at_ns <= after_ns), default=-1)
    return sorted({sample.leader_epoch for sample in known if sample.leader_epoch > before})


def _elected(history: PartitionHistory, after_ns: int) -> Iterable[Sample]:
    """Yield the first sample of each leadership that began after a moment."""
    before: Sample | None = None
    for sample in history.leading:
        changed = before is not None and (sample.broker, sample.leader_epoch) != (before.broker, before.leader_epoch)
        if sample.at_ns > after_ns and (changed or before is None):
            yield sample
        before = sample
