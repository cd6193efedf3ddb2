from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.terminal.exits import ExitStatus
from nemesis.faults import KINDS
from nemesis.schedule import Schedule, ScheduleError
from nemesis.schedule_file import loads_script
from nemesis.targets import Trigger
from simulation.faults.nemesis import SimulatedNemesis
from simulation.faults.shared_kinds import BEGIN_MS, SHARED, simulated
from simulation.scenario import case as cases
from simulation.scenario.configuration import SimulatedFault
from tests.harness.commands.test_simulation_commands import FINE, harrow
from tests.simulation.small import quick

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
        SimulatedFault(BEGIN_MS + 1_000, "isolate", 3 + 1 + 1, 3_000, 0),
        SimulatedFault(BEGIN_MS + 1_500, "page-cache-loss", 4 % 3, 5_000, 0),
        SimulatedFault(BEGIN_MS + 3_000, "pause", 3 + 1 + 3, 5_000, 0),
    )


def test_the_faults_of_a_script_are_fired_and_no_others() -> None:
    case = quick(1, lossy_budget=1)
    outcome = cases.run(cases.Case(case.seed, case.overrides, faults=simulated(loads_script(SCRIPT), case)))
    assert outcome.failure is None
    assert sorted(fault.kind for fault in outcome.history.faults) == ["isolate", "page-cache-loss", "pause"]


WAITING = """
[[fault]]
at = 2
kind = "pause"
target = "in-sync-follower"
lasts = 20

[[fault]]
kind = "kill"
target = "leader"
when = { condition = "isr-at-most", partition = 0, value = 2 }
lasts = 2
"""


def fired(text: str) -> dict[str, int]:
    """Kind → when it was fired, in milliseconds."""
    case = quick(1)
    outcome = cases.run(cases.Case(case.seed, case.overrides, faults=simulated(loads_script(text), case)))
    assert outcome.failure is None
    return {fault.kind: fault.started_ns // 1_000_000 for fault in outcome.history.faults}


def test_a_fault_that_waits_for_a_condition_is_fired_when_it_holds() -> None:
    at_ms = fired(WAITING)
    assert at_ms["pause"] == BEGIN_MS + 2_000
    assert at_ms["kill"] > at_ms["pause"] + 500, "the ISR shrinks only after the paused follower has lagged"


def test_a_condition_that_holds_from_the_start_fires_at_once_and_one_that_never_does_never() -> None:
    assert fired(WAITING.replace("value = 2", "value = 3"))["kill"] == BEGIN_MS
    assert "kill" not in fired(WAITING.replace("value = 2", "value = 0"))


def test_a_fault_that_waits_can_be_stored_and_read_again() -> None:
    waiting = next(fault for fault in simulated(loads_script(WAITING), quick(1)) if fault.kind == "kill")
    assert waiting.when == Trigger("isr-at-most", 0, 2)
    assert SimulatedFault.from_json(json.loads(json.dumps(waiting.to_json()))) == waiting
    plain = waiting._replace(when=None)
    assert "when" not in plain.to_json()
    assert SimulatedFault.from_json(plain.to_json()) == plain


def test_every_shared_kind_exists_in_real_and_simulated_runs() -> None:
    assert set(SHARED) <= set(KINDS)
    for kind in SHARED:
        assert hasattr(SimulatedNemesis, "_" + kind.replace("-", "_"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[fault]]\nat = 1\nkind = 'slow-network'", "entry 1 .* expected a fault that the simulation has"),
    ],
)
def test_a_kind_that_the_simulation_lacks_is_refused(text: str, message: str) -> None:
    with pytest.raises(ScheduleError, match=message):
        simulated(loads_script(text), quick(1))


def test_a_schedule_without_faults_is_a_quiet_simulation() -> None:
    assert simulated(Schedule(()), quick(1)) == ()


def test_the_command_takes_a_script_for_one_seed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "script.toml"
    script.write_text(SCRIPT)
    assert harrow("sim", "--seed", "1", "--faults", script, *FINE) == ExitStatus.VALID
    assert "isolate" in capsys.readouterr().out
    assert harrow("sim", "--seeds", "1:2", "--faults", script, *FINE) == ExitStatus.USAGE
    assert "--faults FILE is for one seed" in capsys.readouterr().err
