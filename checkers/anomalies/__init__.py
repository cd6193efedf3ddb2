"""Finds anomalies, one function each: base relations in, findings out (`checkers.anomalies.rows`). None raises."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from pyspark.sql import DataFrame

from checkers.anomalies import availability, groups, offsets, order, replicas, values
from checkers.relations.base import Relations

AnomalyFunction = Callable[[Relations], DataFrame]

PLANNERS: Final = 2
"""Threads that have Spark plan findings: planning is most of the work on a small history."""

ANOMALIES: tuple[AnomalyFunction, ...] = (
    values.lost_acked_write,
    values.lost_read,
    values.unseen,
    offsets.inconsistent_offset,
    offsets.wrong_offset,
    offsets.duplicate,
    values.phantom_read,
    values.aborted_read,
    values.dirty_read,
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
        values.lost_acked_write,
        values.lost_read,
        values.unseen,
        offsets.wrong_offset,
        offsets.duplicate,
        values.phantom_read,
        values.aborted_read,
        values.dirty_read,
    ),
    "absent": (values.lost_acked_write,),
    "gone": (values.lost_read,),
    "unseen": (values.unseen,),
    "at-another-offset": (offsets.wrong_offset,),
    "at-two-offsets": (offsets.duplicate,),
    "unsent": (values.phantom_read,),
    "failed": (values.aborted_read,),
    "uncommitted": (values.dirty_read,),
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
