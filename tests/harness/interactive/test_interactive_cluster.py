"""An interactive cluster, from `harrow cluster up` to `down`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewPartitions, NewTopic

import harness
from harness.store.heal import heal
from harness.store.journal import is_finished, read_journal
from harness.store.run_directories import runs
from harness.terminal.exits import ExitStatus
from tests.support import zookeeper
from tests.support.foreign_systems import OWN_AS_FOREIGN
from tests.support.local_cluster import eventually

pytestmark = pytest.mark.cluster

ROOT = Path(harness.__file__).parents[1]


def harrow(store: Path, *words: str) -> subprocess.CompletedProcess[str]:
    run = "import sys; from harness.commands.cli import main; main(sys.argv[1:])"
    return subprocess.run(
        [sys.executable, "-c", run, *words, "--store", str(store)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    place = tmp_path_factory.mktemp("interactive")
    begun = harrow(place, "cluster", "up", "--brokers", "2", "--page-cache", "page-cache")
    try:
        assert begun.returncode == ExitStatus.VALID, begun.stderr
        assert begun.stdout.startswith("brokers at 127.")
        yield place
    finally:
        harrow(place, "cluster", "down")
        heal(place)


def test_status_lists_nodes_and_addresses_of_brokers(store: Path) -> None:
    lines = harrow(store, "cluster", "status").stdout.splitlines()
    assert lines[0].startswith("brokers at 127.")
    assert [line.split(" (")[0] for line in lines[1:4]] == ["node 1", "node 2", "node 100"]
    assert all(line.endswith(" serves") for line in lines[1:4])


def test_another_system_runs_as_its_definition_says(tmp_path: Path) -> None:
    definition = tmp_path / "own.toml"
    definition.write_text(OWN_AS_FOREIGN + '\n[defaults]\nbrokers = 1\nfaults = ["kill"]\n')
    begun = harrow(tmp_path, "cluster", "up", "--system", str(definition))
    try:
        assert begun.returncode == ExitStatus.VALID, begun.stderr
        lines = harrow(tmp_path, "cluster", "status").stdout.splitlines()
        assert [line.split(" (")[0] for line in lines[1:]] == ["node 1", "node 100"]
        killed = harrow(tmp_path, "fault", "kill", "--target", "broker", "--lasts", "1")
        assert killed.returncode == ExitStatus.VALID, killed.stderr
        assert "node 1 (process" in killed.stdout
    finally:
        harrow(tmp_path, "cluster", "down")
        heal(tmp_path)


def test_logs_are_those_of_the_node(store: Path) -> None:
    assert "ready node=1" in harrow(store, "cluster", "logs", "1", "--lines", "1000").stdout
    refused = harrow(store, "cluster", "logs", "77")
    assert refused.returncode == ExitStatus.USAGE
    assert "found no node 77" in refused.stderr


def test_a_fault_by_hand_takes_effect_and_heals(store: Path) -> None:
    done = harrow(store, "fault", "pause", "--target", "broker", "--lasts", "0.3")
    assert done.returncode == ExitStatus.VALID, done.stderr
    assert "the kernel reports node 1 stopped" in done.stdout
    assert "served again after" in done.stdout


def test_a_fault_that_finds_no_target_did_not_take_hold(store: Path) -> None:
    done = harrow(store, "fault", "kill", "--target", "minority", "--lasts", "0.3")
    assert done.returncode == ExitStatus.FAILED
    assert "too few for a minority" in done.stdout
    assert done.stderr.count("\n") == 1


def test_a_second_cluster_is_refused_while_one_runs(store: Path) -> None:
    refused = harrow(store, "cluster", "up")
    assert refused.returncode == ExitStatus.USAGE
    assert f"found one that runs; harrow cluster down --store {store}" in refused.stderr


def test_a_cluster_that_is_down_leaves_nothing_but_its_files(tmp_path: Path) -> None:
    assert (
        harrow(tmp_path, "cluster", "up", "--brokers", "1", "--page-cache", "page-cache").returncode == ExitStatus.VALID
    )
    assert harrow(tmp_path, "cluster", "down").returncode == ExitStatus.VALID
    (run,) = runs(tmp_path)
    assert is_finished(list(read_journal(run)))
    assert (run / "nodes" / "1" / "node.log").exists()
    for words in (["cluster", "status"], ["cluster", "down"], ["fault", "kill"]):
        refused = harrow(tmp_path, *words)
        assert refused.returncode == ExitStatus.USAGE
        assert "found none; harrow cluster up" in refused.stderr


@pytest.mark.parametrize(
    "generation",
    ["K5", *(pytest.param(one, marks=[pytest.mark.slow, pytest.mark.zookeeper]) for one in ("zk-v1", "zk-v2"))],
)
def test_brokers_are_added_and_partitions_move_onto_them(tmp_path: Path, generation: str) -> None:
    if generation != "K5" and (reason := zookeeper.missing()):
        pytest.skip(reason)
    flags = ("--generation", generation, "--brokers", "2", "--spare", "1", "--page-cache", "page-cache")
    begun = harrow(tmp_path, "cluster", "up", *flags)
    try:
        assert begun.returncode == ExitStatus.VALID, begun.stderr
        servers = begun.stdout.splitlines()[0].removeprefix("brokers at ").split(",")
        assert len(servers) == 2
        assert "node 3 (broker, process None) spare" in harrow(tmp_path, "cluster", "status").stdout
        client = KafkaAdminClient(bootstrap_servers=servers)
        client.create_topics([NewTopic("named", 9, 2)])
        producer = KafkaProducer(bootstrap_servers=servers, acks="all", enable_idempotence=False, retries=50)
        held = [producer.send("named", b"x", partition=number).get(30).offset for number in range(9)]
        if generation == "K5":  # a design on ZooKeeper may refuse what it has written, and has it twice then
            assert held == [0] * 9
        added = harrow(tmp_path, "cluster", "add-brokers")
        assert added.returncode == ExitStatus.VALID, added.stderr
        lines = added.stdout.splitlines()
        assert lines[:2] == ["broker 3 serves", "6 of 9 partitions are to move"]
        assert all(" has moved from " in line for line in lines[2:])
        status = harrow(tmp_path, "cluster", "status").stdout
        isrs = [line.split("in sync: ")[1] for line in status.splitlines() if line.startswith("named-")]
        assert sorted(int(one) for isr in isrs for one in isr.split(", ")) == [1] * 6 + [2] * 6 + [3] * 6
        assert len(status.splitlines()[0].split(",")) == 3
        assert all(producer.send("named", b"x", partition=number).get(30).offset > held[number] for number in range(9))
        assert "0 of 9 partitions are to move" in harrow(tmp_path, "cluster", "add-brokers").stdout
        producer.close()
        client.close()
    finally:
        harrow(tmp_path, "cluster", "down")
        heal(tmp_path)


def test_a_cluster_without_spare_brokers_has_none_to_add(store: Path) -> None:
    refused = harrow(store, "cluster", "add-brokers")
    assert refused.returncode == ExitStatus.USAGE
    assert "expected a cluster with spare brokers, found none; harrow cluster up --spare 1" in refused.stderr


@pytest.mark.slow
@pytest.mark.clients
@pytest.mark.zookeeper
@pytest.mark.parametrize("generation", ["zk-v1", "zk-v2", "C1"])
def test_a_cluster_of_a_design_on_zookeeper_creates_extends_and_deletes_topics(tmp_path: Path, generation: str) -> None:
    if reason := zookeeper.missing():
        pytest.skip(reason)
    flags = ("--generation", generation, "--brokers", "2", "--controllers", "1", "--page-cache", "page-cache")
    begun = harrow(tmp_path, "cluster", "up", *flags)

    def logs() -> list[Path]:
        return list((tmp_path / "standing" / "nodes").glob("*/data/named-*"))

    try:
        assert begun.returncode == ExitStatus.VALID, begun.stderr
        servers = begun.stdout.splitlines()[0].removeprefix("brokers at ").split(",")
        client = KafkaAdminClient(bootstrap_servers=servers)
        for value in (b"of the first", b"of the second"):  # a name can be used again
            client.create_topics([NewTopic("named", 1, 2)])
            client.create_partitions({"named": NewPartitions(2)})
            producer = KafkaProducer(bootstrap_servers=servers, acks="all", enable_idempotence=False, retries=50)
            for number in (0, 1):
                producer.send("named", value, partition=number).get(
                    30
                )  # sent again after an error, it may be there twice
            producer.close()
            assert len(logs()) == 4
            held = [b"".join(path.read_bytes() for path in log.glob("*.log")) for log in logs()]
            assert sum(value in one for one in held) >= 2
            assert value == b"of the first" or not any(b"of the first" in one for one in held), "deleted, and back"
            client.delete_topics(["named"], timeout_ms=20_000)
            eventually(lambda: "named" not in client.list_topics(), 20, "nobody hears of the topic any more")
        client.close()
        assert not logs()
    finally:
        harrow(tmp_path, "cluster", "down")
        heal(tmp_path)
