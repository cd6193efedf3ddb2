"""Lets this broker compact its logs, one after the other and each in small steps; every replica compacts its own.

Only what cannot be taken back is compacted: closed segments below the high watermark that are on the disk.
"""

from __future__ import annotations

from broker.core.broker_node import directories, storage
from broker.core.broker_node.state import BrokerState
from broker.core.log.compaction.cleaning import Cleaning, Progress
from broker.core.log.compaction.policy import BYTES_PER_KEY
from broker.core.log.segments.segment import Segment
from broker.core.ports.events import Flush
from broker.core.ports.files import StorageError
from broker.core.ports.marks import sometimes
from broker.core.replica.state import Replica

COMPACTED = sometimes("compaction: a log has fewer records now")
ABANDONED = sometimes("compaction: given up, the log has changed meanwhile")

CHECK = "compaction-check"
STEP = "compaction-step"
FLUSH = "compaction-flush"

_PAUSE_MS = 1
"""Between two steps, so that compaction takes at most a part of the node's time."""


def plan(broker: BrokerState) -> None:
    """Look for logs to compact after a while, if there are any that may be compacted; called when settings change."""
    if not broker.compaction.is_planned and any(
        replica.log.config.compaction is not None for replica in broker.replicas.values()
    ):
        broker.compaction.is_planned = True
        broker.runtime.set_timer((CHECK,), broker.settings.log_cleaner_backoff_ms)


def check(broker: BrokerState) -> None:
    """Begin to compact the log with the largest share of uncompacted bytes, if it has enough of them."""
    schedule = broker.compaction
    schedule.is_planned = False
    if schedule.cleaning is not None:
        return
    dirtiest: tuple[float, Replica, list[Segment]] | None = None
    for replica in list(broker.replicas.values()):
        with directories.guarded(broker):
            share, segments = _uncompacted(broker, replica)
            if share > (dirtiest[0] if dirtiest is not None else 0.0):
                dirtiest = share, replica, segments
    if dirtiest is None:
        plan(broker)
        return
    _, replica, segments = dirtiest
    keys_max = max(1, broker.settings.log_cleaner_dedupe_buffer_bytes // BYTES_PER_KEY)
    schedule.cleaning = Cleaning(broker.files, replica.log, segments, broker.runtime.wall_clock_ms, keys_max)
    schedule.replica = replica
    broker.runtime.set_timer((STEP,), _PAUSE_MS)


def _uncompacted(broker: BrokerState, replica: Replica) -> tuple[float, list[Segment]]:
    """The share of bytes to compact, 0 if they are too few, and the closed segments that are compacted together."""
    log, config = replica.log, replica.log.config.compaction
    if config is None or replica.is_damaged:
        return 0.0, []
    segments = log.closed_segments(replica.high_watermark)
    if segments and segments[-1].end_offset > log.flushed_offset:
        storage.flush(broker, replica)  # the next check finds them on the disk
        segments = log.closed_segments(min(replica.high_watermark, log.flushed_offset))
    if config.min_lag_ms:
        before_ms = broker.runtime.wall_clock_ms - config.min_lag_ms
        young = (number for number, segment in enumerate(segments) if not _is_older(segment, before_ms))
        segments = segments[: next(young, len(segments))]
    dirty = [segment for segment in segments if segment.end_offset > log.compacted_offset]
    if not dirty:
        return 0.0, []
    share = sum(segment.size for segment in dirty) / max(1, sum(segment.size for segment in segments))
    is_overdue = 0 <= dirty[0].first_timestamp < broker.runtime.wall_clock_ms - config.max_lag_ms
    return (share, segments) if share >= config.min_dirty_ratio or is_overdue else (0.0, [])


def _is_older(segment: Segment, before_ms: int) -> bool:
    """Whether all records of a segment are older; those without a timestamp are of no age."""
    segment.load()
    return segment.max_timestamp < before_ms


def step(broker: BrokerState) -> None:
    """Go on with the log that is being compacted."""
    cleaning = _cleaning(broker)
    if cleaning is None:
        return
    progress = Progress.ABANDONED
    with directories.guarded(broker):
        progress = cleaning.step()
    _go_on(broker, cleaning, progress)


def flushed(broker: BrokerState, number: int, error: str | None) -> None:
    """A compacted segment is on the disk, if the flush of this number is the last that was asked for."""
    cleaning = _cleaning(broker)
    if cleaning is None or not broker.compaction.is_syncing or number != broker.compaction.flushes:
        return
    broker.compaction.is_syncing = False
    progress = Progress.ABANDONED
    with directories.guarded(broker):
        if error is not None:
            raise StorageError(error, cleaning.log.directory)
        progress = cleaning.synced()
    _go_on(broker, cleaning, progress)


def _cleaning(broker: BrokerState) -> Cleaning | None:
    """The compaction that is under way, unless its replica is gone."""
    schedule = broker.compaction
    if schedule.replica is not None and broker.replicas.get(schedule.replica.key) is not schedule.replica:
        _end(broker, broker.settings.log_cleaner_backoff_ms)
    return schedule.cleaning


def _go_on(broker: BrokerState, cleaning: Cleaning, progress: Progress) -> None:
    replica = broker.compaction.replica
    assert replica is not None
    match progress:
        case Progress.MORE:
            broker.runtime.set_timer((STEP,), _PAUSE_MS)
        case Progress.SYNC:
            broker.compaction.flushes += 1
            broker.compaction.is_syncing = True
            broker.runtime.effects.append(Flush((FLUSH, broker.compaction.flushes), (cleaning.unsynced,)))
        case _:
            name = f"{replica.topic}-{replica.partition}"
            if progress is Progress.DAMAGED:
                replica.is_damaged = True
                broker.runtime.log("error", f"{name}: cannot be compacted: its files hold something else than batches")
            elif progress is Progress.ABANDONED:
                broker.runtime.mark(ABANDONED)
            elif cleaning.bytes_after < cleaning.bytes_before:
                broker.runtime.mark(COMPACTED)
                broker.runtime.log(
                    "info", f"{name}: compacted from {cleaning.bytes_before} to {cleaning.bytes_after} bytes"
                )
            _end(broker, _PAUSE_MS if progress is Progress.DONE else broker.settings.log_cleaner_backoff_ms)


def _end(broker: BrokerState, pause_ms: int) -> None:
    """Look for the next log after a pause."""
    schedule = broker.compaction
    schedule.cleaning = schedule.replica = None
    schedule.is_syncing = False
    schedule.is_planned = True
    broker.runtime.set_timer((CHECK,), pause_ms)
