"""Real clusters, from the command line to the verdict."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

import harness
from harness.environments.base import Addresses, NodePlan
from harness.environments.machine.helpers.programs import module_command
from harness.environments.machine.kernel import process_identity
from harness.run.context import Plan
from harness.run.stopping import RunFailed
from harness.spec.spec import Spec
from harness.store.heal import heal
from harness.store.journal import is_finished, read_journal
from harness.systems.own.harrow_broker import SETTINGS_NAME, HarrowBroker
from harness.terminal.exits import ExitStatus
from history.reader import read_table
from nemesis.schedule import Schedule
from tests.harness.run.real_runs import perform

pytestmark = [pytest.mark.cluster, pytest.mark.default_job, pytest.mark.timeout(600)]

ROOT = Path(harness.__file__).parents[1]
PATIENCE_S = 120.0


def left_over(run: Path) -> list[int]:
    tokens = [entry["token"] for entry in read_journal(run) if entry["kind"] == "run"]
    return [pid for token in tokens for pid in process_identity.of_run(token)]


def the_run(store: Path) -> Path:
    return (store / "latest").resolve()


def wait_for(condition: Callable[[], bool], what: str) -> None:
    assert process_identity.wait_until(condition, PATIENCE_S, 0.1), f"{what} within {PATIENCE_S:g} s"


@pytest.fixture
def begun(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A run in the middle of a partition."""
    arguments = ("--duration", "120", "--faults", "isolate", "--interval", "3", "--seed", "5")
    process = subprocess.Popen(
        module_command("harness", "run", "--store", str(tmp_path), *arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
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


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A user's folder with packages of the names of ours, which must not be imported."""
    ours = sorted(path.parent.name for path in ROOT.glob("*/py.typed"))
    assert "harness" in ours
    for name in ours:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"raise ImportError('the user's {name} was imported')\n")
    return tmp_path


@pytest.mark.spark
def test_a_correct_broker_keeps_its_promises_under_the_usual_faults(folder: Path) -> None:
    command = module_command("harness", "run", "--duration", "15", "--interval", "3", "--seed", "1")
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == ExitStatus.VALID, done.stdout + done.stderr
    assert "the user" not in done.stderr
    run = the_run(folder / "store")
    assert "VALID" in done.stdout
    assert str(run / "report.html") in str((folder / "store" / "latest" / "report.html").resolve())
    assert json.loads((run / "results.json").read_text())["verdict"] == "valid"
    faults = read_table(run, "faults").to_pylist()
    assert sum(fault["took_hold"] for fault in faults) >= 2
    assert all(fault["healed"] for fault in faults)
    assert read_table(run, "logs").num_rows > 1000
    assert is_finished(list(read_journal(run)))
    assert not left_over(run)


def test_ctrl_c_heals_stops_the_nodes_and_keeps_the_history(begun: subprocess.Popen[str], tmp_path: Path) -> None:
    begun.send_signal(signal.SIGINT)
    _, errors = begun.communicate(timeout=PATIENCE_S)
    run = the_run(tmp_path)
    assert begun.returncode == ExitStatus.UNKNOWN, errors
    assert f"the history is in {tmp_path}" in errors
    assert is_finished(list(read_journal(run)))
    assert not left_over(run)
    assert read_table(run, "operations").num_rows
    assert read_table(run, "workers").num_rows == 2
    assert all(fault["healed"] for fault in read_table(run, "faults").to_pylist())


def test_heal_removes_what_a_killed_harness_left(begun: subprocess.Popen[str], tmp_path: Path) -> None:
    run = the_run(tmp_path)
    wait_for(lambda: any(run.glob("history/operations/part-*")), "nothing of the history was written")
    begun.send_signal(signal.SIGKILL)
    begun.wait()
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


def test_a_node_that_does_not_start_is_reported_with_its_last_log_lines(tmp_path: Path) -> None:
    spec = Spec(seed=1, page_cache="page-cache")
    plan = Plan(spec, Schedule(()), tmp_path, "harrow run")
    system = Doomed(spec)
    with pytest.raises(RunFailed) as caught:
        perform(plan, system)
    first, *log = str(caught.value).splitlines()
    assert first == "expected node 2 to go on, found that it died of itself; its last log lines:"
    assert any("log.dirs: expected a directory" in line for line in log)
    assert is_finished(list(read_journal(tmp_path)))
    assert not left_over(tmp_path)
