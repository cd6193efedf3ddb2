"""Three combined nodes, each with broker and controller in one process."""

from __future__ import annotations

import pytest
from kafka import KafkaAdminClient

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(90)]


@pytest.mark.slow
def test_a_node_of_both_roles_may_be_killed_and_the_others_go_on(combined):
    cluster = combined.cluster
    combined.create("kept")
    combined.produce("kept", range(100))
    combined.wait_for_one_leader()
    victim = cluster.active_controller()
    victim.kill()
    combined.wait(lambda: cluster.active_controller() is not None, "another node is the active controller")
    combined.wait(
        lambda: (
            bool(cluster.partitions("kept"))
            and all(each["leader"] not in (-1, victim.number) for each in cluster.partitions("kept"))
        ),
        "the others lead everything",
    )
    combined.produce("kept", range(100, 200))
    combined.create("new")
    cluster.start()
    cluster.wait_until_whole("kept", "new")
    assert combined.read("kept") == list(range(200))


def test_a_node_of_both_roles_hands_over_both_when_it_is_stopped(combined):
    cluster = combined.cluster
    combined.create("handed-over")
    combined.produce("handed-over", range(10))
    combined.wait_for_one_leader()
    leaving = cluster.active_controller()
    assert leaving.stop() == 0
    combined.wait(lambda: cluster.active_controller() is not None, "another node is the active controller")
    combined.produce("handed-over", range(10, 20))
    cluster.start()
    cluster.wait_until_whole("handed-over")
    assert combined.read("handed-over") == list(range(20))
    with combined.admin() as admin:
        quorum = admin.describe_metadata_quorum()
    assert {voter["replica_id"] for voter in quorum["topics"][0]["partitions"][0]["current_voters"]} == {1, 2, 3}


def test_requests_go_to_the_part_that_owns_the_listener(combined):
    node = combined.cluster.nodes[1]
    combined.create("spread")
    combined.cluster.wait_until_whole("spread")
    admin = KafkaAdminClient(bootstrap_servers=[combined.cluster.addresses[1]])
    assert {broker["broker_id"] for broker in admin.describe_cluster()["brokers"]} == {1, 2, 3}
    admin.close()

    def heard(listener: str) -> bool:
        return f'harrow_bytes_in_total{{listener="{listener}"}}' in node.ask("/metrics").decode()

    for listener in ("CLIENT", "BROKER", "CONTROLLER"):
        combined.wait(lambda name=listener: heard(name), f"node 1 has heard something on {listener}")
    metrics = node.ask("/metrics").decode()
    assert "harrow_quorum_role" in metrics
    assert "harrow_fetch_sessions" in metrics
