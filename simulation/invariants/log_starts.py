"""Checks where logs begin: no later than somebody asked for, or than retention permits (P-D1, LO-3)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from broker.core.broker_node.state import BrokerState
from broker.core.log.segments.segment import LOG_SUFFIX
from broker.core.messages import DeleteRecordsRequest
from broker.core.replica.state import Replica, Role
from simulation.invariants.ghost import Ghost, ReplicaMirror
from simulation.invariants.knowledge import BrokerMirror, Knowledge

TO_HIGH_WATERMARK = -1
"""The offset in a DeleteRecords request that stands for the high watermark."""


def asked(broker: BrokerMirror, request: DeleteRecordsRequest) -> None:
    """Remember what somebody wants a broker to delete. Where that is above the high watermark, P-10 sees it."""
    for part in request.partitions:
        mirror = broker.mirrors.get((part.topic, part.partition))
        if mirror is not None:
            wanted = mirror.high_watermark if part.offset == TO_HIGH_WATERMARK else part.offset
            mirror.asked_start = max(mirror.asked_start, wanted)


def check_start(
    known: Knowledge, ghost: Ghost, mirror: ReplicaMirror, replica: Replica, configs: Mapping[str, str]
) -> None:
    """P-D1: a leader deletes what it was asked to delete, or what retention permits; a follower what its leader has.

    An unclean election that a follower has not seen does not change what the leader of its epoch deleted. A topic that
    got its retention after its creation is not judged: its records' times are not known.
    """
    start = replica.log.start_offset
    follows = replica.role is not Role.LEADER
    of_leader = ghost.starts.get(replica.leader_epoch, 0) if follows else ghost.log_start
    permitted = max(mirror.asked_start, of_leader)
    if start <= permitted:
        return
    who = f"broker {mirror.holder}, {replica.role.value} in epoch {replica.leader_epoch}, deleted the records from "
    if follows:
        known.fail(ghost, "P-D1", f"{who}{mirror.start} to {start}; its leader's log begins at {of_leader} or before")
    if ghost.times is None:
        if not retains(configs):
            known.fail(ghost, "P-D1", f"{who}{mirror.start} to {start}, which nobody has asked for")
        return
    retention_ms, retention_bytes = (int(configs.get(f"retention.{unit}", -1)) for unit in ("ms", "bytes"))
    now_ms = known.time_of_day(mirror.holder)
    remaining = sum(size for _, size in mirror.segments)
    for (base, size), end in _with_ends(mirror, replica):
        if base >= start:
            break
        times = ghost.times_between(mirror, base, end)
        is_old = retention_ms >= 0 and all(time < now_ms - retention_ms for time in times)
        is_too_much = 0 <= retention_bytes < remaining
        if end > permitted and not is_old and not is_too_much:
            known.fail(
                ghost,
                "P-D1",
                f"{who}{mirror.start} to {start} at {now_ms} ms. The segment from {base} to {end} has a record of "
                f"{max(times, default=-1)} ms, and the log had {remaining} bytes with it; retention.ms is "
                f"{retention_ms}, retention.bytes {retention_bytes}",
            )
        remaining -= size


def retains(configs: Mapping[str, str]) -> bool:
    """Whether a topic's own settings have its records deleted some time."""
    return "retention.ms" in configs or "retention.bytes" in configs


def segments_of(known: Knowledge, mirror: ReplicaMirror, replica: Replica) -> tuple[tuple[int, int], ...]:
    """The first offset of each segment of a log, and its bytes on the disk."""
    disk, log = known.cluster.machines[mirror.holder].disk, replica.log
    return tuple((base, disk.size(f"{log.directory}/{base:020d}{LOG_SUFFIX}")) for base in log.segment_offsets)


def configs_of(state: BrokerState, topic: str) -> Mapping[str, str]:
    """A topic's own settings, in the metadata that a broker has reached."""
    image = state.image.topics.get(topic)
    return image.configs if image is not None else {}


def _with_ends(mirror: ReplicaMirror, replica: Replica) -> Iterator[tuple[tuple[int, int], int]]:
    """Each segment that the log had before this step, with the offset at which the next begins, or the log ends."""
    ends = [base for base, _ in mirror.segments[1:]]
    yield from zip(mirror.segments, (*ends, replica.log.end_offset), strict=True)
