"""Real clusters of the designs on ZooKeeper: brokers, a real ensemble, real clients."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.environments.docker.capabilities import try_docker
from harness.environments.machine.kernel import process_identity
from harness.environments.ssh.capabilities import SshCapabilities
from harness.environments.ssh.environment import SshEnvironment
from harness.run.context import Plan
from harness.spec.designs import ON_ZOOKEEPER, WITH_EPOCHS
from harness.spec.spec import CLIENTS, Spec, resolve
from harness.store.journal import Journal, is_finished, read_journal
from harness.systems.own.on_zookeeper import HarrowOnZooKeeper
from history.reader import read_table
from nemesis.schedule import Schedule, ScheduledFault
from nemesis.targets import FaultTarget
from tests.harness.run.real_runs import perform
from tests.support import ssh_lab, zookeeper

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.zookeeper,
    pytest.mark.timeout(600),
]

SURVIVED = (
    ScheduledFault(1, 2_000, "kill", FaultTarget("leader"), 3_000, {}),
    ScheduledFault(2, 9_000, "pause", FaultTarget("leader", partition=1), 6_000, {}),
    ScheduledFault(3, 18_000, "kill", FaultTarget("active-controller"), 3_000, {}),
)
"""The second one lasts for twice a session, whose end the leader hears of when it goes on."""


@pytest.fixture(autouse=True)
def _an_ensemble() -> None:
    if reason := zookeeper.missing():
        pytest.skip(reason)


FEW = (
    ScheduledFault(1, 2_000, "kill", FaultTarget("leader"), 3_000, {}),
    ScheduledFault(2, 8_000, "restart", FaultTarget("active-controller"), 2_000, {}),
)


@pytest.mark.docker
def test_a_design_and_its_ensemble_run_in_containers(tmp_path: Path) -> None:
    if not (engine := try_docker()).available:
        pytest.skip(f"docker: {engine}")
    spec = with_few_faults(environment="docker")
    perform(Plan(spec, Schedule(FEW), tmp_path, "harrow run"), HarrowOnZooKeeper(spec))
    assert_both_were_survived(tmp_path)


@pytest.mark.ssh
@pytest.mark.root
def test_a_design_and_its_ensemble_run_on_hosts(tmp_path_factory: pytest.TempPathFactory) -> None:
    if lack := ssh_lab.lacking():
        pytest.skip(lack)
    place = tmp_path_factory.mktemp("host")  # a short name: sockets are below it
    spec, run = with_few_faults(), place / "run"
    system = HarrowOnZooKeeper(spec)
    capabilities = SshCapabilities(frozenset({"nft", "ext4"}), ours=False)

    def make(journal: Journal) -> SshEnvironment:
        fleet = ssh_lab.NamespaceFleet(place / "hosts", spec.nodes)
        return SshEnvironment(run, system, spec.brokers, spec.controllers, fleet, capabilities, journal=journal)

    perform(Plan(spec, Schedule(FEW), run, "harrow run"), system, make)
    assert_both_were_survived(run)


def with_few_faults(**settings: object) -> Spec:
    always = {"generation": "zk-v2", "duration": 16.0, "rate": 60.0, "faults": ("kill", "restart")}
    return resolve({**always, **settings}, 1_900_104)


def assert_both_were_survived(run: Path) -> None:
    assert read_table(run, "troubles").to_pylist() == []
    done = sorted(read_table(run, "faults").to_pylist(), key=lambda fault: fault["started_ns"])
    assert [(one["kind"], one["took_hold"], one["healed"]) for one in done] == [
        ("kill", True, True),
        ("restart", True, True),
    ]
    assert done[1]["targets"][0] >= 200
    operations = read_table(run, "operations").to_pylist()
    sent = [one for one in operations if one["kind"] == "send" and one["status"] == "ok"]
    assert [one for one in sent if one["invoked_ns"] > done[1]["ended_ns"]]
    assert read_table(run, "logs").to_pandas().broker.nunique() == 3


@pytest.mark.clients
@pytest.mark.slow
@pytest.mark.parametrize("generation", ON_ZOOKEEPER)
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
    assert [target >= 200 for fault in faults for target in fault["targets"]] == [False, False, True]
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
    assert logs.leader_epoch.isna().all() == (generation not in WITH_EPOCHS)
    assert is_finished(list(read_journal(tmp_path)))
    tokens = [entry["token"] for entry in read_journal(tmp_path) if entry["kind"] == "run"]
    assert not [pid for token in tokens for pid in process_identity.of_run(token)]
