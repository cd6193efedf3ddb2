"""An administrator as the workload `admin` drives it, against a real cluster."""

import pytest

from tests.support.local_cluster import eventually
from workloads.clients import client_named
from workloads.clients.base import ClientError, ClientSettings, Partition
from workloads.clients.optional_interfaces import admin_library

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(120)]

PATIENCE_S = 20.0


@pytest.fixture
def administrator(cluster):
    made = admin_library(client_named("kafka-python")).administrator(ClientSettings(tuple(cluster.bootstrap)))
    yield made
    made.close()


def test_a_topic_comes_grows_moves_and_goes(cluster, administrator):
    administrator.create("churned", 1)
    administrator.add_partitions("churned", 3)
    last = Partition("churned", 2)

    def placed():
        try:
            return administrator.placement(last)
        except ClientError:
            return None

    eventually(placed, PATIENCE_S, "the new partition is known")
    replicas, brokers = placed()
    assert set(replicas) <= set(brokers) == set(cluster.addresses)
    assert len(replicas) == 3, "as many as the cluster's default"
    administrator.reassign(last, replicas[::-1])
    eventually(lambda: placed().replicas == replicas[::-1], PATIENCE_S, "the replicas have their new order")
    administrator.delete("churned")
    eventually(lambda: placed() is None, PATIENCE_S, "the topic is gone")


def test_what_the_cluster_refuses_is_an_error(administrator):
    with pytest.raises(ClientError, match="UnknownTopicOrPartition"):
        administrator.delete("never-there")
    with pytest.raises(ClientError, match="UnknownTopicOrPartition"):
        administrator.reassign(Partition("never-there", 0), [1])
