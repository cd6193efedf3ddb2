"""Draws the values of a request's fields: those that mean something to the cluster, and hostile ones.

What only a living cluster knows (topic ids, broker epochs) stands as a mark of the same length in what is drawn; it is
replaced when the bytes are sent. So equal seeds draw equal bytes, and a saved file can be replayed on another cluster.
"""

from __future__ import annotations

import random
import struct

KEPT = "kept"
"""The topic of the ordinary producer, whose records must stay."""

FUZZED = ("fuzzed-0", "fuzzed-1", "fuzzed-2")
"""Topics with which anything may be done; the fuzzer creates them again and again."""

BROKERS = (1, 2, 3)
CONTROLLERS = (100, 101, 102)
CLUSTER_ID = "harrow"

Marks = dict[bytes, bytes]
"""Mark → what stands for it in the cluster, of the same length."""

TOPIC_ID_MARKS = {name: b"harrow.topicid.%d" % number for number, name in enumerate((KEPT, *FUZZED))}
EPOCH_MARKS = {broker: b"hrw.ep.%d" % broker for broker in BROKERS}


def filled_in(data: bytes, marks: Marks) -> bytes:
    """The bytes with every mark replaced."""
    for mark, known in marks.items():
        if mark in data:
            data = data.replace(mark, known)
    return data


_BITS = {"int8": 8, "int16": 16, "uint16": 16, "int32": 32, "int64": 64}
_FORMATS = {8: ">b", 16: ">h", 32: ">i", 64: ">q"}

_TOPICS = (KEPT, *FUZZED, *FUZZED, "fuzzed-new", "__consumer_offsets", "__cluster_metadata")
_ILLEGAL = (
    *("", ".", "..", "a" * 249, "a" * 250, "x" * 32_767, "\0", "a/b", "fuzzed.0", "ümläut", "\U0001f600", "../../etc"),
    *(" ", "-1", "%s%n", "fuzzed-0\n"),
)
_GROUPS = ("group-0", "group-1", "group-2", "group-3")
_SETTINGS = (
    *("min.insync.replicas", "retention.ms", "retention.bytes", "segment.bytes", "cleanup.policy", "max.message.bytes"),
    *("unclean.leader.election.enable", "unclean.recovery.strategy", "compression.type", "message.timestamp.type"),
)
NEVER_LEGAL = ("", "1e9", "nan", "-", "--1", "9" * 5_000, "compact;", "TRUE!")
"""Values that no setting has."""

_SETTING_VALUES = (*("1", "2", "-1", "0", "true", "false", "balanced", "compact", "delete", "9" * 40), *NEVER_LEGAL)
_IDS = (*BROKERS, *CONTROLLERS, *BROKERS, 4, 0, -1, -2)
_SMALL = (0, 0, 1, 1, 2, 3, 5, -1, -2, -3, -4, -5, -6)
_TIMES_MS = (0, 0, 1, 100, 500, 30_000, -1)
_SIZES = (0, 1, 61, 1_000, 1 << 20, 1 << 24, (1 << 31) - 1, -1)


class Values:
    """Draws values for fields by their names, as strange as `hostility` (0 to 1) says.

    With `only` there is one hostile place, the one with that number.
    """

    def __init__(
        self, draw: random.Random, hostility: float, only: int | None = None, *, of_quorum: bool = False
    ) -> None:
        self.draw = draw
        self.hostility = hostility
        self.only = only
        self.places = 0
        self._topics = ("__cluster_metadata",) if of_quorum else _TOPICS
        self._partitions = (0,) if of_quorum else _SMALL

    def strange(self) -> bool:
        """Whether the next thing is a hostile one."""
        self.places += 1
        if self.only is not None:
            return self.places - 1 == self.only
        return self.draw.random() < self.hostility

    def number(self, name: str, kind: str) -> bytes:
        """An integer of the wire's."""
        bits = _BITS[kind]
        if self.strange():
            edge = 1 << (bits - 1)
            value = self.draw.choice((edge - 1, -edge, -1, 0, edge // 2, self.draw.randrange(-edge, edge)))
        else:
            mark = self._epoch_mark(name)
            if mark is not None:
                return mark
            value = self.draw.choice(self._numbers(name.lower()))
        return struct.pack(_FORMATS[bits], _wrapped(value, bits))

    def _epoch_mark(self, name: str) -> bytes | None:
        of_node = name in ("BrokerEpoch", "ReplicaEpoch", "PreviousBrokerEpoch")
        return EPOCH_MARKS[self.draw.choice(BROKERS)] if of_node and self.draw.random() < 0.5 else None

    def _numbers(self, name: str) -> tuple[int, ...]:
        if name.endswith(("brokerid", "replicaid", "leaderid", "voterid", "candidateid", "successors", "brokerids")):
            return _IDS
        if name in ("replicas", "newisr", "addingreplicas", "removingreplicas"):
            return (*BROKERS, *BROKERS, 4)
        if name.endswith("ms"):
            return _TIMES_MS
        if name.endswith("bytes"):
            return _SIZES
        if name in ("numpartitions", "count", "replicationfactor"):
            return (1, 2, 3, 4, -1)
        if name == "timestamp":
            return (-1, -2, -3, 0, 1, 1_000, 2_000, 1 << 40)
        if name in ("partition", "partitionindex"):
            return self._partitions
        if name in ("acks", "electiontype", "keytype", "isolationlevel"):
            return (-1, 0, 1)
        if name == "resourcetype":
            return (2, 2, 2, 4, 8)
        if name in ("configoperation", "coordinatortype"):
            return (0, 1, 2, 3)
        return _SMALL

    def text(self, name: str) -> str:
        """A string of the kind that the field wants, or one that no field wants."""
        if self.strange():
            return self.draw.choice((*_ILLEGAL, *_TOPICS, *_GROUPS))
        lower = name.lower()
        if "group" in lower or lower in ("key", "coordinatorkeys"):
            return self.draw.choice(_GROUPS)
        if lower == "clusterid":
            return CLUSTER_ID
        if lower in ("value", "configvalue"):
            return self.draw.choice(_SETTING_VALUES)
        if lower in ("configname", "configurationkeys"):
            return self.draw.choice(_SETTINGS)
        if "member" in lower or "instance" in lower:
            return self.draw.choice(("", "member-0", "member-1"))
        if lower in ("protocoltype", "protocolname"):
            return self.draw.choice(("consumer", "range"))
        if lower == "transactionalid":
            return "transaction"
        if lower == "name" and self.draw.random() < 0.1:
            return self.draw.choice((*_SETTINGS, "1", "CLIENT", "BROKER"))
        return self.draw.choice(self._topics)

    def uuid(self) -> bytes:
        """A topic's id, none, or one that nothing has."""
        if self.strange():
            return self.draw.choice((bytes(16), b"\xff" * 16, self.draw.randbytes(16), bytes(15) + b"\1"))
        return self.draw.choice((*TOPIC_ID_MARKS.values(),))

    def boolean(self) -> bytes:
        """0, 1, or what is neither."""
        return bytes((self.draw.choice((2, 0x80, 0xFF)) if self.strange() else self.draw.randrange(2),))

    def opaque(self) -> bytes:
        """Bytes that the broker hands on."""
        sizes = (0, 1, 1_000, 100_000, 900_000) if self.strange() else (0, 8, 100)
        return self.draw.randbytes(self.draw.choice(sizes))


def _wrapped(value: int, bits: int) -> int:
    """The value, cut to a type of so many bits."""
    edge = 1 << (bits - 1)
    return (value + edge) % (2 * edge) - edge
