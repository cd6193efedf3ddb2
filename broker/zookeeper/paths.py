"""Where the ZooKeeper designs keep what in the tree of znodes, and how it is written there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

BROKERS = "/brokers"
IDS = "/brokers/ids"
TOPICS = "/brokers/topics"
REASSIGNED = "/brokers/partitions_reassigned"

PERSISTENT = (BROKERS, IDS, TOPICS, REASSIGNED)
"""What the first broker creates, parents first."""

STATES = "/brokers/state"
"""The parent of the second design's queues."""

EPOCH = "/brokers/epoch"
"""The counter of epochs in an earlier draft of the second design."""

Key = tuple[str, int]
"""Topic and partition."""


class BadZnode(ValueError):
    """A znode holds something else; the text is one line for the operator."""

    def __init__(self, path: str, expected: str, found: object) -> None:
        super().__init__(f"znode {path}: expected {expected}, found {found!r}: is the ensemble another system's?")


def broker(broker_id: int) -> str:
    """A live broker: its address. Ephemeral."""
    return f"{IDS}/{broker_id}"


def topic(name: str) -> str:
    """A topic; its children are the partitions."""
    return f"{TOPICS}/{name}"


def partition(key: Key) -> str:
    """A partition."""
    return f"{TOPICS}/{key[0]}/{key[1]}"


def replicas(key: Key) -> str:
    """The assigned replicas, the preferred one first."""
    return f"{partition(key)}/replicas"


def leader(key: Key) -> str:
    """The leader's id. Ephemeral: of the session that won the race."""
    return f"{partition(key)}/leader"


def insync(key: Key) -> str:
    """The in-sync replicas."""
    return f"{partition(key)}/ISR"


def states(key: Key) -> str:
    """The parent of the requests to the replicas."""
    return f"{partition(key)}/state"


def state(key: Key, broker_id: int) -> str:
    """The last request to one replica. Ephemeral: the broker registers it, the leader writes it."""
    return f"{states(key)}/{broker_id}"


def queue(broker_id: int) -> str:
    """The second design's queue of requests to a broker. Persistent, with a child for each request."""
    return f"{STATES}/{broker_id}"


def request_prefix(broker_id: int) -> str:
    """What the names of the requests in a queue begin with; numbers follow."""
    return f"{queue(broker_id)}/q-"


def reassigned_topic(name: str) -> str:
    """The topic of partitions that are to move."""
    return f"{REASSIGNED}/{name}"


def reassigned(key: Key) -> str:
    """The replicas that a partition is to have."""
    return f"{REASSIGNED}/{key[0]}/{key[1]}"


class Place(NamedTuple):
    """What a path stands for: `kind` is the function here that makes it; parts that it does not have are empty."""

    kind: str
    topic: str = ""
    partition: int = -1

    @property
    def key(self) -> Key:
        """Topic and partition."""
        return self.topic, self.partition


def place(path: str) -> Place | None:
    """The inverse of the functions above; None for a path that they do not make."""
    match path.split("/")[1:]:
        case ["brokers", "topics"]:
            return Place("topics")
        case ["brokers", "topics", name]:
            return Place("topic", name)
        case ["brokers", "topics", name, number] if number.isdigit():
            return Place("partition", name, int(number))
        case ["brokers", "topics", name, number, "replicas" | "leader" | "ISR" as kind] if number.isdigit():
            return Place(kind, name, int(number))
        case ["brokers", "topics", name, number, "state", _] if number.isdigit():
            return Place("state", name, int(number))
        case ["brokers", "partitions_reassigned"]:
            return Place("reassignments")
        case ["brokers", "partitions_reassigned", name]:
            return Place("reassigned topic", name)
        case _:
            return None


def number_of(name: str, path: str) -> int:
    """A partition's number from the name of its znode. Raises `BadZnode`."""
    if not name.isdigit():
        raise BadZnode(path, "the number of a partition", name)
    return int(name)


def encoded(ids: Iterable[int]) -> bytes:
    """Broker ids in their order."""
    return ",".join(map(str, ids)).encode()


def decoded(data: bytes, path: str) -> tuple[int, ...]:
    """The inverse of `encoded`. Raises `BadZnode`."""
    words = data.split(b",") if data else []
    if not all(word.isdigit() for word in words):
        raise BadZnode(path, "broker ids with commas between them", data)
    return tuple(int(word) for word in words)


def encoded_with_epoch(ids: Iterable[int], epoch: int) -> bytes:
    """In-sync replicas and the epoch of the leader that writes them, as the second design has them."""
    return encoded(ids) + f";{epoch}".encode()


def decoded_with_epoch(data: bytes, path: str) -> tuple[tuple[int, ...], int]:
    """The inverse of `encoded_with_epoch`. Raises `BadZnode`."""
    ids, semicolon, epoch = data.rpartition(b";")
    if not semicolon or not epoch.isdigit():
        raise BadZnode(path, "broker ids with commas between them, a semicolon and an epoch", data)
    return decoded(ids, path), int(epoch)


def decoded_address(data: bytes, path: str) -> tuple[str, int]:
    """Host and port of a live broker. Raises `BadZnode`."""
    host, colon, port = data.decode(errors="replace").rpartition(":")
    if not colon or not port.isdigit():
        raise BadZnode(path, "host:port", data)
    return host, int(port)
