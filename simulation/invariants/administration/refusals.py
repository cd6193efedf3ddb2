"""Says when an error in an answer to an administrator is true (P-A1): of each request the list of errors is closed.

An error that is not listed is a mistake of the broker, and so is one whose reason is not there. Each function returns
whether the error can be true of the committed state in which the controller decided; values of settings that no client
of a simulation sends are not judged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from broker.core.configuration.alteration import Operation
from broker.core.messages import ConfigResource, NewPartitions, NewTopic, Reassignment
from broker.core.messages.errors import ErrorCode
from broker.core.metadata.image import BrokerImage
from broker.core.metadata.records import PartitionState
from simulation.invariants.knowledge import Version

_PARTITIONS_MAX = 2_000
"""That one request may create."""

_LEAST = {
    "segment.bytes": 1,
    "max.message.bytes": 0,
    "message.max.bytes": 0,
    "flush.messages": 1,
    "index.interval.bytes": 0,
    "min.insync.replicas": 1,
}
"""Settings that are whole numbers, and the least that each may be."""

_WORDS = {
    "unclean.leader.election.enable": ("true", "false"),
    "unclean.recovery.strategy": ("aggressive", "balanced", "manual", "proactive"),
    "cleanup.policy": ("compact", "delete", "compact,delete"),
}


def is_active(version: Version, broker_id: int) -> bool:
    """Whether a broker is registered, unfenced and not shutting down (§13)."""
    broker = version.brokers.get(broker_id)
    return isinstance(broker, BrokerImage) and broker.active


def of_creation(new: NewTopic, error: int, before: Version) -> bool:
    """CreateTopics, of one topic."""
    match error:
        case ErrorCode.TOPIC_ALREADY_EXISTS:
            return new.name in before.topics
        case ErrorCode.INVALID_TOPIC_EXCEPTION:
            is_legal = 0 < len(new.name) < 250 and not set(new.name) - _LEGAL and set(new.name) != {"."}
            collides = any(new.name.replace(".", "_") == name.replace(".", "_") for name in before.topics)
            return collides or not is_legal or new.name.startswith("__")
        case ErrorCode.INVALID_REPLICATION_FACTOR:
            return not new.assignments and not 1 <= new.replication_factor <= len(before.brokers)
        case ErrorCode.INVALID_PARTITIONS:
            count = len(new.assignments) or new.num_partitions
            return not 1 <= count <= _PARTITIONS_MAX
        case ErrorCode.INVALID_REPLICA_ASSIGNMENT:
            return bool(new.assignments) or _may_lack_active(before, max(1, new.replication_factor))
        case ErrorCode.INVALID_CONFIG:
            return any(_is_legal_value(key, value) is not True for key, value in new.configs)
        case _:
            return False


_LEGAL = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


def _may_lack_active(before: Version, factor: int) -> bool:
    """Whether so few brokers are active that a partition of so many replicas can be without an active one."""
    return sum(not is_active(before, broker_id) for broker_id in before.brokers) >= factor


def of_growth(wanted: NewPartitions, error: int, before: Version) -> bool:
    """CreatePartitions, of one topic."""
    partitions = before.topics.get(wanted.topic, ("", {}, {}))[1]
    match error:
        case ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return wanted.topic not in before.topics
        case ErrorCode.INVALID_PARTITIONS:
            return not 1 <= wanted.total_count - len(partitions) <= _PARTITIONS_MAX
        case ErrorCode.INVALID_REPLICA_ASSIGNMENT:
            first = cast("PartitionState | None", partitions.get(0))
            factor = len(first.replicas) if first is not None else 1
            return wanted.assignments is not None or _may_lack_active(before, factor)
        case _:
            return False


def of_deletion(name: str | None, topic_id: str, error: int, before: Version) -> bool:
    """DeleteTopics, of one topic, which has a name or an id."""
    if error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return bool(name) and name not in before.topics
    ids = [found for found, _, _ in before.topics.values()]
    return error == ErrorCode.UNKNOWN_TOPIC_ID and not name and topic_id not in ids


def of_alteration(resource: ConfigResource, error: int, before: Version, *, is_topic: bool, is_repeated: bool) -> bool:
    """IncrementalAlterConfigs, of one resource, which the request may name more than once."""
    match error:
        case ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return is_topic and resource.name not in before.topics
        case ErrorCode.BROKER_ID_NOT_REGISTERED:
            return not is_topic and resource.name not in map(str, before.brokers)
        case ErrorCode.INVALID_CONFIG | ErrorCode.INVALID_REQUEST:
            keys = [key for key, _, _ in resource.operations]
            names_none = not resource.name if is_topic else bool(resource.name) and not resource.name.isdecimal()
            of_all = not is_topic and bool(resource.name) and _MIN_ISR in keys
            return is_repeated or names_none or of_all or len(set(keys)) < len(keys) or _legality(resource) is not True
        case _:
            return False


def may_alter(resource: ConfigResource) -> bool:
    """Whether an alteration may succeed: no value of it is known to be illegal."""
    return _legality(resource) is not False


def _legality(resource: ConfigResource) -> bool | None:
    """Whether all values of an alteration are legal; None if some are not judged."""
    found: list[bool | None] = []
    for key, operation, value in resource.operations:
        is_known = key in _LEAST or key in _WORDS
        if operation == Operation.DELETE and is_known:
            found.append(True)
        else:
            found.append(_is_legal_value(key, value) if operation == Operation.SET else None)
    if False in found:
        return False
    return None if None in found else True


def _is_legal_value(key: str, value: str | None) -> bool | None:
    if key in _WORDS:
        return value in _WORDS[key]
    if key not in _LEAST or value is None:
        return None
    digits = value.removeprefix("-")
    return digits.isdecimal() and int(value) >= _LEAST[key]


def of_reassignment(asked: Reassignment, error: int, before: Version, min_isr_of_files: int) -> bool:
    """AlterPartitionReassignments, of one partition."""
    _, partitions, configs = before.topics.get(asked.topic, ("", {}, {}))
    state = cast("PartitionState | None", partitions.get(asked.partition))
    if state is None:
        return error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    original = tuple(member for member in state.replicas if member not in state.adding)
    match error:
        case ErrorCode.NO_REASSIGNMENT_IN_PROGRESS:
            return asked.replicas is None and not state.adding and not state.removing
        case ErrorCode.INVALID_REPLICATION_FACTOR:
            return asked.replicas is not None and len(asked.replicas) != len(original)
        case ErrorCode.INVALID_REPLICA_ASSIGNMENT:
            target = original if asked.replicas is None else asked.replicas
            if not target or len(set(target)) < len(target) or not set(target) <= before.brokers.keys():
                return True
            configured = configs.get(_MIN_ISR) or before.configs[0].get(_MIN_ISR) or min_isr_of_files
            return _strands(state, (*target, *original), int(configured))
        case _:
            return False


_MIN_ISR = "min.insync.replicas"


def _strands(state: PartitionState, replicas: Sequence[int], min_isr: int) -> bool:
    """RA-6: too few of those that are known to be complete would be among the replicas."""
    left = set(replicas)
    complete = {*state.isr, *state.elr}
    known = {*complete, *state.last_known_elr}
    if not set(state.isr or state.elr or state.last_known_elr) & left:
        return True
    if not complete:
        return not known <= left
    return any(len(group & left) < min(min_isr, len(left), len(group)) for group in (complete, known))


def of_election(error: int, state: PartitionState | None, before: Version, *, preferred: bool) -> bool:
    """ElectLeaders, of one partition. That it was deleted while a recovery went on is for the caller to know."""
    if state is None:
        return error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    first = state.replicas[0]
    match error:
        case ErrorCode.ELECTION_NOT_NEEDED:
            leads = state.leader >= 0 and is_active(before, state.leader)
            return state.leader == first if preferred else leads
        case ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE:
            return preferred and (first not in state.isr or first in state.offline or not is_active(before, first))
        case ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE:
            in_sync = [one for one in state.isr if one not in state.offline and is_active(before, one)]
            return not preferred and not in_sync
        case ErrorCode.REQUEST_TIMED_OUT:
            return not preferred
        case _:
            return False
