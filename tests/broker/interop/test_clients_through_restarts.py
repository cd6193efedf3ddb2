"""Each client sends 100,000 records with acks=all and reads them back, while a broker is killed or stopped under it.

Every record that was acknowledged must be read, and once only: all four are idempotent producers.
"""

from __future__ import annotations

from collections import Counter

import pytest
from kafka import KafkaAdminClient
from kafka.admin import NewTopic

from tests.broker.interop.interop_clients import CLIENTS
from tests.support.local_cluster import eventually

pytestmark = [pytest.mark.cluster, pytest.mark.clients, pytest.mark.timeout(120)]

RECORDS = 100_000
DOWN_AFTER, UP_AFTER = 30_000, 70_000
PARTITIONS = 3
VICTIM = 2
FLOW_S_MAX = 20.0


@pytest.mark.slow
@pytest.mark.parametrize("way_down", ["kill", "stop"])
@pytest.mark.parametrize("name", CLIENTS)
def test_what_was_acknowledged_is_read_once_through_a_restart(cluster, name, way_down):
    client = CLIENTS[name]()
    topic = f"{name}-{way_down}"
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    admin.create_topics([NewTopic(topic, PARTITIONS, 3)])
    admin.close()
    victim = cluster.nodes[VICTIM]
    bootstrap = ",".join(cluster.bootstrap)

    def committed():
        return sum(cluster.committed(topic).values())

    def goes_on_without():
        leaders = {each["leader"] for each in cluster.partitions(topic)}
        return victim.number not in leaders and committed() > before

    before = 0

    def stages():
        nonlocal before
        yield range(DOWN_AFTER)
        eventually(lambda: committed() > 0, FLOW_S_MAX, "the first records are committed")
        assert victim.number in {each["leader"] for each in cluster.partitions(topic)}
        getattr(victim, way_down)()
        before = committed()
        yield range(DOWN_AFTER, UP_AFTER)
        eventually(goes_on_without, FLOW_S_MAX, "records are committed without the broker that is down")
        victim.start()
        yield range(UP_AFTER, RECORDS)

    try:
        acknowledged = client.produce(bootstrap, topic, stages())
    finally:
        cluster.start()
    cluster.wait_until_whole(topic)
    found = Counter(client.read(bootstrap, topic, PARTITIONS))
    assert acknowledged == set(range(RECORDS))
    assert acknowledged <= found.keys(), f"lost {len(acknowledged - found.keys())}"
    assert found.total() == len(found), f"{found.total() - len(found)} read twice"
