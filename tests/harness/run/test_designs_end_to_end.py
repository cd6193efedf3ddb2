"""Real clusters of the designs on ZooKeeper: brokers, a real ensemble, real clients, and the checkers on Spark."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from harness.environments.machine.helpers.programs import module_command
from harness.environments.machine.kernel import process_identity
from harness.run.context import Plan
from harness.spec.designs import ON_ZOOKEEPER
from harness.spec.spec import CLIENTS, resolve
from harness.store.journal import is_finished, read_journal
from harness.systems.own.on_zookeeper import HarrowOnZooKeeper
from harness.terminal.exits import ExitStatus
from history.reader import read_table
from nemesis.schedule import Schedule, ScheduledFault
from nemesis.targets import FaultTarget
from tests.harness.run.real_runs import perform
from tests.support import zookeeper

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.zookeeper,
    pytest.mark.timeout(600),
    pytest.mark.parametrize("generation", ON_ZOOKEEPER),
]

SURVIVED = (
    ScheduledFault(1, 2_000, "kill", FaultTarget("leader"), 3_000, {}),
    ScheduledFault(2, 9_000, "pause", FaultTarget("leader", partition=1), 6_000, {}),
    ScheduledFault(3, 18_000, "kill", FaultTarget("active-controller"), 3_000, {}),
)
"""The second one lasts for twice a session, whose end the leader hears of when it goes on."""

ROUND_S = 25
"""Time for the first round of the schedule, and for what follows from it."""


@pytest.fixture(autouse=True)
def _an_ensemble() -> None:
    if reason := zookeeper.missing():
        pytest.skip(reason)


@pytest.mark.clients
def test_a_design_serves_all_clients_without_a_leader_and_without_a_member(generation: str, tmp_path: Path) -> None:
    settings = {"clients": CLIENTS, "duration": 25.0, "rate": 90.0, "concurrency": 6, "faults": ("kill", "pause")}
    spec = resolve({"generation": generation, **settings}, 1_900_101)
    perform(Plan(spec, Schedule(SURVIVED), tmp_path, "harrow run"), HarrowOnZooKeeper(spec))
    assert read_table(tmp_path, "troubles").to_pylist() == []
    faults = sorted(read_table(tmp_path, "faults").to_pylist(), key=lambda fault: fault["started_ns"])
    assert [(fault["kind"], fault["took_hold"], fault["healed"]) for fault in faults] == [
        ("kill", True, True),
        ("pause", True, True),
        ("kill", True, True),
    ]
    assert [target >= 100 for fault in faults for target in fault["targets"]] == [False, False, True]
    operations = read_table(tmp_path, "operations").to_pylist()
    for fault in faults:
        for client in CLIENTS:
            served = [
                one
                for one in operations
                if one["client"] == client
                and one["status"] == "ok"
                and one["kind"] == "send"
                and fault["ended_ns"] < one["invoked_ns"]
            ]
            assert served, (client, fault["kind"])
    assert {one["client"] for one in operations if one["kind"] == "poll" and one["status"] == "ok"} == set(CLIENTS)
    logs = read_table(tmp_path, "logs").to_pandas()
    assert logs.broker.nunique() == 3
    assert logs.leader_epoch.isna().all()
    assert is_finished(list(read_journal(tmp_path)))
    tokens = [entry["token"] for entry in read_journal(tmp_path) if entry["kind"] == "run"]
    assert not [pid for token in tokens for pid in process_identity.of_run(token)]


@pytest.mark.slow
@pytest.mark.spark
def test_the_checkers_find_what_a_follower_loses_that_cuts_its_log_and_is_elected(
    generation: str, tmp_path: Path
) -> None:
    shape = ("--brokers", "2", "--replication-factor", "2", "--partitions", "12", "--duration", str(ROUND_S))
    given = ("--generation", generation, "--schedule", "cut-and-elected", "--seed", "1900102", *shape)
    command = module_command("harness", "run", *given)
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=580, check=False)
    assert done.returncode == ExitStatus.ANOMALIES, done.stdout + done.stderr
    run = (tmp_path / "store" / "latest").resolve()
    lost = [
        row
        for row in read_table(run, "anomalies").to_pylist()
        if row["anomaly"] == "lost-acked-write" and not row["within_contract"]
    ]
    assert lost, done.stdout
    assert all(row["explanation"] for row in lost)
    results = json.loads((run / "results.json").read_text())
    assert results["verdict"] == "invalid"
    named = {cause["kind"] for one in results["incidents"] for cause in one["causes"]}
    assert named & {"diverged-log-kept", "wrong-cut"}, named
    assert (run / "report.html").exists()
