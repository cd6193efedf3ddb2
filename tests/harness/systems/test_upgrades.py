"""Upgrades of clusters that run: real processes of any user, of two versions of one system."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from rich.console import Console

from harness.environments import factory
from harness.environments.base import System
from harness.run import runner
from harness.run.context import Plan
from harness.run.judging import judge
from harness.run.stopping import Stop
from harness.spec.spec import SpecError, from_file, resolve
from harness.systems.factory import make_system, with_defaults
from harness.systems.upgrade import UpgradableSystem
from harness.terminal.console import RunProgress
from harness.terminal.exits import ExitStatus
from history.reader import read_table
from nemesis.schedule import Schedule, with_upgrade
from reports import render
from tests.support.foreign_systems import MINIMAL, OWN_AS_FOREIGN

START = 'start = ["{{ python }}", "-m", "broker.shell", "{{ directory }}/node.properties"]'


def definition(name: str, before_start: str = ":") -> str:
    """Harrow's own broker under another name, and what its program does before it becomes a node."""
    script = f"{before_start}; exec {{{{ python }}}} -m broker.shell {{{{ directory }}}}/node.properties"
    text = OWN_AS_FOREIGN.replace('name = "own"', f'name = "{name}"').replace("broker 9", name.removeprefix("own-"))
    return text.replace(START, f"start = ['sh', '-c', '''{script}''']", 1)


def spec_of(first: Path, second: Path, **given: object) -> object:
    return resolve(with_defaults({"system": str(first), "upgrade_to": str(second), **given}), 1)


# --- requests --------------------------------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path: Path) -> Callable[..., list[Path]]:
    def write(*texts: str) -> list[Path]:
        paths = [tmp_path / f"{number}.toml" for number in range(len(texts))]
        for path, text in zip(paths, texts, strict=True):
            path.write_text(text)
        return paths

    return write


def harrow(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "harness", *words], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--upgrade-to", "K9"], "upgrade-to: expected a protocol version, one of K1, K2, K3, K4, K5, found 'K9'"),
        (
            ["--generation", "K4", "--upgrade-to", "K3"],
            "upgrade-to: expected a later protocol version than K4, found K3",
        ),
        (["--upgrade-to", "K5"], "upgrade-to: expected a later protocol version than K5, found K5"),
        (["--generation", "zk-v2", "--upgrade-to", "K5"], "upgrade-to: expected none from zk-v2"),
        (
            ["--generation", "K4", "--upgrade-to", "K5", "--environment", "ssh", "--vms", "3"],
            "upgrade-to: expected the environment local or docker, where nodes can be started with another version, ",
        ),
        (
            ["--faults", "upgrade"],
            "faults: upgrade needs a version to upgrade to, found none; add --upgrade-to",
        ),
        (["--system", "noida-db", "--upgrade-to", "absent.toml"], "upgrade-to: expected"),
    ],
)
def test_a_wrong_request_is_one_line(words: list[str], line: str, tmp_path: Path) -> None:
    done = harrow("run", *words, "--store", str(tmp_path / "store"))
    assert done.returncode == ExitStatus.USAGE
    assert done.stderr.strip().splitlines()[-1].startswith(f"harrow: {line}")
    assert not (tmp_path / "store").exists()


def test_a_schedule_with_an_upgrade_needs_a_version_too(tmp_path: Path) -> None:
    script = tmp_path / "upgrade.toml"
    script.write_text("[[fault]]\nat = 1\nkind = 'upgrade'\ntarget = 'brokers'\n")
    done = harrow("run", "--schedule", str(script), "--store", str(tmp_path / "store"))
    assert done.returncode == ExitStatus.USAGE
    assert "faults: upgrade needs a version to upgrade to, found none; add --upgrade-to" in done.stderr


def test_an_installation_that_is_missing_is_one_line_before_anything_starts(tmp_path: Path) -> None:
    first, second = tmp_path / "first.toml", tmp_path / "second.toml"
    first.write_text(MINIMAL)
    second.write_text('install = "unpack it"\n' + MINIMAL.replace('["sleep"', '["harrow-9-of-which-there-is-none"'))
    words = ("run", "--system", str(first), "--upgrade-to", str(second), "--store", str(tmp_path / "store"))
    done = harrow(*words)
    assert done.returncode == ExitStatus.USAGE
    assert done.stderr.strip().splitlines()[-1] == (
        f"harrow: upgrade-to: {second}: expected the program 'harrow-9-of-which-there-is-none', found: none of that "
        "name; unpack it"
    )


def test_both_versions_have_the_same_listeners(files: Callable[..., list[Path]]) -> None:
    first, second = files(definition("own-1"), definition("own-2").replace('["CLIENT", "BROKER"]', '["CLIENT"]', 1))
    with pytest.raises(SpecError, match=r"to have the listeners of .*, CLIENT, BROKER, found CLIENT$"):
        make_system(spec_of(first, second))


def test_versions_must_differ(files: Callable[..., list[Path]]) -> None:
    first, second = files(definition("own-1"), definition("own-1"))
    with pytest.raises(SpecError, match=r"upgrade-to: expected another version than own-1 \(1\), found the same"):
        make_system(spec_of(first, second))


def test_a_family_of_faults_brings_no_upgrade_of_its_own(files: Callable[..., list[Path]]) -> None:
    from harness.environments.possible_faults import expand_families

    first, second = files(definition("own-1"), definition("own-2"))
    spec = spec_of(first, second, faults=("process",))
    expanded = expand_families(spec, make_system(spec)).faults
    assert "kill" in expanded
    assert "upgrade" not in expanded, "the run has one, at a time that suits it"


def test_a_node_uses_one_version_s_files_and_programs_and_then_the_other_s(
    tmp_path: Path, files: Callable[..., list[Path]]
) -> None:
    from tests.support.foreign_systems import Links, plans_of

    first, second = files(definition("own-1"), definition("own-2", "true").replace("kill -TERM", "kill -INT"))
    spec = spec_of(first, second)
    system = make_system(spec)
    assert isinstance(system, UpgradableSystem)
    plans = plans_of(spec, tmp_path)
    for plan in plans:
        system.configure(plan, plans, Links())
    config = plans[0].directory / "attendant.json"
    before = json.loads(config.read_text())
    assert (before["version"], before["command"][-1][:2]) == ("own-1 (1)", ":;")
    system.upgrade(plans[0])
    after = json.loads(config.read_text())
    assert (after["version"], after["command"][-1][:5]) == ("own-2 (2)", "true;")
    assert "kill -INT" in system.stop_command(plans[0], 7)[-1]
    assert "kill -TERM" in system.stop_command(plans[1], 7)[-1], "another node still runs the first"
    assert json.loads((plans[1].directory / "attendant.json").read_text())["version"] == "own-1 (1)"


# --- runs ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Judged:
    run: Path
    verdict: str

    def table(self, name: str) -> list[dict]:
        return read_table(self.run, name).to_pylist()

    @property
    def results(self) -> dict:
        return json.loads((self.run / "results.json").read_text())


def perform(directory: Path, spec: object, duration_s: float) -> Path:
    system: System = make_system(spec)
    run = directory / "run"
    run.mkdir()
    make = partial(factory.make, spec, frozenset({"process", "upgrade"}), run, system)
    schedule = with_upgrade(Schedule(()), int(duration_s * 1000), system.traits.upgrades_first)
    with RunProgress(Console(file=io.StringIO())) as progress:
        runner.run(Plan(spec, schedule, run, "harrow run"), system, make, progress, Stop())
    return run


FAILS = "if [ {{ node.id }} = 2 ]; then echo java.lang.IllegalStateException: newer data >&2; exit 3; fi"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Judged]:
    done = {}
    for name, before_start in (("whole", ":"), ("half", FAILS)):
        directory = tmp_path_factory.mktemp(name)
        paths = [directory / "1.toml", directory / "2.toml"]
        for path, text in zip(paths, (definition("own-1"), definition("own-2", before_start)), strict=True):
            path.write_text(text)
        spec = spec_of(*paths, network="proxies", page_cache="page-cache", duration=12.0, rate=200.0)
        done[name] = perform(directory, spec, 12.0)
    own = tmp_path_factory.mktemp("own")
    spec = resolve({"generation": "K4", "upgrade_to": "K5", "network": "proxies", "duration": 12.0, "rate": 200.0}, 1)
    done["own"] = perform(own, spec, 12.0)
    return {name: Judged(done[name], verdict) for name, verdict in zip(done, judge(list(done.values())), strict=True)}


real = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]


def with_marks(test: Callable[..., None]) -> Callable[..., None]:
    for mark in real:
        test = mark(test)
    return test


@with_marks
@pytest.mark.parametrize(
    ("name", "old", "new"), [("whole", "own-1 (1)", "own-2 (2)"), ("own", "K4", "K5")], ids=["foreign", "own"]
)
def test_every_node_is_seen_to_run_the_old_version_and_then_the_new(
    runs: dict[str, Judged], name: str, old: str, new: str
) -> None:
    run = runs[name]
    assert run.verdict == "valid"
    (fault,) = run.table("faults")
    assert (fault["kind"], fault["took_hold"], fault["healed"]) == ("upgrade", True, True)
    seen: dict[int, list[str]] = {}
    for row in sorted(run.table("versions"), key=lambda row: row["at_ns"]):
        seen.setdefault(row["node"], []).append(row["version"])
    assert seen == {node: [old, new] for node in (1, 2, 3, 100)}
    news = sorted((row["at_ns"], row["node"]) for row in run.table("versions") if row["version"] == new)
    assert [node for _, node in news] == [1, 2, 3, 100], "brokers first"
    assert fault["started_ns"] < news[0][0] < news[-1][0]
    assert [(each["node"], each["version"]) for each in run.results["versions"][-4:]] == [
        (n, new) for n in (1, 2, 3, 100)
    ]
    page = render(run.run).read_text()
    assert f"first seen to run {new}; before, it ran {old}." in page
    assert "version of controller 100" in page


@with_marks
def test_a_node_that_does_not_come_back_is_a_finding_and_the_rest_is_judged(runs: dict[str, Judged]) -> None:
    half = runs["half"]
    assert half.verdict == "invalid"
    assert half.results["anomalies"]["node-lost"] == {"violations": 1, "within_contract": 0}
    assert [name for name, each in half.results["anomalies"].items() if each["violations"]] == ["node-lost"]
    (found,) = (row for row in half.table("anomalies") if row["anomaly"] == "node-lost")
    assert found["broker"] == 2
    assert "after fault #1 upgrade" in found["explanation"]
    assert "java.lang.IllegalStateException: newer data" in found["explanation"]
    (fault,) = half.table("faults")
    assert (fault["took_hold"], fault["healed"]) == (True, False)
    assert "upgraded node 1 to own-2 (2), but not nodes 2, 3 and 100; node 2 died again" in fault["evidence"]
    news = [row["node"] for row in half.table("versions") if row["version"] == "own-2 (2)"]
    assert news == [1], "the others keep the version that they had"
    assert half.table("troubles") == []
    assert all(row["agreed"] for row in half.table("ends")), "everything was read to its end"


@with_marks
def test_a_stored_run_has_both_definitions(runs: dict[str, Judged]) -> None:
    again = resolve(from_file(runs["whole"].run / "spec.json"), 0)
    assert (Path(again.system).name, Path(again.upgrade_to).name) == ("system.toml", "upgraded-system.toml")
    system = make_system(again)
    assert isinstance(system, UpgradableSystem)
    assert (system.version_name, system.next_version) == ("own-1 (1)", "own-2 (2)")


@with_marks
@pytest.mark.third_party
def test_apache_kafka_is_upgraded_under_load(tmp_path: Path) -> None:
    homes = [os.environ.get(name) for name in ("KAFKA_HOME", "KAFKA_NEXT_HOME")]
    if None in homes:
        pytest.skip("KAFKA_HOME and KAFKA_NEXT_HOME name no two installations of Apache Kafka")
    paths = [tmp_path / "before.toml", tmp_path / "after.toml"]
    for path, home in zip(paths, homes, strict=True):
        path.write_text(f"name = '{path.stem}'\nextends = 'apache-kafka'\n[parameters]\nhome = '{home}'\n")
    run = perform(tmp_path, spec_of(*paths, network="proxies", duration=30.0, rate=200.0, controllers=1), 30.0)
    judged = Judged(run, judge([run])[0])
    (fault,) = judged.table("faults")
    assert (judged.verdict, fault["healed"]) == ("valid", True), fault["evidence"]
    last = {row["node"]: row["version"] for row in sorted(judged.table("versions"), key=lambda row: row["at_ns"])}
    assert set(last) == {1, 2, 3, 100}
    assert all(version.startswith("after") for version in last.values())
