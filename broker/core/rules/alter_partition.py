"""Decides which ISR changes the controller accepts (§10). The order of the checks is part of the protocol."""

from __future__ import annotations

from broker.core.messages import AlterPartitionPartition
from broker.core.messages.errors import ErrorCode
from broker.core.metadata.image import Image
from broker.core.metadata.records import RECOVERED, RECOVERING, PartitionState


class AlterPartitionRules:
    """The controller's decisions on one partition of an AlterPartition request."""

    def check_future(self, state: PartitionState, part: AlterPartitionPartition) -> ErrorCode:
        """AP-4: epochs newer than this controller's: it is behind and must not decide (KAFKA-14154)."""
        behind = part.leader_epoch > state.leader_epoch or part.partition_epoch > state.partition_epoch
        return ErrorCode.NOT_CONTROLLER if behind else ErrorCode.NONE

    def check_leader(self, state: PartitionState, sender: int, part: AlterPartitionPartition) -> ErrorCode:
        """AP-5: only the leader of the current epoch may ask."""
        if part.leader_epoch < state.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.NONE if sender == state.leader else ErrorCode.INVALID_REQUEST

    def check_partition_epoch(self, state: PartitionState, part: AlterPartitionPartition) -> ErrorCode:
        """AP-6: the request rests on an older state."""
        older = part.partition_epoch < state.partition_epoch
        return ErrorCode.INVALID_UPDATE_VERSION if older else ErrorCode.NONE

    def check_form(self, state: PartitionState, sender: int, part: AlterPartitionPartition) -> ErrorCode:
        """AP-7: a set of replicas that includes the leader, and no return from recovered to recovering."""
        members = [member for member, _ in part.new_isr]
        well_formed = (
            bool(members)
            and len(set(members)) == len(members)
            and set(members) <= set(state.replicas)
            and sender in members
        )
        if part.leader_recovery_state == RECOVERING and (len(members) > 1 or state.recovery_state == RECOVERED):
            well_formed = False
        return ErrorCode.NONE if well_formed else ErrorCode.INVALID_REQUEST

    def is_eligible(self, image: Image, member: int, epoch: int, *, added: bool) -> bool:
        """AP-8: active (KIP-841), and the incarnation that fetched (KIP-903); -1 only for ISR members (ISR-1)."""
        return image.is_active(member) and (epoch == image.broker_epoch(member) or (epoch == -1 and not added))

    def check_members(self, image: Image, state: PartitionState, part: AlterPartitionPartition) -> ErrorCode:
        """AP-8: all proposed members are eligible, including the leader and old ones; none has a failed log."""
        for member, epoch in part.new_isr:
            offline = member in state.offline
            if offline or not self.is_eligible(image, member, epoch, added=member not in state.isr):
                return ErrorCode.INELIGIBLE_REPLICA
        return ErrorCode.NONE


def refusal(
    rules: AlterPartitionRules, image: Image, state: PartitionState, sender: int, part: AlterPartitionPartition
) -> ErrorCode:
    """AP-4 … AP-8: the first failed check, NONE if all hold.

    Eligibility comes after the partition epoch: INELIGIBLE_REPLICA is proof that no copy of the request was applied
    (ISR-4).
    """
    return (
        rules.check_future(state, part)
        or rules.check_leader(state, sender, part)
        or rules.check_partition_epoch(state, part)
        or rules.check_form(state, sender, part)
        or rules.check_members(image, state, part)
    )
