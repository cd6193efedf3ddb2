"""What a search in the simulator starts from: the incident, the configuration and the faults of a stored run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nemesis.targets import FaultTarget
from simulation.lifting.real_run import AFTER_NS, BEFORE_NS, CannotLift, read
from simulation.runs import stored
from simulation.scenario.overrides import check_overrides
from tests.incidents.stored import S, fault, leads, lost, run_in, settings
from tests.simulation.lifting.planted import FLAW, SPEC, isolated, lossy_run
from tests.simulation.small import LIES, quick


def test_the_configuration_is_that_of_the_run(tmp_path: Path) -> None:
    changed = {"brokers": 5, "controllers": 3, "min_insync_replicas": 1, "generation": "K3"}
    spec = json.dumps({**SPEC, "partitions": 9, "flush": "50ms", "combined": True, "workload": "groups"})
    run = read(lossy_run(tmp_path, FLAW, **changed, spec=spec))
    expected = {
        **changed,
        "acks": -1,
        "flaws": (FLAW,),
        "combined": True,
        "flush_ms": 50,
        "flush_messages": 0,
        "group_members": 2,
    }
    assert run.overrides.items() >= expected.items()
    assert run.overrides["partitions"] == 4
    check_overrides(run.overrides)
    assert run.incident.cause is not None
    assert run.incident.cause.kind == "acknowledged-early"


def test_flaws_and_protocol_version_may_be_given(tmp_path: Path) -> None:
    run = read(lossy_run(tmp_path, FLAW), flaws=("unclean-election",), generation="K4")
    assert run.overrides["flaws"] == ("unclean-election",)
    assert run.overrides["generation"] == "K4"


@pytest.mark.parametrize(("elr", "generation"), [((), "K3"), ((3,), "K5")])
def test_another_brokers_protocol_version_is_that_with_or_without_eligible_leader_replicas(
    tmp_path: Path, elr: tuple[int, ...], generation: str
) -> None:
    cluster = [leads(9, 1, 0, 20, (1,), elr=elr), leads(15, 3, 1, 10, (3,))]
    runs = [settings(system="apache-kafka", generation="K5", flaws=[])]
    run_in(tmp_path, runs=runs, cluster=cluster, anomalies=[lost(15, 10)])
    assert read(tmp_path).overrides["generation"] == generation


def test_a_fault_has_its_real_time_its_node_and_the_role_for_which_it_was_hit(tmp_path: Path) -> None:
    faults = [isolated(4, 2, 11, 17.25), fault(5, "kill", [100], 12, 14), fault(6, "pause", [3], 1, 2, took_hold=False)]
    leader, controller = read(lossy_run(tmp_path, faults=faults)).struck
    assert (leader.entry.at_ms, leader.entry.duration_ms, leader.entry.kind) == (0, 6_250, "isolate")
    assert leader.entry.target == FaultTarget("broker", pick=1)
    assert leader.role == FaultTarget("leader", 0)
    assert leader.entry.parameters["from"] == "nodes"
    assert (controller.entry.at_ms, controller.role) == (1_000, FaultTarget("controller", pick=0))


def test_a_fault_on_several_nodes_strikes_each_and_one_that_is_unknown_is_left_out(tmp_path: Path) -> None:
    faults = [fault(1, "power-cut", [1, 3], 11, 13), fault(2, "topic-churn", [], 12, 13)]
    run = read(lossy_run(tmp_path, faults=faults))
    assert [(one.entry.kind, one.entry.target.pick) for one in run.struck] == [("kill", 0), ("kill", 2)]
    assert run.left_out == ("topic-churn",)


def test_faults_long_before_and_after_the_incident_are_left_out_unless_the_cause_names_them(tmp_path: Path) -> None:
    (near,) = read(lossy_run(tmp_path / "near")).struck
    incident_s = (read(lossy_run(tmp_path / "at")).incident.at_ns or 0) / S
    late_s = incident_s + AFTER_NS / S + 1
    faults = [isolated(1, 1, 10.5, 17), fault(2, "kill", [2], late_s, late_s + 1)]
    assert [one.entry for one in read(lossy_run(tmp_path / "late", faults=faults)).struck] == [near.entry]
    early = [fault(1, "kill", [2], -BEFORE_NS / S - 90, -BEFORE_NS / S - 80), isolated(2, 1, 10.5, 17)]
    (only,) = read(lossy_run(tmp_path / "early", faults=early)).struck
    assert only.entry.kind == "isolate"


def test_the_faults_of_the_cause_are_marked(tmp_path: Path) -> None:
    cluster = [leads(9, 3, 0, 10, (3,)), leads(11, 3, 0, 20, (3,)), leads(15, 3, 1, 10, (3,))]
    faults = [fault(1, "pause", [2], 5, 8), fault(6, "page-cache-loss", [3], 12.8, 14)]
    run_in(tmp_path, cluster=cluster, faults=faults, anomalies=[lost(n, 10) for n in range(10, 20)])
    assert [one.guilty for one in read(tmp_path).struck] == [False, True]


def test_a_run_without_a_violation_or_of_the_simulator_cannot_be_lifted(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(CannotLift, match="expected a run with an incident that violates the contract, found none"):
        read(tmp_path / "empty")
    (tmp_path / "allowed").mkdir()
    cluster = [leads(9, 1, 0, 20, (1,)), leads(15, 3, 1, 10, (3,))]
    run_in(tmp_path / "allowed", cluster=cluster, anomalies=[lost(15, 10, within_contract=True)])
    with pytest.raises(CannotLift, match="found only what the contract allows"):
        read(tmp_path / "allowed")
    with pytest.raises(CannotLift, match="expected the number of an incident, 1 to 1, found 2"):
        read(lossy_run(tmp_path / "one"), number=2)
    (tmp_path / "simulated").mkdir()
    assert stored.store(tmp_path / "simulated", quick(4, flaws=LIES["flaws"]))
    with pytest.raises(CannotLift, match="expected a run of a real cluster, found a simulation"):
        read(tmp_path / "simulated")
