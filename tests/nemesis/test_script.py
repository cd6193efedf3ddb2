from __future__ import annotations

from pathlib import Path

import pytest

from harness.shipped import SCHEDULES
from nemesis.schedule import ScheduledFault, ScheduleError, dumps, loads
from nemesis.schedule_file import loads_file, loads_script
from nemesis.targets import Condition, FaultTarget, Trigger, holds
from tests.support.fake_cluster import FakeCluster

LAST_REPLICA_STANDING = """
[[fault]]
at = 2
kind = "isolate"
target = "in-sync-follower"
partition = 1
lasts = 12.5
parameters = { from = "brokers" }

[[fault]]
when = { condition = "isr-at-most", partition = 1, value = 1 }
kind = "page-cache-loss"
partition = 1
beside = true
"""


def test_a_script_is_a_schedule() -> None:
    schedule = loads_script(LAST_REPLICA_STANDING)
    assert schedule.entries == (
        ScheduledFault(
            2, 0, "page-cache-loss", FaultTarget("leader", 1), 5_000, {}, True, Trigger("isr-at-most", 1, 1)
        ),
        ScheduledFault(1, 2_000, "isolate", FaultTarget("in-sync-follower", 1), 12_500, {"from": "brokers"}),
    )
    assert loads(dumps(schedule)) == schedule


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[fault]", "expected a schedule as TOML"),
        ("", r"expected a schedule of \[\[fault\]\] tables, found nothing"),
        ("[[faults]]\nkind = 'kill'", r"expected a schedule of \[\[fault\]\] tables, found faults"),
        ("fault = [3]", "fault 1 of the schedule: expected a table, found 3"),
        ("[[fault]]\nkind = 'kill'\nat = 1\ncolour = 'red'", "fault 1 of the schedule: .* found 'colour'"),
        ("[[fault]]\nkind = 'kill'", "expected a kind, and when to fire it"),
        ("[[fault]]\nkind = 'kill'\nat = 'soon'", "expected at in seconds, found 'soon'"),
        ("[[fault]]\nkind = 'flood'\nat = 1", "expected the name of a fault"),
        ("[[fault]]\nkind = 'kill'\nat = 1\ntarget = 'bystander'", "expected a role"),
        ("[[fault]]\nkind = 'kill'\nwhen = { condition = 'full-moon' }", "expected a condition"),
    ],
)
def test_a_script_that_makes_no_sense_is_refused_in_one_line(text: str, message: str) -> None:
    with pytest.raises(ScheduleError, match=message) as refused:
        loads_script(text)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("condition", "value", "before", "after"),
    [
        ("isr-at-most", 1, (1, 2), (1,)),
        ("isr-at-least", 3, (1, 2), (1, 2, 3)),
    ],
)
def test_conditions_of_the_isr(
    condition: Condition, value: int, before: tuple[int, ...], after: tuple[int, ...]
) -> None:
    trigger = Trigger(condition, 0, value)
    assert not holds(trigger, FakeCluster(insync=before))
    assert holds(trigger, FakeCluster(insync=after))
    assert not holds(trigger, FakeCluster(insync=after, speechless=True))


def test_conditions_of_leaders_and_controllers() -> None:
    cluster = FakeCluster()
    assert holds(Trigger("leader-epoch-at-least", 0, 7), cluster)
    assert not holds(Trigger("leader-epoch-at-least", 0, 8), cluster)
    assert not holds(Trigger("no-leader"), cluster)
    cluster.administrator.leaders["harrow", 0] = -1
    assert holds(Trigger("no-leader"), cluster)
    assert not holds(Trigger("has-elr"), cluster)
    assert not holds(Trigger("no-controller"), cluster)
    cluster.nodes[100].alive = False
    assert holds(Trigger("no-controller"), cluster)


@pytest.mark.parametrize("script", list(SCHEDULES.files().values()), ids=str)
def test_the_scripts_that_are_shipped_can_be_read(script: Path) -> None:
    assert loads_file(script).entries
