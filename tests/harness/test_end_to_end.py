"""Real clusters, from the command line to the verdict."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest
from rich.console import Console

import harness
from harness import runner
from harness.environments import registry
from harness.environments.base import Addresses, NodePlan
from harness.environments.machine import processes
from harness.exits import Exit
from harness.heal import heal
from harness.journal import is_finished, read_journal
from harness.judging import judge
from harness.phases.stage import Plan
from harness.progress import Progress
from harness.spec import Spec
from harness.stopping import Failed, Stop
from harness.store import make_run_directory
from harness.systems.harrow_broker import SETTINGS_NAME, HarrowBroker
from history.reader import read_table
from nemesis.schedule import Entry, Schedule
from nemesis.targets import Target

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

ROOT = Path(harness.__file__).parents[1]
PATIENCE_S = 120.0


def command(store: Path, *arguments: str) -> list[str]:
    run = "import sys; from harness.cli import main; main(sys.argv[1:])"
    return [sys.executable, "-c", run, "run", "--store", str(store), *arguments]


def environment() -> dict[str, str]:
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def harrow(store: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(store, *arguments), env=environment(), capture_output=True, text=True, timeout=500, check=False
    )


def left_over(run: Path) -> list[int]:
    tokens = [entry["token"] for entry in read_journal(run) if entry["kind"] == "run"]
    return [pid for token in tokens for pid in processes.of_run(token)]


def the_run(store: Path) -> Path:
    return (store / "latest").resolve()


def wait_for(condition: Callable[[], bool], what: str) -> None:
    assert processes.wait_until(condition, PATIENCE_S, 0.1), f"{what} within {PATIENCE_S:g} s"


@pytest.fixture
def begun(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A run in the middle of a partition."""
    arguments = ("--duration", "120", "--faults", "isolate", "--interval", "3", "--seed", "5")
    process = subprocess.Popen(
        command(tmp_path, *arguments), env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        wait_for(lambda: partitioned(tmp_path) or process.poll() is not None, "no partition was injected")
        assert process.poll() is None, process.communicate()
        yield process
    finally:
        process.kill()
        process.communicate()
        heal(tmp_path)


def partitioned(store: Path) -> bool:
    if not (store / "latest").exists():
        return False
    cuts = [entry["blocked"] for entry in read_journal(the_run(store)) if entry["kind"] == "links"]
    return bool(cuts) and bool(cuts[-1])


@pytest.mark.spark
def test_a_correct_broker_keeps_its_promises_under_faults(tmp_path: Path) -> None:
    done = harrow(tmp_path, "--duration", "20", "--interval", "3", "--seed", "1", "--faults", "kill,pause,isolate")
    assert done.returncode == Exit.VALID, done.stdout + done.stderr
    run = the_run(tmp_path)
    assert "VALID" in done.stdout
    assert str(run / "report.html") in str((tmp_path / "latest" / "report.html").resolve())
    assert json.loads((run / "results.json").read_text())["verdict"] == "valid"
    faults = read_table(run, "faults").to_pylist()
    assert sum(fault["took_hold"] for fault in faults) >= 2
    assert all(fault["healed"] for fault in faults)
    assert read_table(run, "logs").num_rows > 1000
    assert is_finished(list(read_journal(run)))
    assert not left_over(run)


DEPOSE = (Entry(1, 2_000, "isolate", Target("leader"), 5_000, {"from": "nodes"}),)
"""A leader loses touch with the cluster, but not with its clients."""

LAG = (
    Entry(1, 2_000, "pause", Target("in-sync-follower"), 5_500, {}),
    Entry(2, 7_000, "kill", Target("in-sync-replicas"), 6_000, {}, beside=True),
)
"""A follower leaves the ISR; as it comes back, everybody who has everything goes."""


@pytest.mark.spark
def test_brokers_that_break_a_rule_are_found_out(tmp_path: Path) -> None:
    broken = {"ack-before-replication": DEPOSE, "unclean-election": LAG}
    directories = []
    for flaw, entries in broken.items():
        duration_s = (entries[-1].at_ms + entries[-1].duration_ms) / 1000 + 1
        spec = Spec(seed=1, name=flaw, duration=duration_s, flaws=(flaw,))
        directories.append(make_run_directory(tmp_path, flaw, 1))
        perform(Plan(spec, Schedule(entries), directories[-1], "harrow run"), HarrowBroker(spec))
    assert judge(directories) == ["invalid", "invalid"]
    for directory in directories:
        found = read_table(directory, "anomalies").to_pylist()
        lost = [row for row in found if row["anomaly"] == "lost-acked-write" and not row["within_contract"]]
        assert lost, directory.parent.name
        assert all(row["explanation"] for row in lost)


def perform(plan: Plan, system: HarrowBroker) -> None:
    with Progress(Console(file=io.StringIO())) as progress:
        runner.run(
            plan, system, partial(registry.make, plan.spec, frozenset(), plan.directory, system), progress, Stop()
        )


def test_ctrl_c_heals_stops_the_nodes_and_keeps_the_history(begun: subprocess.Popen[str], tmp_path: Path) -> None:
    begun.send_signal(signal.SIGINT)
    _, errors = begun.communicate(timeout=PATIENCE_S)
    run = the_run(tmp_path)
    assert begun.returncode == Exit.UNKNOWN, errors
    assert f"the history is in {tmp_path}" in errors
    assert is_finished(list(read_journal(run)))
    assert not left_over(run)
    assert read_table(run, "operations").num_rows
    assert read_table(run, "workers").num_rows == 2
    assert all(fault["healed"] for fault in read_table(run, "faults").to_pylist())


def test_heal_removes_what_a_killed_harness_left(begun: subprocess.Popen[str], tmp_path: Path) -> None:
    begun.send_signal(signal.SIGKILL)
    begun.wait()
    run = the_run(tmp_path)
    heal(tmp_path)
    assert not left_over(run)
    assert not list(run.glob("nodes/*/disk.img"))
    assert is_finished(list(read_journal(run)))
    assert read_table(run, "operations").num_rows, "the history is left readable"


class Doomed(HarrowBroker):
    """A broker whose disk is no disk."""

    def configure(self, plan: NodePlan, plans: Sequence[NodePlan], addresses: Addresses) -> None:
        super().configure(plan, plans, addresses)
        if plan.node_id == 2:
            settings = plan.directory / SETTINGS_NAME
            settings.write_text(settings.read_text().replace(str(plan.data), str(settings)))


def test_a_node_that_will_not_start_is_told_with_its_last_words(tmp_path: Path) -> None:
    spec = Spec(seed=1, page_cache="page-cache")
    plan = Plan(spec, Schedule(()), tmp_path, "harrow run")
    system = Doomed(spec)
    with pytest.raises(Failed) as caught:
        perform(plan, system)
    first, *log = str(caught.value).splitlines()
    assert first == "expected node 2 to go on, found that it died of itself; its last log lines:"
    assert any("log.dirs: expected a directory" in line for line in log)
    assert is_finished(list(read_journal(tmp_path)))
    assert not left_over(tmp_path)
