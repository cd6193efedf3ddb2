"""Unclean recovery: elects the best log for a partition without eligible replicas (§14)."""

from __future__ import annotations

from broker.core.controller import changes
from broker.core.controller.losses import Cause, Grounds, compared
from broker.core.controller.partition_changes import (
    all_partitions,
    is_available,
    min_isr_of,
    recovered,
    recovers_by_log,
    strategy_of,
)
from broker.core.controller.state import ControllerState, RecoveryJob
from broker.core.messages import (
    GetReplicaLogInfoRequest,
    GetReplicaLogInfoResponse,
    ReplicaLogInfo,
    ReplicaLogInfoPartition,
)
from broker.core.messages.errors import ErrorCode
from broker.core.metadata.image import TopicImage
from broker.core.metadata.records import MetadataRecord, PartitionSet, PartitionState
from broker.core.ports.marks import sometimes

BEGUN_BALANCED = sometimes("unclean recovery: begun with all of the last known ELR there (UR-4)")
BEGUN_PROACTIVE = sometimes("unclean recovery: begun at once (UR-3, UR-4)")
WAITS_FOR_LAST_KNOWN = sometimes("unclean recovery: waits for a member of the last known ELR (UR-4)")
ANSWER_REFUSED = sometimes(
    "unclean recovery: begun again, a needed replica did not answer or is not the one asked (UR-7)"
)
ANSWER_BEHIND = sometimes(
    "unclean recovery: a replica is asked again, it did not know the present leader epoch (UR-15)"
)
ANSWER_LATE = sometimes("unclean recovery: an answer came when nobody waited for it (UR-7)")
DECIDED_WITHOUT_SOME = sometimes("unclean recovery: decided without replicas that did not answer in time (UR-6)")
OVERTAKEN = sometimes("unclean recovery: overtaken by another change (UR-9)")
CHOSEN_IS_GONE = sometimes("unclean recovery: the best log is not there any more (UR-9)")
DECIDED = sometimes("unclean recovery: the best log is elected (UR-8)")
LAST_LEADER = sometimes("unclean recovery: the last known leader is elected (UR-4 in K4)")

LOG_INFO = "replica-log-info"
RETRY = "unclean-recovery"
DECIDE = "unclean-recovery-decision"
OVERDUE = "unclean-recovery-overdue"
CHANNEL = "recovery"
PARTITIONS_PER_REQUEST = 1_000
"""The most that one GetReplicaLogInfo may ask for (KIP-966)."""
_RETRY_MS = 500
_AGAIN_MS = 50
"""UR-15: after how long a replica is asked again that had not heard of the present leader epoch."""
_SHORT_WAIT_MS = 1_000
"""UR-6: how long a decision waits for replicas that it does not need."""


def consider_all(controller: ControllerState) -> None:
    """UR-1 … UR-4: begin a recovery wherever the strategy asks for one and the required replicas are available."""
    begun: dict[int, list[tuple[ReplicaLogInfoPartition, int]]] = {}
    for topic, number, state in all_partitions(controller):
        key = (topic.topic_id, number)
        job = controller.recoveries.get(key)
        if job is not None and (
            job.partition_epoch != state.partition_epoch
            or not controller.rules.elections.recovery_goes_on(job.settings, _settings(controller, topic))
        ):
            _end(controller, key)
            job = None
        if state.leader >= 0:
            _stop_timing(controller, key)
            continue
        if not controller.rules.elections.recovers_by_log():
            _elect_last_known(controller, topic, number, state)
        elif job is None and recovers_by_log(controller):
            needed = _needed(controller, topic, number, state)
            if needed is not None:
                for member in _begin(controller, topic, number, state, needed):
                    asked = ReplicaLogInfoPartition(topic.name, number, topic.topic_id)
                    begun.setdefault(member, []).append((asked, state.partition_epoch))
            elif not state.isr and not state.elr:
                controller.runtime.mark(WAITS_FOR_LAST_KNOWN)
        elif job is not None:
            for member in job.behind:
                asked = ReplicaLogInfoPartition(topic.name, number, topic.topic_id)
                begun.setdefault(member, []).append((asked, state.partition_epoch))
            job.behind.clear()
    for member, partitions in begun.items():
        for start in range(0, len(partitions), PARTITIONS_PER_REQUEST):
            page = partitions[start : start + PARTITIONS_PER_REQUEST]
            controller.runtime.send(
                member,
                GetReplicaLogInfoRequest(tuple(asked for asked, _ in page)),
                channel=CHANNEL,
                timeout_ms=controller.settings.request_timeout_ms,
                purpose=LOG_INFO,
                context=tuple(epoch for _, epoch in page),
            )


def _settings(controller: ControllerState, topic: TopicImage) -> tuple[str, int]:
    """The settings that decide whose answers a recovery of a topic's partitions needs: strategy and min ISR."""
    return strategy_of(controller, topic), min_isr_of(controller, topic)


def _elect_last_known(controller: ControllerState, topic: TopicImage, number: int, state: PartitionState) -> None:
    """UR-4 in K4: the last known leader, if it is an active replica (KAFKA-19522), as an unclean election."""
    if state.isr or state.elr:
        return
    for member in state.last_known_elr:
        available = is_available(controller, state, member)
        if controller.rules.elections.may_lead_again(available, replica=member in state.replicas):
            controller.runtime.mark(LAST_LEADER)
            records: list[MetadataRecord] = [PartitionSet(topic.topic_id, number, recovered(state, member))]
            changes.append(controller, records, Grounds(Cause.LAST_LEADER))
            return


def _needed(
    controller: ControllerState, topic: TopicImage, number: int, state: PartitionState
) -> tuple[int, ...] | None:
    """UR-3, UR-4, UR-6, UR-14: the replicas whose answers a decision needs; None if no recovery is to begin now."""
    rules = controller.rules.elections
    strategy = strategy_of(controller, topic)
    is_asked_for = _is_asked_for(controller, (topic.topic_id, number))
    if is_asked_for or strategy == "proactive":
        quorum = rules.quorum_on_request() if is_asked_for else ()
        return quorum if any(is_available(controller, state, member) for member in state.replicas) else None
    if strategy == "manual" or state.isr or state.elr:
        return None
    min_isr = min(min_isr_of(controller, topic), len(state.replicas))
    quorum = rules.recovery_quorum(state.last_known_elr, state.replicas, min_isr)
    available = all(is_available(controller, state, member) for member in quorum)
    return quorum if available and rules.is_recovery_quorum(quorum, min_isr) else None


def _begin(
    controller: ControllerState, topic: TopicImage, number: int, state: PartitionState, needed: tuple[int, ...]
) -> tuple[int, ...]:
    """UR-6, UR-7: remember which replicas are asked, in which incarnation; they are the active ones."""
    asked = {
        member: controller.image.broker_epoch(member)
        for member in state.replicas
        if is_available(controller, state, member)
    }
    controller.runtime.mark(BEGUN_BALANCED if needed else BEGUN_PROACTIVE)
    key = (topic.topic_id, number)
    controller.recoveries[key] = RecoveryJob(state.partition_epoch, _settings(controller, topic), asked, needed)
    controller.runtime.log("warning", f"{topic.name}-{number}: no eligible leader; asking {list(asked)} for their logs")
    controller.runtime.set_timer((DECIDE, *key), _SHORT_WAIT_MS)
    if key not in controller.timed_recoveries:
        controller.timed_recoveries[key] = None
        controller.runtime.set_timer((OVERDUE, *key), controller.settings.unclean_recovery_timeout_ms)
    return tuple(asked)


def _is_asked_for(controller: ControllerState, key: tuple[str, int]) -> bool:
    """Whether an operator waits for an unclean election of a partition (UR-14)."""
    return any(key in pending.waiting for pending in controller.elections.values())


def asked_for(controller: ControllerState, keys: tuple[tuple[str, int], ...]) -> None:
    """UR-14: an operator asks for unclean elections: begin recoveries, or let those that go on need nobody."""
    for key in keys:
        job = controller.recoveries.get(key)
        if job is not None:
            job.needed = controller.rules.elections.quorum_on_request()
            if job.waited and _suffices(job):
                _decide(controller, key, job)
    consider_all(controller)


def not_asked_for(controller: ControllerState, keys: tuple[tuple[str, int], ...]) -> None:
    """UR-14: nobody waits for these any more: recoveries begin again where the strategy asks for one."""
    for key in keys:
        if key in controller.recoveries and not _is_asked_for(controller, key):
            _end(controller, key)
    consider_all(controller)


def answered(
    controller: ControllerState,
    request: GetReplicaLogInfoRequest,
    member: int,
    partition_epochs: tuple[int, ...],
    response: GetReplicaLogInfoResponse | None,
) -> None:
    """UR-7: take up an answer, or that there will be none, for each partition asked for.

    `partition_epochs` are theirs when they were asked for. Until the epoch changes, the log of an incarnation does not
    change either (UR-13), so that an answer which comes late counts in a recovery that has begun again.
    """
    infos = {} if response is None else {(info.topic_id, info.partition): info for info in response.partitions}
    for (_, number, topic_id), partition_epoch in zip(request.partitions, partition_epochs, strict=True):
        job = controller.recoveries.get((topic_id, number))
        if (
            job is None
            or member in job.infos  # by another request: what becomes of this one does not matter
            or not controller.rules.elections.awaits_log_info(
                partition_epoch, job.partition_epoch, asked=member in job.asked
            )
        ):
            controller.runtime.mark(ANSWER_LATE)
            continue
        epoch = -1 if response is None else response.broker_epoch
        _take_up(controller, (topic_id, number), job, member, infos.get((topic_id, number)), epoch)


def _take_up(
    controller: ControllerState,
    key: tuple[str, int],
    job: RecoveryJob,
    member: int,
    info: ReplicaLogInfo | None,
    broker_epoch: int,
) -> None:
    """UR-7, UR-15: accept an answer of the incarnation that was asked, from the present leader epoch.

    Without one of a needed replica begin again; ask again who has not heard of the leader epoch yet.
    """
    broker = controller.image.brokers.get(member)
    if (
        info is not None
        and info.error_code == ErrorCode.NONE
        and broker is not None
        and controller.rules.elections.accepts_log_info(
            broker_epoch, job.asked[member], broker.epoch, active=broker.active
        )
    ):
        state = controller.image.partition(controller.image.topic_names.get(key[0], ""), key[1])
        present = -1 if state is None else state.leader_epoch
        if not controller.rules.elections.knows_leader_epoch(info.current_leader_epoch, present):
            controller.runtime.mark(ANSWER_BEHIND)
            job.behind[member] = None
            controller.runtime.set_timer((RETRY,), _AGAIN_MS)
            return
        job.infos[member] = info
    elif controller.rules.elections.needs_log_info(member, job.needed) or len(job.asked) == 1:
        controller.runtime.mark(ANSWER_REFUSED)
        _give_up(controller, key)  # begin again: UR-13 holds only within one incarnation
        return
    else:
        del job.asked[member]
    if len(job.infos) == len(job.asked) or (job.waited and _suffices(job)):
        _decide(controller, key, job)


def _suffices(job: RecoveryJob) -> bool:
    """UR-6: whether all needed replicas have answered, and at least one."""
    return bool(job.infos) and all(member in job.infos for member in job.needed)


def waited(controller: ControllerState, key: tuple[str, int]) -> None:
    """UR-6, UR-11: the short wait for answers that are not needed is over; decide, or with the first that suffice."""
    job = controller.recoveries.get(key)
    if job is None:
        return
    job.waited = True
    if _suffices(job) and not controller.rules.elections.needs_every_log_info():
        controller.runtime.mark(DECIDED_WITHOUT_SOME)
        _decide(controller, key, job)


def overdue(controller: ControllerState, key: tuple[str, int]) -> None:
    """UR-11: report a recovery that has not come to its end in `unclean.recovery.timeout.ms`; it goes on.

    The time counts from its first beginning, however often it has begun again since. Nothing is reported of a topic
    that was deleted meanwhile.
    """
    if key not in controller.timed_recoveries:
        return
    del controller.timed_recoveries[key]
    name = controller.image.topic_names.get(key[0])
    if name is None:
        return
    job = controller.recoveries.get(key)
    what = "is about to begin again" if job is None else f"waits for the log of {sorted({*job.asked} - {*job.infos})}"
    timeout_ms = controller.settings.unclean_recovery_timeout_ms
    controller.runtime.log("error", f"{name}-{key[1]}: unclean recovery {what}, after more than {timeout_ms} ms")


def _give_up(controller: ControllerState, key: tuple[str, int]) -> None:
    """Drop a job, and look again a little later whether one is wanted."""
    _end(controller, key)
    controller.runtime.set_timer((RETRY,), _RETRY_MS)


def _end(controller: ControllerState, key: tuple[str, int]) -> None:
    del controller.recoveries[key]
    controller.runtime.cancel_timer((DECIDE, *key))


def _stop_timing(controller: ControllerState, key: tuple[str, int]) -> None:
    if key in controller.timed_recoveries:
        del controller.timed_recoveries[key]
        controller.runtime.cancel_timer((OVERDUE, *key))


def _decide(controller: ControllerState, key: tuple[str, int], job: RecoveryJob) -> None:
    """UR-8 … UR-10: elect the longest log of the latest epoch, if nothing has changed since the query."""
    topic_id, number = key
    name = controller.image.topic_names.get(topic_id, "")
    state = controller.image.partition(name, number)
    if state is None or state.partition_epoch != job.partition_epoch or state.leader >= 0:
        controller.runtime.mark(OVERTAKEN)
        _give_up(controller, key)
        return
    best: int | None = None
    rules = controller.rules.elections
    for member in state.replicas:
        if (
            member in job.infos
            and rules.may_be_elected(member, job.needed)
            and (best is None or rules.better_log(_length(job.infos[member]), _length(job.infos[best])))
        ):
            best = member
    if best is None or not rules.accepts_log_info(
        job.asked[best],
        job.asked[best],
        controller.image.broker_epoch(best),
        active=is_available(controller, state, best),
    ):
        controller.runtime.mark(CHOSEN_IS_GONE)
        _give_up(controller, key)
        return
    controller.runtime.mark(DECIDED)
    _end(controller, key)
    _stop_timing(controller, key)
    cause = Cause.REQUEST if _is_asked_for(controller, key) else Cause.RECOVERY
    others = rules.remembered(job.needed, best, min_isr_of(controller, controller.image.topics[name]))
    new = recovered(state, best, others)
    records: list[MetadataRecord] = [PartitionSet(topic_id, number, new)]
    changes.append(controller, records, Grounds(cause, compared(job.infos)))


def _length(info: ReplicaLogInfo) -> tuple[int, int]:
    return info.last_written_leader_epoch, info.log_end_offset
