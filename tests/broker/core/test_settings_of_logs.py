"""What settings make of logs: compaction of committed offsets, when a segment ends, alterations that are refused."""

from __future__ import annotations

import pytest

from broker.core.broker_node.groups.records import OFFSETS_TOPIC
from broker.core.configuration import cleanup
from broker.core.configuration.alteration import Refused
from broker.core.configuration.settings import Settings
from broker.core.messages import (
    ConfigOperation,
    ConfigResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    Listener,
    ResourceType,
)
from broker.core.messages.errors import ErrorCode
from tests.support.cluster import TOPIC, Cluster

SETTINGS = Settings(
    node_id=1, roles=("broker",), voters={100: ("c", 1)}, listeners=(Listener("CLIENT", "b", 1),), log_dirs=("/",)
)


@pytest.mark.parametrize(
    ("topic", "configs", "compacts", "deletes"),
    [
        (OFFSETS_TOPIC, {}, True, False),
        (OFFSETS_TOPIC, {"cleanup.policy": "delete"}, False, True),
        (OFFSETS_TOPIC, {"cleanup.policy": "compact,delete"}, True, True),
        (TOPIC, {}, False, True),
        (TOPIC, {"cleanup.policy": "compact"}, True, False),
    ],
)
def test_committed_offsets_are_compacted_unless_their_topic_says_otherwise(
    topic: str, configs: dict[str, str], compacts: bool, deletes: bool
) -> None:
    assert (cleanup.compaction(SETTINGS, topic, configs) is not None) is compacts
    assert cleanup.deletes(SETTINGS, topic, configs) is deletes


@pytest.mark.parametrize(
    ("policy", "lag_ms", "ends_after_ms"),
    [("compact", "500", 500), ("compact", "50000", 10_000), ("delete", "500", 10_000)],
)
def test_a_segment_ends_in_time_for_the_compaction_of_its_records(policy: str, lag_ms: str, ends_after_ms: int) -> None:
    """KIP-354."""
    configs = {"cleanup.policy": policy, "segment.ms": "10000", "max.compaction.lag.ms": lag_ms}
    assert cleanup.segment_ms(SETTINGS, TOPIC, configs) == ends_after_ms


def test_a_refusal_says_its_text_and_no_more() -> None:
    refused = Refused(ErrorCode.INVALID_REQUEST, "expected this, found that")
    assert (str(refused), refused.error) == ("expected this, found that", ErrorCode.INVALID_REQUEST)


def test_an_alteration_that_names_a_setting_twice_is_refused_and_changes_nothing() -> None:
    cluster = Cluster()
    cluster.create_topic()
    twice = tuple(ConfigOperation("segment.bytes", 0, value) for value in ("1000", "2000"))
    request = IncrementalAlterConfigsRequest((ConfigResource(ResourceType.TOPIC, TOPIC, twice),))
    response = cluster.call(1, request)
    assert isinstance(response, IncrementalAlterConfigsResponse)
    assert response.results[0].error_code == ErrorCode.INVALID_REQUEST
    assert response.results[0].error_message == "expected each setting once, found segment.bytes again"
    assert cluster.machines[100].node.state.image.topics[TOPIC].configs == {}


def test_a_deletion_by_age_is_told_in_the_log_of_the_leader() -> None:
    """LO-3: an operator who misses records finds there who has deleted them."""
    cluster = Cluster(log_retention_check_interval_ms=200, wall_clock_ms=10**12)
    cluster.create_topic(segment_bytes="100", retention_ms="60000")
    leader = cluster.leader()
    for value in range(4):
        assert cluster.produce(leader, value) == ErrorCode.NONE  # with times of 1970
    cluster.run_until(lambda: cluster.machines[leader].node.state.replicas[TOPIC, 0].log.start_offset > 0)
    start = cluster.machines[leader].node.state.replicas[TOPIC, 0].log.start_offset
    assert any(note.endswith(f"{TOPIC}-0: log starts at {start}") for note in cluster.machines[leader].notes)
