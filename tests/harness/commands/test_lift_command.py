"""`harrow lift`: what it prints and stores when it finds a simulation, and how it ends when it does not."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from harness.terminal.exits import ExitStatus
from incidents import diagnose
from incidents.likeness import is_like
from simulation.runs import stored
from tests.harness.commands.test_explain_command import places
from tests.harness.commands.test_simulation_commands import harrow
from tests.simulation.lifting.planted import FLAW, lossy_run
from tests.simulation.small import LIES, quick

SEEDS = "1920100:1920139"


@pytest.fixture(autouse=True)
def _in_an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.slow
def test_a_loss_of_a_real_run_is_found_stored_shrunk_and_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    run = lossy_run(Path("store/runs/real"), FLAW)
    assert harrow("lift", "real", "--seeds", SEEDS, "--jobs", 1) == ExitStatus.VALID
    lines = capsys.readouterr().out.splitlines()
    assert places(lines, "incident") == [diagnose(run)[0].headline]
    (found,) = places(lines, "found")
    assert re.fullmatch(r"seed 19201\d\d \([a-z0-9. ]+\), after \d+ simulations? in \d+ s", found)
    whole, small = (Path(path) for path in places(lines, "choices"))
    assert re.search(r"-lifted-K5-ack-before-replication-seed-19201\d\d$", whole.parent.name)
    assert "-lifted-shrunk-" in small.parent.name
    (smallest,) = places(lines, "smallest")
    assert ", 1 partition, 1 send, " in smallest
    for path, report in zip((whole, small), places(lines, "report"), strict=True):
        assert Path(report).is_file()
        assert any(is_like(diagnose(run)[0], one) for one in diagnose(path.parent))
    for command in [*places(lines, "replay"), f"{places(lines, 'explain')[-1]} --no-shrink"]:
        assert harrow(*shlex.split(command)[1:]) == ExitStatus.ANOMALIES
    assert "acknowledged" in capsys.readouterr().out


def test_the_same_command_finds_the_same_simulation(capsys: pytest.CaptureFixture[str]) -> None:
    lossy_run(Path("store/runs/real"), FLAW)
    texts = []
    for store in ("one", "other"):
        command = ["lift", "store/runs/real", "--seeds", SEEDS, "--jobs", 1, "--no-shrink", "--store", store]
        assert harrow(*command) == ExitStatus.VALID
        (choices,) = places(capsys.readouterr().out.splitlines(), "choices")
        texts.append(Path(choices).read_text())
    assert texts[0] == texts[1]


def test_a_run_whose_incident_the_simulator_does_not_have_is_unknown(capsys: pytest.CaptureFixture[str]) -> None:
    lossy_run(Path("store/runs/real"))
    assert harrow("lift", "real", "--seeds", "1920100:1920102", "--jobs", 1) == ExitStatus.UNKNOWN
    output = capsys.readouterr()
    (line,) = output.err.splitlines()
    assert re.fullmatch(
        r"harrow: not found: 3 simulations from seed 1920100 on in \d+ s, with isolate; nothing failed;"
        r" try other --seeds or a longer --time-limit",
        line,
    )
    assert not Path("store/latest").exists()


def test_a_flaw_may_be_given_for_a_run_that_names_none(capsys: pytest.CaptureFixture[str]) -> None:
    lossy_run(Path("store/runs/real"))
    command = ["lift", "real", "--flaw", FLAW, "--seeds", SEEDS, "--jobs", 1, "--no-shrink"]
    assert harrow(*command) == ExitStatus.VALID
    assert places(capsys.readouterr().out.splitlines(), "smallest") == []


def test_after_its_time_no_seed_is_begun(capsys: pytest.CaptureFixture[str]) -> None:
    lossy_run(Path("store/runs/real"), FLAW)
    assert harrow("lift", "real", "--time-limit", 0, "--jobs", 1) == ExitStatus.UNKNOWN
    assert "not found: 0 simulations from seed 1 on" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("lift", "Missing argument 'RUN'"),
        ("lift gone", "expected a run, found no gone"),
        ("lift real --incident 2", "real: expected the number of an incident, 1 to 1, found 2"),
        ("lift real --flaw gremlin", "found 'gremlin'"),
        ("lift real --generation K9", "found 'K9'"),
        ("lift real --seeds 9:1", "expected the first and the last seed, like 1:1000, found '9:1'"),
        ("lift fine", "fine: expected a run of a real cluster, found a simulation; see `harrow shrink`"),
        ("lift valid", "valid: expected a run with an incident that violates the contract, found none"),
    ],
)
def test_bad_input_is_one_line(arguments: str, expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    lossy_run(Path("store/runs/real"))
    Path("store/runs/fine").mkdir()
    stored.store(Path("store/runs/fine"), quick(4, flaws=LIES["flaws"]))
    Path("store/runs/valid/history").mkdir(parents=True)
    Path("store/runs/valid/results.json").write_text("{}")
    assert harrow(*arguments.split()) == ExitStatus.USAGE
    output = capsys.readouterr()
    assert output.out == ""
    (line,) = output.err.splitlines()
    assert expected in line
