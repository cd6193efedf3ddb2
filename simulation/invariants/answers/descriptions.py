"""Checks what administrators and consumers in a rack are told: descriptions (P-72), preferred replicas (P-73).

And that a topic which a client names comes to be, where brokers create topics by themselves (P-74).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import cast

from broker.core.broker_node.state import BrokerState
from broker.core.messages import (
    NO_PREFERRED_REPLICA,
    AnyResponse,
    CreateTopicsRequest,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribedConfig,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    MetadataRequest,
    ResourceType,
)
from broker.core.messages.errors import ErrorCode
from broker.core.metadata.image import BrokerImage
from broker.core.metadata.records import METADATA_TOPIC, PartitionState
from broker.core.ports.events import Effect, RequestReceived, Send
from broker.core.replica.state import Role
from simulation.invariants.knowledge import BrokerMirror, Knowledge, Version
from simulation.invariants.properties import Violation

_OF_TOPIC, _OF_BROKER, _OF_ALL, _OF_FILE, _OF_NOBODY = range(1, 6)
"""Where a value comes from, as KIP-226 numbers it."""

_DOCUMENTED = {
    "segment.bytes": ("log.segment.bytes", "log_segment_bytes", "1073741824"),
    "index.interval.bytes": ("log.index.interval.bytes", "log_index_interval_bytes", "4096"),
    "max.message.bytes": ("message.max.bytes", "message_max_bytes", "1048588"),
    "delete.retention.ms": ("log.cleaner.delete.retention.ms", "log_cleaner_delete_retention_ms", "86400000"),
}
"""A topic's setting -> the broker's that stands for it, its field among those of the file, and its default in Kafka's
documentation."""

_LEGAL = re.compile("[a-zA-Z0-9._-]{1,249}")


def answered(
    known: Knowledge, broker: BrokerMirror, state: BrokerState, event: RequestReceived, response: AnyResponse
) -> None:
    """P-72 and P-73, of an answer in the step of its request."""
    match event.request, response:
        case DescribeConfigsRequest(), DescribeConfigsResponse():
            version = known.versions.get(broker.image_end)
            wrong = _wrong_settings(known, broker.broker_id, response, version) if version is not None else ""
        case DescribeTopicPartitionsRequest(), DescribeTopicPartitionsResponse():
            version = known.versions.get(broker.image_end)
            wrong = _wrong_partitions(response, version) if version is not None else ""
        case FetchRequest() as request, FetchResponse() if request.rack_id and request.replica_id < 0:
            _check_preferred(broker, state, request, response)
            return
        case _:
            return
    if wrong:
        raise Violation("P-72", f"broker {broker.broker_id} tells {wrong}, by the metadata up to {broker.image_end}")


def named(broker: BrokerMirror, state: BrokerState, event: RequestReceived, effects: Sequence[Effect]) -> None:
    """P-74: a broker that may create topics asks the controller for those that a client names and it does not know."""
    request = event.request
    assert isinstance(request, MetadataRequest)
    if not (request.allow_auto_topic_creation and state.settings.auto_create_topics_enable):
        return
    wanted = {
        name
        for name, _ in request.topics or ()
        if name and name not in state.image.topics and name != METADATA_TOPIC and _LEGAL.fullmatch(name)
    }
    asked_for = {
        new.name
        for effect in effects
        if isinstance(effect, Send) and isinstance(effect.request, CreateTopicsRequest)
        for new in effect.request.topics
    }
    if wanted - {".", ".."} - asked_for:
        raise Violation(
            "P-74",
            f"broker {broker.broker_id} was asked for the topics {sorted(wanted)}, which it does not know and may "
            f"create, and asks the controller for {sorted(asked_for)}",
        )


# --- descriptions ----------------------------------------------------------------------------------------------------


def _wrong_settings(known: Knowledge, broker_id: int, response: DescribeConfigsResponse, version: Version) -> str:
    of_all, own = version.configs[0], version.configs[1].get(broker_id, {})
    for result in response.results:
        said = {config.name: config for config in result.configs}
        is_topic = result.resource_type == ResourceType.TOPIC
        is_there = not is_topic or result.name in version.topics
        if (result.error_code == ErrorCode.NONE) != is_there:
            return f"{ErrorCode(result.error_code).name} of the settings of {result.name!r}"
        if not is_there or (not is_topic and not result.name):
            continue
        configs = version.topics[result.name][2] if is_topic else {}
        for key, (of_broker, field, default) in _DOCUMENTED.items():
            in_file = str(getattr(known.settings, field))
            expected = _in_force(key, of_broker, configs, own, of_all, in_file, default)
            found = said.get(key if is_topic else of_broker)
            if found is None or (found.value, found.config_source) != expected:
                return f"{_described(found)} of {key} of {result.name!r}; expected (value, source) {expected}"
    return ""


def _in_force(
    key: str,
    of_broker: str,
    configs: Mapping[str, str],
    own: Mapping[str, str],
    of_all: Mapping[str, str],
    in_file: str,
    default: str,
) -> tuple[str, int]:
    """KIP-226: the topic's value, else the broker's own, that of all brokers, that of its file, the default."""
    for name, values, source in ((key, configs, _OF_TOPIC), (of_broker, own, _OF_BROKER), (of_broker, of_all, _OF_ALL)):
        if name in values:
            return values[name], source
    return (in_file, _OF_FILE) if in_file != default else (default, _OF_NOBODY)


def _described(config: DescribedConfig | None) -> str:
    return "nothing" if config is None else f"{config.value} from source {config.config_source}"


def _wrong_partitions(response: DescribeTopicPartitionsResponse, version: Version) -> str:
    for topic in response.topics:
        topic_id, states, _ = version.topics.get(topic.name, ("", {}, {}))
        if (topic.error_code == ErrorCode.NONE) != bool(topic_id) or topic.topic_id != topic_id:
            return f"of the topic {topic}, which has the id {topic_id!r}"
        for part in topic.partitions:
            held = cast("PartitionState | None", states.get(part.partition))
            if held is None or part[2:8] != (
                held.leader,
                held.leader_epoch,
                held.replicas,
                held.isr,
                held.elr,
                held.last_known_elr,
            ):
                return f"of {topic.name} {part}, which is {held}"
    return ""


# --- consumers in a rack ---------------------------------------------------------------------------------------------


def _check_preferred(broker: BrokerMirror, state: BrokerState, request: FetchRequest, response: FetchResponse) -> None:
    """P-73: a consumer is sent to a follower in its rack that is in sync, where the brokers' selector wants that."""
    asked = {(part.topic, part.partition): part for part in request.partitions}
    for answer in response.partitions:
        part = asked.get((answer.topic, answer.partition))
        if part is not None and answer.error_code == ErrorCode.NONE:
            _check_choice(broker, state, request.rack_id, part, answer)


def _check_choice(
    broker: BrokerMirror, state: BrokerState, rack: str, part: FetchPartition, answer: FetchedPartition
) -> None:
    replica = state.replicas.get((part.topic, part.partition))
    if (
        replica is None
        or replica.role is not Role.LEADER
        or state.settings.replica_selector != "rack-aware"
        or rack == state.settings.rack
    ):
        allowed = {NO_PREFERRED_REPLICA}
    else:
        in_rack = {
            member
            for member in replica.isr
            if member in replica.remotes and _is_active_in(state.image.brokers.get(member), rack)
        }
        reaching = {
            member
            for member in in_rack
            if replica.remotes[member].log_start <= part.fetch_offset <= replica.remotes[member].log_end
        }
        allowed = reaching or {NO_PREFERRED_REPLICA}
    if answer.preferred_read_replica not in allowed:
        raise Violation(
            "P-73",
            f"{part.topic}-{part.partition}: broker {broker.broker_id} in rack {state.settings.rack} with the selector "
            f"{state.settings.replica_selector} sends a consumer in {rack} to {answer.preferred_read_replica}; "
            f"expected one of {sorted(allowed)}",
        )


def _is_active_in(broker: BrokerImage | None, rack: str) -> bool:
    return broker is not None and broker.active and broker.rack == rack
