"""Serves ElectLeaders: preferred and unclean elections (§14.3)."""

from __future__ import annotations

from broker.core.controller import changes
from broker.core.controller.partition_changes import changed, min_isr_of
from broker.core.controller.state import ControllerState
from broker.core.messages import ElectedPartition, ElectLeadersRequest, ElectLeadersResponse
from broker.core.messages.errors import ErrorCode
from broker.core.metadata.records import PartitionSet
from broker.core.ports.marks import sometimes

ELECTED = sometimes("ElectLeaders: elected (EL-7, EL-8)")
_REFUSED = {
    ErrorCode.ELECTION_NOT_NEEDED: sometimes("ElectLeaders: not needed"),
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE: sometimes("ElectLeaders refused: the preferred replica cannot lead"),
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE: sometimes("ElectLeaders refused: nobody can lead"),
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: sometimes("ElectLeaders refused: no such partition"),
}

PREFERRED = 0


def elect(controller: ControllerState, request_id: int, request: ElectLeadersRequest) -> None:
    """Elect for the named partitions, or for all; then the response omits partitions that need no election."""
    asked = request.partitions
    if asked is None:
        asked = tuple((topic.name, number) for topic in controller.image.topics.values() for number in topic.partitions)
    answers = [_elect(controller, name, number, preferred=request.election_type == PREFERRED) for name, number in asked]
    for answer in answers:
        controller.runtime.mark(_REFUSED.get(ErrorCode(answer.error_code), ELECTED))
    if request.partitions is None:
        answers = [answer for answer in answers if answer.error_code != ErrorCode.ELECTION_NOT_NEEDED]
    changes.reply(controller, request_id, request, ElectLeadersResponse(ErrorCode.NONE, tuple(answers)))


def _elect(controller: ControllerState, name: str, number: int, *, preferred: bool) -> ElectedPartition:
    topic = controller.image.topics.get(name)
    state = controller.image.partition(name, number)
    if topic is None or state is None:
        return ElectedPartition(name, number, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    is_active = controller.image.is_active
    if preferred and state.leader == state.replicas[0]:
        return ElectedPartition(name, number, ErrorCode.ELECTION_NOT_NEEDED)
    if not preferred and state.leader >= 0 and is_active(state.leader):
        return ElectedPartition(name, number, ErrorCode.ELECTION_NOT_NEEDED)
    new = changed(
        controller.rules,
        state,
        state.isr,
        is_active,
        min_isr_of(controller, topic),
        prefer_first=preferred,
        unclean_allowed=not preferred,
    )
    if preferred and (new is None or new.leader != state.replicas[0]):
        return ElectedPartition(name, number, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)
    if new is None or new.leader < 0:
        return ElectedPartition(name, number, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE)
    changes.append(controller, [PartitionSet(topic.topic_id, number, new)])
    return ElectedPartition(name, number, ErrorCode.NONE)
