"""The designs on ZooKeeper as a system under test: what is configured, what is asked, and what is refused."""

from __future__ import annotations

import importlib.util
import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from unittest import mock

import pytest

from broker.core.ports.files import StorageError
from broker.shell.properties import load
from broker.zookeeper import choices
from common.names import SpecError
from harness.commands import cli
from harness.environments import factory
from harness.environments.base import EnvironmentFailed, NodePlan
from harness.environments.possible_faults import expand_families, refuse_impossible
from harness.environments.ssh.connection.hosts import hosts_for_nodes
from harness.spec import designs
from harness.spec.designs import CONTROLLED, LEADER_RACES, WITH_EPOCHS
from harness.spec.spec import Spec, resolve, words
from harness.systems.own import ensemble
from harness.systems.own.ensemble import MEMBER_NAME, MemberConfig, need_ensemble
from harness.systems.own.harrow_broker import SETTINGS_NAME
from harness.systems.own.on_zookeeper import HarrowOnZooKeeper
from nemesis.capabilities.cluster import NodeError, VoterView
from nemesis.faults import KINDS
from tests.harness.systems.test_harrow_broker import answering
from tests.support import ssh_lab

NODES = (1, 2, 3, 200, 201, 202)
PORTS = {"CLIENT": 1000, "BROKER": 2000, "ZOOKEEPER": 3000, "PEER": 4000, "VOTE": 5000}


class Links:
    """Addresses with a proxy per pair."""

    def bind(self, node_id: int, listener: str) -> tuple[str, int]:
        return f"10.0.0.{node_id}", PORTS[listener]

    def reach(self, source: int, node_id: int, listener: str) -> tuple[str, int]:
        return self.bind(node_id, listener) if source == node_id else (f"127.0.{source}.{node_id}", PORTS[listener])


def serving(plan: NodePlan, answers: Mapping[str, object]) -> AbstractContextManager[None]:
    """The node's endpoint, which has these answers by path."""
    return answering(plan.socket, lambda path, _: answers.get(path))


def spec_of(**settings: object) -> Spec:
    return resolve({"generation": "zk-v2", **settings}, 1)


def plans(directory: Path) -> list[NodePlan]:
    made = []
    for node_id in NODES:
        own = directory / str(node_id)
        own.mkdir(exist_ok=True)
        role = "controller" if node_id >= 200 else "broker"
        made.append(NodePlan(node_id, role, own, own / "data", directory / f"{node_id}.sock", "page-cache"))
    return made


@pytest.fixture
def configured(tmp_path: Path) -> list[NodePlan]:
    everyone = plans(tmp_path)
    for plan in everyone:
        HarrowOnZooKeeper(spec_of(flaws=("zk-keeps-reassignment",))).configure(plan, everyone, Links())
    return everyone


# --- the specification -----------------------------------------------------------------------------------------------


def test_the_harness_knows_the_designs_of_the_broker() -> None:
    assert designs.ON_ZOOKEEPER == choices.ZOOKEEPER_GENERATIONS
    assert (LEADER_RACES, CONTROLLED) == (choices.LEADER_RACES, choices.CONTROLLED)
    assert WITH_EPOCHS == choices.WITH_EPOCHS


@pytest.mark.parametrize("generation", CONTROLLED)
def test_a_design_with_a_controller_has_a_min_isr(generation: str, tmp_path: Path) -> None:
    spec, everyone = spec_of(generation=generation), plans(tmp_path)
    assert (spec.controllers, spec.min_insync_replicas, spec.idempotence) == (3, 2, False)
    HarrowOnZooKeeper(spec).configure(everyone[0], everyone, Links())
    assert load(everyone[0].directory / SETTINGS_NAME).min_insync_replicas == 2


@pytest.mark.parametrize("generation", LEADER_RACES)
def test_a_design_has_an_ensemble_of_three_and_promises_what_it_can(generation: str) -> None:
    spec = spec_of(generation=generation)
    assert (spec.controllers, spec.min_insync_replicas, spec.idempotence) == (3, 1, False)
    assert spec_of(generation=generation, controllers=5).controllers == 5
    assert resolve({}, 1).controllers == 1


def test_the_command_that_repeats_a_run_makes_the_same_specification() -> None:
    spec = spec_of(controllers=1, acks="1")
    assert words(spec)[4:] == ["--min-insync-replicas", "1", "--acks", "1", "--generation", "zk-v2"]


@pytest.mark.parametrize(
    ("setting", "value", "line"),
    [
        ("controllers", 0, "controllers: expected a whole number from 1 to 9"),
        ("combined", True, "combined: expected none for zk-v2"),
        ("idempotence", True, "idempotence: expected none for zk-v2"),
        ("min_insync_replicas", 2, "min-insync-replicas: expected 1 for zk-v2"),
        ("unclean_election", True, "unclean-election: expected none for zk-v2"),
        ("acks", "0", "acks: expected all or 1 for zk-v2"),
        ("workload", "groups", "workload: expected log for zk-v2"),
    ],
)
def test_what_a_design_does_not_have_is_refused_in_one_line(setting: str, value: object, line: str) -> None:
    with pytest.raises(SpecError, match=line):
        spec_of(**{setting: value})


def test_a_design_is_refused_on_other_machines_and_in_other_images() -> None:
    with pytest.raises(SpecError, match="vms: expected none for zk-v2, whose members need ZooKeeper, found 3"):
        spec_of(vms=3)
    with pytest.raises(SpecError, match="image: expected none for zk-v2, whose nodes run this machine's programs"):
        spec_of(environment="docker", image="mine:1")


def test_the_nodes_of_a_design_in_containers_run_the_programs_of_this_machine() -> None:
    assert factory._programs(spec_of(environment="docker")) == "machine"
    assert factory._programs(resolve({"environment": "docker"}, 1)) == "image"


def test_a_member_that_was_asked_to_end_may_have_been_killed_by_that_in_a_container() -> None:
    with mock.patch.object(ensemble, "version", return_value="ZooKeeper 3.8.0"):
        assert HarrowOnZooKeeper(spec_of()).traits.orderly_exits == {0, 143, -15}


def harrow(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    return int(ended.value.code or 0)


def test_a_flaw_of_the_quorum_is_none_of_a_design(capsys: pytest.CaptureFixture[str]) -> None:
    assert harrow("run", "--generation", "zk-v1", "--flaw", "unclean-election") == 2
    assert "flaw: expected a switch of zk-v1" in capsys.readouterr().err


# --- what this machine needs -----------------------------------------------------------------------------------------


def hide(monkeypatch: pytest.MonkeyPatch, programs: set[str], packages: set[str]) -> None:
    """Have a machine without these; it has Java and kazoo unless they are among them."""
    which, find = shutil.which, importlib.util.find_spec

    def program(name: str, *rest: object, **named: object) -> str | None:
        return None if name in programs else which("true" if name == "java" else name, *rest, **named)

    def package(name: str, *rest: object) -> object:
        return None if name in packages else find("json" if name == "kazoo" else name, *rest)

    monkeypatch.setattr(shutil, "which", program)
    monkeypatch.setattr(importlib.util, "find_spec", package)


@pytest.mark.parametrize("lack", ["kazoo", "Java", "zookeeper.jar"])
def test_without_an_ensemble_nothing_starts(
    lack: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    jar = tmp_path / "zookeeper.jar"
    if lack != jar.name:
        jar.touch()
    monkeypatch.setattr(ensemble, "JAR", jar)
    hide(monkeypatch, {"java"} if lack == "Java" else set(), {"kazoo"} if lack == "kazoo" else set())
    line = f"expected .*{lack} for an ensemble of ZooKeeper, found none; .*install"
    with pytest.raises(EnvironmentFailed, match=line):
        need_ensemble()
    assert harrow("run", "--generation", "zk-v1", "--store", str(tmp_path)) == 2
    (said,) = capsys.readouterr().err.splitlines()
    assert f"{lack} for an ensemble of ZooKeeper, found none" in said
    assert not (tmp_path / "runs").exists()


def test_with_all_of_it_nothing_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "zookeeper.jar").touch()
    monkeypatch.setattr(ensemble, "JAR", tmp_path / "zookeeper.jar")
    hide(monkeypatch, set(), set())
    need_ensemble()


@pytest.mark.ssh
@pytest.mark.parametrize(
    ("prints", "expected"),
    [("Apache ZooKeeper, version 3.9.9 2026", "ZooKeeper 3.9.9"), ("", "expected ZooKeeper on host .*zookeeper there")],
)
def test_the_hosts_of_members_are_asked_for_their_zookeeper(
    prints: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if lack := ssh_lab.lacking():
        pytest.skip(lack)
    monkeypatch.setattr(ensemble, "_VERSION_COMMAND", ("sh", "-c", f"echo '{prints}'"))
    with ssh_lab.server_on_loopback(tmp_path / "lab") as inventory:
        (host,) = hosts_for_nodes(inventory, 1)
        if prints:
            assert ensemble._version_on(host) == expected
        else:
            with pytest.raises(EnvironmentFailed, match=expected):
                ensemble._version_on(host)


# --- faults ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("generation", "kind", "lacking"),
    [
        ("zk-v2", "isolate", "network"),
        ("zk-v2", "raised-min-isr", "administration"),
        ("zk-v2", "preferred-election", "administration"),
        ("C1", "reassignment", "reassignment"),
        ("C3", "broker-removal", "reassignment"),
    ],
)
def test_a_fault_that_a_design_or_its_ensemble_does_not_go_along_with_is_refused(
    generation: str, kind: str, lacking: str
) -> None:
    spec = spec_of(generation=generation, faults=(kind,), network="proxies", brokers=4)
    with pytest.raises(SpecError, match=f"faults: {kind} needs {lacking}, which harrow does not"):
        refuse_impossible(spec, [KINDS[kind]], HarrowOnZooKeeper(spec))


@pytest.mark.parametrize(
    ("generation", "kinds"), [("zk-v1", ("topic-churn", "reassignment", "broker-removal")), ("C1", ("topic-churn",))]
)
def test_acts_of_an_administrator_that_a_design_has_are_faults_in_it(generation: str, kinds: tuple[str, ...]) -> None:
    spec = spec_of(generation=generation, faults=("administration",), network="proxies", brokers=4)
    assert expand_families(spec, HarrowOnZooKeeper(spec)).faults == kinds


def test_members_can_be_killed_and_paused_whatever_the_network() -> None:
    spec = spec_of(faults=("kill", "pause"), network="proxies")
    refuse_impossible(spec, [KINDS["kill"], KINDS["pause"]], HarrowOnZooKeeper(spec))


def test_the_page_cache_of_a_member_is_not_said_to_be_lost_where_there_is_no_ledger(tmp_path: Path) -> None:
    system, everyone = HarrowOnZooKeeper(spec_of()), plans(tmp_path)
    with pytest.raises(StorageError, match="expected the ledger of a node"):  # a broker has one, once it has started
        system.lose_page_cache(everyone[0])
    with pytest.raises(NodeError, match="found a member of the ensemble, which keeps no ledger"):
        system.lose_page_cache(everyone[3])
    system.disk_changed(everyone[3])


# --- what nodes are told ---------------------------------------------------------------------------------------------


def test_a_broker_reaches_every_member_and_every_other_broker(configured: list[NodePlan]) -> None:
    settings = load(configured[1].directory / SETTINGS_NAME)
    assert settings.generation == "zk-v2"
    assert settings.zookeeper_connect == tuple((f"127.0.2.{member}", 3000) for member in (200, 201, 202))
    assert dict(settings.peer_addresses) == {1: ("127.0.2.1", 2000), 3: ("127.0.2.3", 2000)}
    assert settings.flaws == ("zk-keeps-reassignment",)


def test_a_member_binds_its_own_address_and_reaches_the_others(configured: list[NodePlan]) -> None:
    member = configured[4]
    lines = dict(line.split("=", 1) for line in (member.directory / "zoo.cfg").read_text().splitlines())
    assert lines["dataDir"] == str(member.data)
    assert (lines["clientPortAddress"], lines["clientPort"]) == ("10.0.0.201", "3000")
    servers = {key: value for key, value in lines.items() if key.startswith("server.")}
    assert servers == {
        "server.1": "127.0.201.200:4000:5000",
        "server.2": "10.0.0.201:4000:5000",
        "server.3": "127.0.201.202:4000:5000",
    }
    config = MemberConfig.load(member.directory / MEMBER_NAME)
    assert (config.member, config.address, config.socket) == (2, ("10.0.0.201", 3000), str(member.socket))
    assert config.command[0] == "java"
    assert config.command[-1] == str(member.directory / "zoo.cfg")


def test_a_member_that_is_alone_has_no_peers(tmp_path: Path) -> None:
    everyone = plans(tmp_path)[:4]
    HarrowOnZooKeeper(spec_of(controllers=1)).configure(everyone[3], everyone, Links())
    assert "server." not in (everyone[3].directory / "zoo.cfg").read_text()


# --- what nodes are asked --------------------------------------------------------------------------------------------


def told(role: str, epoch: int, log_end: int) -> Mapping[str, object]:
    return {"lifecycle": "running", "quorum_role": role, "epoch": epoch, "log_end": log_end}


PARTITION = {"topic": "t", "partition": 0, "leader": 2, "leader_epoch": 4, "isr": [2], "elr": [], "replicas": [2, 1]}


@pytest.fixture
def members(tmp_path: Path) -> Iterator[list[NodePlan]]:
    """A leader that has been replaced, the leader, and a follower of hers; only the last two have a tree."""
    everyone = plans(tmp_path)[3:]
    stale = {"/state": told("leader", 1, 7), "/partitions": {"partitions": [{**PARTITION, "leader": 1}]}}
    leader = {"/state": told("leader", 2, 9), "/partitions": {"partitions": [PARTITION]}}
    follower = {"/state": told("follower", 2, 8), "/partitions": {"partitions": [{**PARTITION, "leader": 3}]}}
    with serving(everyone[0], stale), serving(everyone[1], leader), serving(everyone[2], follower):
        yield everyone


def test_members_are_the_voters_and_follow_the_leader_of_their_epoch(members: list[NodePlan]) -> None:
    system = HarrowOnZooKeeper(spec_of())
    assert system.voters(members) == [
        VoterView(200, "leader", -1, 1, 7, 7),
        VoterView(201, "leader", 201, 2, 9, 9),
        VoterView(202, "follower", 201, 2, 8, 8),
    ]
    assert system.active_controller(members) == 201
    assert system.voters(members[2:]) == [VoterView(202, "follower", -1, 2, 8, 8)]


def test_the_partitions_are_those_of_the_tree_that_the_leader_of_the_ensemble_has(members: list[NodePlan]) -> None:
    system = HarrowOnZooKeeper(spec_of())
    (view,) = system.view(members)
    assert (view.leader, view.leader_epoch, view.isr, view.replicas) == (2, 4, (2,), (2, 1))
    (view,) = system.view(members[2:])
    assert view.leader == 3
    assert system.view([]) == ()


def test_a_broker_is_ready_once_it_is_registered_and_tells_no_epoch_that_it_does_not_know(tmp_path: Path) -> None:
    system, (broker, other, *_) = HarrowOnZooKeeper(spec_of()), plans(tmp_path)
    replica = {"topic": "t", "partition": 0, "role": "leader", "leader": 1, "isr": [1], "elr": []}
    ends = {"log_start": 0, "log_end": 5, "high_watermark": 4}
    state = {"lifecycle": "running", "partitions": [{**replica, **ends, "leader_epoch": epoch} for epoch in (3, -1)]}
    with serving(broker, {"/state": state}), serving(other, {"/state": {**state, "lifecycle": "starting"}}):
        assert system.is_ready(broker)
        assert not system.is_ready(other)
        assert [each.leader_epoch for each in system.replicas(broker)] == [3, None]
    assert not system.is_ready(broker)
    assert system.replicas(broker) == ()


@pytest.mark.parametrize(("generation", "epoch"), [("zk-v2", None), ("C1", None), ("C2", 5), ("C3", 5)])
def test_records_have_an_epoch_from_kip_101_on(generation: str, epoch: int | None, tmp_path: Path) -> None:
    system, broker = HarrowOnZooKeeper(spec_of(generation=generation)), plans(tmp_path)[0]
    page = {"log_end": 1, "records": [[0, 5, 77, None, "eA==", None]]}
    with serving(broker, {"/log": page}):
        (record,) = system.log(broker, "t", 0)
    assert (record.offset, record.leader_epoch, record.crc, record.value) == (0, epoch, 77, b"x")


def test_a_config_survives_its_file(configured: list[NodePlan]) -> None:
    text = (configured[3].directory / MEMBER_NAME).read_text()
    assert MemberConfig.load(configured[3].directory / MEMBER_NAME).dumps() == text
    assert json.loads(text)["member"] == 1
