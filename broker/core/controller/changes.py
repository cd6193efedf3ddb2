"""Changes the metadata: appends a batch of records, applies it, answers when it is committed (CT-1, CT-2)."""

from __future__ import annotations

from broker.core.controller import transitions
from broker.core.controller.state import ControllerState, PendingReply
from broker.core.messages import AnyRequest, AnyResponse
from broker.core.messages.errors import ErrorCode
from broker.core.messages.refusals import refusal
from broker.core.metadata.records import MetadataRecord, PartitionSet, encode_change
from broker.core.quorum import replication


def append(controller: ControllerState, records: list[MetadataRecord]) -> int:
    """Append one atomic change and apply it to the image; returns the offset of its first record."""
    quorum = controller.quorum
    base_offset = quorum.log.end_offset
    if records:
        quorum.log.append_as_leader(encode_change(records, base_offset, quorum.epoch), quorum.epoch)
        for number, record in enumerate(records):
            if isinstance(record, PartitionSet):
                _mark(controller, record)
            controller.image.apply(base_offset + number, record)
        replication.flush(quorum)
    return base_offset


def _mark(controller: ControllerState, record: PartitionSet) -> None:
    topic = controller.image.topic_names[record.topic_id]
    before = controller.image.partition(topic, record.partition)
    if before is not None:
        controller.runtime.effects += transitions.marks_of(before, record.state)


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
