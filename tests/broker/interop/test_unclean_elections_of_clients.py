"""An operator's unclean election on a real cluster: a client asks for it, the controller's endpoint reports it."""

from __future__ import annotations

import json

import pytest
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewTopic

from tests.support.local_cluster import CONTROLLER, LocalCluster, eventually

TOPIC = "lossy"
UNCLEAN = 1
LIMIT_S = 20.0


@pytest.mark.slow
def test_an_unclean_election_that_an_operator_asks_for_is_held_and_reported() -> None:
    with LocalCluster(2, default_replication_factor="2", min_insync_replicas="1") as cluster:
        admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
        admin.create_topics([NewTopic(TOPIC, 1, 2)])
        admin.close()
        cluster.wait_until_whole(TOPIC)
        first = cluster.leader_of(TOPIC)
        other = 3 - first
        cluster.nodes[other].kill()
        producer = KafkaProducer(bootstrap_servers=[cluster.addresses[first]], acks="all")
        producer.send(TOPIC, b"acknowledged").get(LIMIT_S)
        producer.close()
        eventually(lambda: cluster.partitions(TOPIC)[0]["isr"] == [first], LIMIT_S, "only its leader is in sync")
        cluster.nodes[first].kill()
        eventually(lambda: cluster.leader_of(TOPIC) == -1, LIMIT_S, "nobody leads")
        cluster.nodes[other].start()
        eventually(cluster.nodes[other].is_ready, LIMIT_S, "the other broker serves")
        assert cluster.leader_of(TOPIC) == -1

        admin = KafkaAdminClient(bootstrap_servers=[cluster.addresses[other]])
        answer = admin.elect_leaders(UNCLEAN, {TOPIC: [0]}, timeout_ms=int(1000 * LIMIT_S))
        admin.close()
        assert answer.replica_election_results[0].partition_result[0].error_code == 0
        eventually(lambda: cluster.leader_of(TOPIC) == other, LIMIT_S, "the other broker leads")

        controller = cluster.nodes[CONTROLLER]
        (loss,) = json.loads(controller.ask("/state"))["potential_losses"]
        assert (loss["topic"], loss["leader"], loss["cause"]) == (TOPIC, other, "request")
        assert loss["logs"] == [{"broker": other, "last_epoch": -1, "log_end": 0}]
        metrics = controller.ask("/metrics").decode().splitlines()
        assert 'harrow_unclean_elections_total{cause="request"} 1' in metrics
        assert 'harrow_unclean_elections_total{cause="setting"} 0' in metrics
        assert f'harrow_potential_losses_total{{topic="{TOPIC}",partition="0"}} 1' in metrics
        assert "records may be lost" in controller.log_tail()
