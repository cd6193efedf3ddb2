"""Reading a node's admin endpoint: the Unix socket at which it, or its attendant, tells what it believes.

The shape of the answers is in docs/internals/architecture.md. A paused or dead node is silent, and is left out.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from harness.environments.base import LogRecord, NodePlan, ReplicaState
from harness.systems.unix_http import NoAnswer, get_json
from nemesis.capabilities.cluster import PartitionView, is_broker, is_controller

ANSWER_TIMEOUT_S = 0.5
"""A healthy node answers within milliseconds; what takes longer is as good as silent to an observer."""

DUMP_TIMEOUT_S = 10.0
_PAGE_RECORDS = 5_000

State = Mapping[str, Any]


def state_of(plan: NodePlan) -> State | None:
    """What the node says of itself; None if it does not answer."""
    try:
        return get_json(plan.socket, "/state", ANSWER_TIMEOUT_S * plan.pace)
    except NoAnswer:
        return None


def states_of_brokers(plans: Sequence[NodePlan]) -> Sequence[State]:
    """What the brokers say, as far as they answer."""
    return [state for plan in plans if is_broker(plan) and (state := state_of(plan)) is not None]


def states_of_controllers(plans: Sequence[NodePlan]) -> Sequence[State]:
    """What the controllers say, as far as they answer; of a node of both roles its controller."""
    states = [state for plan in plans if is_controller(plan) and (state := state_of(plan)) is not None]
    return [state.get("controller_state", state) for state in states]


def replica_of(partition: State, broker_epoch: int) -> ReplicaState:
    """One of a broker's `partitions`."""
    return ReplicaState(
        topic=partition["topic"],
        partition=partition["partition"],
        role=partition["role"],
        leader=partition["leader"],
        leader_epoch=partition["leader_epoch"],
        log_start=partition["log_start"],
        log_end=partition["log_end"],
        high_watermark=partition["high_watermark"],
        isr=tuple(partition["isr"]),
        elr=tuple(partition["elr"]),
        broker_epoch=broker_epoch,
    )


def view_of(partition: State) -> PartitionView:
    """The cluster's side of one of the `partitions`."""
    return PartitionView(
        topic=partition["topic"],
        partition=partition["partition"],
        leader=partition["leader"],
        leader_epoch=partition["leader_epoch"],
        isr=tuple(partition["isr"]),
        elr=tuple(partition["elr"]),
        replicas=tuple(partition["replicas"]),
    )


def newest_views(states: Iterable[State]) -> Sequence[PartitionView]:
    """Of what these nodes know of each partition, what is newest; between equals, what its leader says."""
    newest: dict[tuple[str, int], State] = {}
    for state in states:
        for partition in state["partitions"]:
            key = (partition["topic"], partition["partition"])
            if key not in newest or _age(partition) > _age(newest[key]):
                newest[key] = partition
    return [view_of(partition) for _, partition in sorted(newest.items())]


def _age(partition: State) -> tuple[int, int, bool]:
    return partition["leader_epoch"], partition.get("partition_epoch", -1), partition.get("role") == "leader"


def log_of(plan: NodePlan, topic: str, partition: int) -> Iterator[LogRecord]:
    """Read a replica's whole log, page by page, as far as the node answers."""
    offset, log_end = 0, 1
    while offset < log_end:
        query = {"topic": topic, "partition": partition, "offset": offset, "limit": _PAGE_RECORDS}
        try:
            page = get_json(plan.socket, f"/log?{urlencode(query)}", DUMP_TIMEOUT_S * plan.pace)
        except NoAnswer:
            return
        for at, epoch, crc, _key, value in page["records"]:
            yield LogRecord(at, epoch, crc, base64.b64decode(value or ""))
            offset = at + 1
        log_end = page["log_end"] if page["records"] else offset
