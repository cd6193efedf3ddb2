"""`harrow sim`, `replay`, `shrink`: what they print, what they leave, how they end."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.commands import cli
from harness.commands.simulation import sweep as sweep_command
from harness.terminal.exits import ExitStatus
from history.reader import load_table
from simulation.engine.choices import SEED_FORMAT
from simulation.runs import stored, sweep
from simulation.runs.checked_histories import CheckedRun
from simulation.runs.choice_files import FORMAT
from tests.simulation.small import LIES, QUICK


def flags(overrides: dict[str, object]) -> list[str]:
    words = []
    for key, value in overrides.items():
        if key == "flaws":
            words += ["--flaw", *value]  # type: ignore[misc]
        else:
            words += ["--set", f"{key}={str(value).lower()}"]
    return words


FINE = flags(QUICK)
LYING = flags(LIES)


def harrow(*arguments: object) -> int:
    with pytest.raises(SystemExit) as ended:
        cli.main([str(argument) for argument in arguments])
    status = ended.value.code or 0
    assert isinstance(status, int)
    return status


@pytest.fixture(autouse=True)
def _in_an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def failing_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stored run of a seed that fails."""
    from simulation.scenario.case import Case

    directory = tmp_path_factory.mktemp("run")
    found = stored.store(directory, Case(4, LIES))
    assert found
    return directory


# --- usage -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("sim", "expected one of --seeds, --seed"),
        ("sim --seed 1 --seeds 1:2", "expected one of --seeds, --seed"),
        ("sim --seeds 5", "expected the first and the last seed, like 1:1000, found '5'"),
        ("sim --seeds 5:1", "expected the first and the last seed, like 1:1000, found '5:1'"),
        ("sim --seeds 1:2 --trace", "--trace shows one seed"),
        ("sim --seed 1 --compiled always", "--compiled always is for sweeps on this machine"),
        ("sim --seeds 1:2 --compiled always --master local[2]", "--compiled always is for sweeps on this machine"),
        ("sim --seeds 1:2 --compiled sometimes", "'sometimes' is not one of 'auto', 'always', 'never'"),
        ("sim --seed -1", "is not in the range"),
        ("sim --seed 1 --set brokers", "expected key=value, found 'brokers'"),
        ("sim --seed 1 --set broker=4", "found 'broker'; did you mean brokers?"),
        ("sim --seed 1 --set brokers=four", "brokers: expected a whole number, found 'four'"),
        ("sim --seed 1 --set sole_survivor=perhaps", "sole_survivor: expected true or false, found 'perhaps'"),
        (
            "sim --seed 1 --set faults=flood",
            "faults: expected a fault of the simulation (see `harrow faults`), found 'flood'",
        ),
        ("sim --seed 1 --faults netwrk", "found 'netwrk'; did you mean network?"),
        ("sim --seed 1 --faults packet-loss", "expected a fault that the simulation has too, found packet-loss"),
        ("sim --exhaustive --faults kill", "--exhaustive has its own events"),
        ("sim --seed 1 --set acks=2", "acks: expected -1, 0 or 1, found 2"),
        (
            "sim --seed 1 --generation K9",
            "generation: expected one of K1, K2, K3, K4, K5, zk-v1, zk-v2, C1, C2, C3, found 'K9'",
        ),
        ("sim --seed 1 --flaw gremlin", "found 'gremlin'"),
        ("sim --seeds 1:2 --time-limit soon", "expected a length of time like 90, 90s, 10m or 2h, found 'soon'"),
        (
            "sim --schedule gone.json",
            "expected a file or the name of a schedule in steps (see `harrow schedules`), found",
        ),
        ("replay gone", "expected a run, found no gone, here or in the store store"),
        ("replay .", "expected the directory of a run, found no spec.json in it"),
        ("shrink gone.json", "expected a run, found no gone.json, here or in the store store"),
    ],
)
def test_a_usage_error_is_one_line(arguments: str, expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert harrow(*arguments.split()) == ExitStatus.USAGE
    output = capsys.readouterr()
    assert output.out == ""
    (line,) = output.err.splitlines()
    assert expected in line


def test_a_choice_file_of_another_version_is_refused(capsys: pytest.CaptureFixture[str], failing_run: Path) -> None:
    data = json.loads((failing_run / "choices.json").read_text())
    Path("old.json").write_text(json.dumps({**data, "format": FORMAT + 1}))
    for command in (["sim", "--schedule"], ["shrink"]):
        assert harrow(*command, "old.json") == ExitStatus.USAGE
        (line,) = capsys.readouterr().err.splitlines()
        assert f"expected a choice file of format {FORMAT}, found format {FORMAT + 1}" in line


# --- one seed --------------------------------------------------------------------------------------------------------


def test_one_seed_prints_its_configuration_first_and_its_hash_last(capsys: pytest.CaptureFixture[str]) -> None:
    assert harrow("sim", "--seed", 1, *FINE) == ExitStatus.VALID
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"seed               1 (choice format {SEED_FORMAT})"
    assert "  duration_ms                12000" in lines
    assert any(line.startswith("outcome            nothing wrong") for line in lines)
    assert re.fullmatch(r"hash               [0-9a-f]{16}", lines[-2])
    assert lines[-1].startswith("again              harrow sim --seed 1 --set brokers=3 ")


def test_one_seed_that_fails_says_how_to_make_it_smaller(capsys: pytest.CaptureFixture[str]) -> None:
    assert harrow("sim", "--seed", 4, *LYING) == ExitStatus.ANOMALIES
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("  invariant: P-12: ") for line in lines)
    assert lines[-1].startswith("smaller            harrow shrink 4 ")
    assert "--flaw ack-before-replication" in lines[-1]


def test_a_trace_has_a_line_for_each_transition(capsys: pytest.CaptureFixture[str]) -> None:
    assert harrow("sim", "--seed", 4, "--trace", *LYING) == ExitStatus.ANOMALIES
    lines = capsys.readouterr().out.splitlines()
    shown = [line for line in lines if re.match(r" +\d+\.\d{3}  (nemesis|clients|broker|controller)", line)]
    for expected in ("leads in epoch 0", "from clients: Produce", "VIOLATION of P-12", "everything is healed"):
        assert any(expected in line for line in shown), expected
    assert shown == sorted(shown, key=lambda line: float(line.split()[0]))


def test_one_seed_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert harrow("sim", "--seed", 4, "--json", *LYING) == ExitStatus.ANOMALIES
    data: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert data["seed"] == 4
    assert data["configuration"]["operations"] == 30
    assert data["findings"][0]["property_id"] == "P-12"
    assert len(data["hash"]) == 16


# --- sweeps ----------------------------------------------------------------------------------------------------------


def test_a_sweep_that_finds_nothing_passes(capsys: pytest.CaptureFixture[str]) -> None:
    assert harrow("sim", "--seeds", "1:6", "--jobs", 2, *FINE) == ExitStatus.VALID
    output = capsys.readouterr().out
    assert re.match(r"6 seeds in .* s \(.* a minute\): 6 passed, 0 failed", output)
    assert "marks: " in output
    assert not Path("store").exists()


def test_a_sweep_stores_its_first_failures(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["sim", "--seeds", "1:8", "--jobs", "2", "--keep", "2", "--no-check", "--json", *LYING]
    assert harrow(*arguments) == ExitStatus.ANOMALIES
    data = json.loads(capsys.readouterr().out)
    assert data["seeds"] == 8
    assert data["failed"] == len(data["failures"]) > 2
    kept = [Path(failure["stored"]) for failure in data["failures"] if failure["stored"]]
    assert len(kept) == 2
    assert [failure["seed"] for failure in data["failures"]] == sorted(one["seed"] for one in data["failures"])
    for directory in kept:
        files = {path.name for path in directory.iterdir()}
        expected = {"spec.json", "choices.json", "outcome.json", "schedule.json", "results.json", "report.html"}
        assert expected | {"history", "events.parquet", "story.json"} <= files
        results = json.loads((directory / "results.json").read_text())
        assert results["verdict"] == "invalid"
        assert results["reasons"][0].startswith("invariant: P-12")


def test_the_clients_of_a_whole_sweep_are_judged_in_one_job(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`test_judged` tests the checks on Spark; this tests what the command prints of their results."""

    def judged(directory: Path) -> dict[str, CheckedRun]:
        ids = sorted(set(load_table(directory, "operations", ["run_id"]).table.column("run_id").to_pylist()))
        return {
            run_id: CheckedRun("invalid", {"lost-acked-write": 2}) if run_id == "seed-2" else CheckedRun("valid", {})
            for run_id in ids
        }

    monkeypatch.setattr(sweep_command, "check_histories", judged)
    arguments = ("sim", "--seeds", "1:3", *FINE, "--keep", "0", "--jobs", 1, "--histories", "all")
    assert harrow(*arguments) == ExitStatus.ANOMALIES, "the observer has found nothing, but the checkers have"
    output = capsys.readouterr().out
    assert "histories in all: 1 invalid, 2 valid" in output
    assert "1  lost-acked-write  (checkers)" in output
    assert "seed 2: lost-acked-write; harrow sim --seed 2" in output
    assert harrow(*arguments) == ExitStatus.USAGE, "parts of two sweeps are not mixed"


def test_a_sweep_keeps_its_time_limit(capsys: pytest.CaptureFixture[str]) -> None:
    assert harrow("sim", "--seeds", "1:100000", "--jobs", 2, "--time-limit", "2s", "--json", *FINE) == ExitStatus.VALID
    data = json.loads(capsys.readouterr().out)
    assert 0 < data["seeds"] < 100_000
    assert data["seconds"] < 60


def test_a_core_that_crashes_is_a_failure_with_its_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    from broker.core.broker_node.node import BrokerNode
    from broker.core.ports.events import TimerFired

    honest = BrokerNode.handle

    def handle(self: Any, now_ms: int, event: Any) -> Any:
        if now_ms > 5_000 and isinstance(event, TimerFired):
            raise RuntimeError("planted")
        return honest(self, now_ms, event)

    monkeypatch.setattr(BrokerNode, "handle", handle)
    result = sweep.simulate(1, QUICK, observed=True)
    assert (result.seed, result.findings[0].layer, result.findings[0].property_id) == (1, "crash", "crash")
    assert re.fullmatch(r"node \d+ crashed: RuntimeError: planted", result.findings[0].what)


@pytest.mark.slow
def test_an_interrupted_sweep_prints_its_results() -> None:
    import signal

    program = "from harness.commands.cli import main; main()"
    arguments = ["sim", "--seeds", "1:100000", "--jobs", "1", *FINE]
    with subprocess.Popen(
        [sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        assert "seeds" in process.stderr.readline(), "a line of progress"
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
    assert process.returncode == ExitStatus.UNKNOWN, errors
    assert ", interrupted: " in output
    assert "Traceback" not in errors


# --- replay ----------------------------------------------------------------------------------------------------------


def test_a_stored_run_is_replayed(capsys: pytest.CaptureFixture[str], failing_run: Path) -> None:
    assert harrow("replay", failing_run) == ExitStatus.VALID
    output = capsys.readouterr().out
    assert "invariant: P-12" in output
    assert re.search(r"^equal: every event was repeated, hash [0-9a-f]{16}$", output, re.MULTILINE)


def test_a_differing_replay_names_its_first_difference(
    capsys: pytest.CaptureFixture[str], failing_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moments = stored.read_moments(failing_run)
    altered = [*moments[:200], moments[200]._replace(detail="(something else)"), *moments[201:]]
    monkeypatch.setattr(stored, "read_moments", lambda _: altered)
    assert harrow("replay", failing_run) == ExitStatus.ANOMALIES
    output = capsys.readouterr().out
    assert "first difference, stored and now: event 200, " in output or "event 200: " in output
    assert "(something else)" in output


def test_a_real_run_is_replayed_by_a_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for name in ("spec.json", "schedule.json"):
        (tmp_path / name).write_text("{}")
    assert harrow("replay", tmp_path) == ExitStatus.VALID
    expected = f"harrow run {tmp_path}/spec.json --schedule {tmp_path}/schedule.json"
    assert expected in capsys.readouterr().out


# --- shrink ----------------------------------------------------------------------------------------------------------


def test_a_lie_shrinks_to_one_send_and_the_file_fails_the_same_way(capsys: pytest.CaptureFixture[str]) -> None:
    assert harrow("shrink", 4, "--out", "small.json", *LYING) == 0
    output = capsys.readouterr().out
    assert output.splitlines()[-1] == "harrow sim --schedule small.json"
    assert "there may be a smaller one" not in output
    data = json.loads(Path("small.json").read_text())
    assert data["property"] == "P-12"
    assert data["faults"] == []
    assert data["configuration"]["operations"] == 1
    assert data["configuration"]["partitions"] == 1
    assert not any(data["streams"].values())
    assert len(data["happens"]) <= 4
    assert harrow("sim", "--schedule", "small.json") == ExitStatus.ANOMALIES
    output = capsys.readouterr().out
    assert f"hash               {data['hash']}" in output
    assert f"expected           P-12, hash {data['hash']}" in output


def test_a_stored_run_can_be_shrunk(capsys: pytest.CaptureFixture[str], failing_run: Path) -> None:
    assert harrow("shrink", failing_run, "--out", "small.json", "--time-limit", 5) == 0
    assert json.loads(Path("small.json").read_text())["property"] == "P-12"


def test_shrinking_that_its_limit_ends_says_so(capsys: pytest.CaptureFixture[str], failing_run: Path) -> None:
    assert harrow("shrink", failing_run, "--out", "small.json", "--time-limit", "0.001") == 0
    assert "when it was ended: there may be a smaller one" in capsys.readouterr().out


def test_what_does_not_fail_can_not_be_shrunk(capsys: pytest.CaptureFixture[str]) -> None:
    assert harrow("shrink", 1, *FINE) == ExitStatus.UNKNOWN
    assert "nothing fails, so there is nothing to shrink" in capsys.readouterr().err
