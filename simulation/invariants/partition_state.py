"""Checks what a partition's committed state shows by itself (P-17, P-18, P-19), for observer and exhaustive search."""

from __future__ import annotations

from typing import NamedTuple

from broker.core.metadata.records import PartitionState


def broken_epochs(before: PartitionState, after: PartitionState) -> str | None:
    """P-19: the partition epoch grows by one, and another leader leads a later epoch; the text says what is wrong."""
    if after.partition_epoch != before.partition_epoch + 1:
        return f"the partition epoch is {after.partition_epoch} after a change, and was {before.partition_epoch} before"
    same_epoch = after.leader != before.leader and after.leader_epoch == before.leader_epoch
    if after.leader_epoch < before.leader_epoch or same_epoch:
        return (
            f"leader {before.leader} of epoch {before.leader_epoch} was followed by leader {after.leader} of epoch "
            f"{after.leader_epoch}"
        )
    return None


class PartitionSets(NamedTuple):
    """How ISR, ELR and last known ELR of a state relate."""

    eligible_outside: bool  # a member of ISR or ELR is no replica
    last_known_outside: bool
    eligible_twice: bool  # ISR and ELR overlap
    last_known_twice: bool  # the last known ELR overlaps one of the others
    sufficient: bool  # the ISR has min ISR members
    remembered: bool  # all three together have, so that one of them is complete
    superfluous: bool  # it is sufficient, and another set is not empty
    irrecoverable: bool  # nothing is eligible, and fewer than min ISR replicas are remembered (P-18)


def compare_sets(state: PartitionState, min_isr: int) -> PartitionSets:
    """P-17 and P-18: compare the sets of a state with each other and with the effective min ISR."""
    isr, elr, last_known, replicas = set(state.isr), set(state.elr), set(state.last_known_elr), set(state.replicas)
    sufficient = len(isr) >= min_isr
    return PartitionSets(
        eligible_outside=not isr | elr <= replicas,
        last_known_outside=not last_known <= replicas,
        eligible_twice=bool(isr & elr),
        last_known_twice=bool(last_known & (isr | elr)),
        sufficient=sufficient,
        remembered=len(isr | elr | last_known) >= min_isr,
        superfluous=sufficient and bool(elr or last_known),
        irrecoverable=state.leader < 0 and not isr and not elr and len(last_known) < min_isr,
    )
