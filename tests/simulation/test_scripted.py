from __future__ import annotations

from pathlib import Path

import pytest

from harness.exits import Exit
from harness.simulation import case as cases
from harness.simulation.schedule import Fault, Nemesis
from harness.simulation.scripted import BEGIN_MS, SIMULATED, simulated
from nemesis.faults import KINDS
from nemesis.schedule import Schedule, ScheduleError
from nemesis.script import loads_script
from tests.simulation.small import quick
from tests.simulation.test_commands import FINE, harrow

SCRIPT = """
[[fault]]
at = 1
kind = "isolate"
target = "leader"
partition = 1
lasts = 3
parameters = { from = "brokers" }

[[fault]]
at = 1.5
kind = "page-cache-loss"
target = "in-sync-follower"
pick = 4
beside = true

[[fault]]
at = 3
kind = "pause"
target = "active-controller"
"""


def test_a_script_for_real_nodes_becomes_faults_of_the_simulation() -> None:
    assert simulated(loads_script(SCRIPT), quick(1)) == (
        Fault(BEGIN_MS + 1_000, "isolate", 3 + 1 + 1, 3_000, 0),
        Fault(BEGIN_MS + 1_500, "lossy-kill", 4 % 3, 5_000, 0),
        Fault(BEGIN_MS + 3_000, "pause", 3 + 1 + 3, 5_000, 0),
    )


def test_the_faults_of_a_script_are_fired_and_no_others() -> None:
    case = quick(1, lossy_budget=1)
    outcome = cases.run(cases.Case(case.seed, case.overrides, faults=simulated(loads_script(SCRIPT), case)))
    assert outcome.failure is None
    assert sorted(fault.kind for fault in outcome.history.faults) == ["isolate", "page-cache-loss", "pause"]


def test_every_kind_that_is_translated_is_one_of_both_worlds() -> None:
    assert set(SIMULATED) <= set(KINDS)
    for wanted in SIMULATED.values():
        assert hasattr(Nemesis, "_" + wanted.kind.replace("-", "_"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[fault]]\nat = 1\nkind = 'slow-network'", "entry 1 .* expected a fault that the simulation has"),
        (
            "[[fault]]\nkind = 'kill'\nwhen = { condition = 'no-leader' }",
            "entry 1 .* expected a time, found the condition",
        ),
    ],
)
def test_what_the_simulation_has_not_is_refused(text: str, message: str) -> None:
    with pytest.raises(ScheduleError, match=message):
        simulated(loads_script(text), quick(1))


def test_a_schedule_without_faults_is_a_quiet_simulation() -> None:
    assert simulated(Schedule(()), quick(1)) == ()


def test_the_command_takes_a_script_for_one_seed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "script.toml"
    script.write_text(SCRIPT)
    assert harrow("sim", "--seed", "1", "--faults", script, *FINE) == Exit.VALID
    assert "isolate" in capsys.readouterr().out
    assert harrow("sim", "--seeds", "1:2", "--faults", script, *FINE) == Exit.USAGE
    assert "--faults is for one seed" in capsys.readouterr().err
