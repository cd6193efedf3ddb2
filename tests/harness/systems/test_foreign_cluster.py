"""A cluster from a definition alone, queried over the protocol: Harrow's own broker, treated as a foreign one."""

from __future__ import annotations

import json
import secrets
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from crc32c import crc32c

from checkers.anomalies.groups import OFFSETS_TOPIC
from harness.commands import cli
from harness.environments import factory
from harness.environments.base import LogRecord, ReplicaState
from harness.environments.docker import engine, image
from harness.environments.docker.capabilities import try_docker
from harness.environments.machine.environment import MachineEnvironment
from harness.environments.machine.kernel.process_identity import of_run, wait_until
from harness.environments.machine.node import MachineNode
from harness.environments.ssh.capabilities import SshCapabilities
from harness.environments.ssh.environment import SshEnvironment
from harness.environments.ssh.node import SshNode
from harness.run.health import partition_ends, unhealthy_reason
from harness.store.journal import Journal, read_journal
from harness.systems.admin_endpoint import NoAnswer, get_json, replica_of
from harness.systems.definition import load
from harness.systems.foreign import BrokerFromImage, ForeignBroker
from harness.systems.runtime import here
from harness.systems.sidecar.probe import _partitions
from harness.terminal.exits import ExitStatus
from history.reader import read_table
from nemesis.capabilities.cluster import CLIENTS
from tests.harness.systems.images import image_on, shell
from tests.support.foreign_systems import OWN_AS_FOREIGN, made, spec_for
from tests.support.ssh_lab import NamespaceFleet
from tests.support.ssh_lab import lacking as lacking_of_the_lab
from workloads.values import encode_value

pytestmark = pytest.mark.cluster
PATIENCE_S = 60.0
IN_THE_IMAGE = "/in-the-image"
FROM_IMAGE = OWN_AS_FOREIGN.replace("[broker]\n", f"[broker]\nready = ['sh', '-c', 'test -e {IN_THE_IMAGE}']\n", 1)


@dataclass(frozen=True)
class RunningCluster:
    environment: MachineEnvironment | SshEnvironment
    system: ForeignBroker
    directory: Path

    def bootstrap(self) -> list[str]:
        reach = self.environment.addresses.reach
        return [f"{host}:{port}" for host, port in (reach(CLIENTS, broker, "CLIENT") for broker in (1, 2))]

    def directory_of(self, node: MachineNode | SshNode) -> Path:
        """Where the node itself is. The lab's hosts have this machine's files."""
        plan = node._machine.settings_plan if isinstance(node, SshNode) else node.plan
        return plan.own_directory

    def sidecars(self) -> set[int]:
        token = next(entry["token"] for entry in read_journal(self.directory) if "token" in entry)
        commands = {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in of_run(token)}
        return {pid for pid, command in commands.items() if b"harness.systems.sidecar." in command}


def soon(condition, what: str) -> None:
    assert wait_until(condition, PATIENCE_S, 0.1), f"{what} within {PATIENCE_S:g} s"


@contextmanager
def _image(wanted: bool) -> Iterator[str | None]:
    """An image of Harrow's own broker that has a shell, for it is to be prepared, and a mark."""
    if not wanted:
        yield None
        return
    name = f"harrow-test-{secrets.token_hex(4)}"
    files = {**shell(), IN_THE_IMAGE[1:]: Path(__file__)}
    with closing(engine.connect()) as client, image_on(client, image.broker_image(client), files, name):
        yield name


@contextmanager
def _on_hosts(directory: Path) -> Iterator[RunningCluster]:
    if lack := lacking_of_the_lab():
        pytest.skip(lack)
    definition = directory / "own.toml"
    definition.write_text(OWN_AS_FOREIGN)
    spec = spec_for(definition, brokers=2, replication_factor=2, min_insync_replicas=1, inventory="lab.toml")
    system = ForeignBroker(spec, load(definition), dict.fromkeys((1, 2, 100), here(load(definition))))
    capabilities = SshCapabilities(frozenset({"nft", "ext4"}), ours=False)
    fleet = NamespaceFleet(directory / "hosts", spec.nodes)
    yield RunningCluster(
        SshEnvironment(directory, system, 2, 1, fleet, capabilities, journal=Journal(directory)), system, directory
    )


@contextmanager
def _on_this_machine(directory: Path, where: str) -> Iterator[RunningCluster]:
    in_containers = where != "local"
    if in_containers and not (result := try_docker()).available:
        pytest.skip(result.found)
    definition = directory / "own.toml"
    with _image(where == "image") as name:
        definition.write_text(OWN_AS_FOREIGN if name is None else f'image = "{name}"\n{FROM_IMAGE}')
        how = {"environment": "docker"} if in_containers else {"network": "proxies"}
        spec = {"brokers": 2, "replication_factor": 2, "min_insync_replicas": 1, "page_cache": "page-cache", **how}
        system = made(definition, **spec)
        environment = factory.make(system.spec, frozenset(), directory, system, Journal(directory))
        assert isinstance(environment, MachineEnvironment)
        yield RunningCluster(environment, system, directory)


_IN_CONTAINERS = [pytest.param(name, marks=pytest.mark.docker) for name in ("docker", "image")]
_BY_SSH = pytest.param("ssh", marks=[pytest.mark.ssh, pytest.mark.root])


@pytest.fixture(scope="module", params=["local", *_IN_CONTAINERS, _BY_SSH])
def running(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    directory = tmp_path_factory.mktemp("foreign")
    with _on_hosts(directory) if request.param == "ssh" else _on_this_machine(directory, request.param) as made_there:
        environment = made_there.environment
        try:
            environment.set_up()
            environment.await_ready(PATIENCE_S)
            environment.cluster.administrator.create_topic("harrow", 2, 2)
            soon(lambda: unhealthy_reason(environment.cluster) is None, "the cluster was not whole")
            yield made_there
        finally:
            environment.tear_down()


_SEND = """
import json, sys
from kafka import KafkaProducer
from workloads.values import encode_value
bootstrap, first, last = json.loads(sys.argv[1])
producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all")
for value in range(first, last):
    producer.send("harrow", encode_value(value), partition=0).get(60)
producer.close()
"""


def send(running: RunningCluster, values: range) -> None:
    """As a client, from within the cluster's network."""
    config = json.dumps([running.bootstrap(), values.start, values.stop])
    log = running.directory / "sender.log"
    sender = running.environment.spawn_client([sys.executable, "-c", _SEND, config], log)
    assert sender.wait(PATIENCE_S) == 0, log.read_text()


def where_partitions_end(running: RunningCluster) -> dict[int, int]:
    """The end of each partition of the topic, once all replicas are in sync and only the leaders report it."""
    cluster, plans = running.environment.cluster, running.environment.plans
    soon(lambda: all(len(view.isr) == 2 for view in cluster.partitions()), "a node that was tormented was not in sync")
    views = cluster.partitions()
    soon(lambda: all(end.agreed for end in partition_ends(running.system, plans, views)), "the leaders did not tell")
    return {end.partition: end.end_offset for end in partition_ends(running.system, plans, views)}


def test_the_cluster_reports_its_partitions_and_their_ends(running: RunningCluster) -> None:
    start = where_partitions_end(running)
    send(running, range(1, 31))
    assert where_partitions_end(running) == {0: start[0] + 30, 1: start[1]}
    views = running.environment.cluster.partitions()
    assert [(view.topic, view.partition, sorted(view.isr), sorted(view.replicas)) for view in views] == [
        ("harrow", 0, [1, 2], [1, 2]),
        ("harrow", 1, [1, 2], [1, 2]),
    ]
    assert all(view.leader in (1, 2) for view in views)


def test_the_quorum_is_known_from_its_leader(running: RunningCluster) -> None:
    assert running.environment.cluster.active_controller() == 100
    voter = running.environment.cluster.voters()[0]
    assert (voter.controller, voter.role, voter.leader) == (100, "leader", 100)
    assert voter.log_end >= voter.high_watermark > 0


@pytest.mark.parametrize(
    ("levels", "found"),
    [
        ({"eligible.leader.replicas.version": 1}, None),
        ({"eligible.leader.replicas.version": 1, "no.such.feature": 0}, None),
        ({"eligible.leader.replicas.version": 0}, "features eligible.leader.replicas.version=0, found eligible"),
        ({"no.such.feature": 1}, "the finalized features no.such.feature=1, found eligible.leader.replicas.version=1"),
    ],
)
def test_the_levels_of_features_are_verified_at_every_node(
    running: RunningCluster, levels: dict[str, int], found: str | None
) -> None:
    definition = replace(running.system.definition, features=levels)
    line = replace(running.system, definition=definition).unfit(running.environment.plans)
    assert (line is None) == (found is None), line
    if found is not None and line is not None:
        assert found in line
        assert "\n" not in line


def test_a_node_that_tells_of_no_features_has_not_the_wanted_ones(
    running: RunningCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = replace(running.system, definition=replace(running.system.definition, features={"a": 0}))
    monkeypatch.setattr(ForeignBroker, "_finalized", lambda *_: None)
    assert "found that it tells of none" in str(wanted.unfit(running.environment.plans))
    assert running.system.unfit(running.environment.plans) is None, "nothing is asked where nothing is wanted"


def test_a_replicas_log_is_what_clients_can_read(running: RunningCluster) -> None:
    send(running, range(1001, 1021))
    leader = next(view.leader for view in running.environment.cluster.partitions() if view.partition == 0)
    plan = next(plan for plan in running.environment.plans if plan.node_id == leader)
    records = list(running.system.log(plan, "harrow", 0))
    assert [record.offset for record in records] == list(range(len(records)))
    assert [record.value for record in records[-20:]] == [encode_value(value) for value in range(1001, 1021)]
    assert all(record.leader_epoch >= 0 and record.crc for record in records)


def test_a_node_is_the_broker_itself_with_its_environment_and_a_sidecar(running: RunningCluster) -> None:
    node = running.environment.cluster.nodes[1]
    command = Path(f"/proc/{node.pid}/cmdline").read_bytes().split(b"\0")
    python = b"python3" if isinstance(running.system, BrokerFromImage) else sys.executable.encode()
    assert command[:3] == [python, b"-m", b"broker.shell"]
    assert b"MARK=node-1" in Path(f"/proc/{node.pid}/environ").read_bytes().split(b"\0")
    assert len(running.sidecars()) == 3
    assert "a line of 1" in node.log_tail()


def test_a_paused_node_is_silent_and_serves_again_when_resumed(running: RunningCluster) -> None:
    node = running.environment.cluster.nodes[2]
    node.pause()
    assert not node.is_ready()
    node.resume()
    soon(node.is_ready, "the node did not serve again")


def replicas_of(running: RunningCluster, node: int) -> dict[int, ReplicaState]:
    """The replicas of the topic on a node, by partition."""
    found = running.system.replicas(next(plan for plan in running.environment.plans if plan.node_id == node))
    return {replica.partition: replica for replica in found if replica.topic == "harrow"}


def log_of(running: RunningCluster, node: int) -> list[LogRecord]:
    plan = next(plan for plan in running.environment.plans if plan.node_id == node)
    return list(running.system.log(plan, "harrow", 0))


def test_followers_tell_their_high_watermarks_and_logs(running: RunningCluster) -> None:
    send(running, range(2001, 2011))
    end = where_partitions_end(running)[0]
    soon(
        lambda: {replicas_of(running, node)[0].high_watermark for node in (1, 2)} == {end},
        "the follower's high watermark was not that of the leader",
    )
    roles = {replicas_of(running, node)[0].role for node in (1, 2)}
    assert roles == {"leader", "follower"}
    assert log_of(running, 1) == log_of(running, 2)
    assert len(log_of(running, 1)) == end


@pytest.mark.slow
def test_a_partition_without_a_leader_is_sampled(running: RunningCluster) -> None:
    nodes = running.environment.cluster.nodes
    where_partitions_end(running)
    nodes[2].kill()
    soon(lambda: all(each.isr == (1,) for each in replicas_of(running, 1).values()), "node 2 stayed in the ISR")
    nodes[1].kill()
    nodes[2].start()
    try:
        soon(lambda: {each.leader for each in replicas_of(running, 2).values()} == {-1}, "no sample without a leader")
        sampled = replicas_of(running, 2)[0]
        assert (sampled.role, sampled.isr + sampled.elr) == ("follower", (1,)), "node 1 alone is complete, by KIP-966"
    finally:
        nodes[1].start()
        soon(lambda: unhealthy_reason(running.environment.cluster) is None, "the cluster was not whole again")


def test_the_elr_and_the_last_known_one_are_sampled_by_node_ids() -> None:
    """KIP-966, as DescribeTopicPartitions tells it of a partition without a leader."""
    partition = SimpleNamespace(partition_index=0, leader_id=-1, leader_epoch=6, replica_nodes=[11, 12], isr_nodes=[])
    topics = [SimpleNamespace(name="harrow", is_internal=False, error_code=0, partitions=[partition])]
    told = SimpleNamespace(eligible_leader_replicas=[12], last_known_elr=[11])
    (described,) = _partitions(topics, {11: 1, 12: 2}, {("harrow", 0): told})
    (plain,) = _partitions(topics, {11: 1, 12: 2}, {})
    assert (described["leader"], described["elr"], described["last_known_elr"]) == (-1, [2], [1])
    assert (plain["elr"], plain["last_known_elr"]) == ([], None)
    common = {"role": "follower", "log_start": None, "log_end": None, "high_watermark": None}
    assert replica_of(described | common, -1).last_known_elr == (1,)
    assert replica_of(plain | common, -1).last_known_elr is None


def _change_a_value(segment: Path) -> None:
    """Change one byte of the value in the first batch, which has one record, and make its checksum right again."""
    log = bytearray(segment.read_bytes())
    end = 12 + int.from_bytes(log[8:12], "big")
    log[end - 2] ^= 1  # what follows the value is the number of headers, 0
    log[17:21] = crc32c(bytes(log[21:end])).to_bytes(4, "big")
    segment.write_bytes(log)


def test_a_follower_that_differs_from_its_leader_is_seen(running: RunningCluster) -> None:
    """Planted: what the dead follower has stored is changed, as no honest disk would."""
    if not isinstance(running.environment, MachineEnvironment):
        pytest.skip("the node's files are on a host")
    send(running, range(3001, 3011))
    where_partitions_end(running)
    follower = next(node for node in (1, 2) if replicas_of(running, node)[0].role == "follower")
    before = log_of(running, follower)
    node = running.environment.cluster.nodes[follower]
    node.kill()
    segment = next(plan.data for plan in running.environment.plans if plan.node_id == follower) / "harrow-0"
    (first,) = sorted(segment.glob("*.log"))
    kept = first.read_bytes()
    _change_a_value(first)
    node.start()
    soon(lambda: replicas_of(running, follower).get(0) is not None, "the node did not tell of its replicas")
    soon(lambda: len(log_of(running, follower)) == len(before), "the node did not serve its log")
    changed = log_of(running, follower)
    assert [offset for offset, (old, new) in enumerate(zip(before, changed, strict=True)) if old != new] == [0]
    assert changed[0].crc != before[0].crc
    node.kill()
    first.write_bytes(kept)
    node.start()
    soon(lambda: unhealthy_reason(running.environment.cluster) is None, "the cluster was not whole again")


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_a_node_that_ends_ends_its_sidecar_and_is_prepared_again(running: RunningCluster, how: str) -> None:
    node = running.environment.cluster.nodes[2]
    prepared = running.directory_of(node) / "prepared.txt"
    before = prepared.read_text().count("prepared")
    pid = node._process.own_pid if isinstance(node, MachineNode) else node.pid
    if how == "kill":
        node.kill()
    else:
        assert node.stop(PATIENCE_S) == 0
        assert f"stopping {pid}" in node.log_tail()
    soon(lambda: len(running.sidecars()) == 2, "the sidecar did not end")
    assert not node.is_ready()
    node.start()
    soon(lambda: unhealthy_reason(running.environment.cluster) is None, "the cluster was not whole again")
    assert prepared.read_text().count("prepared") == before + 1
    assert prepared.read_text().count("made") == 1


def test_a_sidecar_reports_why_it_cannot_answer(running: RunningCluster) -> None:
    plan = running.environment.plans[0]
    with pytest.raises(NoAnswer, match=r"with status 503: .*error"):
        get_json(plan.socket, "/log?topic=nonesuch&partition=0&offset=0&limit=1", PATIENCE_S)
    with pytest.raises(NoAnswer, match="with status 404"):
        get_json(plan.socket, "/weather", PATIENCE_S)


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ("['sh', '-c', 'echo cannot open the moon >&2; exit 3']", "cannot open the moon"),
        ("['sh', '-c', 'echo no | tee -a own.log; exit 3']\nlogs = ['own.log']", "no"),
        ("['true']\nprepare = [['sh', '-c', 'exit 7']]", "to prepare the node, found that it ended with status 7"),
    ],
    ids=["output", "file", "preparation"],
)
def test_a_node_that_dies_in_the_set_up_is_reported_with_its_last_log_lines(
    start: str, expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    definition = tmp_path / "doomed.toml"
    definition.write_text(f"name = 'doomed'\n[broker]\nstart = {start}\n")
    alone = ["--brokers", "1", "--replication-factor", "1", "--min-insync-replicas", "1", "--faults", "none"]
    with pytest.raises(SystemExit) as ended:
        cli.main(["run", "--system", str(definition), *alone, "--network", "proxies", "--store", str(tmp_path)])
    assert ended.value.code == ExitStatus.FAILED
    first, *lines = capsys.readouterr().err.split("harrow: ")[-1].splitlines()
    assert first == "expected node 1 to go on, found that it died of itself; its last log lines:"
    assert any(expected in line for line in lines)


@pytest.mark.slow
@pytest.mark.parametrize("command", ["run", "cluster up"])
def test_a_cluster_without_a_feature_of_its_definition_is_one_line_and_status_4(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Planted: what formats the storage has ignored the feature, and the nodes run without it."""
    definition = tmp_path / "own.toml"
    definition.write_text(f"{OWN_AS_FOREIGN}\n[features]\n'harrow.generation' = 1\n")
    of_runs = ["--replication-factor", "1", "--min-insync-replicas", "1", "--faults", "none"]
    alone = ["--brokers", "1", "--network", "proxies", *(of_runs if command == "run" else ())]
    with pytest.raises(SystemExit) as ended:
        cli.main([*command.split(), "--system", str(definition), *alone, "--store", str(tmp_path / "s")])
    assert ended.value.code == ExitStatus.FAILED
    line = capsys.readouterr().err.strip().splitlines()[-1]
    assert line.startswith("harrow: expected node 1 to have the finalized features harrow.generation=1, found eligible")


GROUPS = ["--workload", "groups", "--faults", "none", "--duration", "12", "--brokers", "1", "--replication-factor", "1"]


SAID = "session-ms-min = 6000\noffsets-partitions = 1\n"


@pytest.mark.slow
@pytest.mark.parametrize(("least", "refused"), [("", True), (SAID, False)], ids=["silent", "said"])
def test_a_session_that_groups_refuse_is_one_line_and_none_if_the_definition_says_the_least(
    least: str, refused: bool, tmp_path: Path
) -> None:
    definition = tmp_path / "own.toml"
    definition.write_text(least + OWN_AS_FOREIGN)  # whose brokers accept 6,000 ms and more, as Kafka's do by default
    alone = ["--min-insync-replicas", "1", "--network", "proxies", "--no-check", "--store", str(tmp_path / "s")]
    with pytest.raises(SystemExit) as ended:
        cli.main(["run", "--system", str(definition), *GROUPS, *alone])
    assert ended.value.code == ExitStatus.VALID, "nothing was checked"
    (run,) = (tmp_path / "s" / "runs").iterdir()
    troubles = [row["text"] for row in read_table(run, "troubles").to_pylist()]
    commits = read_table(run, "commits").to_pylist()
    members = [row["member"] for row in commits if row["generation"] is not None]
    looked_at = {row["partition"] for row in read_table(run, "cluster").to_pylist() if row["topic"] == OFFSETS_TOPIC}
    stored_in = {row["kept_in"] for row in commits}
    if not refused:
        assert troubles == []
        assert members
        assert (stored_in, looked_at) == ({0}, {0})
        return
    assert stored_in <= {None}
    assert looked_at == set()
    assert len(troubles) == 1
    assert "expected the groups to accept members with a session timeout of 3,000 ms, found INVALID_" in troubles[0]
    assert members == []
    logs = "".join(path.read_text() for path in (run / "clients").glob("*.log"))
    assert 1 <= logs.count("InvalidSessionTimeoutError") <= 4, "one line for each slot of a group"
    answered = [row for row in read_table(run, "operations").to_pylist() if row["kind"] == "committed"]
    assert any(row["phase"] == "final" and row["status"] == "ok" for row in answered)
