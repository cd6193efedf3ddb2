"""Unclean recovery: elects the best log for a partition without eligible replicas (§14)."""

from __future__ import annotations

from broker.core.controller import changes
from broker.core.controller.partition_changes import all_partitions, min_isr_of, recovered
from broker.core.controller.state import ControllerState, RecoveryJob
from broker.core.messages import (
    GetReplicaLogInfoRequest,
    GetReplicaLogInfoResponse,
    ReplicaLogInfo,
    ReplicaLogInfoPartition,
)
from broker.core.messages.errors import ErrorCode
from broker.core.metadata.image import TopicImage
from broker.core.metadata.records import PartitionSet, PartitionState
from broker.core.ports.marks import sometimes

BEGUN_BALANCED = sometimes("unclean recovery: begun with all of the last known ELR there (UR-4)")
BEGUN_AGGRESSIVE = sometimes("unclean recovery: begun at once (UR-3, UR-4)")
WAITS_FOR_LAST_KNOWN = sometimes("unclean recovery: waits for a member of the last known ELR (UR-4)")
ANSWER_REFUSED = sometimes("unclean recovery: begun again, somebody did not answer or is not who was asked (UR-7)")
OVERTAKEN = sometimes("unclean recovery: overtaken by another change (UR-9)")
CHOSEN_IS_GONE = sometimes("unclean recovery: the best log is not there any more (UR-9)")
DECIDED = sometimes("unclean recovery: the best log is elected (UR-8)")
LAST_LEADER = sometimes("unclean recovery: the last known leader is elected (UR-4 in K4)")

LOG_INFO = "replica-log-info"
RETRY = "unclean-recovery"
CHANNEL = "recovery"
_RETRY_MS = 500


def consider_all(controller: ControllerState) -> None:
    """UR-1 … UR-4: begin a recovery wherever the strategy asks for one and the required replicas are available."""
    for topic, number, state in all_partitions(controller):
        key = (topic.topic_id, number)
        job = controller.recoveries.get(key)
        if job is not None and job.partition_epoch != state.partition_epoch:
            del controller.recoveries[key]
            job = None
        if not controller.rules.elections.recovers_by_log():
            _elect_last_known(controller, topic, number, state)
        elif job is None and _wanted(controller, topic, state):
            _begin(controller, topic.name, topic.topic_id, number, state)
        elif job is None and state.leader < 0 and not state.isr and not state.elr:
            controller.runtime.mark(WAITS_FOR_LAST_KNOWN)


def _elect_last_known(controller: ControllerState, topic: TopicImage, number: int, state: PartitionState) -> None:
    """UR-4 in K4: the last known leader, if it is active (KAFKA-19522), as an unclean election."""
    waits = state.leader < 0 and not state.isr and not state.elr
    for member in state.last_known_elr if waits else ():
        if controller.rules.elections.may_lead_again(controller.image.is_active(member)):
            controller.runtime.mark(LAST_LEADER)
            changes.append(controller, [PartitionSet(topic.topic_id, number, recovered(state, member))])
            controller.runtime.log("warning", f"{topic.name}-{number}: {member}, the last known leader, leads again")
            return


def _wanted(controller: ControllerState, topic: TopicImage, state: PartitionState) -> bool:
    if state.leader >= 0:
        return False
    match controller.settings.unclean_recovery_strategy:
        case "Balanced":
            return (
                not state.isr
                and not state.elr
                and all(_is_available(controller, state, member) for member in state.last_known_elr)
                and controller.rules.elections.is_recovery_quorum(
                    state.last_known_elr, min(min_isr_of(controller, topic), len(state.replicas))
                )
            )
        case "Aggressive":
            return any(_is_available(controller, state, member) for member in state.replicas)
        case _:
            return False


def _is_available(controller: ControllerState, state: PartitionState, member: int) -> bool:
    """Whether a replica can be queried and elected: its broker is active, its log has not failed (KIP-858)."""
    return member not in state.offline and controller.image.is_active(member)


def _begin(controller: ControllerState, topic: str, topic_id: str, number: int, state: PartitionState) -> None:
    """UR-6, UR-7: query the log of every active replica."""
    asked = {
        member: controller.image.broker_epoch(member)
        for member in state.replicas
        if _is_available(controller, state, member)
    }
    if not asked:
        return
    balanced = controller.settings.unclean_recovery_strategy == "Balanced"
    controller.runtime.mark(BEGUN_BALANCED if balanced else BEGUN_AGGRESSIVE)
    controller.recoveries[topic_id, number] = RecoveryJob(state.partition_epoch, asked)
    controller.runtime.log("warning", f"{topic}-{number}: no eligible leader; asking {list(asked)} for their logs")
    for member in asked:
        controller.runtime.send(
            member,
            GetReplicaLogInfoRequest((ReplicaLogInfoPartition(topic, number, topic_id),)),
            channel=CHANNEL,
            timeout_ms=controller.settings.request_timeout_ms,
            purpose=LOG_INFO,
            context=state.partition_epoch,
        )
    controller.runtime.set_timer((RETRY,), _RETRY_MS + controller.settings.request_timeout_ms)


def answered(
    controller: ControllerState,
    request: GetReplicaLogInfoRequest,
    member: int,
    partition_epoch: int,
    response: GetReplicaLogInfoResponse | None,
) -> None:
    """UR-7: accept an answer of the queried incarnation; decide when all needed answers are there."""
    _, number, topic_id = request.partitions[0]
    job = controller.recoveries.get((topic_id, number))
    if job is None or job.partition_epoch != partition_epoch:
        return
    info = response.partitions[0] if response is not None and response.partitions else None
    broker = controller.image.brokers.get(member)
    if (
        response is not None
        and info is not None
        and info.error_code == ErrorCode.NONE
        and broker is not None
        and controller.rules.elections.accepts_log_info(
            response.broker_epoch, job.asked[member], broker.epoch, active=broker.active
        )
    ):
        job.infos[member] = info
        _decide(controller, topic_id, number, job)
    else:
        controller.runtime.mark(ANSWER_REFUSED)
        # begin again: UR-13 holds only within one incarnation
        controller.recoveries.pop((topic_id, number), None)
        controller.runtime.set_timer((RETRY,), _RETRY_MS)


def _decide(controller: ControllerState, topic_id: str, number: int, job: RecoveryJob) -> None:
    """UR-8 … UR-10: elect the longest log of the latest epoch, if nothing has changed since the query."""
    if len(job.infos) < len(job.asked):
        return
    del controller.recoveries[topic_id, number]
    name = controller.image.topic_names.get(topic_id, "")
    state = controller.image.partition(name, number)
    if state is None or state.partition_epoch != job.partition_epoch or state.leader >= 0:
        controller.runtime.mark(OVERTAKEN)
        return
    best: int | None = None
    for member in state.replicas:
        if member in job.infos and (
            best is None or controller.rules.elections.better_log(_length(job.infos[member]), _length(job.infos[best]))
        ):
            best = member
    if best is None or not controller.rules.elections.accepts_log_info(
        job.asked[best],
        job.asked[best],
        controller.image.broker_epoch(best),
        active=controller.image.is_active(best),
    ):
        controller.runtime.mark(CHOSEN_IS_GONE)
        controller.runtime.set_timer((RETRY,), _RETRY_MS)
        return
    controller.runtime.mark(DECIDED)
    changes.append(controller, [PartitionSet(topic_id, number, recovered(state, best))])
    controller.runtime.log(
        "warning",
        f"{name}-{number}: unclean recovery elects {best} with log end {job.infos[best].log_end_offset}; "
        "records may be lost",
    )


def _length(info: ReplicaLogInfo) -> tuple[int, int]:
    return info.last_written_leader_epoch, info.log_end_offset
