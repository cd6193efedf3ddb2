"""What each answer to an administrator says about the metadata: before its request, and after it.

Each function returns what is wrong, or "". `versions` are the committed states from the one in which the controller
decided to the one that its decision led to, in order. An error says that nothing changed, and has a reason that was
there before (`refusals`).
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
from broker.core.metadata.records import PartitionState
from simulation.invariants.administration import refusals
from simulation.invariants.administration.asked import is_tried
from simulation.invariants.knowledge import Version

_PREFERRED = 0
_MIN_ISR = "min.insync.replicas"
Versions = Sequence[Version]


def meaning(request: AnyRequest, response: AnyResponse, versions: Versions, min_isr_of_files: int) -> str:
    """What is wrong with an answer; "" if it is true, or of a kind that says nothing about the metadata."""
    if is_tried(request):
        before, after = ((one.topics, one.configs) for one in (versions[0], versions[-1]))
        return "" if before == after else f"it was only to be tried: topics and settings went from {before} to {after}"
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
            named = [(resource.resource_type, resource.name) for resource in request.resources]
            for resource, altered in zip(request.resources, response.results, strict=True):
                is_repeated = named.count((resource.resource_type, resource.name)) > 1
                found.append(_altered(resource, altered.error_code, versions, is_repeated=is_repeated))
        case AlterPartitionReassignmentsRequest(), AlterPartitionReassignmentsResponse():
            for asked, answered in zip(request.reassignments, response.results, strict=True):
                found.append(_reassigned(asked, answered.error_code, versions, min_isr_of_files))
        case ElectLeadersRequest(), ElectLeadersResponse():
            preferred = request.election_type == _PREFERRED
            found.append(_left_out(request, response, versions[0], preferred=preferred))
            for elected in response.partitions:
                found.append(_elected(elected, versions, preferred=preferred))
    return next((wrong for wrong in found if wrong), "")


def _id_of(version: Version, name: str) -> str:
    return version.topics[name][0] if name in version.topics else ""


def _state(version: Version, topic: str, number: int) -> PartitionState | None:
    return cast("PartitionState | None", version.topics.get(topic, ("", {}, {}))[1].get(number))


def _created(new: NewTopic, created: CreatedTopic, versions: Versions) -> str:
    before, after = versions[0], versions[-1]
    error = created.error_code
    if error != ErrorCode.NONE:
        if not refusals.of_creation(new, error, before):
            return f"{new.name} had no reason to be refused with {ErrorCode(error).name}"
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
    if not refusals.of_deletion(name, topic_id, deleted.error_code, before):
        return f"{asked} had no reason to be refused with {ErrorCode(deleted.error_code).name}"
    return f"{asked} was deleted" if _id_of(before, asked) != _id_of(after, asked) else ""


def _grown(wanted: NewPartitions, error: int, versions: Versions) -> str:
    counts = [len(version.topics.get(wanted.topic, ("", {}, {}))[1]) for version in (versions[0], versions[-1])]
    if error == ErrorCode.NONE:
        return (
            ""
            if counts[0] < counts[1] == wanted.total_count
            else f"{wanted.topic} went from {counts[0]} to {counts[1]}"
        )
    if not refusals.of_growth(wanted, error, versions[0]):
        return f"{wanted.topic} had no reason to be refused with {ErrorCode(error).name}"
    return f"{wanted.topic} went from {counts[0]} to {counts[1]} partitions" if counts[0] != counts[1] else ""


def _settings(version: Version, resource: ConfigResource) -> dict[str, str]:
    if resource.resource_type == ResourceType.TOPIC:
        return version.topics.get(resource.name, ("", {}, {}))[2]
    if not resource.name:
        return version.configs[0]
    return version.configs[1].get(int(resource.name), {}) if resource.name.isdecimal() else {}


def _altered(resource: ConfigResource, error: int, versions: Versions, *, is_repeated: bool) -> str:
    before, after = (_settings(version, resource) for version in (versions[0], versions[-1]))
    if error != ErrorCode.NONE:
        is_topic = resource.resource_type == ResourceType.TOPIC
        if not refusals.of_alteration(resource, error, versions[0], is_topic=is_topic, is_repeated=is_repeated):
            return f"the settings of {resource.name!r} had no reason to be refused with {ErrorCode(error).name}"
        return f"the settings went from {before} to {after}" if before != after else ""
    if not refusals.may_alter(resource):
        return "a value is not legal"
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


def _reassigned(asked: Reassignment, error: int, versions: Versions, min_isr_of_files: int) -> str:
    before, after = (_state(version, asked.topic, asked.partition) for version in (versions[0], versions[-1]))
    if before is None or after is None:
        known = error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return "" if known == (before is None) else f"the partition was {before}, and is {after}"
    if error == ErrorCode.NONE:
        if asked.replicas is None and not before.adding and not before.removing:
            return f"there was nothing to cancel, for the partition was {before}"
        original = tuple(one for one in before.replicas if one not in before.adding)
        target = original if asked.replicas is None else asked.replicas
        left = {one for one in after.replicas if one not in after.removing}
        is_so = left == set(target) and not (asked.replicas is None and (after.adding or after.removing))
        return "" if is_so else f"the partition went from {before} to {after}"
    if not refusals.of_reassignment(asked, error, versions[0], min_isr_of_files):
        return f"had no reason to be refused with {ErrorCode(error).name}, for the partition was {before}"
    same = (before.replicas, before.adding, before.removing) == (after.replicas, after.adding, after.removing)
    return "" if same else f"the partition went from {before} to {after}"


def _left_out(request: ElectLeadersRequest, response: ElectLeadersResponse, before: Version, *, preferred: bool) -> str:
    """Partitions without an answer: of all topics only those that need no election."""
    told = {(elected.topic, elected.partition) for elected in response.partitions}
    if request.partitions is not None:
        different = told ^ set(request.partitions)
    else:
        everywhere = {(name, number) for name, (_, states, _) in before.topics.items() for number in states}
        different = {
            (topic, number)
            for topic, number in everywhere - told
            if not refusals.of_election(
                ErrorCode.ELECTION_NOT_NEEDED, _state(before, topic, number), before, preferred=preferred
            )
        }
    return f"nothing is said of {sorted(different)}" if different else ""


def _elected(elected: ElectedPartition, versions: Versions, *, preferred: bool) -> str:
    topic, number, error = elected.topic, elected.partition, elected.error_code
    states = [state for state in (_state(version, topic, number) for version in versions) if state is not None]
    before = _state(versions[0], topic, number)
    if error == ErrorCode.NONE:
        if any(state.leader >= 0 and (not preferred or state.leader == state.replicas[0]) for state in states):
            return ""
        return f"nobody was elected for {topic}-{number}, which was {before}"
    was_deleted = error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and len(states) < len(versions)
    if was_deleted or refusals.of_election(error, before, versions[0], preferred=preferred):
        return ""
    return f"{topic}-{number} had no reason to be refused with {ErrorCode(error).name}, for it was {before}"
