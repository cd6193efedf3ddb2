"""The table of the designs: what each of them does at the events that mean something else in the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from broker.core.broker_node import storage
from broker.core.messages import AnyRequest, FetchResponse, MetadataRequest
from broker.core.ports.coordination import SessionChanged, WatchFired
from broker.core.ports.events import Exit
from broker.zookeeper import paths
from broker.zookeeper.choices import CONTROLLED, V1, V2
from broker.zookeeper.designs.controller import administration as administration_c
from broker.zookeeper.designs.controller import following as following_c
from broker.zookeeper.designs.controller import leading as leading_c
from broker.zookeeper.designs.controller import listeners as listeners_c
from broker.zookeeper.designs.controller import queries as queries_c
from broker.zookeeper.designs.controller import znodes
from broker.zookeeper.designs.v1 import administration as administration_1
from broker.zookeeper.designs.v1 import leading as leading_1
from broker.zookeeper.designs.v1 import listeners as listeners_1
from broker.zookeeper.designs.v2 import administration as administration_2
from broker.zookeeper.designs.v2 import leading as leading_2
from broker.zookeeper.designs.v2 import listeners as listeners_2
from broker.zookeeper.procedures import Steps
from broker.zookeeper.replicas import following
from broker.zookeeper.requests import fetching, queries
from broker.zookeeper.state import Hosted, ZooKeeperState


def stop_at_once(zk: ZooKeeperState) -> None:
    """Close the logs; the others see that by the session."""
    storage.close_cleanly(zk.broker)
    zk.broker.runtime.effects.append(Exit(0, "stopped"))


class Design(NamedTuple):
    """What a design does."""

    session_changed: Callable[[ZooKeeperState, SessionChanged], None]
    watch_fired: Callable[[ZooKeeperState, WatchFired], None]
    look_at_queue: Callable[[ZooKeeperState, Hosted], None]
    """Something was appended."""

    administer: Callable[[ZooKeeperState, int, AnyRequest], Steps[None] | None]
    insync_in: Callable[[bytes, str], tuple[int, ...]]
    fetched_from: Callable[[ZooKeeperState, Hosted, int, int], None] = fetching.believe
    """As leader: a follower, by its id, has fetched at an offset."""

    fetched: Callable[[ZooKeeperState, Hosted, int, FetchResponse | None], None] = following.fetched
    """As follower: the leader has answered a request, or not."""

    metadata: Callable[[ZooKeeperState, int, MetadataRequest], Steps[None]] = queries.metadata
    serve: Callable[[ZooKeeperState, int, AnyRequest], bool] = lambda *_: False
    """Serves a request that only this design has, and says whether it was one."""

    stop: Callable[[ZooKeeperState], None] = stop_at_once


_WITH_CONTROLLER = Design(
    listeners_c.session_changed,
    listeners_c.watch_fired,
    leading_c.advance,
    administration_c.procedure_of,
    lambda data, path: znodes.decoded_state(data, path).isr,
    leading_c.fetched_from,
    following_c.fetched,
    queries_c.metadata,
    listeners_c.serve,
    listeners_c.stop,
)

DESIGNS: Mapping[str, Design] = {
    V1: Design(
        listeners_1.session_changed,
        listeners_1.watch_fired,
        leading_1.look_at_queue,
        administration_1.procedure_of,
        paths.decoded,
    ),
    V2: Design(
        listeners_2.session_changed,
        listeners_2.watch_fired,
        leading_2.look_at_queue,
        administration_2.procedure_of,
        lambda data, path: paths.decoded_with_epoch(data, path)[0],
    ),
    **dict.fromkeys(CONTROLLED, _WITH_CONTROLLER),
}
"""By protocol version."""
