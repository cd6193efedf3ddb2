"""One atomic change of one partition: ISR, ELR, leader and epochs together (§13.2, §13.3)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from broker.core.controller.state import ControllerState
from broker.core.metadata.image import TopicImage
from broker.core.metadata.records import RECOVERING, PartitionSet, PartitionState
from broker.core.rules.elections import ElectionRules


def changed(
    rules: ElectionRules,
    state: PartitionState,
    isr: tuple[int, ...],
    is_active: Callable[[int], bool],
    min_isr: int,
    *,
    unclean: frozenset[int] = frozenset(),
    prefer_first: bool = False,
    unclean_allowed: bool = False,
    recovery_state: int | None = None,
) -> PartitionState | None:
    """EL-0: the state after the ISR becomes `isr` and an election is held; None if nothing changes.

    `min_isr` is the effective one (§1). `unclean` are brokers that were just found to have stopped uncleanly (ELR-4).
    """
    elr, last_known_elr = rules.eligible(
        state.isr, isr, state.elr, state.last_known_elr, state.replicas, min_isr, unclean
    )
    election = rules.elect(
        state.leader,
        state.replicas,
        isr,
        elr,
        is_active,
        prefer_first=prefer_first,
        unclean_allowed=unclean_allowed,
    )
    raised = rules.raises_epoch_on_shrink() and len(election.isr) < len(state.isr)
    new = state._replace(
        isr=election.isr,
        elr=election.elr,
        last_known_elr=rules.last_known(
            (state.leader, state.last_known_elr), election.leader, election.isr, last_known_elr
        ),
        leader=election.leader,
        leader_epoch=state.leader_epoch + (election.leader != state.leader or raised),
        recovery_state=state.recovery_state if recovery_state is None else recovery_state,
    )
    if election.unclean:
        new = new._replace(last_known_elr=(), recovery_state=RECOVERING)
    elif len(new.isr) >= min_isr:
        new = new._replace(elr=(), last_known_elr=())
    return None if new == state else new._replace(partition_epoch=state.partition_epoch + 1)


def recovered(state: PartitionState, leader: int) -> PartitionState:
    """EL-9, UR-10: an unclean election of a chosen replica; what others hold beyond it is given up."""
    return state._replace(
        isr=(leader,),
        elr=(),
        last_known_elr=(),
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


def effective_min_isr(controller: ControllerState, topic: TopicImage, state: PartitionState) -> int:
    """`min.insync.replicas`, never more than there are replicas (§1)."""
    configured = controller.image.min_insync_replicas(topic.name, controller.settings.min_insync_replicas)
    return min(configured, len(state.replicas))


def unclean_allowed(controller: ControllerState, topic: TopicImage) -> bool:
    """UR-5: `unclean.leader.election.enable` of the topic, or of the cluster."""
    configured = topic.configs.get("unclean.leader.election.enable")
    if configured is not None:
        return configured == "true"
    return controller.settings.unclean_leader_election_enable


def without_broker(controller: ControllerState, broker_id: int, *, unclean: bool = False) -> list[PartitionSet]:
    """EL-1, EL-5, EL-10, RG-6: the changes when a broker is no longer there: it leaves ISRs and leaderships.

    With `unclean` it leaves the ELRs as well (ELR-4).
    """

    def is_active(candidate: int) -> bool:
        return candidate != broker_id and controller.image.is_active(candidate)

    changes = []
    rules = controller.rules.elections
    for topic, number, state in all_partitions(controller):
        concerned = broker_id in state.isr or broker_id == state.leader or (unclean and broker_id in state.elr)
        if not concerned:
            continue
        new = changed(
            rules,
            state,
            rules.shrink(state.isr, broker_id),
            is_active,
            effective_min_isr(controller, topic, state),
            unclean=frozenset((broker_id,)) if unclean else frozenset(),
            unclean_allowed=unclean_allowed(controller, topic),
        )
        if new is not None:
            changes.append(PartitionSet(topic.topic_id, number, new))
    return changes


def elections_for_leaderless(controller: ControllerState, arrived: int | None = None) -> list[PartitionSet]:
    """EL-6: the changes when a broker has become active (`arrived`, not yet so in the image): leaderless partitions."""

    def is_active(candidate: int) -> bool:
        return candidate == arrived or controller.image.is_active(candidate)

    changes = []
    for topic, number, state in all_partitions(controller):
        if state.leader >= 0:
            continue
        new = changed(
            controller.rules.elections,
            state,
            state.isr,
            is_active,
            effective_min_isr(controller, topic, state),
            unclean_allowed=unclean_allowed(controller, topic),
        )
        if new is not None:
            changes.append(PartitionSet(topic.topic_id, number, new))
    return changes
