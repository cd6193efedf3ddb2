"""The marks of a sweep: which fired, and why others cannot."""

from __future__ import annotations

import simulation.zookeeper.scenario
from broker.core.ports.marks import declared
from simulation.runs.marks import WITH_REASON, ZOOKEEPER, mark_lines

FIRED, SILENT = (
    "truncation: nothing of the log is left (TR-1)",
    "truncation: the log parts from the leader's and is cut (TR-1)",
)


def test_every_mark_with_a_reason_is_declared_and_of_a_broker_without_zookeeper() -> None:
    assert simulation.zookeeper.scenario is not None  # which declares the marks of the designs on ZooKeeper
    assert set(WITH_REASON) <= set(declared())
    assert not any(name.startswith(ZOOKEEPER) for name in WITH_REASON)
    assert any(name.startswith(ZOOKEEPER) for name in declared())


def test_a_gap_comes_before_what_cannot_fire_and_that_before_what_fired() -> None:
    lines = mark_lines({**dict.fromkeys(set(declared()) - {SILENT, *WITH_REASON}, 9), FIRED: 7}, seeds=2)
    silent, *others = lines[1:]
    assert silent.split("  ")[1] == SILENT
    assert silent.endswith("  never")
    reasons = others[: len(WITH_REASON)]
    assert all("  never: " in line for line in reasons)
    assert others[len(WITH_REASON)].split()[-4:] == ["7", "3.50", "a", "seed"]


def test_marks_of_the_other_designs_are_not_missed() -> None:
    assert not any(ZOOKEEPER in line for line in mark_lines({FIRED: 1}, 1))
    assert any(ZOOKEEPER in line for line in mark_lines({FIRED: 1}, 1, "zk-v1"))
