"""Suite files: the cells of valid ones, and the errors of invalid ones."""

from __future__ import annotations

from pathlib import Path

import pytest

import harness
from harness.commands import cli
from harness.shipped import SUITES
from harness.suites.cells import Cell, Skipped, arguments, command_line, require_possible
from harness.suites.definition import Suite, load
from harness.terminal.exits import ExitStatus

ROOT = Path(harness.__file__).parents[1]
CANARY = """
[canary]
environment = "simulation"
faults = "all"
settings = { flaws = ["ack-before-replication"] }
"""
ONE_RUN = "[[matrix]]\nenvironments = ['local']\nfaults = ['kill']\n"
HEAD = f'name = "s"\nbudget = "1m"\n{CANARY}'


def suite(directory: Path, text: str) -> Suite:
    path = directory / "suite.toml"
    path.write_text(text)
    return load(path)


@pytest.mark.parametrize("name", ["smoke", "nightly", "kafka-smoke", "kafka-nightly"])
def test_a_shipped_suite_is_sound(name: str) -> None:
    shipped = load(SUITES.files()[name])
    assert shipped.name == name
    systems = {str(cell.settings.get("system", "")).partition("-elr")[0] for cell in shipped.cells}
    if name.startswith("kafka"):
        assert systems == {"apache-kafka"}
    else:
        assert {"simulation", "local"} <= {cell.environment for cell in shipped.cells}
        assert "apache-kafka" not in systems
    assert len({cell.name for cell in (*shipped.canary, *shipped.cells)}) == len(shipped.canary) + len(shipped.cells)


def test_the_matrix_is_the_product_of_what_it_names(tmp_path: Path) -> None:
    found = suite(
        tmp_path,
        f"""{HEAD}
[configurations.plain]
[configurations.five]
brokers = 5
[[matrix]]
environments = ["local", "simulation"]
faults = ["kill", "all"]
seeds = ["1:3", 7]
settings = {{ rate = 50, brokers = 4 }}
""",
    )
    local = [cell for cell in found.cells if cell.environment == "local"]
    assert [cell.first_seed for cell in local[:4]] == [1, 2, 3, 7], "a real cluster runs one seed after the other"
    assert len(local) == 2 * 2 * 4
    simulated = [cell for cell in found.cells if cell.environment == "simulation"]
    assert len(simulated) == 2 * 2 * 2, "the simulation sweeps a range"
    assert (simulated[0].first_seed, simulated[0].last_seed, simulated[0].seeds) == (1, 3, "seeds 1 to 3")
    brokers = {cell.configuration: cell.settings["brokers"] for cell in found.cells}
    assert brokers == {"plain": 4, "five": 5}, "a configuration overrides the matrix's settings"
    assert found.canary[0].anomaly == "any"


def cell(**changes: object) -> Cell:
    settings = {"flaws": ["unclean-election"], "acks": "1", "rate": 9.0, "simulation": {"operations": 20}}
    return Cell(**{**BARE, "settings": settings, **changes})


BARE = {
    "number": 3,
    "environment": "local",
    "configuration": "c",
    "faults": "kill,page-cache-loss",
    "first_seed": 5,
    "last_seed": 5,
    "limit_s": 10.0,
}


def test_a_run_is_the_command_that_a_person_would_give(tmp_path: Path) -> None:
    command = "harrow run --seed 5 --name 003-local-c-5 --acks 1 --faults kill,page-cache-loss --rate 9 --flaw"
    assert list(command_line(cell())) == [*command.split(), "unclean-election"]
    assert list(arguments(cell(), tmp_path))[-3:] == ["--no-check", "--store", str(tmp_path)]


def test_a_simulation_takes_the_settings_that_it_has_and_faults_by_its_own_names() -> None:
    words = " ".join(command_line(cell(environment="simulation", last_seed=8)))
    assert words.startswith("harrow sim --seeds 5:8 ")
    for word in ("--flaw unclean-election", "--set acks=1", "--set faults=kill,page-cache-loss", "--set operations=20"):
        assert word in words
    assert "rate" not in words
    assert "faults=" not in " ".join(command_line(cell(environment="simulation", faults="all"))), "the seeds decide"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        (
            {"environment": "simulation", "faults": "kill,flapping"},
            "expected a fault that the simulation has too, found flapping",
        ),
        ({"environment": "moon"}, "there is no environment moon in this Harrow"),
        ({"faults": "broker-removal"}, "broker-removal needs more brokers than replicas"),
        ({"settings": {"system": "apache-kafka"}}, "KAFKA_HOME"),
    ],
)
def test_a_cell_without_means_is_skipped_with_the_reason(
    changes: dict[str, object], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KAFKA_HOME", raising=False)
    with pytest.raises(Skipped) as skipped:
        require_possible(cell(**changes))
    assert why in str(skipped.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f'budget = "1m"\n{CANARY}', "name: expected a string, found none"),
        (f'name = "../x"\nbudget = "1m"\n{CANARY}', "name: expected up to 32 letters"),
        ('name = "s"\nbudget = "1m"', "canary: expected a table, found none"),
        (
            f'name = "s"\nbudget = "soon"\n{CANARY}[[matrix]]\nenvironments=["local"]\nfaults=["kill"]',
            "like 90s, 10m or 2h",
        ),
        (HEAD, "matrix: expected 1 to 900 runs in all, found 0"),
        (
            f"{HEAD}[[matrix]]\nenvironments = ['moon']\nfaults = ['kill']",
            "expected one of simulation, local, docker",
        ),
        (f"{HEAD}[[matrix]]\nenvironments = ['local']", "faults: expected a list of what --faults takes"),
        (f"{HEAD}[[matrix]]\nenvironments = ['local']\nfaults = ['flood']", "faults: expected the name of a fault"),
        (f"{HEAD}{ONE_RUN}seeds = '9:1'", "seeds: expected a seed"),
        (f"{HEAD}{ONE_RUN}configurations = ['x']", "configurations: expected default, found 'x'"),
        (f"{HEAD}{ONE_RUN}settings = {{brokers = 0}}", "from 1 to 9"),
        (
            f"{HEAD}{ONE_RUN}settings = {{seed = 1}}",
            "settings: expected a key, one of system, ",
        ),
        (
            f"{HEAD}[[matrix]]\nenvironments = ['simulation']\nfaults = ['all']\nsettings = {{simulation = {{x = 1}}}}",
            "expected a setting of the simulation (see docs/guide/simulation.md), found 'x'",
        ),
        (
            'name = "s"\nbudget = "1m"\n[canary]\nenvironment = "local"\nfaults = "kill"',
            "a flaw that the suite must find",
        ),
        (
            f"{HEAD}anomaly = 'lost-acked-wrte'\n{ONE_RUN}",
            "canary.anomaly: expected a name, found 'lost-acked-wrte'; did you mean lost-acked-write?",
        ),
        ("matrix = [", "expected a suite as TOML"),
    ],
)
def test_what_is_wrong_with_a_suite_is_one_line_and_status_2(
    text: str, expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "suite.toml"
    path.write_text(text)
    with pytest.raises(SystemExit) as ended:
        cli.main(["suite", str(path), "--store", str(tmp_path / "store")])
    assert ended.value.code == ExitStatus.USAGE
    line = capsys.readouterr().err
    assert expected in line
    assert line.count("\n") == 1
    assert not (tmp_path / "store").exists()
