"""Deletes committed offsets that nobody has needed for `offsets.retention.minutes` (KIP-211), by tombstones.

The time counts since the last member of the group has left, or the offset's last commit if that was later. Offsets of
a group with members stay, but for those of topics that do not exist any more, which no group keeps. A group without
members that has no offsets left goes as well.
"""

from __future__ import annotations

from broker.core.broker_node.groups import writing
from broker.core.broker_node.groups.records import GroupKey, OffsetKey
from broker.core.broker_node.groups.state import TIMER, ExpiryWrite, Group, GroupState, OffsetsWrite, Shard
from broker.core.broker_node.state import BrokerState
from broker.core.messages.errors import ErrorCode
from broker.core.ports.marks import sometimes

OFFSETS_EXPIRED = sometimes("groups: committed offsets are deleted that nobody has needed for long (KIP-211)")

EXPIRE = "expire"

_KEYS_MAX = 1_000
"""Offsets in one batch."""


def plan(broker: BrokerState, shard: Shard) -> None:
    """Check the groups of a shard after the configured interval."""
    key = (TIMER, EXPIRE, shard.partition, shard.leader_epoch)
    broker.runtime.set_timer(key, broker.settings.offsets_retention_check_interval_ms)


def expire(broker: BrokerState, shard: Shard) -> None:
    """Delete what has expired; what cannot be written now is deleted by a later check."""
    for group in list(shard.groups.values()):
        _expire(broker, shard, group)
    plan(broker, shard)


def _expire(broker: BrokerState, shard: Shard, group: Group) -> None:
    if _is_being_written(shard, group):
        return
    before_ms = broker.runtime.wall_clock_ms - broker.settings.offsets_retention_ms
    is_empty = group.state is GroupState.EMPTY and not group.pending_members
    expired = [
        key
        for key, committed in group.offsets.items()
        if broker.image.partition(*key) is None
        or (is_empty and max(committed.commit_ms, group.empty_since_ms) <= before_ms)
    ]
    ends = is_empty and len(expired) == len(group.offsets)
    if not expired and not ends:
        return
    for start in range(0, max(1, len(expired)), _KEYS_MAX):
        keys = tuple(expired[start : start + _KEYS_MAX])
        is_last = start + _KEYS_MAX >= len(expired)
        records: list[tuple[GroupKey | OffsetKey, bytes | None]] = [
            (OffsetKey(group.group_id, *key), None) for key in keys
        ]
        if ends and is_last:
            records.append((GroupKey(group.group_id), None))
        error = writing.append(broker, shard, records, ExpiryWrite(group.group_id, keys, ends and is_last))
        if error != ErrorCode.NONE:
            return
    broker.runtime.mark(OFFSETS_EXPIRED)
    what = f"{len(expired)} offsets have expired" + (", nothing is left" if ends else "")
    broker.runtime.log("info", f"group {group.group_id}: {what}")


def _is_being_written(shard: Shard, group: Group) -> bool:
    """Whether offsets of the group wait for replication: a tombstone would delete them too."""
    purposes = (write.purpose for write in shard.writes.values())
    return any(isinstance(one, OffsetsWrite) and one.group_id == group.group_id for one in purposes)


def apply(shard: Shard, write: ExpiryWrite) -> None:
    """The tombstones are replicated: forget the offsets, and the group unless somebody has come back to it."""
    group = shard.groups.get(write.group_id)
    if group is None:
        return
    for key in write.keys:
        group.offsets.pop(key, None)
    if write.ends and group.state is GroupState.EMPTY and not (group.offsets or group.pending_members):
        del shard.groups[write.group_id]
