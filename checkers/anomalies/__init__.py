"""Finds anomalies, one function each: base relations in, findings out (`checkers.anomalies.rows`). None raises."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from pyspark.sql import DataFrame

from checkers.anomalies import availability, groups, loss, offsets, order, reads, replicas
from checkers.relations.base import Relations

AnomalyFunction = Callable[[Relations], DataFrame]

PLANNERS: Final = 2
"""Threads that have Spark plan findings: planning is most of the work on a small history."""

ANOMALIES: tuple[AnomalyFunction, ...] = (
    loss.lost_acked_write,
    loss.lost_read,
    loss.unseen,
    offsets.inconsistent_offset,
    offsets.wrong_offset,
    offsets.duplicate,
    reads.phantom_read,
    reads.aborted_read,
    reads.dirty_read,
    replicas.corrupt_record,
    order.reordered_send,
    order.nonmonotonic_send,
    order.stale_read,
    order.end_offset_regression,
    order.nonmonotonic_poll,
    order.skipped_poll,
    replicas.divergent_replicas,
    replicas.epoch_regression,
    replicas.two_leaders,
    availability.no_acknowledged_write,
    availability.no_progress_of_readers,
    availability.isr_not_full,
)
"""The function of every anomaly of `history.anomalies`, except of groups, objects and malformed rows."""

GROUP_ANOMALIES: tuple[AnomalyFunction, ...] = (
    groups.lost_commit,
    groups.committed_offset_regression,
    groups.double_ownership,
)
"""Anomalies of consumer groups: planned only for batches that have groups (`Relations.groups`)."""

SHOWN_BY: dict[str, tuple[AnomalyFunction, ...]] = {
    "values": (
        loss.lost_acked_write,
        loss.lost_read,
        loss.unseen,
        offsets.wrong_offset,
        offsets.duplicate,
        reads.phantom_read,
        reads.aborted_read,
        reads.dirty_read,
    ),
    "absent": (loss.lost_acked_write,),
    "gone": (loss.lost_read,),
    "unseen": (loss.unseen,),
    "at-another-offset": (offsets.wrong_offset,),
    "at-two-offsets": (offsets.duplicate,),
    "unsent": (reads.phantom_read,),
    "failed": (reads.aborted_read,),
    "uncommitted": (reads.dirty_read,),
    "partitions": (
        offsets.inconsistent_offset,
        order.nonmonotonic_poll,
        order.skipped_poll,
        replicas.corrupt_record,
        replicas.divergent_replicas,
        replicas.epoch_regression,
    ),
    "sends": (order.reordered_send, order.nonmonotonic_send, order.stale_read),
    "time": (availability.no_acknowledged_write, availability.no_progress_of_readers, availability.isr_not_full),
}
"""What an anomaly needs in the history to exist: it is not looked for in one that is free of it (`Relations.free_of`).

All others are always looked for."""


def find_anomalies(relations: Relations) -> list[DataFrame]:
    """Return the findings of all anomaly functions that can find anything."""
    impossible = {anomaly for what in relations.free_of for anomaly in SHOWN_BY.get(what, ())}
    wanted = ANOMALIES if relations.groups is None else (*ANOMALIES, *GROUP_ANOMALIES)
    with ThreadPoolExecutor(PLANNERS) as planners:
        return list(
            planners.map(lambda anomaly: anomaly(relations), (each for each in wanted if each not in impossible))
        )
