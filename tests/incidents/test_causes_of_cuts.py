"""A cut that lost records: why another broker led by then, and what one process cut at one moment."""

from __future__ import annotations

from pathlib import Path

import pytest

from incidents import diagnose
from tests.incidents.stored import fault, follows, leads, lost, run_in

LED = (
    "Broker 1, which had acknowledged them, was killed at 12.000 s (fault #2), before that cut: another broker had to"
    " lead."
)


def cut(partition: int = 0, at_s: float = 13, shorter: int = 10) -> list[dict]:
    """Broker 1 leads, broker 3 cuts its log by `at_s`, and leads at 15 s."""
    return [
        leads(9, 1, 0, 20, (1, 3), partition=partition),
        follows(11.5, 3, 1, 0, 20, partition=partition),
        follows(at_s, 3, 2, 1, shorter, partition=partition),
        leads(15, 3, 2, shorter, (3,), partition=partition),
    ]


@pytest.mark.parametrize(
    ("by", "started_s", "is_said"), [(1, 12, True), (1, 14, False), (3, 12, False), (None, 12, False)]
)
def test_what_made_another_lead_is_behind_the_cut(
    tmp_path: Path, by: int | None, started_s: float, is_said: bool
) -> None:
    """Only of who had acknowledged the records, if that is another than who cut them off, and only by then."""
    faults = [fault(2, "kill", [1], started_s, started_s + 4)]
    run = run_in(tmp_path, cluster=cut(), faults=faults, anomalies=[lost(15, 10, broker=by)])
    (incident,) = diagnose(run)
    assert incident.cause is not None
    assert incident.cause.kind == "wrong-cut"
    assert (LED in incident.cause.evidence) == is_said
    assert not is_said or 2 in incident.cause.faults


def test_what_a_broker_cuts_off_several_logs_at_one_moment_is_one_incident(tmp_path: Path) -> None:
    rows = [lost(15, 10, broker=1), lost(17, 10, partition=1, broker=1)]
    run = run_in(
        tmp_path, cluster=[*cut(), *cut(1, shorter=16)], faults=[fault(2, "kill", [1], 12, 16)], anomalies=rows
    )
    (incident,) = diagnose(run)
    assert incident.headline.startswith("2 acknowledged writes to 2 partitions (offsets of t-0 15, t-1 17) were lost:")
    assert incident.cause is not None
    assert (
        "Likewise t-1: broker 3 was first seen to lead it in leader epoch 2 at 15.000 s, with a log that ended at 16;"
        " offset 17 is among the lost ones." in incident.cause.evidence
    )


def test_what_it_cuts_off_at_another_moment_is_another_one(tmp_path: Path) -> None:
    rows = [lost(15, 10, broker=1), lost(17, 10, partition=1, broker=1)]
    run = run_in(tmp_path, cluster=[*cut(), *cut(1, at_s=14, shorter=16)], anomalies=rows)
    assert len(diagnose(run)) == 2
