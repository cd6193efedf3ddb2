"""Checks compactions: when one may begin, that it comes to something, and what it leaves (P-44, P-64, V-28).

A log that holds something else than batches cannot be compacted, and its broker says so; of a log that can be read it
may not.
"""

from __future__ import annotations

from broker.core.broker_node.state import BrokerState
from broker.core.log.compaction.cleaning import Cleaning
from broker.core.log.compaction.swapping import CLEANED_SUFFIX, SWAP_SUFFIX
from broker.core.log.log import Log
from broker.core.records import MalformedBatch, check_crc, decode_records, iterate_headers
from broker.core.replica.state import Replica
from simulation.invariants.ghost import Ghost, ReplicaMirror, pieces
from simulation.invariants.knowledge import BrokerMirror, CompactionUnderWay, Knowledge


def stepped(known: Knowledge, broker: BrokerMirror, state: BrokerState) -> None:
    """After a step in which a compaction of this broker began or ended."""
    ended, cleaning = broker.compaction, state.compaction.cleaning
    broker.compaction = None
    if ended is not None:
        _ended(known, ended, state)
    if cleaning is not None:
        replica = state.compaction.replica
        assert replica is not None
        broker.compaction = _began(known, state, cleaning, replica)
        broker.mirrors[replica.key].was_compacted = True


def check_cut(known: Knowledge, ghost: Ghost, mirror: ReplicaMirror, log: Log) -> None:
    """P-64, after a cut: nothing counts as compacted that did not before, but for what is deleted."""
    if log.compacted_offset > max(mirror.compacted, log.start_offset):
        known.fail(
            ghost,
            "P-64",
            f"broker {mirror.holder} has cut its log to {log.end_offset}, and takes it to be compacted up to "
            f"{log.compacted_offset}; before it was {mirror.compacted}",
        )


def _began(known: Knowledge, state: BrokerState, cleaning: Cleaning, replica: Replica) -> CompactionUnderWay:
    """P-64: enough of the log is not compacted yet, or it has waited for long enough.

    Kafka's documentation of min.cleanable.dirty.ratio and max.compaction.lag.ms. With a minimal lag the youngest
    segments do not count, and nothing is judged.
    """
    log, config = replica.log, replica.log.config.compaction
    ghost = known.ghost(replica.topic, replica.topic_id, replica.partition)
    certain = min(replica.high_watermark, log.flushed_offset)
    if cleaning.ends > certain:
        known.fail(
            ghost,
            "P-64",
            f"broker {state.broker_id} compacts a log up to {cleaning.ends}; its high watermark is "
            f"{replica.high_watermark}, and it is synced up to {log.flushed_offset}",
        )
    if config is not None and not config.min_lag_ms:
        closed = log.closed_segments(certain)
        dirty = [segment for segment in closed if segment.end_offset > log.compacted_offset]
        share = sum(segment.size for segment in dirty) / max(1, sum(segment.size for segment in closed))
        latest_ms = state.runtime.wall_clock_ms - config.max_lag_ms
        if share < config.min_dirty_ratio and not any(0 <= one.first_timestamp < latest_ms for one in dirty):
            known.fail(
                ghost,
                "P-64",
                f"broker {state.broker_id} compacts a log of which {share:.2f} has not been compacted; "
                f"min.cleanable.dirty.ratio is {config.min_dirty_ratio}",
            )
    return CompactionUnderWay(cleaning, replica, log.truncations, log.start_offset, log.compacted_offset)


def _ended(known: Knowledge, ended: CompactionUnderWay, state: BrokerState) -> None:
    """V-28: the log is compacted as far as it was closed, unless it was changed meanwhile, or cannot be compacted.

    The memory for keys suffices in any simulation.
    """
    replica, log = ended.replica, ended.replica.log
    if state.replicas.get(replica.key) is not replica or state.failed_directories:
        return
    _check_copies(known, replica, state)
    if log.truncations != ended.truncations:
        return
    ghost = known.ghost(replica.topic, replica.topic_id, replica.partition)
    if replica.is_damaged:
        if _can_be_read(log):
            known.fail(ghost, "V-28", f"broker {state.broker_id} takes a log for damaged that has whole batches alone")
        return
    if log.compacted_offset > ended.compacted:
        _check_keys(known, ghost, state, replica)
    if log.start_offset == ended.start and log.compacted_offset < ended.cleaning.ends:
        known.fail(
            ghost,
            "V-28",
            f"broker {state.broker_id} has ended a compaction, though nothing was cut or deleted, and has compacted "
            f"the log up to {log.compacted_offset}, before {ended.compacted}; its closed segments ended at "
            f"{ended.cleaning.ends}",
        )


def _check_copies(known: Knowledge, replica: Replica, state: BrokerState) -> None:
    """P-44: whatever became of a compaction, its copy has been put in place, or deleted."""
    log, disk = replica.log, known.cluster.machines[state.broker_id].disk
    if disk.is_failing(log.directory):
        return
    copies = [name for name in disk.list(log.directory) if name.endswith((CLEANED_SUFFIX, SWAP_SUFFIX))]
    if copies:
        known.fail(
            known.ghost(replica.topic, replica.topic_id, replica.partition),
            "P-44",
            f"broker {state.broker_id} has ended a compaction, and has left {copies} in the log's directory",
        )


def _can_be_read(log: Log) -> bool:
    """Whether a log has whole batches from its start to its end."""
    at = log.start_offset
    try:
        for data, batches in pieces(log, at):
            if not all(check_crc(data, position, header.size) for position, header in iterate_headers(data)):
                return False
            at = batches[-1].last + 1
    except MalformedBatch:
        return False
    return at >= log.end_offset


def _check_keys(known: Knowledge, ghost: Ghost, state: BrokerState, replica: Replica) -> None:
    """P-64: of what has been compacted there is one record of each key (Kafka's documentation, "Log Compaction")."""
    log = replica.log
    found: dict[bytes, int] = {}
    for data, _ in pieces(log, log.start_offset):
        for at, header in iterate_headers(data):
            if header.last_offset >= log.compacted_offset:
                return
            if header.is_control or not header.records_count:
                continue
            try:
                records = decode_records(data, at)
            except MalformedBatch:
                continue
            for record in records:
                if record.key is None:
                    continue
                before = found.setdefault(record.key, record.offset)
                if before != record.offset:
                    known.fail(
                        ghost,
                        "P-64",
                        f"broker {state.broker_id} has compacted its log up to {log.compacted_offset}, and has two "
                        f"records of key {record.key!r} there, at {before} and {record.offset}",
                    )
