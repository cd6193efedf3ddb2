"""A real broker with one failed log directory continues with the other."""

from __future__ import annotations

import shutil

import pytest
from kafka import KafkaProducer

from tests.support.local_cluster import LocalCluster, eventually

TOPIC = "orders"

pytestmark = pytest.mark.cluster


@pytest.mark.slow
def test_a_broker_continues_with_its_remaining_directory(request):
    settings = {"default_replication_factor": "2", "min_insync_replicas": "1", "num_partitions": "4"}
    cluster = LocalCluster(
        brokers=2,
        log_dirs="a,b",
        replica_high_watermark_checkpoint_interval_ms="200",
        offsets_topic_replication_factor="1",
        **settings,
    )
    request.addfinalizer(cluster.close)
    cluster.start()
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all")
    request.addfinalizer(producer.close)
    producer.send(TOPIC, b"before", partition=0).get(timeout=20)
    cluster.wait_until_whole(TOPIC)
    broker = cluster.nodes[1]
    lost = [each["partition"] for each in broker.replicas() if each["log_dir"] == str(broker.directory / "b")]
    assert len(lost) == 2

    shutil.move(broker.directory / "b", broker.directory / "b.gone")
    (broker.directory / "b").write_text("a disk that is gone")

    def is_out():
        states = [each for each in cluster.partitions(TOPIC) if each["partition"] in lost]
        return all((each["offline"], each["leader"], each["isr"]) == ([1], 2, [2]) for each in states)

    eventually(is_out, 10, "the lost replicas are out of leaderships and ISRs")
    for partition in range(4):
        producer.send(TOPIC, b"after", partition=partition).get(timeout=20)
    assert broker.state()["offline_partitions"] == [[TOPIC, partition] for partition in lost]
    failures = [line for line in broker.log_tail(1000).splitlines() if " ERROR " in line]
    assert len(failures) == 1
    assert f"log directory {broker.directory / 'b'} failed: " in failures[0]

    broker.kill()
    broker.start()
    eventually(broker.is_ready, 20, "the broker serves without that directory")
    assert broker.state()["log_dirs"][1]["failure"]
    assert broker.state()["offline_partitions"] == [[TOPIC, partition] for partition in lost]
    (broker.directory / "a").rename(broker.directory / "a.gone")
    (broker.directory / "a").write_text("another disk that is gone")
    assert broker.process.wait(20) == 4
    assert f"exits with status 4: log directory {broker.directory / 'a'} failed" in broker.log_tail(1)
