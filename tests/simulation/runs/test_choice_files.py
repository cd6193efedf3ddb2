"""Choice files: what is written can be read again, and nonsense is refused in one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from simulation.engine.choices import STREAMS
from simulation.runs import choice_files
from simulation.runs.choice_files import FORMAT, ChoiceFile, ChoiceFileError
from simulation.runs.failures import findings
from simulation.runs.stored import choice_file_of
from simulation.scenario.case import run
from tests.simulation.small import LIES, quick


@pytest.fixture(scope="module")
def choice_file() -> ChoiceFile:
    outcome = run(quick(3, **LIES))
    return choice_file_of(outcome, findings(outcome), ["something happens"])


def test_what_is_written_comes_back(choice_file: ChoiceFile, tmp_path: Path) -> None:
    path = tmp_path / "choices.json"
    path.write_text(choice_file.dumps())
    assert choice_files.load(path) == ChoiceFile(
        **{**vars(choice_file), "streams": {name: tuple(values) for name, values in choice_file.streams.items()}}
    )


def test_a_choice_file_is_the_same_simulation_as_its_seed(choice_file: ChoiceFile) -> None:
    assert run(choice_file.case()).digest == run(quick(3, **LIES)).digest == choice_file.digest


def test_a_file_of_format_2_is_read_with_the_present_names(choice_file: ChoiceFile, tmp_path: Path) -> None:
    data = json.loads(choice_file.dumps())
    settings = data["configuration"]
    settings["squeeze"] = settings.pop("sole_survivor")
    settings["faults"] = ["kill", "lossy-kill", "stall"]
    loss = {"at_ms": 1, "kind": "lossy-kill", "target": 0, "duration_ms": 1, "parameter": 0}
    data |= {"harrow": "tape", "format": 2, "faults": [loss]}
    (tmp_path / "tape.json").write_text(json.dumps(data))
    read = choice_files.load(choice_files.file_in(tmp_path))
    assert read.configuration.faults == ("kill", "page-cache-loss", "stalled-link")
    assert read.configuration.sole_survivor is choice_file.configuration.sole_survivor
    assert [fault.kind for fault in read.faults] == ["page-cache-loss"]


def change(data: dict[str, Any], path: str, value: object) -> None:
    *parents, last = path.split(".")
    node: Any = data
    for parent in parents:
        node = node[int(parent) if parent.isdigit() else parent]
    if value is None:
        del node[last]
    else:
        node[last] = value


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("format", FORMAT + 1, f"expected a choice file of format {FORMAT}, found format {FORMAT + 1}"),
        ("format", None, f"expected a choice file of format {FORMAT}, found format None"),
        ("harrow", "schedule", 'expected a choice file ("harrow": "choices")'),
        ("configuration", None, "expected the key 'configuration', found none"),
        ("streams", None, "expected the key 'streams', found none"),
        ("streams", [], "has no attribute"),
        (
            "streams.luck",
            [1],
            f"streams: expected one of {', '.join(STREAMS)}, found 'luck'",
        ),
        ("streams.disk", [-1], "stream disk: expected whole numbers from 0 on, found -1"),
        ("streams.disk", ["one"], "stream disk: expected whole numbers from 0 on, found 'one'"),
        ("configuration.brokers", "three", "brokers: expected a whole number from 1 on, found 'three'"),
        ("configuration.brokers", 0, "brokers: expected a whole number from 1 on, found 0"),
        ("configuration.brokers", 2, "replication_factor: expected at most the 2 brokers, found 3"),
        ("configuration.colour", "red", "found 'colour'"),
        ("configuration.generation", "K9", "generation: expected one of K1"),
        ("configuration.flaws", ["gremlin"], "gremlin"),
        ("faults", [{"at_ms": 1}], "fault 1: expected the keys at_ms, kind, target, duration_ms, parameter"),
        (
            "faults",
            [{"at_ms": 1, "kind": "flood", "target": 0, "duration_ms": 1, "parameter": 0}],
            "fault 1: expected a fault of the simulation, one of kill,",
        ),
        (
            "faults",
            [
                {"at_ms": 1, "kind": "kill", "target": 0, "duration_ms": 1, "parameter": 0},
                {"at_ms": -5, "kind": "kill", "target": 0, "duration_ms": 1, "parameter": 0},
            ],
            "fault 2: at_ms: expected a whole number from 0 on, found -5",
        ),
    ],
)
def test_nonsense_is_refused_in_one_line(choice_file: ChoiceFile, path: str, value: object, message: str) -> None:
    data = json.loads(choice_file.dumps())
    change(data, path, value)
    with pytest.raises(ChoiceFileError) as refused:
        choice_files.parse(data, "file.json")
    assert str(refused.value).startswith("file.json: ")
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '"tape"'])
def test_a_file_of_something_else_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "choices.json"
    path.write_text(text)
    with pytest.raises(ChoiceFileError, match="expected a"):
        choice_files.load(path)
