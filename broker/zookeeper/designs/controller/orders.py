"""The controller's requests to brokers: a queue for each live one, sent one after the other until it is answered."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from broker.core.messages.errors import ErrorCode
from broker.core.messages.leadership import LeaderAndIsrRequest, OrderRequest, StopReplicaRequest, UpdateMetadataRequest
from broker.core.ports.marks import sometimes
from broker.zookeeper.designs.controller.state import Office, Order
from broker.zookeeper.paths import Key
from broker.zookeeper.procedures import Ask, Sleep, Steps
from broker.zookeeper.state import ZooKeeperState

SENT_AGAIN = sometimes("zookeeper: a controller sends a request again, which was not answered")

CHANNEL = "controller-channel"
RETRY_MS = 100


def announce(
    zk: ZooKeeperState, office: Office, keys: Iterable[Key], to: Iterable[int] | None = None, *, informed: bool = True
) -> None:
    """Send LeaderAndIsr to the brokers of these partitions' replicas, then UpdateMetadata to all live brokers.

    `to`: the only brokers that get LeaderAndIsr. `informed`: whether UpdateMetadata, with what clients get, is sent.
    """
    states = [office.states[key] for key in keys if key in office.states]
    live = tuple(office.live[broker_id] for broker_id in sorted(office.live))
    for broker_id in sorted(office.live if to is None else to):
        own = tuple(one for one in states if broker_id in one.replicas)
        if own and broker_id in office.live:
            put(zk, office, broker_id, LeaderAndIsrRequest(zk.broker_id, office.epoch, own, live))
    if informed:
        for broker_id in sorted(office.live):
            put(zk, office, broker_id, UpdateMetadataRequest(zk.broker_id, office.epoch, tuple(states), live))


def stop_replicas(zk: ZooKeeperState, office: Office, broker_id: int, keys: tuple[Key, ...]) -> None:
    """Have a broker stop these replicas."""
    if keys and broker_id in office.live:
        put(zk, office, broker_id, StopReplicaRequest(zk.broker_id, office.epoch, keys))


def put(
    zk: ZooKeeperState, office: Office, broker_id: int, request: OrderRequest, then: Callable[[], None] | None = None
) -> None:
    """Send a request after those that wait; `then` is called once the broker has obeyed, unless it goes before."""
    office.orders.setdefault(broker_id, deque()).append(Order(request, then))
    if not zk.procedures.runs((CHANNEL, broker_id)):
        zk.procedures.start((CHANNEL, broker_id), _send(zk, office.orders[broker_id], broker_id))


def drop(zk: ZooKeeperState, office: Office, broker_id: int) -> None:
    """Forget what was to be sent to a broker that is not live."""
    zk.procedures.cancel((CHANNEL, broker_id))
    office.orders.pop(broker_id, None)


def _send(zk: ZooKeeperState, waiting: deque[Order], broker_id: int) -> Steps[None]:
    while waiting:
        response = yield Ask(broker_id, waiting[0].request, zk.broker.settings.request_timeout_ms)
        if response is None:
            zk.broker.runtime.mark(SENT_AGAIN)
            yield Sleep(RETRY_MS)
            continue
        _, then = waiting.popleft()
        if then is not None and response.error_code == ErrorCode.NONE:
            then()
