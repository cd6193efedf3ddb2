"""The offsets topic and the mapping of groups to its partitions."""

from __future__ import annotations

OFFSETS_TOPIC = "__consumer_offsets"

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
