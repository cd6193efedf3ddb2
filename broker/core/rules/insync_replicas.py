"""Decides who is in sync: the leader proposes (§9), the controller accepts (§10)."""

from __future__ import annotations

from enum import Enum

from broker.core.messages import AlterPartitionPartition
from broker.core.messages.errors import ErrorCode
from broker.core.metadata.image import BrokerImage, Image
from broker.core.metadata.records import RECOVERED, RECOVERING, PartitionState


class AfterAnswer(Enum):
    """What the leader does with its pending ISR change on a response (ISR-4)."""

    ADOPT = "adopt"
    ROLL_BACK = "roll back"
    STAY_PENDING = "stay pending"
    RETRY = "retry the identical request"


_NOT_APPLIED = {ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED}
_WAIT_FOR_METADATA = {
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.INVALID_UPDATE_VERSION,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.NEW_LEADER_ELECTED,
}


class InsyncReplicaRules:
    """The leader's decisions on the ISR of a partition."""

    def maximal(self, committed: tuple[int, ...], proposed: tuple[int, ...] | None) -> frozenset[int]:
        """ISR-0, ISR-3: an expansion in flight counts at once, a shrink only when it is committed (KIP-497)."""
        return frozenset(committed) if proposed is None else frozenset(committed) | frozenset(proposed)

    def has_caught_up(self, end: int, high_watermark: int, leader_epoch_start: int, fetched_in_epoch: bool) -> bool:
        """ISR-E2, E3, E4: at the high watermark, past the start of this epoch (KAFKA-7128), seen in this epoch."""
        return fetched_in_epoch and end >= high_watermark and end >= leader_epoch_start

    def has_deleted(self, log_start: int, leader_start: int) -> bool:
        """ISR-E7: what the leader has deleted, it has deleted too; `log_start` is -1 if it did not say.

        Its records below the leader's log start are compared with nothing. They may be of a deposed leader, and would
        be read if it led before it deletes them.
        """
        return log_start < 0 or log_start >= leader_start

    def is_eligible(self, replica: BrokerImage | None, fetched_with_epoch: int) -> bool:
        """ISR-E5: neither fenced nor stopping (KIP-841), and the fetch came from its present incarnation (KIP-903)."""
        return replica is not None and replica.active and fetched_with_epoch in (-1, replica.epoch)

    def keeps_remote_state(self, in_isr: bool) -> bool:
        """RT-3, RT-4: an epoch change that was not observed hides elections, removals and additions.

        The leader keeps no replica's state: neither of one that may be new, nor of an ISR member (`in_isr`), which
        may meanwhile have truncated its log under another leader.
        """
        return False

    def expands_from_memory(self) -> bool:
        """ISR-E4: eligibility is judged by the fetch that shows it, never by remembered state."""
        return False

    def is_watched(self, appended_since: bool) -> bool:
        """ISR-S: every partition is checked, idle ones too (KAFKA-1097, KAFKA-1170)."""
        return True

    def ms_until_request(self) -> int:
        """MD-5, ISR-1: the request is built from the very state that was judged, hence at once (KAFKA-15221)."""
        return 0

    def lags(self, end: int, leader_end: int, since_caught_up_ms: int, lag_max_ms: int) -> bool:
        """ISR-S: behind the leader's end, and not caught up within the allowed time."""
        return end != leader_end and since_caught_up_ms > lag_max_ms

    def after_answer(self, error: int | None) -> AfterAnswer:
        """ISR-4: only a response that proves that no copy of the request was applied may roll the change back.

        `error` None means no response: timeout or lost connection.
        """
        if error == ErrorCode.NONE:
            return AfterAnswer.ADOPT
        if error in _NOT_APPLIED:
            return AfterAnswer.ROLL_BACK
        if error in _WAIT_FOR_METADATA:
            return AfterAnswer.STAY_PENDING
        return AfterAnswer.RETRY


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

    def result(self, new: PartitionState, sender: int) -> ErrorCode:
        """AP-10: the accepted change completed a reassignment that took the leadership from the sender."""
        return ErrorCode.NONE if new.leader == sender else ErrorCode.NEW_LEADER_ELECTED


def first_failed_check(
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
