"""Schedules on real clusters of the designs on ZooKeeper that show what each loses, found by the checkers on Spark."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from harness.environments.machine.helpers.programs import module_command
from harness.spec.designs import LEADER_RACES
from harness.terminal.exits import ExitStatus
from history.reader import read_table
from tests.support import zookeeper

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.zookeeper,
    pytest.mark.slow,
    pytest.mark.spark,
    pytest.mark.timeout(600),
]

ROUND_S = 25
"""Time for the first round of the schedule, and for what follows from it."""

SENDS_A_SECOND = 150
"""Enough for records in flight at every step; a cluster that does not recover is written to for a minute more."""

OF_TWO = ("--brokers", "2", "--replication-factor", "2", "--min-insync-replicas", "1", "--partitions", "12")
NEW_LEADER = ("--schedule", "cut-behind-new-leader", "--partitions", "12", "--duration", "40")
LOSSY = ("--schedule", "lossy-replica-first", *OF_TWO, "--duration", "36")
SYNCED = (*LOSSY, "--flush", "10000ms")

MINUTES = pytest.mark.skipif(
    "HARROW_LONG_TESTS" not in os.environ, reason="takes minutes; HARROW_LONG_TESTS=1 has it run"
)
LOST = {"lost-acked-write"}
DIVERGED = {"divergent-replicas", "unavailable"}
"""Of a partition the one or the other: a log that ends inside a batch of the leader's gets no further (KIP-101)."""


@pytest.fixture(autouse=True)
def _an_ensemble() -> None:
    if reason := zookeeper.missing():
        pytest.skip(reason)


def harrow_run(directory: Path, generation: str, *words: str) -> tuple[int, str, Path]:
    """The exit status of a run, what it printed, and its directory."""
    command = module_command("harness", "run", "--generation", generation, "--rate", str(SENDS_A_SECOND), *words)
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=580, check=False)
    return done.returncode, done.stdout + done.stderr, (directory / "store" / "latest").resolve()


def violations(run: Path) -> dict[str, list[dict[str, object]]]:
    """What broke the contract, by anomaly."""
    found: dict[str, list[dict[str, object]]] = {}
    for row in read_table(run, "anomalies").to_pylist():
        if not row["within_contract"]:
            found.setdefault(row["anomaly"], []).append(row)
    return found


@MINUTES
@pytest.mark.parametrize("generation", LEADER_RACES)
def test_the_checkers_find_what_a_follower_loses_that_cuts_its_log_and_is_elected(
    generation: str, tmp_path: Path
) -> None:
    """A follower whose log ends inside a batch of its leader's never gets back into the ISR (Z-04).

    So the cluster need not recover, and its replicas need not agree; what the readers passed over is lost all the same.
    """
    shape = ("--brokers", "2", "--replication-factor", "2", "--partitions", "12", "--duration", str(ROUND_S))
    status, said, run = harrow_run(tmp_path, generation, "--schedule", "cut-and-elected", "--seed", "1900102", *shape)
    assert status == ExitStatus.ANOMALIES, said
    lost = violations(run).get("lost-acked-write", [])
    assert lost, said
    assert all(row["explanation"] for row in lost)
    results = json.loads((run / "results.json").read_text())
    assert results["verdict"] == "invalid"
    named = {cause["kind"] for one in results["incidents"] for cause in one["causes"]}
    assert named & {"diverged-log-kept", "wrong-cut"}, named
    assert (run / "report.html").exists()


@pytest.mark.parametrize(
    ("generation", "schedule", "expected"),
    [
        pytest.param("C1", NEW_LEADER, LOST, id="KIP-101-scenario-1-lost-with-C1"),
        pytest.param("C2", NEW_LEADER, None, id="KIP-101-scenario-1-kept-with-C2", marks=MINUTES),
        pytest.param("C1", SYNCED, DIVERGED, id="KIP-101-scenario-2-diverged-with-C1", marks=MINUTES),
        pytest.param("C2", SYNCED, None, id="KIP-101-scenario-2-kept-with-C2", marks=MINUTES),
        pytest.param("C2", LOSSY, DIVERGED, id="KIP-279-diverged-with-C2", marks=MINUTES),
        pytest.param("C3", LOSSY, None, id="KIP-279-kept-with-C3", marks=MINUTES),
    ],
)
def test_each_step_ends_what_the_one_before_shows(
    generation: str, schedule: tuple[str, ...], expected: set[str] | None, tmp_path: Path
) -> None:
    status, said, run = harrow_run(tmp_path, generation, "--seed", "1900103", *schedule)
    found = violations(run)
    if expected is None:
        assert status == ExitStatus.VALID, said
        assert found == {}
    else:
        assert status == ExitStatus.ANOMALIES, said
        assert expected & found.keys(), said
