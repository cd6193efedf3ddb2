"""The offsets topic: which partition stores a group, and its records in Kafka's schemas, which Kafka's tools can read.

| record | key | value |
|---|---|---|
| a committed offset | version 1: group, topic, partition | version 3: offset, leader epoch, metadata, time of commit |
| a group's generation | version 2: group | version 3: protocol, generation, leader, members with assignments |

A record without value is a tombstone of its key. Times are milliseconds since 1970, by the clock of `Started`; an older
Harrow wrote -1, Kafka's "none".
"""

from __future__ import annotations

import struct
from typing import NamedTuple

OFFSETS_TOPIC = "__consumer_offsets"

OFFSET_KEY_VERSION = 1
GROUP_KEY_VERSION = 2
OFFSET_VALUE_VERSION = 3
GROUP_VALUE_VERSION = 3
NO_TIMESTAMP = -1
STRING_BYTES_MAX = 0x7FFF

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_JAVA_MIN_INT = -(1 << 31)


def partition_of(group_id: str, partitions: int) -> int:
    """The partition that stores a group; its leader is the group's coordinator. Same as Kafka's."""
    code = java_hash(group_id)
    return (0 if code == _JAVA_MIN_INT else abs(code)) % partitions


def java_hash(text: str) -> int:
    """Java's `String.hashCode`: over UTF-16 code units, in 32 bits with a sign."""
    code = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(units), 2):
        code = (31 * code + (units[at] << 8) + units[at + 1]) & 0xFFFFFFFF
    return code - (1 << 32) if code >> 31 else code


class UnknownRecord(ValueError):
    """A record of the offsets topic with a schema version that this coordinator does not know."""


class OffsetKey(NamedTuple):
    group_id: str
    topic: str
    partition: int


class GroupKey(NamedTuple):
    group_id: str


class StoredOffset(NamedTuple):
    """A group's committed offset for a partition: the offset of the next record to read."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_ms: int = NO_TIMESTAMP


class StoredMember(NamedTuple):
    """A member as stored in a generation's record. Timeouts in milliseconds."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


class StoredGroup(NamedTuple):
    """A generation of a group; one without members has no protocol and no leader. `state_ms`: since when it is so."""

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    members: tuple[StoredMember, ...]
    state_ms: int = NO_TIMESTAMP


# --- writing ---------------------------------------------------------------------------------------------------------


def encode_key(key: OffsetKey | GroupKey) -> bytes:
    """Encode a record's key."""
    if isinstance(key, GroupKey):
        return _INT16.pack(GROUP_KEY_VERSION) + _string(key.group_id)
    return b"".join(
        (_INT16.pack(OFFSET_KEY_VERSION), _string(key.group_id), _string(key.topic), _INT32.pack(key.partition))
    )


def encode_offset(committed: StoredOffset) -> bytes:
    """Encode a committed offset."""
    return b"".join(
        (
            _INT16.pack(OFFSET_VALUE_VERSION),
            _INT64.pack(committed.offset),
            _INT32.pack(committed.leader_epoch),
            _string(committed.metadata),
            _INT64.pack(committed.commit_ms),
        )
    )


def encode_group(group: StoredGroup) -> bytes:
    """Encode a group's generation."""
    parts = [
        _INT16.pack(GROUP_VALUE_VERSION),
        _string(group.protocol_type),
        _INT32.pack(group.generation),
        _string(group.protocol),
        _string(group.leader),
        _INT64.pack(group.state_ms),
        _INT32.pack(len(group.members)),
    ]
    for member in group.members:
        parts += (
            _string(member.member_id),
            _string(member.instance_id),
            _string(member.client_id),
            _string(member.client_host),
            _INT32.pack(member.rebalance_timeout_ms),
            _INT32.pack(member.session_timeout_ms),
            _bytes(member.subscription),
            _bytes(member.assignment),
        )
    return b"".join(parts)


def _string(text: str | None) -> bytes:
    if text is None:
        return b"\xff\xff"
    raw = text.encode()
    return _INT16.pack(len(raw)) + raw


def _bytes(data: bytes) -> bytes:
    return _INT32.pack(len(data)) + data


# --- reading ---------------------------------------------------------------------------------------------------------


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self, form: struct.Struct) -> int:
        number: int = form.unpack_from(self._data, self._at)[0]
        self._at += form.size
        return number

    def take(self, size: int) -> bytes:
        if not 0 <= size <= len(self._data) - self._at:
            raise UnknownRecord(f"expected {size} more bytes, found {len(self._data) - self._at}")
        self._at += size
        return self._data[self._at - size : self._at]

    def nullable_string(self) -> str | None:
        size = self.number(_INT16)
        return None if size == -1 else self.take(size).decode()

    def string(self) -> str:
        return self.nullable_string() or ""

    def blob(self) -> bytes:
        return self.take(self.number(_INT32))

    def version(self, what: str, known: int) -> None:
        found = self.number(_INT16)
        if found != known:
            raise UnknownRecord(f"expected {what} of version {known}, found {found}")


def decode_key(data: bytes | None) -> OffsetKey | GroupKey:
    """The group or offset that a record's key names. Raises `UnknownRecord`."""
    try:
        reader = _Reader(data or b"")
        version = reader.number(_INT16)
        if version == GROUP_KEY_VERSION:
            return GroupKey(reader.string())
        if version == OFFSET_KEY_VERSION:
            return OffsetKey(reader.string(), reader.string(), reader.number(_INT32))
    except (struct.error, UnicodeDecodeError) as error:
        raise UnknownRecord(f"expected a whole key, found {error}") from error
    raise UnknownRecord(f"expected a key of version {OFFSET_KEY_VERSION} or {GROUP_KEY_VERSION}, found {version}")


def decode_offset(data: bytes) -> StoredOffset:
    """Decode a committed offset. Raises `UnknownRecord`."""
    try:
        reader = _Reader(data)
        reader.version("an offset", OFFSET_VALUE_VERSION)
        return StoredOffset(reader.number(_INT64), reader.number(_INT32), reader.string(), reader.number(_INT64))
    except (struct.error, UnicodeDecodeError) as error:
        raise UnknownRecord(f"expected a whole offset, found {error}") from error


def decode_group(data: bytes) -> StoredGroup:
    """Decode a group's generation. Raises `UnknownRecord`."""
    try:
        reader = _Reader(data)
        reader.version("a group", GROUP_VALUE_VERSION)
        protocol_type, generation = reader.string(), reader.number(_INT32)
        protocol, leader = reader.nullable_string(), reader.nullable_string()
        state_ms = reader.number(_INT64)
        count = reader.number(_INT32)
        members = tuple(_member(reader) for _ in range(count))
    except (struct.error, UnicodeDecodeError) as error:
        raise UnknownRecord(f"expected a whole group, found {error}") from error
    return StoredGroup(protocol_type, generation, protocol, leader, members, state_ms)


def _member(reader: _Reader) -> StoredMember:
    return StoredMember(
        reader.string(),
        reader.nullable_string(),
        reader.string(),
        reader.string(),
        reader.number(_INT32),
        reader.number(_INT32),
        reader.blob(),
        reader.blob(),
    )
