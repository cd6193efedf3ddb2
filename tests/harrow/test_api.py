"""The public API: results of simulations and checks as values and as data frames, errors in one line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import harrow
from history.schema import TABLES
from simulation.runs import stored
from simulation.runs.sweep import simulate as swept
from simulation.scenario.case import Case

SMALL = {"operations": 20, "polls": 20, "duration_ms": 6000, "faults": "kill"}
FLAWED = {**SMALL, "flaws": "ack-before-replication"}


def test_a_simulation_is_that_of_the_command() -> None:
    result = harrow.simulate(1, **FLAWED)
    settings = {**SMALL, "faults": ("kill",), "flaws": ("ack-before-replication",)}
    assert result.digest == swept(1, settings, observed=True).digest
    assert result == harrow.simulate(1, **{**FLAWED, "flaws": ["ack-before-replication"], "faults": ["kill"]})
    assert result.verdict == "invalid"
    assert result.findings[0].property_id == "P-12"
    assert str(result.findings[0]).startswith("P-12: ")
    assert result.command == (
        "harrow sim --seed 1 --set operations=20 --set polls=20 --set duration_ms=6000 --set faults=kill "
        "--flaw ack-before-replication"
    )
    assert result.explain_command.startswith("harrow explain 1 --set operations=20 ")


def test_a_simulation_without_a_flaw_is_valid_and_has_its_history_as_frames() -> None:
    result = harrow.simulate(1, **SMALL)
    assert (result.verdict, result.findings) == ("valid", ())
    sends, operations = result.frame("sends"), result.frame("operations")
    assert list(sends.columns) == TABLES["sends"].names
    assert len(sends) > 0
    assert set(sends["op"]) == set(operations[operations["kind"] == "send"]["op"])
    assert sends["value"].dtype.kind == "i", "values near 2^40 and beyond are exact"
    assert result.frame("faults")["kind"].isin(["kill"]).all()
    with pytest.raises(ValueError, match=r"expected a table of a simulation, .*found 'sendz'; did you mean sends\?"):
        result.frame("sendz")
    with pytest.raises(ValueError, match="found 'cluster'"):
        result.frame("cluster")


def test_a_simulation_is_stored_as_a_sweep_stores_it(tmp_path: Path) -> None:
    result = harrow.simulate(1, **FLAWED)
    run = result.store(tmp_path / "new" / "run")
    assert run == tmp_path / "new" / "run"
    assert stored.digest_in(run) == result.digest
    assert [found.property_id for found in stored.found_in(run)] == [found.property_id for found in result.findings]
    with pytest.raises(ValueError, match="expected an empty directory, or none, found something at"):
        result.store(run)
    (tmp_path / "file").write_text("kept")
    with pytest.raises(ValueError, match="found something at"):
        result.store(tmp_path / "file")
    assert (tmp_path / "file").read_text() == "kept"


def test_results_are_rows_of_a_frame() -> None:
    frame = harrow.to_frame([harrow.simulate(1, **FLAWED), harrow.simulate(1, **SMALL)])
    assert list(frame["verdict"]) == ["invalid", "valid"]
    assert list(frame["property"]) == ["P-12", None]
    assert frame["command"][0].startswith("harrow sim --seed 1 ")


@pytest.mark.parametrize(
    ("seed", "settings", "expected"),
    [
        (-1, {}, "seed: expected a whole number from 0 on, found -1"),
        (True, {}, "seed: expected a whole number"),
        ("1", {}, "seed: expected a whole number"),
        (1, {"broker": 3}, "expected a setting of the simulation .*found 'broker'; did you mean brokers"),
        (1, {"brokers": "3"}, "brokers: expected a whole number from 1 on, found '3'"),
        (1, {"flaws": "unclean"}, "flaw: expected the name of a flaw"),
        (1, {"flaws": [3]}, r"flaws: expected names, found \[3\]"),
        (1, {"faults": 3}, "faults: expected names, found 3"),
        (1, {"faults": "flood"}, "found 'flood'|found flood"),
    ],
)
def test_bad_settings_are_one_line(seed: object, settings: dict[str, object], expected: str) -> None:
    with pytest.raises(ValueError, match=expected) as raised:
        harrow.simulate(seed, **settings)  # type: ignore[arg-type]
    assert "\n" not in str(raised.value)


@pytest.mark.spark
def test_a_stored_run_is_checked(tmp_path: Path, spark: object) -> None:
    run = tmp_path / "20260105T020000Z-simulation-seed-1"
    run.mkdir()
    stored.store(run, Case(1, {**SMALL, "faults": (), "flaws": ("ack-before-replication",)}))
    result = harrow.check(run, spark=spark)  # type: ignore[arg-type]
    assert result.verdict == "invalid"
    assert "P-12" in json.loads((run / "results.json").read_text())["anomalies"]
    assert result.counts["sends_ok"] > 0
    assert list(result.frame("sends").columns) == TABLES["sends"].names
    assert "anomaly" in result.frame("anomalies").columns
    with pytest.raises(ValueError, match="a table of a history"):
        result.frame("records")
    (row,) = harrow.to_frame([result]).to_dict("records")
    assert (row["run"], row["verdict"]) == (run.name, "invalid")


def test_a_file_of_another_tool_is_checked(tmp_path: Path) -> None:
    path = tmp_path / "history.edn"
    events = [
        "{:process 0 :type :invoke :f :write :value 1}",
        "{:process 0 :type :ok :f :write :value 1}",
        "{:process 0 :type :invoke :f :read :value nil}",
        "{:process 0 :type :ok :f :read :value 2}",
    ]
    path.write_text("\n".join(events))
    result = harrow.check(path, model="register")
    assert result.verdict == "invalid"
    assert result.violations
    with pytest.raises(ValueError, match="which has no tables"):
        result.frame("sends")
    path.write_text("\n".join(events).replace("2}", "1}"))
    assert harrow.check(path, model="register").verdict == "valid"
    with pytest.raises(ValueError, match="registre"):
        harrow.check(path, model="registre")


def test_a_path_without_a_history_is_one_line(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none"):
        with pytest.raises(ValueError, match="expected the directory of a run, or a history of another tool, found"):
            harrow.check(path)


def test_names_that_do_not_exist_are_attribute_errors() -> None:
    assert set(harrow.__all__) == set(dir(harrow))
    with pytest.raises(AttributeError, match="module 'harrow' has no attribute 'simulator'"):
        _ = harrow.simulator  # type: ignore[attr-defined]


def test_importing_the_package_imports_nothing() -> None:
    script = (
        "import sys; before = set(sys.modules); import harrow, harrow.pytest_plugin; print(*set(sys.modules) - before)"
    )
    script = f"import pytest; {script}"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert loaded <= {"harrow"}, loaded
