"""A definition that extends another says only what differs; what is wrong with a base is one line."""

from __future__ import annotations

import json
import subprocess
import tomllib
from pathlib import Path

import pytest

from common.names import SpecError
from harness.commands import cli
from harness.shipped import SYSTEMS
from harness.spec import spec as specs
from harness.systems.definition import load
from harness.systems.foreign import CONFIG_NAME
from harness.systems.inheritance import in_one_file, lineage
from harness.terminal.exits import ExitStatus
from tests.support.foreign_systems import Links, made, plans_of, spec_for

BASE = """
name = "base"
about = "What it is"
keeps = "memory"
stops-with = [0, 143]

[parameters]
heap = "256m"
features = { one = 1 }

[defaults]
rate = 50
controllers = 0

[broker]
start = ["sleep", "{{ parameters.heap }}"]
logs = ["a.log", "b.log"]

[broker.environment]
A = "a"
B = "b"
"""
VARIANT = """
name = "variant"
extends = "base.toml"
stops-with = [1]

[parameters.features]
two = 2

[broker]
logs = ["c.log"]

[broker.environment]
B = "changed \\"\\\\ \\u007f"
C = "c\\nd"
"""


@pytest.fixture
def variant(tmp_path: Path) -> Path:
    (tmp_path / "base.toml").write_text(BASE)
    (tmp_path / "variant.toml").write_text(VARIANT)
    return tmp_path / "variant.toml"


def test_tables_are_merged_and_lists_replaced(variant: Path) -> None:
    definition = load(variant)
    assert (definition.name, definition.keeps, definition.stops_with) == ("variant", "memory", {1})
    assert definition.parameters == {"heap": "256m", "features": {"one": 1, "two": 2}}
    assert definition.defaults == {"rate": 50, "controllers": 0}
    assert definition.broker.logs == ("c.log",)
    assert definition.broker.environment == {"A": "a", "B": 'changed "\\ \x7f', "C": "c\nd"}


def test_a_variant_of_a_variant_has_what_both_say(variant: Path) -> None:
    (variant.parent / "further").mkdir()
    third = variant.parent / "further" / "third.toml"
    third.write_text("name = 'third'\nextends = '../variant'\nkeeps = 'files'\n[parameters]\nheap = '1g'")
    definition = load(third)
    assert (definition.name, definition.keeps, definition.stops_with) == ("third", "files", {1})
    assert definition.parameters == {"heap": "1g", "features": {"one": 1, "two": 2}}


def test_templates_and_the_commands_of_values_know_the_parameters(variant: Path, tmp_path: Path) -> None:
    variant.write_text(VARIANT + "[values]\nsum = ['echo', '{{ parameters.features.two }}1']\n")
    system = made(variant)
    plan = plans_of(system.spec, tmp_path)[0]
    system.configure(plan, [plan], Links())
    assert json.loads((plan.directory / CONFIG_NAME).read_text())["command"] == ["sleep", "256m"]
    assert system.runtimes[1].values == {"sum": "21"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("extends = 'base.toml'", "variant.toml: name: expected a string, found none"),
        ("name = 'v'\nextends = 1", "variant.toml: extends: expected a string, found 1"),
        ("name = 'v'\nextends = 'missing.toml'", "variant.toml: extends: expected a file relative to this one, found"),
        ("name = 'v'\nextends = 'kafka'", "variant.toml: extends: expected the name of a system definition or a path"),
        ("name = 'v'\nextends = 'variant.toml'", "not extend each other, found variant.toml → variant.toml"),
        ("name = 'v'\nextends = 'other.toml'", "found variant.toml → other.toml → variant.toml"),
        ("name = 'v'\nextends = 'wrong.toml'", "wrong.toml: keeps: expected one of files, memory, found 'nothing'"),
        ("name = 'v'\nextends = 'base.toml'\nbroker = 1", "variant.toml: broker: expected a table, found 1"),
        ("name = 'v'\nextends = 'base.toml'\n[broker]\nstat = ['x']", "found 'stat'; did you mean start?"),
        ("name = 'v'\nextends = 'base.toml'\nparameters = 1", "variant.toml: parameters: expected a table, found 1"),
    ],
)
def test_what_is_wrong_with_a_variant_or_its_base_is_one_line(
    text: str, expected: str, variant: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    variant.write_text(text)
    (variant.parent / "other.toml").write_text("name = 'other'\nextends = './variant'\n")
    (variant.parent / "wrong.toml").write_text(BASE.replace('"memory"', '"nothing"'))
    with pytest.raises(SystemExit) as ended:
        cli.main(["run", "--system", str(variant), "--store", str(variant.parent / "store")])
    assert ended.value.code == ExitStatus.USAGE
    line = capsys.readouterr().err
    assert expected in line
    assert line.count("\n") == 1
    assert not (variant.parent / "store").exists(), "nothing was begun"


def test_the_definition_kept_with_a_run_needs_no_other_file(variant: Path, tmp_path: Path) -> None:
    merged = {key: value for key, value in lineage(variant)[-1].table.raw.items() if key != "extends"}
    text = in_one_file(variant)
    assert tomllib.loads(text) == merged
    alone = tmp_path / "alone" / "system.toml"
    alone.parent.mkdir()
    alone.write_text(text)
    assert load(alone).broker == load(variant).broker
    assert in_one_file(alone) == text, "what extends nothing is kept as it is, with its comments"


@pytest.mark.parametrize("path", SYSTEMS.files().values(), ids=lambda path: path.stem)
def test_a_shipped_definition_says_the_same_in_one_file(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "system.toml"
    copy.write_text(in_one_file(path))
    assert {**vars(load(copy)), "path": path} == vars(load(path))


def test_the_list_of_systems_shows_what_each_extends(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["systems"])
    assert not ended.value.code
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert list(lines) == sorted(lines)
    assert lines["apache-kafka-elr-on"].endswith("(extends apache-kafka)")
    assert "extends" not in lines["apache-kafka"]


@pytest.mark.parametrize(
    ("name", "levels", "features"),
    [
        ("apache-kafka", [], {}),
        (
            "apache-kafka-elr-on",
            ["--feature", "eligible.leader.replicas.version=1"],
            {"eligible.leader.replicas.version": 1},
        ),
        (
            "apache-kafka-elr-off",
            ["--feature", "eligible.leader.replicas.version=0"],
            {"eligible.leader.replicas.version": 0},
        ),
        ("apache-kafka-elr-preview", ["--release-version", "4.0-IV1"], {"metadata.version": 23}),
    ],
)
def test_kafka_formats_its_storage_with_the_features_of_the_variant(
    name: str, levels: list[str], features: dict[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "kafka home"
    (home / "bin").mkdir(parents=True)
    for program in ("kafka-server-start.sh", "kafka-storage.sh", "kafka-topics.sh"):
        (home / "bin" / program).write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
        (home / "bin" / program).chmod(0o755)
    monkeypatch.setenv("KAFKA_HOME", str(home))
    system = made(SYSTEMS.files()[name])
    assert f"--system {name}" in specs.reproduce(spec_for(SYSTEMS.files()[name]))
    plans = plans_of(system.spec, tmp_path)
    for plan in plans:
        system.configure(plan, plans, Links())
        config = json.loads((plan.directory / CONFIG_NAME).read_text())
        (command,) = config["once"]
        words = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
        settings = f"{plan.directory}/node.properties"
        given = ["format", "--cluster-id", "MkU3OEVBNTcwNTJENDM2Qk", "--config", settings, "--ignore-formatted"]
        assert words == [*given, *levels]
        assert config["prepare"] == [], "before every start it would cost another Java, and be unsynced"
        written = (plan.directory / "node.properties").read_text().splitlines()
        assert ("eligible.leader.replicas.enable=true" in written) == (name == "apache-kafka-elr-preview")
    assert system.definition.features == features, "what every run verifies"


def test_a_base_that_is_not_sound_is_named_itself(tmp_path: Path) -> None:
    (tmp_path / "base.toml").write_text("name = 'base'\n[broker]\n")
    (tmp_path / "variant.toml").write_text("name = 'v'\nextends = 'base.toml'\n[broker]\nstart = ['sleep', '60']\n")
    with pytest.raises(SpecError, match=r"base\.toml: broker\.start: expected the command that runs a node"):
        load(tmp_path / "variant.toml")


def test_a_variant_can_do_without_the_image_of_its_base(tmp_path: Path) -> None:
    (tmp_path / "base.toml").write_text(f'image = "me/mine:1"\n{BASE}')
    variant = tmp_path / "variant.toml"
    variant.write_text('name = "variant"\nextends = "base.toml"\n')
    assert load(variant).image == "me/mine:1"
    variant.write_text('name = "variant"\nextends = "base.toml"\nimage = ""\n')
    assert load(variant).image is None
