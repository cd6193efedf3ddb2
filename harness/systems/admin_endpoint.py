"""Reads a node's admin endpoint: the Unix socket at which it, or its sidecar, reports its state.

docs/reference/broker.md describes the answers. A paused or dead node does not answer, and is left out.
"""

from __future__ import annotations

import base64
import http.client
import json
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from harness.environments.base import LogRecord, NodePlan, ReplicaState
from nemesis.capabilities.cluster import PartitionView, is_broker, is_controller

ANSWER_TIMEOUT_S = 0.5
"""A healthy node answers within milliseconds; an observer treats a slower one as not answering."""

DUMP_TIMEOUT_S = 10.0
_PAGE_RECORDS = 5_000

State = Mapping[str, Any]


def state_of(plan: NodePlan) -> State | None:
    """The state that the node reports; None if it does not answer."""
    try:
        return get_json(plan.socket, "/state", ANSWER_TIMEOUT_S * plan.pace)
    except NoAnswer:
        return None


def states_of_brokers(plans: Sequence[NodePlan]) -> Sequence[State]:
    """The states of the brokers that answer."""
    return [state for plan in plans if is_broker(plan) and (state := state_of(plan)) is not None]


def states_of_controllers(plans: Sequence[NodePlan]) -> Sequence[State]:
    """The states of the controllers that answer; for a combined node the state of its controller."""
    states = [state for plan in plans if is_controller(plan) and (state := state_of(plan)) is not None]
    return [state.get("controller_state", state) for state in states]


def replica_of(partition: State, broker_epoch: int) -> ReplicaState:
    """Convert one of a broker's `partitions` to a replica's state."""
    known = partition.get("last_known_elr")
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
        last_known_elr=None if known is None else tuple(known),
    )


def view_of(partition: State) -> PartitionView:
    """Convert one of the `partitions` to the cluster's view of it."""
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
    """The newest view of each partition that these nodes know; between equals, its leader's."""
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
    """Read a replica's whole log, page by page, until its end or until the node stops answering."""
    try:
        yield from read_log(page_of(plan, topic, partition))
    except NoAnswer:
        return


PageAt = Callable[[int, int], State]
"""Returns a page of a log by first offset and length. Raises `NoAnswer`."""


def page_of(plan: NodePlan, topic: str, partition: int) -> PageAt:
    """What reads pages of this replica's log."""

    def page(offset: int, limit: int) -> State:
        query = {"topic": topic, "partition": partition, "offset": offset, "limit": limit}
        return get_json(plan.socket, f"/log?{urlencode(query)}", DUMP_TIMEOUT_S * plan.pace)

    return page


def read_log(page_at: PageAt) -> Iterator[LogRecord]:
    """Read a whole log by pages. Raises `NoAnswer`."""
    offset, log_end = 0, 1
    while offset < log_end:
        page = page_at(offset, _PAGE_RECORDS)
        for at, epoch, crc, _key, value, producer in page["records"]:
            yield LogRecord(at, epoch, crc, base64.b64decode(value or ""), producer and tuple(producer))
            offset = at + 1
        log_end = page["log_end"] if page["records"] else offset


class NoAnswer(Exception):
    """No answer in time, or not a valid one. The message says what was found."""


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path, timeout_s: float) -> None:
        super().__init__("node", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


def get_json(path: Path, target: str, timeout_s: float) -> dict[str, Any]:
    """Request `target`; the answer must be a JSON object with status 200. Raises `NoAnswer`."""
    connection = _UnixConnection(path, timeout_s)
    try:
        connection.request("GET", target)
        response = connection.getresponse()
        body = response.read()
        answer = json.loads(body)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise NoAnswer(f"{path.name} did not answer {target}: {error}") from error
    finally:
        connection.close()
    if response.status != http.HTTPStatus.OK or not isinstance(answer, dict):
        raise NoAnswer(f"{path.name} answered {target} with status {response.status}: {body[:200]!r}")
    return answer
