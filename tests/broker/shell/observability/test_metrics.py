"""Metrics: the text is valid for Prometheus, and its numbers match the node."""

from __future__ import annotations

import asyncio
import re
import socket
import urllib.request

import pytest

from broker.core.messages import Listener, MetadataRequest, MetadataResponse, ProducedPartition, ProduceResponse
from broker.core.ports.events import RequestReceived
from broker.shell.files.fsyncs import Fsyncs
from broker.shell.files.posix_files import PosixFiles
from broker.shell.network.server import Server
from broker.shell.observability import admin, metrics
from broker.shell.observability.traffic import Traffic, error_name
from tests.broker.shell.shell_fakes import DEADLINE_S, RawClient, ScriptedNode, eventually
from tests.support.cluster import CONTROLLER, TOPIC, Cluster

SAMPLE = re.compile(r'([a-z_]+)(?:\{((?:[a-z]+="(?:[^"\\]|\\.)*",?)*)\})? (-?[0-9.e+-]+)')


@pytest.fixture
def fsyncs():
    return Fsyncs()


def parse(text):
    """Samples by name and labels; every line must be one, or a comment of its metric that precedes it."""
    assert text.endswith("\n")
    found, described = {}, set()
    for line in text.splitlines():
        if line.startswith("# "):
            described.add(line.split(" ")[2])
            continue
        match = SAMPLE.fullmatch(line)
        assert match, line
        name, labels, value = match.groups()
        assert name in described
        assert (name, labels) not in found
        found[name, labels] = float(value)
    return found


def test_a_broker_reports_its_partitions(fsyncs):
    cluster = Cluster()
    cluster.create_topic()
    leader = cluster.leader()
    cluster.produce(leader, 1, 2, 3)
    found = parse(metrics.render(cluster.machines[leader].node, Traffic(), fsyncs))
    labels = f'topic="{TOPIC}",partition="0"'
    assert found["harrow_partition_log_end", labels] == 3
    assert found["harrow_partition_high_watermark", labels] == 3
    assert found["harrow_partition_isr_size", labels] == 3
    assert found["harrow_under_replicated_partitions", None] == 0
    assert found["harrow_purgatory_size", 'kind="fetch"'] == 2
    assert found["harrow_fetch_sessions", None] == 2


def test_what_is_under_replicated_and_under_min_isr_is_counted(fsyncs):
    cluster = Cluster()
    cluster.create_topic()
    leader = cluster.leader()
    for number in {1, 2, 3} - {leader}:
        cluster.kill(number)
    cluster.run_until(lambda: cluster.view()["isr"] == [leader])
    cluster.run(500)
    found = parse(metrics.render(cluster.machines[leader].node, Traffic(), fsyncs))
    assert found["harrow_under_replicated_partitions", None] == 1
    assert found["harrow_under_min_isr_partitions", None] == 1


def test_elections_are_counted(fsyncs):
    cluster = Cluster()
    cluster.create_topic()

    def elections():
        text = metrics.render(cluster.machines[CONTROLLER].node, Traffic(), fsyncs)
        return parse(text)["harrow_leader_elections_total", None]

    before, first = elections(), cluster.leader()
    cluster.kill(first)
    cluster.run_until(lambda: cluster.leader() not in (first, -1))
    assert elections() == before + 1


def test_unclean_elections_are_counted_by_cause_and_by_partition(fsyncs):
    cluster = Cluster(min_insync_replicas=1, unclean_recovery_strategy="proactive")
    cluster.create_topic()
    first = cluster.leader()
    others = [number for number in (1, 2, 3) if number != first]
    for number in others:
        cluster.kill(number)
    cluster.run_until(lambda: cluster.view()["isr"] == [first])
    cluster.kill(first)
    cluster.run_until(lambda: cluster.leader() == -1)
    for number in others:
        cluster.start(number)
    cluster.run_until(lambda: cluster.leader() in others)
    found = parse(metrics.render(cluster.machines[CONTROLLER].node, Traffic(), fsyncs))
    assert found["harrow_unclean_elections_total", 'cause="recovery"'] == 1
    assert found["harrow_unclean_elections_total", 'cause="request"'] == 0
    assert found["harrow_potential_losses_total", f'topic="{TOPIC}",partition="0"'] == 1


def test_a_controller_reports_the_quorum(fsyncs):
    cluster = Cluster()
    cluster.run(2_000)
    node = cluster.machines[CONTROLLER].node
    found = parse(metrics.render(node, Traffic(), fsyncs))
    assert found["harrow_quorum_role", 'role="leader"'] == 1
    assert found["harrow_quorum_role", 'role="follower"'] == 0
    assert found["harrow_quorum_epoch", None] == node.describe()["epoch"]
    assert found["harrow_quorum_high_watermark", None] == node.describe()["high_watermark"]
    assert found["harrow_fenced_brokers", None] == 0


def test_requests_bytes_and_connections_are_counted():
    async def scenario():
        traffic, received = Traffic(), []
        server = Server(received.append, 1 << 20, 60_000, traffic)
        client = await RawClient.connect(await server.listen(Listener("CLIENT", "127.0.0.1", 0)))
        await client.request(9, 1, MetadataRequest())
        await eventually(lambda: bool(received))
        assert isinstance(received[0], RequestReceived)
        server.reply(received[0].request_id, MetadataResponse((), "c", -1, ()))
        answer = await client.frame()
        assert traffic.requests == {("Metadata", "NONE"): 1}
        assert traffic.connections == {"CLIENT": 1}
        assert traffic.bytes_in["CLIENT"] > 0
        assert traffic.bytes_out["CLIENT"] == len(answer) + 4
        client.close()
        await eventually(lambda: traffic.connections["CLIENT"] == 0)
        await server.close()

    asyncio.run(scenario())


def test_an_answer_is_counted_under_its_first_error():
    parts = (ProducedPartition("t", 0, 0), ProducedPartition("t", 1, 6), ProducedPartition("t", 2, 3))
    assert error_name(ProduceResponse(parts)) == "NOT_LEADER_OR_FOLLOWER"
    assert error_name(ProduceResponse(parts[:1])) == "NONE"
    assert error_name(ProduceResponse((ProducedPartition("t", 0, 12345),))) == "12345"


def test_every_fsync_of_a_file_or_directory_is_counted_with_the_time_it_took(fsyncs, tmp_path):
    files = PosixFiles(tmp_path / "data", fsyncs=fsyncs)
    files.append("t-0/log", b"x")
    assert fsyncs.totals() == (0, 0)
    files.sync("t-0/log")
    assert fsyncs.totals()[0] == 3  # the file, its directory, and the directory of that
    files.sync("t-0/log")
    assert fsyncs.totals()[0] == 4
    files.replace("checkpoint", b"y")
    assert fsyncs.totals()[0] == 6
    assert fsyncs.totals()[1] > 0


def test_labels_are_escaped(fsyncs):
    node = ScriptedNode(lambda event: [])
    partition = {"topic": 'a"b\\c\n', "partition": 0, "leader_epoch": 3, "isr": [1]}
    node.describe = lambda: {"partitions": [partition]}
    found = parse(metrics.render(node, Traffic(), fsyncs))
    assert found["harrow_partition_leader_epoch", r'topic="a\"b\\c\n",partition="0"'] == 3


def test_metrics_are_served_over_tcp():
    async def scenario():
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            address = probe.getsockname()
        server = await admin.serve_metrics(address, lambda: "harrow_answer 42\n")
        url = f"http://{address[0]}:{address[1]}/metrics"
        body = await asyncio.to_thread(lambda: urllib.request.urlopen(url, timeout=DEADLINE_S).read())
        assert body == b"harrow_answer 42\n"
        server.close()

    asyncio.run(scenario())
