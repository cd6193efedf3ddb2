"""Computes one atomic change of a partition: ISR, ELR, leader and epochs together (§13.2, §13.3)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from broker.core.configuration.settings import STRATEGIES, UncleanRecoveryStrategy
from broker.core.controller.state import ControllerState
from broker.core.messages import NO_LEADER
from broker.core.metadata.image import TopicImage
from broker.core.metadata.records import RECOVERING, PartitionSet, PartitionState
from broker.core.rules import Rules
from broker.core.rules.cluster_metadata import Move
from broker.core.rules.elections import IsrChange


def changed(
    rules: Rules,
    state: PartitionState,
    isr: tuple[int, ...],
    is_active: Callable[[int], bool],
    min_isr: int,
    *,
    unclean: frozenset[int] = frozenset(),
    prefer_first: bool = False,
    unclean_allowed: bool = False,
    recovery_state: int | None = None,
    altered: bool = False,
    dropped: bool = False,
) -> PartitionState | None:
    """EL-0, CT-3: the state after the ISR becomes `isr` and an election is held; None if nothing changes.

    In this order: a completed reassignment ends, the ELR is updated, a leader is elected. `min_isr` is the
    configured one. `unclean` are brokers just found to have stopped uncleanly (ELR-4). `altered` says that
    something else in `state`, such as the replicas, has changed already; `dropped` that replicas have
    left before it was complete.
    """
    before = state
    state, isr, completed = _complete_reassignment(rules, state, isr, min_isr)
    effective = min(min_isr, len(state.replicas))
    elr, last_known_elr = rules.elections.eligible(
        IsrChange(
            before.isr,
            isr,
            state.elr,
            state.last_known_elr,
            rules.reassignment.eligible_among(state.replicas, (*before.replicas, *before.isr)),
            effective,
            unclean,
        )
    )
    election = rules.elections.elect(
        state.leader if state.leader in state.replicas else NO_LEADER,
        state.replicas,
        isr,
        elr,
        lambda candidate: candidate not in state.offline and is_active(candidate),
        prefer_first=prefer_first,
        unclean_allowed=unclean_allowed,
    )
    raised = completed or dropped or (rules.elections.raises_epoch_on_shrink() and len(election.isr) < len(before.isr))
    new = state._replace(
        isr=election.isr,
        elr=election.elr,
        last_known_elr=rules.elections.last_known(
            (state.leader, state.last_known_elr), election.leader, election.isr, last_known_elr, state.replicas
        ),
        leader=election.leader,
        leader_epoch=state.leader_epoch + (election.leader != state.leader or raised),
        recovery_state=state.recovery_state if recovery_state is None else recovery_state,
        offline=tuple(member for member in state.offline if member in state.replicas),
    )
    if election.unclean:
        new = new._replace(last_known_elr=(), recovery_state=RECOVERING)
    elif len(new.isr) >= effective and rules.elections.empties_elr():
        new = new._replace(elr=(), last_known_elr=())
    return None if new == before and not altered else new._replace(partition_epoch=state.partition_epoch + 1)


def _complete_reassignment(
    rules: Rules, state: PartitionState, isr: tuple[int, ...], min_isr: int
) -> tuple[PartitionState, tuple[int, ...], bool]:
    """RA-3, RA-4: the state, the ISR, and whether a reassignment ends with this change."""
    if not state.adding and not state.removing:
        return state, isr, False
    target = tuple(replica for replica in state.replicas if replica not in state.removing)
    remaining = tuple(member for member in isr if member in target)
    if not rules.reassignment.is_complete(
        Move(target, state.adding, state.removing), remaining, min(min_isr, len(target))
    ):
        return state, isr, False
    return state._replace(replicas=target, adding=(), removing=()), remaining, True


def recovered(state: PartitionState, leader: int, last_known_elr: tuple[int, ...] = ()) -> PartitionState:
    """EL-9, UR-10: an unclean election of a chosen replica; other replicas' additional records are given up."""
    return state._replace(
        isr=(leader,),
        elr=(),
        last_known_elr=last_known_elr,
        leader=leader,
        leader_epoch=state.leader_epoch + 1,
        partition_epoch=state.partition_epoch + 1,
        recovery_state=RECOVERING,
    )


def all_partitions(controller: ControllerState) -> Iterator[tuple[TopicImage, int, PartitionState]]:
    """Every partition, in the order of creation."""
    for topic in controller.image.topics.values():
        for number, state in topic.partitions.items():
            yield topic, number, state


def min_isr_of(controller: ControllerState, topic: TopicImage) -> int:
    """`min.insync.replicas` of a topic, as configured."""
    return controller.image.min_insync_replicas(topic.name, controller.settings.min_insync_replicas)


def recovers_by_log(controller: ControllerState) -> bool:
    """UR-5: whether the best log is looked for before an unclean election: in K5, unless it is switched off."""
    return controller.rules.elections.recovers_by_log() and controller.settings.unclean_recovery_manager_enabled


def strategy_of(controller: ControllerState, topic: TopicImage) -> UncleanRecoveryStrategy:
    """UR-3 … UR-5: a topic's strategy of unclean recovery.

    The topic's settings come before the cluster's in the metadata, and these before the node's file; in each, the
    strategy comes before `unclean.leader.election.enable`, which means proactive (true) or balanced (false). The
    settings in force would be too late: a change adopts them after it has decided on elections.
    """
    for configs in (topic.configs, controller.image.configs):
        if "unclean.recovery.strategy" in configs:
            return STRATEGIES[configs["unclean.recovery.strategy"].lower()]
        if "unclean.leader.election.enable" in configs:
            return "proactive" if configs["unclean.leader.election.enable"] == "true" else "balanced"
    file = controller.file
    return file.unclean_recovery_strategy or ("proactive" if file.unclean_leader_election_enable else "balanced")


def losses_accepted(controller: ControllerState, topic: TopicImage) -> bool:
    """Whether the settings of a topic put its availability before its records (UR-3, UR-5)."""
    if recovers_by_log(controller):
        return strategy_of(controller, topic) == "proactive"
    return unclean_allowed(controller, topic)


def unclean_allowed(controller: ControllerState, topic: TopicImage) -> bool:
    """UR-5: whether any active replica may be elected: `unclean.leader.election.enable`, where no log is looked for."""
    if not controller.rules.elections.elects_unseen(looks_for_logs=recovers_by_log(controller)):
        return False
    configured = controller.image.setting(topic.name, "unclean.leader.election.enable")
    return controller.file.unclean_leader_election_enable if configured is None else configured == "true"


def without_broker(
    controller: ControllerState, broker_id: int, *, unclean: bool = False, registers: bool = False
) -> list[PartitionSet]:
    """EL-1, EL-5, EL-10, RG-6: the changes when a broker becomes unavailable: it leaves ISRs and leaderships.

    With `unclean` it leaves the ELRs as well (ELR-4). If it `registers` again, its log directories count as good until
    it reports otherwise (KIP-858).
    """

    def is_active(candidate: int) -> bool:
        return candidate != broker_id and controller.image.is_active(candidate)

    changes = []
    rules = controller.rules
    for topic, number, state in all_partitions(controller):
        was_offline = registers and broker_id in state.offline
        concerned = broker_id in state.isr or broker_id == state.leader or (unclean and broker_id in state.elr)
        if not concerned and not was_offline:
            continue
        new = changed(
            rules,
            state._replace(offline=tuple(member for member in state.offline if member != broker_id or not registers)),
            rules.elections.shrink(state.isr, broker_id),
            is_active,
            min_isr_of(controller, topic),
            unclean=frozenset((broker_id,)) if unclean else frozenset(),
            unclean_allowed=unclean_allowed(controller, topic),
            altered=was_offline,
        )
        if new is not None:
            changes.append(PartitionSet(topic.topic_id, number, new))
    return changes


def without_replica(
    controller: ControllerState, topic: TopicImage, number: int, state: PartitionState, broker_id: int
) -> PartitionSet | None:
    """KIP-858: the change when the log directory with a broker's replica has failed; None if that is known already.

    The directory's contents are in doubt, so the replica leaves the ELR too, as after an unclean stop (ELR-4).
    """
    if broker_id not in state.replicas or broker_id in state.offline:
        return None
    new = changed(
        controller.rules,
        state._replace(offline=tuple(sorted((*state.offline, broker_id)))),
        controller.rules.elections.shrink(state.isr, broker_id),
        controller.image.is_active,
        min_isr_of(controller, topic),
        unclean=frozenset((broker_id,)),
        unclean_allowed=unclean_allowed(controller, topic),
        altered=True,
    )
    return None if new is None else PartitionSet(topic.topic_id, number, new)


def is_available(controller: ControllerState, state: PartitionState, member: int) -> bool:
    """Whether a replica can be queried and elected: its broker is active, its log has not failed (KIP-858)."""
    return member not in state.offline and controller.image.is_active(member)


def elections_for_leaderless(controller: ControllerState, arrived: int | None = None) -> list[PartitionSet]:
    """EL-6: elections for leaderless partitions when a broker becomes active (`arrived`, not yet so in the image)."""

    def is_active(candidate: int) -> bool:
        return candidate == arrived or controller.image.is_active(candidate)

    changes = []
    for topic, number, state in all_partitions(controller):
        if state.leader >= 0:
            continue
        new = changed(
            controller.rules,
            state,
            state.isr,
            is_active,
            min_isr_of(controller, topic),
            unclean_allowed=unclean_allowed(controller, topic),
        )
        if new is not None:
            changes.append(PartitionSet(topic.topic_id, number, new))
    return changes
