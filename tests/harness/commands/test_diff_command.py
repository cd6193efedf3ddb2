"""`harrow diff`: what of two runs is shown, and how it ends."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from harness.terminal.exits import ExitStatus
from simulation.runs import stored
from simulation.scenario.case import Case
from tests.harness.commands.test_simulation_commands import harrow
from tests.reports import synthetic_run
from tests.simulation.small import LIES, QUICK


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with two simulated and two synthetic real runs: one each that fails, and one that does not."""
    store = tmp_path_factory.mktemp("store")
    for name, overrides in (("fine", QUICK), ("lying", LIES)):
        (store / "runs" / name).mkdir(parents=True)
        stored.store(store / "runs" / name, Case(4, overrides))
    synthetic_run.build(store / "runs" / "whole", rate=20)
    synthetic_run.build(store / "runs" / "lossy", rate=20, lossy=True)
    return store


@pytest.fixture
def store(built: Path, tmp_path: Path) -> Path:
    return shutil.copytree(built, tmp_path / "store")


def edit(path: Path, **changes: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def differences(store: Path, one: str, other: str, capsys: pytest.CaptureFixture[str]) -> dict[str, dict[str, tuple]]:
    """Section → name → the two values."""
    status = harrow("diff", one, other, "--json", "--store", store)
    data = json.loads(capsys.readouterr().out)
    assert (status == ExitStatus.ANOMALIES) == bool(data["differences"])
    assert data["runs"] == [str(store / "runs" / one), str(store / "runs" / other)]
    return {
        section: {row["name"]: (row["one"], row["other"]) for row in rows}
        for section, rows in data["differences"].items()
    }


@pytest.mark.parametrize("name", ["lying", "lossy"])
def test_a_run_does_not_differ_from_its_copy(store: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(store / "runs" / name, store / "runs" / "copy")
    assert harrow("diff", name, "copy", "--store", store) == ExitStatus.VALID
    assert capsys.readouterr().out == "nothing differs\n"


def test_of_a_flawed_simulation_the_flaw_and_what_it_did_are_shown(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = differences(store, "fine", "lying", capsys)
    assert found["verdict"] == {"verdict": ("valid", "invalid")}
    assert found["configuration"] == {"flaws": ([], ["ack-before-replication"])}
    assert found["anomalies"]["P-12, violations"] == (None, 1)
    ((name, (one, other)),) = found["incidents"].items()
    assert name.endswith(" acknowledged-early")
    assert one is None
    assert "before it was committed" in other
    assert "schedule" not in found  # the same seed draws the same faults


def test_of_real_runs_numbers_and_anomalies_are_shown(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edit(store / "runs/lossy/results.json", metrics={"p99_ms": 12.75, "by_partition": {"events-0": 7}})
    found = differences(store, "whole", "lossy", capsys)
    assert found["configuration"] == {"flaws": ([], ["ack-before-replication"])}
    assert found["metrics"]["by_partition.events-0"] == (None, 7)
    assert "p99_ms" not in found["metrics"]
    assert found["anomalies"]["stale-read, within the contract"] == (None, 1)
    assert found["anomalies"]["lost-acked-write, violations"][1] > 0


def test_faults_are_compared_by_time_and_kind(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kill = {"entry": 1, "at_ms": 1500, "kind": "kill", "target": "leader", "duration_ms": 900}
    pause = {"entry": 2, "at_ms": 2000, "kind": "pause", "target": "leader", "duration_ms": 100}
    shutil.copytree(store / "runs/whole", store / "runs/copy")
    (store / "runs/whole/schedule.json").write_text(json.dumps({"entries": [kill, pause]}))
    altered = [{**pause, "entry": 1}, {**kill, "at_ms": 1500, "entry": 2, "duration_ms": 901}, {**pause, "entry": 3}]
    (store / "runs/copy/schedule.json").write_text(json.dumps({"entries": altered}))
    found = differences(store, "whole", "copy", capsys)
    assert found == {
        "schedule": {
            "1.500 s kill": ("target leader, duration_ms 900", "target leader, duration_ms 901"),
            "2.000 s pause (2)": (None, "target leader, duration_ms 100"),
        }
    }


def test_short_values_stand_side_by_side_and_long_ones_below_each_other(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert harrow("diff", "fine", "lying", "--store", store) == ExitStatus.ANOMALIES
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines[:2]] == [["one", "fine"], ["other", "lying"]]
    (flaws,) = (line for line in lines if line.startswith("  flaws "))
    assert flaws.split() == ["flaws", "none", "ack-before-replication"]
    place = lines.index("incidents")
    assert lines[place + 2] == "    one    -"
    assert lines[place + 3].startswith("    other  ")


def test_latest_is_shown_by_its_name(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (store / "latest").symlink_to("runs/lying")
    assert harrow("diff", "fine", "latest", "--store", store) == ExitStatus.ANOMALIES
    assert [line.split() for line in capsys.readouterr().out.splitlines()[:2]] == [["one", "fine"], ["other", "lying"]]


def test_hostile_text_stays_text(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edit(store / "runs/whole/spec.json", **{"na\x1bme": "a\x1b[2Jb\u202ec\nd"})
    assert harrow("diff", "whole", "lossy", "--store", store) == ExitStatus.ANOMALIES
    output = capsys.readouterr().out
    assert "a\ufffd[2Jb\ufffdc\ufffdd" in output
    assert "\x1b" not in output


def test_a_damaged_run_is_compared_as_far_as_it_can_be_read(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(store / "runs/whole", store / "runs/copy")
    (store / "runs/copy/results.json").write_text("{")
    (store / "runs/copy/schedule.json").write_text(f'[1, {{"kind": null}}, {{"at_ms": {10**400}}}]')
    assert harrow("diff", "whole", "copy", "--store", store) == ExitStatus.ANOMALIES
    output = capsys.readouterr()
    assert ["verdict", "valid", "unknown"] in [line.split() for line in output.out.splitlines()]
    assert "at an unknown time None (2)" in output.out
    assert "incomplete: copy: results.json could not be read" in output.err


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("", "Missing argument 'RUN'"),
        ("fine", "Missing argument 'RUN'"),
        ("fine gone", "expected a run, found no gone"),
        ("fine lyin", "did you mean lying?"),
        ("fine .", "expected the directory of a run, found no history in it"),
    ],
)
def test_bad_input_is_one_line(
    store: Path, arguments: str, expected: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(store.parent)
    assert harrow("diff", *arguments.split()) == ExitStatus.USAGE
    output = capsys.readouterr()
    assert output.out == ""
    (line,) = output.err.splitlines()
    assert expected in line
