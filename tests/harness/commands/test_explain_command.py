"""`harrow explain`: the sentence, the places to read on, what is stored, and how it ends."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner

from harness.commands.simulation import explain as explain_command
from harness.commands.simulation.explain import explain
from harness.terminal.exits import ExitStatus
from simulation.runs import stored
from simulation.scenario.case import Case
from tests.harness.commands.test_simulation_commands import FINE, LYING, flags, harrow
from tests.reports import synthetic_run
from tests.simulation.small import QUICK


class Ended(NamedTuple):
    status: int
    lines: list[str]
    directory: Path
    """The working directory, with the store."""


@pytest.fixture(scope="module")
def shrunk(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """A seed that fails, explained and shrunk."""
    directory = tmp_path_factory.mktemp("explained")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(directory)
        result = CliRunner().invoke(explain, ["4", *LYING, "--jobs", "1"])
    return Ended(result.exit_code, result.stdout.splitlines(), directory)


@pytest.fixture(autouse=True)
def _in_an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def places(lines: list[str], name: str) -> list[str]:
    return [line.removeprefix(name).strip() for line in lines if re.match(rf"{name} +\S", line)]


def test_a_failing_seed_is_told_in_one_sentence_with_its_evidence(shrunk: Ended) -> None:
    assert shrunk.status == ExitStatus.ANOMALIES
    assert shrunk.lines[0].startswith("INVALID  ")
    assert re.search(r"roker \d acknowledged a write at [\d.]+ s before it was committed", shrunk.lines[0])
    assert any(re.match(r"  evidence: Broker \d, leader of epoch \d+, acknowledged ", line) for line in shrunk.lines)


def test_the_seed_and_what_it_shrinks_to_are_both_stored_with_a_report(shrunk: Ended) -> None:
    whole, small = (shrunk.directory / path for path in places(shrunk.lines, "report"))
    assert whole.is_file()
    assert small.is_file()
    assert small.parent.name.endswith("-shrunk-seed-4")
    assert (shrunk.directory / "store/latest").resolve() == small.parent
    (smallest,) = places(shrunk.lines, "smallest")
    assert smallest.startswith("0 faults, ")
    assert ", 1 partition, 1 send, " in smallest
    assert (
        f"In a smaller run the same rule breaks without a fault. The run {small.parent.name} beside"
        in whole.read_text()
    )
    spec = json.loads((small.parent / "spec.json").read_text())
    assert spec["configuration"]["operations"] == 1
    assert spec["reproduce"].startswith("harrow sim --schedule store/runs/")
    assert json.loads((small.parent / "results.json").read_text())["verdict"] == "invalid"


def test_the_command_for_the_trace_ends_with_the_violation(
    shrunk: Ended, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(shrunk.directory)
    whole, small = places(shrunk.lines, "trace")
    assert "-shrunk-" in small
    assert "-shrunk-" not in whole
    assert harrow(*shlex.split(small)[1:]) == ExitStatus.ANOMALIES
    assert "VIOLATION of P-12" in capsys.readouterr().out


def test_a_stored_run_is_explained_without_being_simulated_again(
    shrunk: Ended, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(shrunk.directory)
    before = sorted(Path("store/runs").iterdir())
    assert harrow("explain", "latest", "--no-shrink") == ExitStatus.ANOMALIES
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("INVALID  Broker ")
    assert places(lines, "smallest") == []
    assert sorted(Path("store/runs").iterdir()) == before


def test_a_seed_that_passes_is_one_line_and_is_not_stored(capsys: pytest.CaptureFixture[str]) -> None:
    assert harrow("explain", 1, *FINE) == ExitStatus.VALID
    (line,) = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"seed 1: nothing wrong, hash [0-9a-f]{16}", line)
    assert not Path("store").exists()


def test_a_choice_file_is_run_and_stored(shrunk: Ended, capsys: pytest.CaptureFixture[str]) -> None:
    (run,) = shrunk.directory.glob("store/runs/*-shrunk-*")
    shutil.copy(run / "choices.json", "small.json")
    assert harrow("explain", "small.json", "--no-shrink", "--store", "other") == ExitStatus.ANOMALIES
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("INVALID  ")
    (report,) = places(lines, "report")
    assert Path(report).is_file()
    assert report.startswith("other/runs/")


def test_a_schedule_in_steps_is_played_and_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert harrow("explain", "unclean-election") == ExitStatus.ANOMALIES
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("INVALID  ")
    assert places(lines, "trace") == ["harrow sim --schedule unclean-election --trace"]


def test_a_run_that_is_valid_or_undecided_ends_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "store/runs/one"
    run.mkdir(parents=True)
    assert stored.store(run, Case(1, QUICK)) == []
    assert harrow("explain", "one") == ExitStatus.VALID
    assert capsys.readouterr().out.startswith("VALID  No violations in ")
    results = json.loads((run / "results.json").read_text())
    (run / "results.json").write_text(
        json.dumps({**results, "verdict": "unknown", "reasons": ["too few \x1b[2J writes"]})
    )
    assert harrow("explain", "one") == ExitStatus.UNKNOWN
    output = capsys.readouterr().out
    assert output.startswith("UNKNOWN  Not decided: too few ")
    assert "\x1b" not in output


def test_a_run_of_a_real_cluster_is_explained_with_the_command_that_repeats_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = synthetic_run.build(tmp_path / "store/runs/real", lossy=True, rate=20)
    assert harrow("explain", "real") == ExitStatus.ANOMALIES
    lines = capsys.readouterr().out.splitlines()
    assert re.match(r"INVALID  \d+ acknowledged writes? to ", lines[0])
    assert places(lines, "trace") == []
    (again,) = places(lines, "again")
    assert again.startswith("harrow run ")
    assert places(lines, "report") == [str((run / "report.html").relative_to(tmp_path))]


def test_what_spark_alone_found_is_not_shrunk(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "store/runs/one"
    run.mkdir(parents=True)
    stored.store(run, Case(1, QUICK))
    results = json.loads((run / "results.json").read_text())
    (run / "results.json").write_text(json.dumps({**results, "verdict": "invalid", "reasons": ["a reason"]}))
    assert harrow("explain", "one") == ExitStatus.ANOMALIES
    assert "not shrunk: the simulator alone finds nothing wrong" in " ".join(capsys.readouterr().err.split())


def test_a_run_without_results_is_checked_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    checked: list[Path] = []

    def judged(directories: list[Path]) -> None:
        checked.extend(directories)
        stored.write_results(directories[0], "one", [])

    monkeypatch.setattr(explain_command, "judge", judged)
    run = tmp_path / "store/runs/one"
    run.mkdir(parents=True)
    stored.store(run, Case(1, QUICK))
    (run / "results.json").unlink()
    assert harrow("explain", "one") == ExitStatus.VALID
    assert checked == [Path("store/runs/one")]
    assert capsys.readouterr().out.startswith("VALID  ")


def test_no_shrink_leaves_one_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert harrow("explain", 4, *LYING, "--no-shrink") == ExitStatus.ANOMALIES
    assert len(list(Path("store/runs").iterdir())) == 1
    assert len(places(capsys.readouterr().out.splitlines(), "trace")) == 1


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("explain", "Missing argument 'SEED|RUN|FILE'"),
        ("explain gone", "expected a seed, a run, a choice file or a schedule in steps, found no gone"),
        ("explain latest", "found no latest, here or in the store store"),
        ("explain latest --generation K3", "latest has all settings: expected no other settings"),
        ("explain 1 --flaw gremlin", "found 'gremlin'"),
        ("explain 1 --time-limit soon", "expected a length of time like 90, 90s, 10m or 2h, found 'soon'"),
        ("explain odd.json", 'odd.json: expected a choice file ("harrow": "choices"), found something else'),
        ("explain .", "expected the directory of a run, found no history in it"),
        ("explain gone.toml", "gone.toml"),
    ],
)
def test_bad_input_is_one_line(arguments: str, expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("odd.json").write_text("{}")
    assert harrow(*arguments.split()) == ExitStatus.USAGE
    output = capsys.readouterr()
    assert output.out == ""
    (line,) = output.err.splitlines()
    assert expected in line


def test_it_says_which_fault_was_needed_and_whose_mistake_it_is(shrunk: Ended) -> None:
    told = [line for line in shrunk.lines if line.startswith("  faults needed: ")]
    assert len(told) == 2, "of the failure and of the smallest one"
    assert told[1] == "  faults needed: No fault was needed: none had begun by then."
    blamed = [line for line in shrunk.lines if line.startswith("  whose mistake: ")]
    assert all("planted flaw ack-before-replication" in line for line in blamed)


def test_what_there_was_no_time_for_is_tried_the_next_time(capsys: pytest.CaptureFixture[str]) -> None:
    # Without time nothing is tried. What is stored says so, and the next explanation fills it in.
    arguments = flags({**QUICK, "flaws": ("unclean-stays-eligible",)})
    assert harrow("explain", 2, *arguments, "--no-shrink", "--time-limit", "0") == ExitStatus.ANOMALIES
    assert "Not tried, for want of time: faults " in capsys.readouterr().out
    assert harrow("explain", "latest", "--no-shrink", "--time-limit", "10m") == ExitStatus.ANOMALIES
    output = capsys.readouterr().out
    assert "Not tried" not in output
    assert "  faults needed: Needed: " in output
    assert "  whose mistake: That of the planted flaw unclean-stays-eligible" in output
