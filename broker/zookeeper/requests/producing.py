"""Serves Produce: append, queue for the commit thread; answers at once where acknowledgements do not wait."""

from __future__ import annotations

from collections.abc import Callable

from broker.core.broker_node import storage
from broker.core.broker_node.state import WaitingProduce
from broker.core.messages import ProducedPartition, ProducePartition, ProduceRequest, ProduceResponse
from broker.core.messages.errors import ErrorCode
from broker.core.ports.events import CloseConnection, RequestReceived
from broker.core.ports.marks import sometimes
from broker.zookeeper.state import Hosted, PendingProduce, ZooKeeperState

DEPOSED_WHILE_WAITING = sometimes("zookeeper: a produce is refused, leadership ended while it waited (Z-15)")
TIMED_OUT = sometimes("zookeeper: a produce is refused, its deadline passed")
TOO_FEW = sometimes("zookeeper: a produce is refused, the ISR is too small")

DEADLINE = "produce-deadline"
SYNCHRONOUS = -1
"""The `acks` that waits for the commit thread; every other acknowledges the leader's own append."""

NO_EPOCH = 0
"""What batches have for a leader epoch where there are none, so that all are equal."""


def handle(
    zk: ZooKeeperState, event: RequestReceived, request: ProduceRequest, commit: Callable[[Hosted], None]
) -> None:
    """Append what is for partitions led here; `commit` has the commit thread look at its queue."""
    runtime = zk.broker.runtime
    answers: dict[tuple[str, int], ProducedPartition] = {}
    waiting: dict[tuple[str, int], None] = {}
    for part in request.partitions:
        key = (part.topic, part.partition)
        answers[key] = answer = _append(zk, event.request_id, part, request.acks)
        if answer.error_code == ErrorCode.NONE and request.acks == SYNCHRONOUS:
            waiting[key] = None
    if request.acks == 0:
        if any(answer.error_code for answer in answers.values()):
            runtime.effects.append(CloseConnection(event.connection))
        runtime.reply(event.request_id, None)
    elif waiting:
        zk.produces[event.request_id] = WaitingProduce(answers, waiting, event.connection)
        runtime.set_timer((DEADLINE, event.request_id), request.timeout_ms)
    else:
        runtime.reply(event.request_id, ProduceResponse(tuple(answers.values())))
    for key, answer in answers.items():
        if answer.error_code == ErrorCode.NONE:
            commit(zk.hosted[key])


def _append(zk: ZooKeeperState, request_id: int, part: ProducePartition, acks: int) -> ProducedPartition:
    def refused(error: ErrorCode) -> ProducedPartition:
        return ProducedPartition(part.topic, part.partition, error)

    hosted = zk.hosted.get((part.topic, part.partition))
    if hosted is None or not hosted.is_open:
        return refused(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    if acks == SYNCHRONOUS and len(hosted.replica.isr) < hosted.replica.effective_min_isr:
        zk.broker.runtime.mark(TOO_FEW)
        return refused(ErrorCode.NOT_ENOUGH_REPLICAS)
    log = hosted.replica.log
    headers = log.check_batches(part.records)
    if isinstance(headers, ErrorCode):
        return refused(headers)
    epoch = hosted.replica.leader_epoch if zk.has_epochs else NO_EPOCH
    appended = log.append_as_leader(part.records, epoch, headers)
    storage.appended(zk.broker, hosted.replica)
    zk.broker.touch(hosted.replica)
    hosted.queue.append(PendingProduce(log.end_offset, request_id if acks == SYNCHRONOUS else None))
    return ProducedPartition(part.topic, part.partition, ErrorCode.NONE, appended.base_offset, log.start_offset)


def committed(zk: ZooKeeperState, hosted: Hosted, pending: PendingProduce, error: ErrorCode = ErrorCode.NONE) -> None:
    """An entry of the queue is committed; with an error, by too few."""
    if pending.request_id is not None:
        _resolve(zk, pending.request_id, hosted, error)


def deposed(zk: ZooKeeperState, hosted: Hosted) -> None:
    """Leadership has ended: what waits has an unknown outcome."""
    queue = list(hosted.queue)
    hosted.queue.clear()
    for pending in queue:
        if pending.request_id in zk.produces:
            zk.broker.runtime.mark(DEPOSED_WHILE_WAITING)
            _resolve(zk, pending.request_id, hosted, ErrorCode.NOT_LEADER_OR_FOLLOWER)


def timed_out(zk: ZooKeeperState, request_id: int) -> None:
    """The deadline of a produce that waits; its records stay in the queue."""
    waiting = zk.produces.get(request_id)
    for key in list(waiting.missing) if waiting is not None else ():
        zk.broker.runtime.mark(TIMED_OUT)
        _resolve(zk, request_id, zk.hosted[key], ErrorCode.REQUEST_TIMED_OUT)


def forget_connection(zk: ZooKeeperState, connection: int) -> None:
    """The client has gone; nobody waits for its requests."""
    for request_id in [number for number, waiting in zk.produces.items() if waiting.connection == connection]:
        del zk.produces[request_id]
        zk.broker.runtime.cancel_timer((DEADLINE, request_id))


def _resolve(zk: ZooKeeperState, request_id: int, hosted: Hosted, error: ErrorCode) -> None:
    waiting = zk.produces.get(request_id)
    if waiting is None or hosted.key not in waiting.missing:
        return
    del waiting.missing[hosted.key]
    if error != ErrorCode.NONE:
        waiting.answers[hosted.key] = waiting.answers[hosted.key]._replace(error_code=error, base_offset=-1)
    if not waiting.missing:
        del zk.produces[request_id]
        zk.broker.runtime.cancel_timer((DEADLINE, request_id))
        zk.broker.runtime.reply(request_id, ProduceResponse(tuple(waiting.answers.values())))
