"""Serves ElectLeaders (§14.3), and elects preferred leaders and whoever is allowed by now every so often (EL-7, EL-8).

An unclean election of K5 goes through an unclean recovery (UR-14). Its request is answered when the recoveries of all
its partitions have ended, or when its time is up.
"""

from __future__ import annotations

from broker.core.controller import changes, recovery
from broker.core.controller.losses import Cause, Grounds
from broker.core.controller.partition_changes import (
    all_partitions,
    changed,
    elections_for_leaderless,
    is_available,
    min_isr_of,
    recovers_by_log,
)
from broker.core.controller.state import ControllerState, PendingElection
from broker.core.messages import ElectedPartition, ElectLeadersRequest, ElectLeadersResponse
from broker.core.messages.errors import ErrorCode
from broker.core.messages.refusals import refusal
from broker.core.metadata.records import PartitionSet
from broker.core.ports.marks import sometimes

ELECTED = sometimes("ElectLeaders: elected (EL-7, EL-8)")
RECOVERS = sometimes("ElectLeaders: an unclean recovery looks for the longest log (UR-14)")
_REFUSED = {
    ErrorCode.ELECTION_NOT_NEEDED: sometimes("ElectLeaders: not needed"),
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE: sometimes("ElectLeaders refused: the preferred replica cannot lead"),
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE: sometimes("ElectLeaders refused: nobody can lead"),
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: sometimes("ElectLeaders refused: no such partition"),
    ErrorCode.REQUEST_TIMED_OUT: sometimes("ElectLeaders: its time was up before a recovery had ended (UR-14)"),
}

BALANCED = sometimes("election: the preferred replica leads again, as leaders are balanced every so often (EL-7)")

PREFERRED = 0
BALANCE = "balance-leaders"
DEADLINE = "elect-leaders-deadline"


def start_balancing(controller: ControllerState) -> None:
    """Look again after `leader.imbalance.check.interval.seconds`."""
    controller.runtime.set_timer((BALANCE,), controller.settings.leader_imbalance_check_interval_ms)


def balance(controller: ControllerState) -> None:
    """EL-7, EL-8: let preferred replicas lead that can, if that is enabled; hold elections that are allowed by now."""
    if controller.settings.auto_leader_rebalance_enable:
        for topic, number, state in all_partitions(controller):
            if state.leader >= 0 and state.leader != state.replicas[0]:
                answer = _elect(controller, topic.name, number, preferred=True)
                if answer is not None and answer.error_code == ErrorCode.NONE:
                    controller.runtime.mark(BALANCED)
    changes.append(controller, list(elections_for_leaderless(controller)))
    recovery.consider_all(controller)
    start_balancing(controller)


def elect(controller: ControllerState, request_id: int, request: ElectLeadersRequest) -> None:
    """Elect for the named partitions, or for all; then the response omits partitions that need no election."""
    asked = request.partitions
    if asked is None:
        asked = tuple((topic.name, number) for topic in controller.image.topics.values() for number in topic.partitions)
    preferred = request.election_type == PREFERRED
    answers = {(name, number): _elect(controller, name, number, preferred=preferred) for name, number in asked}
    topics = controller.image.topics
    waiting = {(topics[name].topic_id, number): name for (name, number), answer in answers.items() if answer is None}
    done = {partition: answer for partition, answer in answers.items() if answer is not None}
    pending = PendingElection(request_id, request, tuple(answers), done, waiting)
    if not waiting:
        _answer(controller, pending)
        return
    controller.elections[request_id] = pending
    controller.runtime.set_timer((DEADLINE, request_id), max(1, request.timeout_ms))
    controller.runtime.mark(RECOVERS)
    recovery.asked_for(controller, tuple(waiting))


def _elect(controller: ControllerState, name: str, number: int, *, preferred: bool) -> ElectedPartition | None:
    """The answer for one partition; None if an unclean recovery has to find the leader first."""
    topic = controller.image.topics.get(name)
    state = controller.image.partition(name, number)
    if topic is None or state is None:
        return ElectedPartition(name, number, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    is_active = controller.image.is_active
    if preferred and state.leader == state.replicas[0]:
        return ElectedPartition(name, number, ErrorCode.ELECTION_NOT_NEEDED)
    if not preferred and state.leader >= 0 and is_active(state.leader):
        return ElectedPartition(name, number, ErrorCode.ELECTION_NOT_NEEDED)
    unseen = controller.rules.elections.elects_unseen(looks_for_logs=recovers_by_log(controller))
    new = changed(
        controller.rules,
        state,
        state.isr,
        is_active,
        min_isr_of(controller, topic),
        prefer_first=preferred,
        unclean_allowed=not preferred and unseen,
    )
    if preferred and (new is None or new.leader != state.replicas[0]):
        return ElectedPartition(name, number, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)
    if new is None or new.leader < 0:
        if not unseen and any(is_available(controller, state, member) for member in state.replicas):
            return None
        return ElectedPartition(name, number, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE)
    changes.append(controller, [PartitionSet(topic.topic_id, number, new)], Grounds(Cause.REQUEST))
    return ElectedPartition(name, number, ErrorCode.NONE)


def recoveries_ended(controller: ControllerState) -> None:
    """UR-14: after a change of the metadata, answer the requests whose partitions all have a leader, or are deleted."""
    for pending in tuple(controller.elections.values()):
        for (topic_id, number), name in tuple(pending.waiting.items()):
            state = controller.image.partition(name, number) if topic_id in controller.image.topic_names else None
            if state is None:
                _end(pending, (topic_id, number), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            elif state.leader >= 0:
                _end(pending, (topic_id, number), ErrorCode.NONE)
        if not pending.waiting:
            del controller.elections[pending.request_id]
            controller.runtime.cancel_timer((DEADLINE, pending.request_id))
            _answer(controller, pending)


def timed_out(controller: ControllerState, request_id: int) -> None:
    """UR-14: the operator's time is up; nothing unclean is done any more that only this request wanted."""
    pending = controller.elections.pop(request_id, None)
    if pending is None:
        return
    keys = tuple(pending.waiting)
    for key in keys:
        _end(pending, key, ErrorCode.REQUEST_TIMED_OUT)
    recovery.not_asked_for(controller, keys)
    _answer(controller, pending)


def give_up(controller: ControllerState) -> None:
    """QU-24: this controller is not active any more, and the next one knows nothing of these requests."""
    for pending in controller.elections.values():
        controller.runtime.cancel_timer((DEADLINE, pending.request_id))
        controller.runtime.reply(pending.request_id, refusal(pending.request, ErrorCode.NOT_CONTROLLER))
    controller.elections = {}


def _end(pending: PendingElection, key: tuple[str, int], error: ErrorCode) -> None:
    name, number = pending.waiting.pop(key), key[1]
    pending.done[name, number] = ElectedPartition(name, number, error)


def _answer(controller: ControllerState, pending: PendingElection) -> None:
    answers = [pending.done[partition] for partition in pending.asked]
    for answer in answers:
        controller.runtime.mark(_REFUSED.get(ErrorCode(answer.error_code), ELECTED))
    if pending.request.partitions is None:
        answers = [answer for answer in answers if answer.error_code != ErrorCode.ELECTION_NOT_NEEDED]
    response = ElectLeadersResponse(ErrorCode.NONE, tuple(answers))
    changes.reply(controller, pending.request_id, pending.request, response)
