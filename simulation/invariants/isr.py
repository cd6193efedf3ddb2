"""Checks the ISR of leaders and of the controller (P-5, P-7, P-22)."""

from __future__ import annotations

from broker.core.messages import AlterPartitionRequest
from broker.core.metadata.image import Image
from broker.core.replica import leader
from broker.core.replica.state import Replica, Role
from broker.core.rules import Rules
from simulation.invariants.ghost import Ghost, ReplicaMirror
from simulation.invariants.knowledge import BrokerMirror, Knowledge


def check_leader_isr(known: Knowledge, ghost: Ghost, mirror: ReplicaMirror, replica: Replica, rules: Rules) -> None:
    """P-22: the maximal ISR is the ISR, joined with the proposed one while a change is pending."""
    maximal = leader.maximal_isr(replica, rules)
    pending = replica.pending_isr
    expected = frozenset(replica.isr) | (frozenset(pending.isr) if pending is not None else frozenset())
    if maximal != expected:
        known.fail(
            ghost,
            "P-22",
            f"broker {mirror.holder} has ISR {list(replica.isr)}, {list(pending.isr) if pending else 'nothing'} "
            f"proposed, and the maximal ISR {sorted(maximal)}",
        )


def check_superset(known: Knowledge, ghost: Ghost, mirror: ReplicaMirror) -> None:
    """P-5: a leader that may commit waits for every replica that the controller may elect."""
    replica, state = mirror.replica, ghost.state
    if state is None or replica is None or mirror.role is not Role.LEADER or ghost.is_stale(mirror):
        return
    broker = known.brokers[mirror.holder]
    if not broker.up or len(replica.isr) < replica.effective_min_isr:
        return
    image = broker.image.partition(replica.topic, replica.partition) if broker.image is not None else None
    if image is not None and image.partition_epoch < replica.partition_epoch:
        return  # its high watermark waits for the metadata of its ISR (HW-3, MD-4)
    counted = {*replica.isr, *(replica.pending_isr.isr if replica.pending_isr else ()), mirror.holder}
    if not counted.issuperset(state.isr) or not counted.issuperset(state.elr):
        known.fail(
            ghost,
            "P-5",
            f"broker {mirror.holder} leads epoch {mirror.leader_epoch} and counts {sorted(counted)}; the controller "
            f"may elect ISR {list(state.isr)}, ELR {list(state.elr)}",
        )


def check_all_supersets(known: Knowledge, ghost: Ghost) -> None:
    """P-5 after a commit of the controller."""
    for mirror in ghost.mirrors.values():
        check_superset(known, ghost, mirror)


def request_sent(known: Knowledge, broker: BrokerMirror, request_id: int, request: AlterPartitionRequest) -> None:
    """P-22: at most one change of one state of a partition is in flight."""
    part = request.partitions[0]
    change = (part.topic, part.partition, part.leader_epoch, part.partition_epoch)
    if change in broker.alterations.values():
        ghost = known.ghost_of(part.topic, part.partition)
        if ghost is not None:
            known.fail(
                ghost,
                "P-22",
                f"broker {broker.broker_id} sent a second AlterPartition for leader epoch {part.leader_epoch}, "
                f"partition epoch {part.partition_epoch} while the first is not answered",
            )
    broker.alterations[request_id] = change


def request_accepted(known: Knowledge, image: Image, request: AlterPartitionRequest) -> None:
    """P-7: a broker is admitted to an ISR in its present incarnation (KIP-903)."""
    if known.generation in ("K1", "K2"):
        return
    for part in request.partitions:
        topic = part.topic or image.topic_names.get(part.topic_id, "")
        state = image.partition(topic, part.partition)
        ghost = known.ghost_of(topic, part.partition)
        if state is None or ghost is None or state.partition_epoch != part.partition_epoch + 1:
            continue
        before = ghost.state
        for member, epoch in part.new_isr:
            is_new = before is not None and before.partition_epoch == part.partition_epoch and member not in before.isr
            registered = image.broker_epoch(member)
            if member in state.isr and epoch != registered and (epoch != -1 or is_new):
                known.fail(
                    ghost,
                    "P-7",
                    f"broker {member} of epoch {registered} was admitted to the ISR {list(state.isr)} by what it had "
                    f"fetched in epoch {epoch}",
                )
