"""Where the design with a controller keeps what in the tree, and how it is written there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from broker.zookeeper import paths
from broker.zookeeper.paths import BadZnode, Key

CONTROLLER = "/controller"
"""The active controller's id. Ephemeral."""

EPOCH = "/controller_epoch"
"""How many controllers there have been."""

ADMIN = "/admin"
DELETIONS = "/admin/delete_topics"
"""The topics that are to be deleted."""

PERSISTENT = (*paths.PERSISTENT, ADMIN, DELETIONS)
"""What the first broker creates, parents first; and the controller epoch."""

NO_EPOCH = 0
"""The epoch before the first controller."""


class PartitionState(NamedTuple):
    """What the tree has of a partition: its leader, -1 for none, and who wrote that."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int


def partitions(topic: str) -> str:
    """The parent of a topic's partitions."""
    return f"{paths.topic(topic)}/partitions"


def partition(key: Key) -> str:
    """The parent of a partition's state."""
    return f"{partitions(key[0])}/{key[1]}"


def state(key: Key) -> str:
    """A partition's leader, epochs and ISR."""
    return f"{partition(key)}/state"


def deletion(topic: str) -> str:
    """An administrator's request to delete a topic; it goes when the topic has gone."""
    return f"{DELETIONS}/{topic}"


def encoded_assignment(assignment: Mapping[int, Sequence[int]]) -> bytes:
    """The replicas of each partition of a topic, the preferred one first."""
    return b";".join(f"{number}:".encode() + paths.encoded(ids) for number, ids in sorted(assignment.items()))


def decoded_assignment(data: bytes, path: str) -> dict[int, tuple[int, ...]]:
    """The inverse of `encoded_assignment`. Raises `BadZnode`."""
    assignment = {}
    for part in data.split(b";") if data else ():
        number, colon, ids = part.partition(b":")
        if not colon or not number.isdigit():
            raise BadZnode(path, "partitions with their broker ids, and semicolons between them", data)
        assignment[int(number)] = paths.decoded(ids, path)
    return assignment


def encoded_state(one: PartitionState) -> bytes:
    """Leader, leader epoch, ISR and controller epoch, with semicolons between them."""
    return f"{one.leader};{one.leader_epoch};{paths.encoded(one.isr).decode()};{one.controller_epoch}".encode()


def decoded_state(data: bytes, path: str) -> PartitionState:
    """The inverse of `encoded_state`. Raises `BadZnode`."""
    words = data.split(b";")
    if len(words) == 4:
        leader, leader_epoch, isr, controller_epoch = words
        if leader.removeprefix(b"-").isdigit() and leader_epoch.isdigit() and controller_epoch.isdigit():
            return PartitionState(int(leader), int(leader_epoch), paths.decoded(isr, path), int(controller_epoch))
    raise BadZnode(path, "leader, leader epoch, broker ids and controller epoch, with semicolons between them", data)


def decoded_number(data: bytes, path: str, what: str) -> int:
    """A number that is a znode's whole data. Raises `BadZnode`."""
    if not data.isdigit():
        raise BadZnode(path, what, data)
    return int(data)
