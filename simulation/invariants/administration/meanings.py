"""What each answer to an administrator says about the metadata: before its request, and after it.

Each function returns what is wrong, or "". `versions` are the committed states from the one in which the controller
decided to the one that its decision led to, in order. An error that is not listed says at least that nothing changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from broker.core.configuration.alteration import Operation
from broker.core.messages import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    AnyRequest,
    AnyResponse,
    ConfigResource,
    CreatedTopic,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletedTopic,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    ElectedPartition,
    ElectLeadersRequest,
    ElectLeadersResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    NewPartitions,
    NewTopic,
    Reassignment,
    ResourceType,
)
from broker.core.messages.errors import ErrorCode
from broker.core.metadata.image import BrokerImage
from broker.core.metadata.records import PartitionState
from simulation.invariants.knowledge import Version

_PREFERRED = 0
_MIN_ISR = "min.insync.replicas"
Versions = Sequence[Version]


def meaning(request: AnyRequest, response: AnyResponse, versions: Versions) -> str:
    """What is wrong with an answer; "" if it is true, or of a kind that says nothing about the metadata."""
    found: list[str] = []
    match request, response:
        case CreateTopicsRequest(), CreateTopicsResponse():
            for new, created in zip(request.topics, response.topics, strict=True):
                found.append(_created(new, created, versions))
        case DeleteTopicsRequest(), DeleteTopicsResponse():
            for (name, topic_id), deleted in zip(request.topics, response.topics, strict=True):
                found.append(_deleted(name, topic_id, deleted, versions))
        case CreatePartitionsRequest(), CreatePartitionsResponse():
            for wanted, result in zip(request.topics, response.results, strict=True):
                found.append(_grown(wanted, result.error_code, versions))
        case IncrementalAlterConfigsRequest(), IncrementalAlterConfigsResponse():
            for resource, altered in zip(request.resources, response.results, strict=True):
                found.append(_altered(resource, altered.error_code, versions))
        case AlterPartitionReassignmentsRequest(), AlterPartitionReassignmentsResponse():
            for asked, answered in zip(request.reassignments, response.results, strict=True):
                found.append(_reassigned(asked, answered.error_code, versions))
        case ElectLeadersRequest(), ElectLeadersResponse():
            for elected in response.partitions:
                found.append(_elected(elected, versions, preferred=request.election_type == _PREFERRED))
    return next((wrong for wrong in found if wrong), "")


def _id_of(version: Version, name: str) -> str:
    return version.topics[name][0] if name in version.topics else ""


def _state(version: Version, topic: str, number: int) -> PartitionState | None:
    return cast("PartitionState | None", version.topics.get(topic, ("", {}, {}))[1].get(number))


def _created(new: NewTopic, created: CreatedTopic, versions: Versions) -> str:
    before, after = versions[0], versions[-1]
    error = created.error_code
    if error != ErrorCode.NONE:
        if error == ErrorCode.TOPIC_ALREADY_EXISTS and new.name not in before.topics:
            return f"there was no topic {new.name}"
        return f"{new.name} was created" if _id_of(before, new.name) != _id_of(after, new.name) else ""
    if new.name in before.topics:
        return f"there was a topic {new.name} already"
    topic_id, partitions, configs = after.topics.get(new.name, ("", {}, {}))
    if not topic_id or topic_id != created.topic_id:
        return f"{new.name} has the id {topic_id!r}"
    placed = {number: cast("PartitionState", state).replicas for number, state in partitions.items()}
    if new.assignments:
        is_so = placed == dict(new.assignments)
    else:
        factors = {len(replicas) for replicas in placed.values()}
        is_so = new.num_partitions in (-1, len(placed)) and (
            new.replication_factor == -1 or factors == {new.replication_factor}
        )
    if not is_so:
        return f"{new.name} has the replicas {placed}"
    different = {key: configs.get(key) for key, value in new.configs if not _says(configs.get(key), value)}
    return f"{new.name} has the settings {different}" if different else ""


def _deleted(name: str | None, topic_id: str, deleted: DeletedTopic, versions: Versions) -> str:
    before, after = versions[0], versions[-1]
    by_id = {found: one for one, (found, *_) in before.topics.items()}
    asked = name or by_id.get(topic_id, "")
    if deleted.error_code == ErrorCode.NONE:
        if asked not in before.topics:
            return f"there was no topic {name or topic_id}"
        return f"{asked} still exists" if _id_of(before, asked) == _id_of(after, asked) else ""
    unknown = deleted.error_code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
    if unknown and asked in before.topics:
        return f"there was a topic {asked}"
    return f"{asked} was deleted" if _id_of(before, asked) != _id_of(after, asked) else ""


def _grown(wanted: NewPartitions, error: int, versions: Versions) -> str:
    counts = [len(version.topics.get(wanted.topic, ("", {}, {}))[1]) for version in (versions[0], versions[-1])]
    if error == ErrorCode.NONE:
        return (
            ""
            if counts[0] < counts[1] == wanted.total_count
            else f"{wanted.topic} went from {counts[0]} to {counts[1]}"
        )
    if error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and wanted.topic in versions[0].topics:
        return f"there was a topic {wanted.topic}"
    return f"{wanted.topic} went from {counts[0]} to {counts[1]} partitions" if counts[0] != counts[1] else ""


def _settings(version: Version, resource: ConfigResource) -> dict[str, str]:
    if resource.resource_type == ResourceType.TOPIC:
        return version.topics.get(resource.name, ("", {}, {}))[2]
    return version.configs[1].get(int(resource.name), {}) if resource.name else version.configs[0]


def _altered(resource: ConfigResource, error: int, versions: Versions) -> str:
    before, after = (_settings(version, resource) for version in (versions[0], versions[-1]))
    if error != ErrorCode.NONE:
        is_topic = resource.resource_type == ResourceType.TOPIC
        if error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and is_topic and resource.name in versions[0].topics:
            return f"there was a topic {resource.name}"
        return f"the settings went from {before} to {after}" if before != after else ""
    expected = dict(before)
    for key, operation, value in resource.operations:
        if operation == Operation.SET and value is not None:
            expected[key] = value
        elif operation != Operation.DELETE:
            return ""  # words of a list: no client of a simulation sends such
        elif key != _MIN_ISR or resource.name:  # the cluster's is never missing (PR-2)
            expected.pop(key, None)
        else:
            expected[key] = after.get(key, "")
    is_so = expected.keys() == after.keys() and all(_says(after[key], value) for key, value in expected.items())
    return "" if is_so else f"the settings went from {before} to {after}"


def _says(stored: str | None, asked: str | None) -> bool:
    """Whether a stored value is the one that was asked for; a fraction is stored with its decimals."""
    if stored is None or asked is None or stored == asked:
        return stored == asked
    try:
        return float(stored) == float(asked)
    except ValueError:
        return False


def _reassigned(asked: Reassignment, error: int, versions: Versions) -> str:
    before, after = (_state(version, asked.topic, asked.partition) for version in (versions[0], versions[-1]))
    if before is None or after is None:
        known = error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return "" if known == (before is None) else f"the partition was {before}, and is {after}"
    if error == ErrorCode.NONE:
        original = tuple(one for one in before.replicas if one not in before.adding)
        target = original if asked.replicas is None else asked.replicas
        left = {one for one in after.replicas if one not in after.removing}
        is_so = left == set(target) and not (asked.replicas is None and (after.adding or after.removing))
        return "" if is_so else f"the partition went from {before} to {after}"
    is_moving = bool(before.adding or before.removing)
    if error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or (error == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS and is_moving):
        return f"the partition was {before}"
    same = (before.replicas, before.adding, before.removing) == (after.replicas, after.adding, after.removing)
    return "" if same else f"the partition went from {before} to {after}"


def _elected(elected: ElectedPartition, versions: Versions, *, preferred: bool) -> str:
    topic, number = elected.topic, elected.partition
    states = [state for state in (_state(version, topic, number) for version in versions) if state is not None]
    before = _state(versions[0], topic, number)
    error = elected.error_code
    if error == ErrorCode.NONE:
        if any(state.leader >= 0 and (not preferred or state.leader == state.replicas[0]) for state in states):
            return ""
        return f"nobody was elected for {topic}-{number}, which was {before}"
    if before is None:
        return "" if error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else f"there was no partition {topic}-{number}"
    first = before.replicas[0]
    is_so = True
    if error == ErrorCode.ELECTION_NOT_NEEDED:
        is_so = before.leader == first if preferred else before.leader >= 0 and _is_active(versions[0], before.leader)
    elif error == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE:
        is_so = first not in before.isr or first in before.offline or not _is_active(versions[0], first)
    elif error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        is_so = len(states) < len(versions)  # it was deleted while a recovery went on
    return "" if is_so else f"{topic}-{number} was {before}"


def _is_active(version: Version, broker_id: int) -> bool:
    broker = version.brokers.get(broker_id)
    return isinstance(broker, BrokerImage) and broker.active
