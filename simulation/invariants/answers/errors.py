"""Checks that what a broker says of a partition is so (P-35): the errors of reads and writes, and that it serves it.

An error that is not true sends its reader away from a partition that could be read, or to no purpose to another broker;
a leader that overlooks one serves a reader that knows of another leader. What is true is what is committed up to the
offset that the broker's image has reached: before the step in which it answers, or behind it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import cast

from broker.core.broker_node.state import BrokerState
from broker.core.messages import (
    UNKNOWN,
    AnyRequest,
    AnyResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    ProduceRequest,
    ProduceResponse,
)
from broker.core.messages.errors import ErrorCode
from broker.core.metadata.records import METADATA_TOPIC, PartitionState
from simulation.invariants import epoch_ends
from simulation.invariants.answers.asked import AskedPartition
from simulation.invariants.ghost import ReplicaMirror
from simulation.invariants.knowledge import BrokerMirror, Knowledge
from simulation.invariants.properties import Violation

CHECKED = frozenset({FetchRequest, ListOffsetsRequest, OffsetForLeaderEpochRequest, ProduceRequest})


def answered(
    known: Knowledge, broker: BrokerMirror, state: BrokerState, request_id: int, response: AnyResponse, before: int
) -> None:
    """P-35. `before`: what the broker's image had reached before the step."""
    request = broker.asked.pop(request_id, None)
    if request is None:
        return
    epoch_ends.answered(known, broker, request, response)
    asked = _asked_of(request)
    if isinstance(request, FetchRequest) and isinstance(response, FetchResponse):
        asked = in_session(broker.sessions, request, response, asked)
    if not 0 <= state.broker_epoch < before:
        return  # roles follow from metadata that contain its registration
    ends = dict.fromkeys((before, broker.image_end))
    for topic, number, error, topic_id in (*_answers_of(response), *unsaid_of(asked, response)):
        one = asked.get((topic_id or topic, number))
        if one is not None and topic != METADATA_TOPIC:  # of a node with both roles
            states = [_state(known, end, topic, number) for end in ends]
            mirror = broker.mirrors.get((topic, number))
            latest = known.image.broker_epoch(one.follower)
            was_deleted = error == ErrorCode.NOT_LEADER_OR_FOLLOWER and is_another(known, ends, topic)
            if not was_deleted and not is_so(
                broker.broker_id, ErrorCode(error), one, states, mirror, follower_epoch=latest, named=bool(topic)
            ):
                raise Violation(
                    "P-35",
                    f"{topic or topic_id}-{number}: broker {broker.broker_id} answered {ErrorCode(error).name} to a "
                    f"{request.__class__.__name__}{one}; by the metadata up to {broker.image_end} "
                    f"{_described(states[-1])}",
                )


def _described(state: PartitionState | None) -> str:
    if state is None:
        return "there is no such partition"
    return f"its leader is {state.leader} in epoch {state.leader_epoch}, its replicas are {list(state.replicas)}"


def in_session(
    sessions: dict[int, dict[tuple[str, int], AskedPartition]],
    request: FetchRequest,
    response: FetchResponse,
    asked: dict[tuple[str, int], AskedPartition],
) -> dict[tuple[str, int], AskedPartition]:
    """KIP-227: what was asked for in this request, or before it in its session."""
    kept = dict(sessions.get(request.session_id, {})) if request.session_id and request.session_epoch > 0 else {}
    for topic, topic_id, number in request.forgotten:
        kept.pop((topic_id or topic, number), None)
    kept |= asked
    if response.session_id:
        sessions[response.session_id] = kept
    return kept


def _state(known: Knowledge, end: int, topic: str, number: int) -> PartitionState | None:
    version = known.versions.get(end)
    found = version.topics.get(topic, ("", {}, {}))[1].get(number) if version is not None else None
    return cast("PartitionState | None", found)


def is_another(known: Knowledge, ends: Iterable[int], topic: str) -> bool:
    """Whether a topic was deleted and created again between two states."""
    versions = [known.versions[end] for end in ends if end in known.versions]
    return len({version.topics[topic][0] for version in versions if topic in version.topics}) > 1


def _asked_of(request: AnyRequest) -> dict[tuple[str, int], AskedPartition]:
    match request:
        case FetchRequest():
            return {
                (part.topic_id or part.topic, part.partition): AskedPartition(
                    part.topic_id,
                    part.current_leader_epoch,
                    request.replica_id,
                    request.replica_epoch,
                    request.rack_id,
                    part,
                )
                for part in request.partitions
            }
        case ListOffsetsRequest() | OffsetForLeaderEpochRequest():
            return {
                (part.topic, part.partition): AskedPartition("", part.current_leader_epoch, is_lookup=True)
                for part in request.partitions
            }
        case ProduceRequest():
            return {
                (part.topic_id or part.topic, part.partition): AskedPartition(part.topic_id)
                for part in request.partitions
            }
        case _:
            return {}


def _answers_of(response: AnyResponse) -> Iterator[tuple[str, int, int, str]]:
    """Topic, partition, error and topic id of each answer."""
    match response:
        case FetchResponse() | ProduceResponse():
            for part in response.partitions:
                yield part.topic, part.partition, part.error_code, part.topic_id
        case ListOffsetsResponse() | OffsetForLeaderEpochResponse():
            for listed in response.partitions:
                yield listed.topic, listed.partition, listed.error_code, ""


def is_so(
    broker_id: int,
    error: ErrorCode,
    asked: AskedPartition,
    states: Sequence[PartitionState | None],
    mirror: ReplicaMirror | None,
    *,
    follower_epoch: int,
    named: bool,
) -> bool:
    """Whether an error, or that there is none, is true in any of the states.

    `follower_epoch`: the broker epoch of the follower that asked, by what is committed; `named`: whether the broker has
    found a topic by the id that was asked for. An error that is not listed is not judged here.
    """
    there = [state for state in states if state is not None]
    match error:
        case ErrorCode.NONE:
            return not (asked.fetch or asked.is_lookup) or any(_serves(broker_id, asked, state) for state in there)
        case ErrorCode.UNKNOWN_TOPIC_ID:
            return not named
        case ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return named and len(there) < len(states)
        case ErrorCode.NOT_LEADER_OR_FOLLOWER:
            is_old = UNKNOWN < asked.follower_epoch < follower_epoch
            was_deleted = 0 < len(there) < len(states)  # in this step, while the request waited
            return (
                is_old
                or was_deleted
                or any(
                    state.leader != broker_id or (asked.follower >= 0 and asked.follower not in state.replicas)
                    for state in there
                )
            )
        case ErrorCode.FENCED_LEADER_EPOCH:
            return any(UNKNOWN < asked.epoch < state.leader_epoch for state in there)
        case ErrorCode.UNKNOWN_LEADER_EPOCH:
            return any(
                asked.epoch > state.leader_epoch or (asked.follower >= 0 and asked.follower not in state.replicas)
                for state in there
            )
        case ErrorCode.OFFSET_OUT_OF_RANGE:
            return mirror is None or asked.fetch is None or not _is_in_log(asked.fetch, mirror)
        case ErrorCode.REQUEST_TIMED_OUT:
            return not asked.is_lookup  # in the few records of a simulation
        case _:
            return True


def _serves(broker_id: int, asked: AskedPartition, state: PartitionState) -> bool:
    """Whether a broker may serve a read by these metadata.

    That a follower of an earlier epoch is served is left to what comes of it: a directed schedule has that
    flaw in both of its builds.
    """
    is_behind = asked.follower >= 0 and asked.epoch < state.leader_epoch
    if not is_behind and asked.epoch not in (UNKNOWN, state.leader_epoch):
        return False
    return state.leader == broker_id or (asked.follower < 0 and bool(asked.rack) and broker_id in state.replicas)


def unsaid_of(
    asked: Mapping[tuple[str, int], AskedPartition], response: AnyResponse
) -> Iterator[tuple[str, int, int, str]]:
    """KIP-227: in a session no answer for a partition says that there is nothing new, and no error."""
    if isinstance(response, FetchResponse) and response.session_id and not response.error_code:
        said = {(part.topic_id or part.topic, part.partition) for part in response.partitions}
        for key, one in asked.items():
            if key not in said and one.fetch is not None and one.fetch.topic:
                yield one.fetch.topic, one.fetch.partition, ErrorCode.NONE, one.topic_id


def _is_in_log(fetch: FetchPartition, mirror: ReplicaMirror) -> bool:
    """Whether the log has the position that was asked for, and its epoch is one that the log knows."""
    entries = mirror.entries
    last = entries[-1] if entries else None
    latest = -1 if last is None else last.epoch
    return mirror.start <= fetch.fetch_offset <= len(entries) and fetch.last_fetched_epoch <= latest
