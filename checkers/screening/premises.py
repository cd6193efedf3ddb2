"""Rules anomalies out whose premises no value meets, so that Spark need not plan them.

Planning is most of the work on a short history, and most runs have suspect values (a send that failed, one that was not
answered) but none that any anomaly could be about.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from checkers.input.run_facts import RunFacts

VALUES: Final[Mapping[str, str]] = {
    "absent": "acknowledged and final_reads = 0",
    "gone": "ok_reads > 0 and final_reads = 0",
    "unseen": "acknowledged and reads = 0",
    "at-another-offset": (
        "acknowledged and send_offset is not null and ok_reads > 0"
        " and (read_offset_min != send_offset or read_offset_max != send_offset)"
    ),
    "at-two-offsets": (
        "least(if(committed, send_offset, null), read_offset_min)"
        " != greatest(if(committed, send_offset, null), read_offset_max)"
    ),
    "unsent": "reads > 0 and sent = 0",
    "failed": "reads > 0 and send_status = 'fail'",
    "unanswered": "sent > 0 and send_status = 'info' and ok_reads > 0",
}
"""Premise → condition on `Relations.values`, one of which must meet it."""


def premises_not_met(values: DataFrame) -> frozenset[str]:
    """Return the premises among `VALUES` that no value meets."""
    (met,) = values.agg(*(fn.max(fn.expr(condition)).alias(name) for name, condition in VALUES.items())).collect()
    return frozenset(name for name in VALUES if not met[name])


def watched(runs: Iterable[RunFacts], last_ns: Mapping[str, int]) -> bool:
    """Whether some run's history lasts into the last quarter of the bound of `unavailable`.

    `last_ns`: by run, the last known time of an operation or sample.
    """
    return any(
        run.healed_ns is not None
        and run.settings.unavailable_after_ns is not None
        and run.run_id in last_ns
        and last_ns[run.run_id] >= run.healed_ns + 3 * run.settings.unavailable_after_ns // 4
        for run in runs
    )
