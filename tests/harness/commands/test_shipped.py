"""Suites, system definitions and schedules have names; a user's file with such a name takes precedence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from common.names import SpecError
from common.shelf import Shelf
from harness.commands import cli
from harness.shipped import SCHEDULES, SUITES, SYSTEMS
from harness.spec import spec as specs
from harness.suites import definition as suites
from harness.systems.factory import with_defaults
from harness.terminal.exits import ExitStatus
from nemesis.schedule_file import loads_file
from simulation.directed.files import DIRECTED_SCHEDULES, load, schedule_name

SHELVES = [SUITES, SYSTEMS, SCHEDULES, DIRECTED_SCHEDULES]


def harrow(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    return int(ended.value.code or 0)


@pytest.fixture(autouse=True)
def _in_an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("shelf", SHELVES, ids=lambda shelf: shelf.what)
def test_every_name_has_a_line_about_it_and_a_file(shelf: Shelf) -> None:
    assert shelf.files()
    for name, about in shelf.abouts().items():
        assert about
        assert "\n" not in about
        assert shelf.find(name) == shelf.files()[name]
        assert shelf.find(f"{name}.toml") == shelf.find(f"{shelf.folder}/{name}.toml") == shelf.find(name)


def test_every_file_can_be_read_from_any_folder() -> None:
    for path in SUITES.files().values():
        assert suites.load(path).cells
    for path in SCHEDULES.files().values():
        assert loads_file(path).entries
    for path in DIRECTED_SCHEDULES.files().values():
        assert load(path).steps


def test_a_schedule_of_faults_and_one_in_steps_never_share_a_name() -> None:
    assert not SCHEDULES.files().keys() & DIRECTED_SCHEDULES.files().keys()


@pytest.mark.parametrize("name", ["smoke", "smoke.toml", "suites/smoke.toml"])
def test_a_file_of_ones_own_comes_first(name: str, tmp_path: Path) -> None:
    assert SUITES.name_of(name) == "smoke"
    own = tmp_path / (name if name.endswith(".toml") else f"{name}.toml")
    own.parent.mkdir(exist_ok=True)
    own.write_text("")
    assert SUITES.name_of(name) is None
    assert SUITES.find(name).absolute() == own


def test_the_path_of_a_shipped_file_means_its_name() -> None:
    assert SYSTEMS.name_of(str(SYSTEMS.files()["redpanda"])) == "redpanda"


def test_a_folder_of_that_name_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "smoke").mkdir()
    assert SUITES.find("smoke") == SUITES.files()["smoke"]


@pytest.mark.parametrize("name", ["smok", "smoke.tml", "suites/smoke.yaml", "../smoke", ""])
def test_a_name_that_does_not_exist_is_answered_with_those_that_do(name: str) -> None:
    with pytest.raises(
        SpecError,
        match="expected a file or the name of a suite, one of kafka-nightly, kafka-smoke, nightly, smoke, found",
    ) as refused:
        SUITES.find(name)
    assert ("; did you mean smoke?" in str(refused.value)) == (name in ("smok", "smoke.tml", "../smoke"))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            "suite smok",
            (
                "expected a file or the name of a suite, one of kafka-nightly, kafka-smoke, nightly, smoke, found "
                "'smok'; did you mean smoke?"
            ),
        ),
        ("run --system kafka", "system: expected a file or the name of a system definition, one of apache-kafka, "),
        (
            "run --schedule last",
            (
                "expected a file or the name of a schedule, one of cut-and-elected, cut-behind-new-leader, "
                "last-replica-standing, lossy-replica-first, found 'last'"
            ),
        ),
        (
            "run --schedule late-cut",
            "expected a schedule of faults, found one in steps: late-cut; harrow sim --schedule",
        ),
        ("sim --schedule late-cutt", "found 'late-cutt'; did you mean late-cut?"),
        (
            "sim --schedule last-replica-standing",
            "last-replica-standing.toml: expected a schedule in steps, found one of",
        ),
        ("systems kafka", "found 'kafka'; did you mean apache-kafka?"),
    ],
)
def test_a_wrong_name_is_one_line_and_starts_nothing(
    arguments: str, expected: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert harrow(*arguments.split()) == ExitStatus.USAGE
    output = capsys.readouterr()
    assert output.out == ""
    assert expected in output.err
    assert output.err.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["suites"], "smoke    "),
        (["suites", "smoke"], 'name = "smoke"'),
        (["systems"], "apache-kafka  "),
        (["schedules"], "last-replica-standing  "),
        (["schedules"], "late-cut  "),
        (["schedules", "late-cut"], "[[step]]"),
        (["schedules", "last-replica-standing"], "[[fault]]"),
    ],
)
def test_names_are_listed_and_files_printed(
    arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert harrow(*arguments) == ExitStatus.VALID
    assert expected in capsys.readouterr().out


def test_a_specification_names_a_system_so_that_every_folder_finds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped = specs.resolve(with_defaults({"system": "redpanda"}), 7)
    assert "--system redpanda" in specs.reproduce(shipped)
    (tmp_path / "mine.toml").write_text(SYSTEMS.files()["redpanda"].read_text())
    own = specs.resolve(with_defaults({"system": "mine"}), 7)
    monkeypatch.chdir("/")
    assert f"--system {tmp_path}/mine.toml" in specs.reproduce(own)
    assert with_defaults({"system": own.system})["system"] == own.system


def test_a_stored_specification_uses_the_definition_stored_with_it(tmp_path: Path) -> None:
    spec = specs.resolve(with_defaults({"system": "redpanda"}), 7)
    (tmp_path / "spec.json").write_text(specs.to_json(spec, {}, ""))
    assert specs.from_file(tmp_path / "spec.json")["system"] == "redpanda"
    (tmp_path / "system.toml").write_text("")
    assert specs.from_file(tmp_path / "spec.json")["system"] == str(tmp_path / "system.toml")


def test_an_inventory_is_found_from_every_folder(tmp_path: Path) -> None:
    given = {"inventory": "hosts.toml", "environment": "ssh"}
    assert specs.resolve(given, 1).inventory == str(tmp_path / "hosts.toml")


def test_a_schedule_in_steps_is_repeated_from_every_folder(tmp_path: Path) -> None:
    assert harrow("sim", "--schedule", "unclean-election") == ExitStatus.ANOMALIES
    (stored,) = (tmp_path / "store" / "runs").iterdir()
    assert json.loads((stored / "spec.json").read_text())["reproduce"] == "harrow sim --schedule unclean-election"
    assert schedule_name(Path("mine.toml")) == str(tmp_path / "mine.toml")


def test_the_faults_of_a_schedule_are_taken_by_name_in_a_simulation(capsys: pytest.CaptureFixture[str]) -> None:
    assert harrow("sim", "--seed", "1", "--faults", "last-replica-standing") in (ExitStatus.VALID, ExitStatus.ANOMALIES)
    assert "page-cache-loss for 1.000 s" in capsys.readouterr().out
