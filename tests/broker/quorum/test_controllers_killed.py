"""Three controllers, five brokers, one machine: any controller may be killed without stopping the cluster."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(90)]


@pytest.mark.slow
@pytest.mark.parametrize("which", ["active", "standby"])
def test_topics_isr_changes_and_elections_go_on_without_a_controller(separate, which):
    cluster, topic = separate.cluster, f"without-{which}"
    separate.wait_for_one_leader()
    active = cluster.active_controller()
    victim = active if which == "active" else cluster.nodes[201 - active.number if active.number != 102 else 100]
    victim.kill()
    try:
        separate.create(topic)
        separate.produce(topic, range(100))
        before = cluster.leader_of(topic)
        broker = cluster.nodes[before]
        broker.kill()

        def moved() -> bool:
            partition = next((each for each in cluster.partitions(topic) if each["partition"] == 0), None)
            return partition is not None and partition["leader"] not in (-1, before) and before not in partition["isr"]

        separate.wait(moved, "another broker leads, and the dead one is out of the ISR")
        separate.produce(topic, range(100, 200))
        broker.start()
        cluster.wait_until_whole(topic)
        assert separate.read(topic) == list(range(200))
        assert cluster.active_controller() is not victim
    finally:
        cluster.start()
    separate.wait_for_one_leader()
