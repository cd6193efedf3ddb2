"""A node that does not come back is a finding, and one that is late is none: runs of real processes of any user."""

from __future__ import annotations

import io
import json
import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from rich.console import Console

from harness.environments import factory
from harness.environments.machine.feature_probes import try_fuse
from harness.run import runner
from harness.run.context import Plan
from harness.run.judging import judge
from harness.run.stopping import Stop
from harness.terminal.console import RunProgress
from history.reader import read_table
from nemesis.schedule import Schedule, ScheduledFault
from nemesis.targets import FaultTarget
from reports import render
from reports.text.terminal import summary_lines
from tests.support.foreign_systems import OWN_AS_FOREIGN, made

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

SECOND_START = "[ {{ node.id }} = 2 ] && [ -e {{ directory }}/started ]"
ENDS = "echo java.io.IOException: checkpoint has 0 bytes >&2; echo '    at a.B.c(B.java:1)' >&2; exit 3"
UNSYNCED = "test -s {{ data }}/checkpoint"
FIRST = ScheduledFault(1, 2_000, "kill", FaultTarget("broker", pick=1), 500, {})  # of node 2
LATER = ScheduledFault(2, 9_000, "kill", FaultTarget("broker"), 500, {})  # of node 1


def definition(before_each_start: str, start_within: int = 30, more: str = "") -> str:
    """Harrow's own broker, and what its program does before it becomes a node."""
    became = "exec {{ python }} -m broker.shell {{ directory }}/node.properties"
    script = f"{before_each_start}; touch {{{{ directory }}}}/started; echo whole > {{{{ data }}}}/checkpoint; {became}"
    start = 'start = ["{{ python }}", "-m", "broker.shell", "{{ directory }}/node.properties"]'
    text = OWN_AS_FOREIGN.replace(start, f"start = ['sh', '-c', '''{script}''']", 1)
    return f"start-within = {start_within}\n{more}\n{text}"


@dataclass(frozen=True)
class Judged:
    run: Path
    verdict: str

    def table(self, name: str) -> list[dict[str, object]]:
        return read_table(self.run, name).to_pylist()

    def anomalies(self) -> dict[str, tuple[int, int]]:
        counts = json.loads((self.run / "results.json").read_text())["anomalies"]
        return {name: (each["violations"], each["within_contract"]) for name, each in counts.items()}


SYSTEMS = {
    "lost": definition(f"if {SECOND_START}; then {ENDS}; fi"),
    "excepted": definition(f"if {SECOND_START}; then {ENDS}; fi", more="not-back-after = ['kill']"),
    "late": definition(f"if {SECOND_START}; then sleep 5; fi", start_within=2),
}


def perform(directory: Path, text: str, *faults: ScheduledFault, page_cache: str = "page-cache") -> Path:
    path = directory / "own.toml"
    path.write_text(text)
    system = made(path, network="proxies", page_cache=page_cache, duration=14.0, rate=200.0)
    run = directory / "run"
    run.mkdir()
    needs = frozenset({"process"} | {"page-cache-loss" for fault in faults if fault.kind == "page-cache-loss"})
    make = partial(factory.make, system.spec, needs, run, system)
    with RunProgress(Console(file=io.StringIO())) as progress:
        runner.run(Plan(system.spec, Schedule(faults), run, "harrow run"), system, make, progress, Stop())
    return run


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Judged]:
    done = {name: perform(tmp_path_factory.mktemp(name), text, FIRST, LATER) for name, text in SYSTEMS.items()}
    return {name: Judged(done[name], verdict) for name, verdict in zip(done, judge(list(done.values())), strict=True)}


def test_a_node_that_does_not_come_back_is_a_violation_with_its_last_words(runs: dict[str, Judged]) -> None:
    lost = runs["lost"]
    assert (lost.verdict, lost.anomalies()["node-lost"]) == ("invalid", (1, 0))
    (found,) = (row for row in lost.table("anomalies") if row["anomaly"] == "node-lost")
    assert found["broker"] == 2
    for part in (
        "status 3",
        "after fault #1 kill",
        "last words: java.io.IOException: checkpoint has 0 bytes.",
        "#1 kill",
    ):
        assert part in str(found["explanation"])
    assert "B.java" not in str(found["explanation"])
    out = io.StringIO()
    Console(file=out, width=400).print(summary_lines(lost.run))
    assert re.search(
        r"INVALID  Broker 2 ended by itself at \S+ s after fault #1 and did not come back\.", out.getvalue()
    )
    assert "java.io.IOException: checkpoint has 0 bytes" in render(lost.run).read_text()


def test_the_run_goes_on_with_the_other_nodes(runs: dict[str, Judged]) -> None:
    lost = runs["lost"]
    first, later = sorted(lost.table("faults"), key=lambda row: int(str(row["fault"])))
    assert (first["targets"], first["healed"]) == ([2], False)
    assert (later["targets"], later["took_hold"], later["healed"]) == ([1], True, True)
    assert lost.table("troubles") == []
    assert {row["phase"] for row in lost.table("phases")} >= {"main", "recovery", "final"}
    assert all(row["agreed"] for row in lost.table("ends")), "everything was read to its end"
    assert [name for name, (broken, _) in lost.anomalies().items() if broken] == ["node-lost"]


def test_a_loss_that_the_definition_excepts_is_within_the_contract(runs: dict[str, Judged]) -> None:
    assert (runs["excepted"].verdict, runs["excepted"].anomalies()["node-lost"]) == ("valid", (0, 1))


def test_a_node_that_comes_back_late_is_no_finding(runs: dict[str, Judged]) -> None:
    late = runs["late"]
    assert late.table("losses") == []
    assert "node-lost" not in late.anomalies()
    assert late.verdict == "unknown", "it was not seen to heal in time"
    assert "node 2 did not serve again" in str(late.table("faults")[0]["evidence"])


@pytest.mark.fuse
def test_a_start_that_fails_after_a_page_cache_loss_is_found_and_none_after_a_kill(tmp_path: Path) -> None:
    if not (fuse := try_fuse()).available:
        pytest.skip(fuse.found)
    text = definition(f"if {SECOND_START} && ! {UNSYNCED}; then {ENDS}; fi")
    loss = ScheduledFault(2, 8_000, "page-cache-loss", FaultTarget("broker", pick=1), 500, {})
    run = perform(tmp_path, text, FIRST, loss, page_cache="fuse")
    judged = Judged(run, judge([run])[0])
    after_kill, after_loss = judged.table("faults")
    assert (after_kill["targets"], after_kill["healed"]) == ([2], True)
    assert (after_loss["targets"], after_loss["healed"]) == ([2], False)
    assert (judged.verdict, judged.anomalies()["node-lost"]) == ("invalid", (1, 0))
    (row,) = judged.table("losses")
    assert (row["node"], row["last_words"]) == (2, "java.io.IOException: checkpoint has 0 bytes")
