"""Loads a partition of the offsets topic in steps, up to the start of the leader epoch."""

from __future__ import annotations

from broker.core.broker_node import directories
from broker.core.broker_node.groups import expiry, rebalancing, writing
from broker.core.broker_node.groups.records import (
    NO_TIMESTAMP,
    GroupKey,
    OffsetKey,
    StoredGroup,
    UnknownRecord,
    decode_group,
    decode_key,
    decode_offset,
)
from broker.core.broker_node.groups.state import TIMER, Group, GroupState, Member, Shard
from broker.core.broker_node.state import BrokerState
from broker.core.ports.files import StorageError
from broker.core.records import MalformedBatch, Record, decode_records, iterate_headers
from broker.core.replica.state import Replica

LOAD = "load"

_STEP_BYTES = 256 << 10
"""Bytes read per step, before other events are handled."""


def begin(replica: Replica) -> Shard:
    """Create a shard for a replica that this broker now leads. It serves once it is loaded."""
    return Shard(replica.partition, replica.leader_epoch, replica.log.start_offset)


def go_on(broker: BrokerState, shard: Shard, replica: Replica) -> None:
    """Load the next step once everything before this leader epoch is known to be committed (HW-9)."""
    if shard.load_from is None:
        return
    if not broker.rules.high_watermark.is_certain(replica.high_watermark, replica.leader_epoch_start):
        return
    end = replica.leader_epoch_start
    try:
        batches = replica.log.read(max(shard.load_from, replica.log.start_offset), _STEP_BYTES, end)
    except StorageError as error:  # the shard is dropped with the replica
        directories.fail(broker, error)
        return
    for position, header in iterate_headers(batches):
        if not header.is_control:
            _replay_batch(broker, shard, batches, position)
        shard.load_from = header.last_offset + 1
    if batches and shard.load_from < end:
        broker.runtime.set_timer((TIMER, LOAD, shard.partition, shard.leader_epoch), 0)
    else:
        _finish(broker, shard)


def _replay_batch(broker: BrokerState, shard: Shard, batches: bytes, position: int) -> None:
    try:
        for record in decode_records(batches, position):
            _replay(shard, record, broker.runtime.wall_clock_ms)
    except (MalformedBatch, UnknownRecord) as error:
        broker.runtime.log("warning", f"offsets partition {shard.partition}: passed over: {error}")


def _replay(shard: Shard, record: Record, now_ms: int) -> None:
    """Apply a record; one without a time, of an older Harrow, counts as written now."""
    key = decode_key(record.key)
    group = shard.groups.setdefault(key.group_id, Group(key.group_id))
    match key, record.value:
        case OffsetKey(_, topic, partition), None:
            group.offsets.pop((topic, partition), None)
        case OffsetKey(_, topic, partition), bytes(value):
            committed = decode_offset(value)
            since_ms = now_ms if committed.commit_ms == NO_TIMESTAMP else committed.commit_ms
            group.offsets[topic, partition] = committed._replace(commit_ms=since_ms)
        case GroupKey(), None:
            shard.groups[key.group_id] = Group(key.group_id, offsets=group.offsets)
        case GroupKey(), bytes(value):
            stored = decode_group(value)
            since_ms = now_ms if stored.state_ms == NO_TIMESTAMP else stored.state_ms
            shard.groups[key.group_id] = _restored(key.group_id, stored._replace(state_ms=since_ms), group)


def _restored(group_id: str, stored: StoredGroup, before: Group) -> Group:
    members = {
        each.member_id: Member(
            each.member_id,
            each.instance_id,
            each.client_id,
            each.session_timeout_ms,
            each.rebalance_timeout_ms,
            ((stored.protocol or "", each.subscription),),
            each.assignment,
            each.client_host,
        )
        for each in stored.members
    }
    return Group(
        group_id,
        GroupState.STABLE if members else GroupState.EMPTY,
        stored.protocol_type,
        stored.generation,
        stored.protocol,
        stored.leader,
        members,
        static_members={m.instance_id: m.member_id for m in members.values() if m.instance_id is not None},
        empty_since_ms=NO_TIMESTAMP if members else stored.state_ms,
        offsets=before.offsets,
    )


def _finish(broker: BrokerState, shard: Shard) -> None:
    shard.load_from = None
    shard.groups = {name: group for name, group in shard.groups.items() if not group.is_void}
    for group in shard.groups.values():
        for member in group.members.values():
            rebalancing.expect_heartbeat(broker, group, member)
    expiry.plan(broker, shard)
    broker.runtime.log(
        "info",
        f"coordinates offsets partition {shard.partition} in epoch {shard.leader_epoch}: {len(shard.groups)} groups",
    )


def give_up(broker: BrokerState, shard: Shard) -> None:
    """The leadership is lost: answer waiting clients so that they look for the new coordinator."""
    for group in shard.groups.values():
        rebalancing.abandon(broker, group)
    broker.runtime.cancel_timer((TIMER, LOAD, shard.partition, shard.leader_epoch))
    broker.runtime.log("info", f"no longer coordinates offsets partition {shard.partition}")


def is_behind(broker: BrokerState, shard: Shard) -> bool:
    """Whether the shard belongs to a leadership that this broker no longer has."""
    return writing.led_replica(broker, shard) is None
