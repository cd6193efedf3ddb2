"""Serves fetches of the metadata log by voters and brokers; holds those without news (QU-16 … QU-19)."""

from __future__ import annotations

from broker.core.controller.state import ControllerState, WaitingMetadataFetch
from broker.core.messages import FetchRequest, FetchResponse
from broker.core.messages.errors import ErrorCode
from broker.core.ports.events import RequestReceived
from broker.core.ports.marks import sometimes
from broker.core.ports.runtime import NotServed
from broker.core.quorum import replication

OTHER_CLUSTER = sometimes("metadata log: a fetch of another cluster is refused (QU-3)")

DEADLINE = "fetch-deadline"


def handle(controller: ControllerState, event: RequestReceived, request: FetchRequest) -> bool:
    """Record the fetcher's position, then answer or hold; returns whether the high watermark moved."""
    quorum = controller.quorum
    if len(request.partitions) != 1:
        raise NotServed(f"expected a fetch of the metadata log's one partition, found {len(request.partitions)}")
    if request.cluster_id not in (None, quorum.settings.cluster_id):
        controller.runtime.mark(OTHER_CLUSTER)
        controller.runtime.reply(event.request_id, FetchResponse((), ErrorCode.INCONSISTENT_CLUSTER_ID))
        return False
    refusal = replication.check_fetch(quorum, request.partitions[0])
    if refusal is not None:
        replication.touch_fetcher(quorum, request.replica_id)
        controller.runtime.reply(event.request_id, FetchResponse((refusal,)))
        return False
    reported = quorum.high_watermark
    moved = replication.record_fetch(quorum, request)
    controller.fetches[event.request_id] = WaitingMetadataFetch(request, event.connection, reported)
    if not try_answer(controller, event.request_id, at_deadline=request.max_wait_ms <= 0):
        controller.runtime.set_timer((DEADLINE, event.request_id), request.max_wait_ms)
    return moved


def try_answer(controller: ControllerState, request_id: int, *, at_deadline: bool) -> bool:
    """Answer a fetch if there are records, if the high watermark has moved (QU-19), or at its deadline."""
    waiting = controller.fetches[request_id]
    refusal = replication.check_fetch(controller.quorum, waiting.request.partitions[0])
    answer = refusal or replication.read(controller.quorum, waiting.request)
    news = refusal is not None or answer.records or controller.quorum.high_watermark > waiting.told_high_watermark
    if not at_deadline and not news:
        return False
    forget(controller, request_id)
    controller.runtime.reply(request_id, FetchResponse((answer,)))
    return True


def wake(controller: ControllerState) -> None:
    """The log or the high watermark has moved, or leadership is lost: retry held fetches."""
    for request_id in list(controller.fetches):
        try_answer(controller, request_id, at_deadline=False)


def timed_out(controller: ControllerState, request_id: int) -> None:
    """A waiting fetch has reached its deadline."""
    if request_id in controller.fetches:
        try_answer(controller, request_id, at_deadline=True)


def forget_connection(controller: ControllerState, connection: int) -> None:
    """The fetcher has disconnected."""
    for request_id in [number for number, fetch in controller.fetches.items() if fetch.connection == connection]:
        forget(controller, request_id)


def forget(controller: ControllerState, request_id: int) -> None:
    """Remove a waiting fetch that was answered or abandoned."""
    controller.fetches.pop(request_id)
    controller.runtime.cancel_timer((DEADLINE, request_id))
