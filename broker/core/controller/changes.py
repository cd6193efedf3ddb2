"""Changes the metadata: appends a batch of records, applies it, answers when it is committed (CT-1, CT-2).

Every change of a partition also yields the marks of what it did: election, ELR maintenance, reassignment (§13, §15).
"""

from __future__ import annotations

from collections.abc import Iterator

from broker.core.controller import losses
from broker.core.controller.losses import BY_SETTING, Grounds
from broker.core.controller.state import ControllerState, PendingReply
from broker.core.messages import NO_LEADER, AnyRequest, AnyResponse
from broker.core.messages.errors import ErrorCode
from broker.core.messages.refusals import refusal
from broker.core.metadata.records import RECOVERING, MetadataRecord, PartitionSet, PartitionState, encode_change
from broker.core.ports.marks import Mark, sometimes
from broker.core.quorum import replication

LEADER_KEPT = sometimes("election: the leader stayed while the ISR changed (EL-3a)")
NEXT_IN_ASSIGNMENT = sometimes("election: the first active ISR member in assignment order (EL-3b)")
PREFERRED = sometimes("election: the preferred replica took over from a leader that could stay (EL-7)")
FROM_ELR = sometimes("election: a member of the ELR, the ISR being empty (EL-4)")
UNCLEAN = sometimes("election: unclean (EL-9)")
NOBODY_ELECTED = sometimes("election: nobody can be elected (EL-3c)")
SAME_AGAIN = sometimes("election: the last leader leads again after there was none")
RECOVERED = sometimes("election: the leader of an unclean election has recovered (EL-9)")

FOLLOWER_TO_ELR = sometimes("ELR case A: a follower left a small ISR and is eligible")
LEADER_TO_ELR = sometimes("ELR case C: the leader left a small ISR and is eligible, another leads")
LEADER_LEFT_LARGE_ISR = sometimes("ELR case D: the leader left an ISR that stays sufficient")
ADMITTED = sometimes("ELR case E: a replica that was out caught up")
LAGGARD_LEFT_LARGE_ISR = sometimes("ELR case F: a follower left an ISR that stays sufficient")
GUARANTEE_LOST = sometimes("ELR case G: the ISR became sufficient without a member of the ELR")
ISR_EMPTY = sometimes("ELR case H: the last member left, the ISR is empty")
ELR_TO_LAST_KNOWN = sometimes("ELR case I: a member of the ELR is only known to have been eligible")
ELR_TO_ISR = sometimes("ELR case K: a member of the ELR caught up and is in the ISR")
SEVERAL_LEFT = sometimes("ISR: several members left at once")
ALL_LOST = sometimes("ELR: ISR and ELR are both empty")
ELIGIBILITY_VOID = sometimes("ELR: a new min ISR emptied it (ELR-6)")

REASSIGNMENT_STARTED = sometimes("reassignment: started (RA-2)")
REASSIGNMENT_REPLACED = sometimes("reassignment: merged into one that was running (RA-1)")
REASSIGNMENT_AT_ONCE = sometimes("reassignment: complete as soon as it was asked for (RA-5)")
REASSIGNMENT_COMPLETED = sometimes("reassignment: completed by an ISR change (RA-4)")
REASSIGNMENT_MOVED_LEADER = sometimes("reassignment: its end took the leader along (RA-4)")
REASSIGNMENT_CANCELLED = sometimes("reassignment: cancelled (RA-6)")
CANCELLED_FROM_ELR = sometimes("reassignment: ended while the ELR was not empty (ELR-5)")


def marks_of(old: PartitionState, new: PartitionState) -> Iterator[Mark]:
    """The marks of one change of a partition."""
    yield from _election(old, new)
    yield from _eligibility(old, new)
    yield from _reassignment(old, new)


def _election(old: PartitionState, new: PartitionState) -> Iterator[Mark]:
    if new.leader == old.leader:
        if new.isr != old.isr and new.leader != NO_LEADER:
            yield LEADER_KEPT
    elif new.leader == NO_LEADER:
        yield NOBODY_ELECTED
    elif losses.is_unclean(old, new):
        yield UNCLEAN
    elif not old.isr and new.leader in old.elr:
        yield FROM_ELR
    elif old.leader == NO_LEADER and new.leader in old.isr:
        yield SAME_AGAIN
    elif new.leader == new.replicas[0] and old.leader in new.isr:
        yield PREFERRED
    else:
        yield NEXT_IN_ASSIGNMENT
    if old.recovery_state == RECOVERING and new.recovery_state != RECOVERING:
        yield RECOVERED


def _eligibility(old: PartitionState, new: PartitionState) -> Iterator[Mark]:
    gone = set(old.isr) - set(new.isr)
    added = set(new.isr) - set(old.isr)
    if gone and old.replicas == new.replicas:
        if len(gone) > 1:
            yield SEVERAL_LEFT
        if not new.isr:
            yield ISR_EMPTY
        elif old.leader in gone:
            yield LEADER_TO_ELR if old.leader in new.elr else LEADER_LEFT_LARGE_ISR
        else:
            yield FOLLOWER_TO_ELR if gone & set(new.elr) else LAGGARD_LEFT_LARGE_ISR
    if added and old.leader != NO_LEADER:
        yield ELR_TO_ISR if added & set(old.elr) else ADMITTED
    if set(old.elr) - set(new.isr) - set(new.elr):
        if set(old.elr) & set(new.last_known_elr):
            yield ELR_TO_LAST_KNOWN
        elif new.isr == old.isr:
            yield ELIGIBILITY_VOID
        else:
            yield GUARANTEE_LOST
    if not new.isr and not new.elr and (old.isr or old.elr):
        yield ALL_LOST


def _reassignment(old: PartitionState, new: PartitionState) -> Iterator[Mark]:
    running, runs = bool(old.adding or old.removing), bool(new.adding or new.removing)
    if runs and (old.adding, old.removing) != (new.adding, new.removing):
        yield REASSIGNMENT_REPLACED if running else REASSIGNMENT_STARTED
    ended = not runs and new.replicas != old.replicas
    if ended:
        if not running:
            yield REASSIGNMENT_AT_ONCE
        elif set(new.replicas) == set(old.replicas) - set(old.adding):
            yield REASSIGNMENT_CANCELLED
        else:
            yield REASSIGNMENT_COMPLETED
        if new.leader != old.leader:
            yield REASSIGNMENT_MOVED_LEADER
        if old.elr or old.last_known_elr:
            yield CANCELLED_FROM_ELR


def append(controller: ControllerState, records: list[MetadataRecord], grounds: Grounds = BY_SETTING) -> int:
    """Append one atomic change and apply it to the image; returns the offset of its first record.

    `grounds` are those of the unclean elections among the records, for the report.
    """
    quorum = controller.quorum
    base_offset = quorum.log.end_offset
    if records:
        quorum.log.append_as_leader(encode_change(records, base_offset, quorum.epoch), quorum.epoch)
        for number, record in enumerate(records):
            if isinstance(record, PartitionSet):
                _mark(controller, record, grounds)
            controller.image.apply(base_offset + number, record)
        replication.flush(quorum)
    return base_offset


def _mark(controller: ControllerState, record: PartitionSet, grounds: Grounds) -> None:
    topic = controller.image.topic_names[record.topic_id]
    before = controller.image.partition(topic, record.partition)
    if before is not None:
        controller.runtime.effects += marks_of(before, record.state)
        if losses.is_unclean(before, record.state):
            where = (topic, record.partition)
            losses.report(controller.runtime, controller.losses, where, before, record.state, grounds)


def reply(controller: ControllerState, request_id: int, request: AnyRequest, response: AnyResponse) -> None:
    """CT-1: send a response that depends on the present image once that image is committed."""
    quorum = controller.quorum
    if quorum.log.end_offset <= quorum.high_watermark or not controller.rules.metadata.answers_wait_for_commit():
        controller.runtime.reply(request_id, response)
    else:
        controller.replies.append(PendingReply(quorum.log.end_offset, request_id, request, response))


def committed(controller: ControllerState) -> None:
    """The high watermark has moved: send the responses that waited for it."""
    high_watermark = controller.quorum.high_watermark
    due = [pending for pending in controller.replies if pending.offset <= high_watermark]
    controller.replies = [pending for pending in controller.replies if pending.offset > high_watermark]
    for pending in due:
        controller.runtime.reply(pending.request_id, pending.response)


def give_up(controller: ControllerState) -> None:
    """QU-24: no longer active; the fate of uncommitted records is decided by the next leader."""
    for pending in controller.replies:
        controller.runtime.reply(pending.request_id, refusal(pending.request, ErrorCode.NOT_CONTROLLER))
    controller.replies = []
