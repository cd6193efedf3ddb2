"""Changing the metadata: append a batch of records, apply it, answer when it is committed (CT-1, CT-2)."""

from __future__ import annotations

from broker.core.controller.state import (
    METADATA_DIRECTORY,
    ControllerState,
    PendingReply,
    WaitingMetadataFetch,
)
from broker.core.errors import ErrorCode
from broker.core.events import Flush, RequestReceived
from broker.core.messages import AnyResponse, FetchedPartition, FetchRequest, FetchResponse
from broker.core.metadata.records import METADATA_TOPIC, MetadataRecord, encode_change

FETCH_DEADLINE = "fetch-deadline"


def append(controller: ControllerState, records: list[MetadataRecord]) -> int:
    """Append one atomic change and apply it to the image; returns the offset of its first record."""
    base_offset = controller.log.end_offset
    if records:
        controller.log.append_as_leader(encode_change(records, base_offset, controller.epoch), controller.epoch)
        for number, record in enumerate(records):
            controller.image.apply(base_offset + number, record)
        flush(controller)
    return base_offset


def flush(controller: ControllerState) -> None:
    """Bring the log to the disk; what is there is committed."""
    if controller.flushing_to is None and controller.log.flushed_offset < controller.log.end_offset:
        controller.flushing_to = controller.log.end_offset
        controller.runtime.effects.append(Flush(METADATA_DIRECTORY, controller.log.unflushed_files()))


def flushed(controller: ControllerState) -> None:
    """Commit what was flushed: give the answers that waited for it, wake the observers."""
    if controller.flushing_to is None:
        return
    controller.log.mark_flushed(controller.flushing_to)
    controller.committed, controller.flushing_to = controller.flushing_to, None
    due = [pending for pending in controller.replies if pending.offset <= controller.committed]
    controller.replies = [pending for pending in controller.replies if pending.offset > controller.committed]
    for pending in due:
        controller.runtime.reply(pending.request_id, pending.response)
    for request_id in list(controller.fetches):
        try_answer(controller, request_id, at_deadline=False)
    flush(controller)


def reply(controller: ControllerState, request_id: int, response: AnyResponse) -> None:
    """CT-1: an answer that rests on the present image is given when that image is committed."""
    if controller.log.end_offset <= controller.committed:
        controller.runtime.reply(request_id, response)
    else:
        controller.replies.append(PendingReply(controller.log.end_offset, request_id, response))


def handle_fetch(controller: ControllerState, event: RequestReceived, request: FetchRequest) -> None:
    """QU-18, QU-25: observers fetch committed records, and wait when there are none."""
    controller.fetches[event.request_id] = WaitingMetadataFetch(request, event.connection)
    if not try_answer(controller, event.request_id, at_deadline=request.max_wait_ms <= 0):
        controller.runtime.set_timer((FETCH_DEADLINE, event.request_id), request.max_wait_ms)


def try_answer(controller: ControllerState, request_id: int, *, at_deadline: bool) -> bool:
    """Answer an observer if there is something committed for it, or at its deadline."""
    request = controller.fetches[request_id].request
    parts = tuple(_read(controller, part.topic, part.fetch_offset, part.max_bytes) for part in request.partitions)
    if not at_deadline and not any(part.records or part.error_code for part in parts):
        return False
    forget(controller, request_id)
    controller.runtime.reply(request_id, FetchResponse(parts))
    return True


def forget(controller: ControllerState, request_id: int) -> None:
    """A waiting fetch is answered, or its observer has gone."""
    controller.fetches.pop(request_id)
    controller.runtime.cancel_timer((FETCH_DEADLINE, request_id))


def _read(controller: ControllerState, topic: str, offset: int, max_bytes: int) -> FetchedPartition:
    if topic != METADATA_TOPIC:
        return FetchedPartition(topic, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    log = controller.log
    if not log.start_offset <= offset <= log.end_offset:
        return FetchedPartition(topic, 0, ErrorCode.OFFSET_OUT_OF_RANGE)
    records = log.read(offset, max_bytes, controller.committed) if offset < controller.committed else b""
    return FetchedPartition(
        topic, 0, ErrorCode.NONE, controller.committed, controller.committed, log.start_offset, records
    )
