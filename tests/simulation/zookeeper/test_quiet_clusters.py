"""The measurements of simulated clusters without faults: what they count, and what they say of a broker's death."""

from __future__ import annotations

import pytest

from benchmarks.simulation.herd_picture import draw
from benchmarks.simulation.quiet_clusters import QuietCluster
from broker.core.rules.generations import GENERATIONS
from broker.zookeeper.choices import C1, CONTROLLED, LEADER_RACES, V1, V2, ZOOKEEPER_GENERATIONS

TOPICS, PARTITIONS = 2, 3


@pytest.mark.parametrize("generation", [*ZOOKEEPER_GENERATIONS, *GENERATIONS])
def test_partitions_are_led_again_after_their_leader_has_died_and_was_missed(generation: str) -> None:
    cluster = QuietCluster(generation, TOPICS, PARTITIONS)
    failover = cluster.fail_over()
    assert failover.led == TOPICS * PARTITIONS / 3
    assert 2_000_000 < failover.noticed_us < 4_000_000  # the session's timeout is three seconds
    assert failover.noticed_us < failover.led_again_us
    assert {cluster.leader(key) for key in cluster.keys} == {2, 3}
    assert bool(failover.watches) == (generation in ZOOKEEPER_GENERATIONS)
    assert all(failover.noticed_us <= at_us for at_us in failover.watches)


@pytest.mark.parametrize("generation", LEADER_RACES)
def test_a_partition_more_costs_as_many_watches_as_the_one_before(generation: str) -> None:
    few, more = (QuietCluster(generation, TOPICS, number).watches() for number in (PARTITIONS, 2 * PARTITIONS))
    assert few["leader"] == 3 * TOPICS * PARTITIONS  # by each of its replicas
    assert more["leader"] == 2 * few["leader"]


def test_a_controller_needs_no_watch_of_a_partition() -> None:
    for generation in CONTROLLED:
        few, more = (QuietCluster(generation, TOPICS, number).watches() for number in (PARTITIONS, 2 * PARTITIONS))
        assert few == more
    assert QuietCluster("K5", TOPICS, PARTITIONS).watches().total() == 0


def test_the_herd_is_drawn_the_same_each_time() -> None:
    failovers = {generation: QuietCluster(generation, 1, PARTITIONS).fail_over() for generation in (V1, V2, C1)}
    picture = draw(failovers, "3 partitions on 3 brokers")
    assert picture == draw(failovers, "3 partitions on 3 brokers")
    for generation, one in failovers.items():
        assert f"{generation}: {len(one.watches)} watches" in picture
    assert len(failovers[V1].watches) > len(failovers[V2].watches) > len(failovers[C1].watches)
