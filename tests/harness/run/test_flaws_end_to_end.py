"""Real clusters of brokers that break a rule, from the fault that shows it to the verdict and to the simulator."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from harness.run.context import Plan
from harness.run.judging import judge
from harness.spec.spec import Spec
from harness.store.run_directories import make_run_directory
from harness.systems.own.harrow_broker import HarrowBroker
from history.reader import read_table
from nemesis.schedule import Schedule, ScheduledFault
from nemesis.targets import FaultTarget
from simulation.lifting import real_run
from simulation.lifting.hunt import attempt
from tests.harness.run.real_runs import perform

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.default_job, pytest.mark.timeout(600)]

DEPOSE = (ScheduledFault(1, 2_000, "isolate", FaultTarget("leader"), 5_000, {"from": "nodes"}),)
"""A leader loses touch with the cluster, but not with its clients."""

LAG = (
    ScheduledFault(1, 2_000, "pause", FaultTarget("in-sync-follower"), 5_500, {}),
    ScheduledFault(2, 7_000, "kill", FaultTarget("in-sync-replicas"), 6_000, {}, beside=True),
)
"""A follower leaves the ISR; as it comes back, all replicas that have all records are taken away."""


def test_brokers_that_break_a_rule_are_found_out(tmp_path: Path, spark: SparkSession) -> None:
    broken = {"ack-before-replication": DEPOSE, "unclean-election": LAG}
    directories = []
    for flaw, entries in broken.items():
        duration_s = (entries[-1].at_ms + entries[-1].duration_ms) / 1000 + 1
        spec = Spec(seed=1, name=flaw, duration=duration_s, rate=150.0, flaws=(flaw,))
        directories.append(make_run_directory(tmp_path, flaw, 1))
        perform(Plan(spec, Schedule(entries), directories[-1], "harrow run"), HarrowBroker(spec))
    assert judge(directories, spark) == ["invalid", "invalid"]
    for directory in directories:
        found = read_table(directory, "anomalies").to_pylist()
        lost = [row for row in found if row["anomaly"] == "lost-acked-write" and not row["within_contract"]]
        assert lost, directory.parent.name
        assert all(row["explanation"] for row in lost)
    early = real_run.read(directories[0])
    assert any(attempt(seed, early).shown_by for seed in range(1, 20)), early.incident.headline
