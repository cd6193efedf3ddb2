"""The log of one replica: batches in segments, with their leader epochs and producer state.

A log is a synchronous state machine over `Files`: appended data is in the page cache; `unflushed_files` lists what a
`Flush` has to name, and `mark_flushed` records its completion. End offsets are exclusive.

After a `StorageError` a log's state is uncertain: its owner must take the directory offline (TR-6, KAFKA-10778).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from broker.core.log.checkpoints import RewrittenRange
from broker.core.log.compaction.policy import Compaction
from broker.core.log.compaction.swapping import swap
from broker.core.log.epoch_cache import EpochCache
from broker.core.log.producer_state import ProducerStates, prune_snapshots
from broker.core.log.recovery import Opened, Recovery, open_parts, restore_producers
from broker.core.log.segments.segment import Segment
from broker.core.log.segments.sequence import Segments
from broker.core.log.segments.timestamps import Effort, end_of_older, latest_timestamp, offset_for_timestamp
from broker.core.log.validation import check_batches, check_replicated, first_offset_around, without_overlap
from broker.core.messages.errors import ErrorCode
from broker.core.ports.files import Files
from broker.core.records import (
    BatchHeader,
    end_without_records,
    filler,
    headers_of,
    stamped,
    stamped_all,
)
from broker.core.rules.log import StorageRules

DELETED_SUFFIX = ".deleted"
"""Of the directory of a log while it is deleted."""


class LogConfig(NamedTuple):
    """Settings of a log, with Kafka's defaults. `flush_messages`: a flush is due after so many records; 0: never.

    `compaction`: None for a log that keeps all records of a key.
    """

    segment_bytes: int = 1 << 30
    segment_ms: int = 604_800_000
    index_interval_bytes: int = 4096
    flush_messages: int = 0
    max_batch_bytes: int = 1_048_588
    rules: StorageRules = StorageRules()
    compaction: Compaction | None = None


class Appended(NamedTuple):
    """Position of appended batches; `last_offset` is inclusive."""

    base_offset: int
    last_offset: int


class Log:
    """See the module. The attributes are for reading only."""

    __slots__ = (
        "_cut_files",
        "_files",
        "_rewritten",
        "_segments",
        "certain_end",
        "compacted_offset",
        "config",
        "directory",
        "end_offset",
        "epochs",
        "flushed_offset",
        "producers",
        "recovery",
        "start_offset",
        "truncations",
    )

    directory: str
    start_offset: int
    end_offset: int
    """The log end offset: the offset of the next record."""
    flushed_offset: int
    """The recovery point: everything below is on the disk."""
    certain_end: int
    """Where the log ended when it was opened, or a lower offset from which on it may hold what had been cut off."""
    compacted_offset: int
    """Everything below has been compacted since the log was opened: a key has one record there."""
    truncations: int
    """Number of truncations since the log was opened; lets `mark_flushed` detect an outdated flush."""
    epochs: EpochCache
    producers: ProducerStates
    recovery: Recovery
    """What opening the log read and cut."""

    def __init__(
        self,
        files: Files,
        directory: str,
        config: LogConfig,
        parts: Opened,
        rewritten: RewrittenRange,
        start_offset: int,
    ) -> None:
        """Use `Log.open`."""
        self._files = files
        self._segments = Segments(parts.segments)
        self._rewritten = rewritten
        self._cut_files: tuple[str, ...] = ()  # cut, and not synced since
        self.directory = directory
        self.config = config
        self.epochs = parts.epochs
        self.producers = parts.producers
        self.recovery = parts.recovery
        self.truncations = 0
        self.end_offset = self._segments.last.end_offset
        self.start_offset = max(start_offset, parts.start_offset)
        self.flushed_offset = self.end_offset
        self.compacted_offset = self.start_offset
        self.certain_end = self.end_offset

    @classmethod
    def open(
        cls,
        files: Files,
        directory: str,
        config: LogConfig,
        *,
        clean: bool,
        recovery_point: int = 0,
        start_offset: int = 0,
    ) -> Log:
        """Open the log in `directory`, or create an empty one.

        If the last stop was not `clean`, everything from the segment of `recovery_point` on is read, and invalid data
        is cut off (ST-6). `start_offset` is the log start offset last checkpointed; a log that ends below it
        (its end was lost) is emptied and begins there.
        """
        rewritten = RewrittenRange(files, directory)
        first_cut = rewritten.start
        trusted = rewritten.limit(recovery_point)
        parts = open_parts(files, directory, config.index_interval_bytes, start_offset, clean, trusted)
        log = cls(files, directory, config, parts, rewritten, start_offset)
        clean = clean and not parts.recovery.scanned_bytes
        if not clean:
            log.flushed_offset = min(trusted, log.end_offset)
            if first_cut is not None:
                log.certain_end = min(first_cut, log.end_offset)
                log._not_synced_since_cut(log._segments.files_at(log.certain_end))  # by the process before this one
        log._rewritten.extend(log.end_offset, recovery_point)
        if log.end_offset < log.start_offset:
            log.truncate_fully(log.start_offset, log.epochs.epoch_at(log.start_offset))
        # what an empty log remembers of where it begins stays (UR-12)
        log.epochs.truncate_from_end(log.end_offset + (log.end_offset == log.start_offset))
        log.advance_start(log.start_offset)
        if not log._cut_files:  # else a power failure may still bring back what the process before this one cut off
            log._rewritten.forget(log.flushed_offset)
        return log

    def copy(self, files: Files) -> Log:
        """A copy of the log on another disk (which must hold the same bytes)."""
        twin = Log.__new__(Log)
        for slot in self.__slots__:
            setattr(twin, slot, getattr(self, slot))
        twin._files = files
        twin._segments = self._segments.copy(files)
        twin._rewritten = self._rewritten.copy(files)
        twin.epochs = self.epochs.copy(files)
        twin.producers = self.producers.copy()
        return twin

    @property
    def last_epoch(self) -> int:
        """Leader epoch of the last record, -1 if there is none."""
        return self.epochs.epoch_at(self.end_offset - 1) if self.end_offset > self.start_offset else -1

    @property
    def epoch_at_end(self) -> int:
        """UR-12: the leader epoch by which this log is ranked: of the last record, also when that was deleted.

        An empty log remembers the epoch that held where it begins, as a snapshot does; -1 if it does not know it.
        An epoch that this broker leads and has written nothing in counts for no log, empty or not.
        """
        is_empty = self.end_offset == self.start_offset
        return self.epochs.written_epoch_at(self.end_offset) if is_empty else self.last_epoch

    @property
    def size_bytes(self) -> int:
        """Bytes of all segments."""
        return self._segments.size_bytes

    @property
    def segment_offsets(self) -> tuple[int, ...]:
        """Base offsets of all segments."""
        return self._segments.base_offsets

    # --- append --------------------------------------------------------------------------------------------------

    def check_batches(self, records: bytes) -> tuple[BatchHeader] | ErrorCode:
        """Header of the one batch that a client wants appended, or the error; see `validation.check_batches`."""
        return check_batches(records, self.config.max_batch_bytes)

    def append_as_leader(
        self, records: bytes, leader_epoch: int, headers: Sequence[BatchHeader] | None = None
    ) -> Appended:
        """PR-3: append whole batches under the next offsets and `leader_epoch`, replacing those they had.

        `headers` are those of `records`, if they have been read already. The caller validates: `check_batches`
        for what a client sends, `producers.verdict` for an idempotent one.
        """
        if headers is None:
            headers = headers_of(records)
        base_offset = offset = self.end_offset
        if len(headers) == 1:
            data = stamped(records, base_offset, leader_epoch)
        else:
            data = stamped_all(records, headers, base_offset, leader_epoch)
        self._make_room(len(data), headers[0].max_timestamp)
        self.epochs.assign(leader_epoch, base_offset)
        segment = self._segments.last
        self._files.append(segment.name, data)
        for header in headers:
            last_offset = offset + header.last_offset_delta
            segment.add(last_offset, header.size, header.max_timestamp)
            if header.producer_id >= 0:
                self._record_producer(header, offset, last_offset)
            offset = last_offset + 1
        self.end_offset = offset
        return Appended(base_offset, offset - 1)

    def append_as_follower(self, records: bytes, max_epoch: int, *, takes_any_epoch: bool = False) -> int:
        """TR-6: append the whole batches among `records` as the leader numbered them; the new log end offset.

        `takes_any_epoch`: also batches of an earlier epoch than those before them, as brokers did before TR-6.

        An incomplete batch at the end is ignored. All or nothing: raises `OffsetMismatch`, `EpochOutOfRange` or
        `CorruptBatch` if one does not fit.
        """
        records = without_overlap(records, self.end_offset)
        expected = self.end_offset
        if self.start_offset == self.end_offset and self.config.rules.may_begin_inside_batch():
            expected = first_offset_around(records, self.end_offset)
        headers, size = check_replicated(
            records, self.directory, expected, None if takes_any_epoch else self.last_epoch, max_epoch
        )
        if not headers:
            return self.end_offset
        if expected < self.end_offset or self._keeps_deleted_of_later(headers[0].leader_epoch):
            log_start = self.start_offset
            self.truncate_fully(expected)
            self.start_offset = log_start
        self._make_room(size, headers[0].max_timestamp)
        segment = self._segments.last
        for header in headers:
            self.epochs.assign(header.leader_epoch, header.base_offset)
        self._files.append(segment.name, records[:size])
        for header in headers:
            last_offset = header.base_offset + header.last_offset_delta
            segment.add(last_offset, header.size, header.max_timestamp)
            if header.producer_id >= 0 and self.config.rules.feeds_producers_from_leader():
                self._record_producer(header, header.base_offset, last_offset)
        self.end_offset = last_offset + 1
        return last_offset + 1

    def _keeps_deleted_of_later(self, epoch: int) -> bool:
        """Whether the log is empty, and its file still ends with deleted records of a later epoch than this one.

        The leader need not have had those, after an unclean election. Recovery takes an earlier epoch behind them for
        damage (ST-6): were they kept, all that is appended now would be lost when the process dies.
        """
        last = self._segments.last
        if self.start_offset < self.end_offset or not last.size:
            return False
        return last.header_at(last.locate(self.end_offset - 1).position).leader_epoch > epoch

    def _record_producer(self, header: BatchHeader, base_offset: int, last_offset: int) -> None:
        self.producers.update(
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            base_offset,
            last_offset,
            header.is_control,
        )

    def _make_room(self, size: int, timestamp: int) -> None:
        """Roll to a new segment if the last one has no room for `size` bytes, or is too old for a later `timestamp`.

        The age is that between records, so that no clock is needed, and all replicas agree.
        """
        last = self._segments.last
        if not last.size:
            return
        is_full = last.size + size > self.config.segment_bytes
        if is_full or 0 <= last.first_timestamp < timestamp - self.config.segment_ms:
            self._roll()

    def _roll(self) -> None:
        """Start a new segment at the log end, unless the last one is empty: it begins there, and has that file."""
        last = self._segments.last
        if not last.size:
            return
        last.write_indexes()
        last.forget_tail()
        self.producers.write_snapshot(self._files, self.directory, self.end_offset)
        interval_bytes = self.config.index_interval_bytes
        self._segments.append(Segment.create(self._files, self.directory, self.end_offset, interval_bytes))

    # --- read ----------------------------------------------------------------------------------------------------

    def read(self, offset: int, max_bytes: int, upto: int, minimum_one: bool = True) -> bytes:
        """Whole batches from the one that contains `offset`, of offsets below `upto` only, up to `max_bytes`.

        With `minimum_one` the first batch is returned even when it is larger. Nothing if there is nothing; the batches
        of one segment at most.
        """
        upto = min(upto, self.end_offset)
        if not self.start_offset <= offset < upto:
            return b""
        segment = self._segments.of(offset)
        position, size = segment.span(offset, max_bytes, upto, minimum_one)
        return segment.read(position, size) if size else b""

    def read_records(self, offset: int, max_bytes: int, upto: int, minimum_one: bool = True) -> bytes:
        """FE-15: as `read`, but from later batches on where those from the offset on hold no records."""
        data = self.read(offset, max_bytes, upto, minimum_one)
        while (end := end_without_records(data)) is not None:
            following = self.read(end, max_bytes, upto, minimum_one)
            if not following:
                break
            data = following
        return data

    def batch_at(self, offset: int) -> BatchHeader | None:
        """Header of the batch that contains `offset`."""
        if not self.start_offset <= offset < self.end_offset:
            return None
        segment = self._segments.of(offset)
        return segment.header_at(segment.locate(offset).position)

    def offset_for_timestamp(
        self, timestamp_ms: int, upto: int, effort: Effort | None = None
    ) -> tuple[int, int, int] | None:
        """(timestamp, offset, leader epoch) of the first record below `upto` that is not older than `timestamp_ms`.

        For a batch whose records this broker cannot read it is the first offset, with the batch's latest timestamp.
        """
        rules = self.config.rules
        return offset_for_timestamp(
            self._segments.all, timestamp_ms, self.start_offset, upto, rules, effort or Effort()
        )

    def latest_timestamp(self, upto: int, effort: Effort | None = None) -> tuple[int, int, int] | None:
        """(timestamp, offset, leader epoch) of the first among the records below `upto` with the largest timestamp.

        For a batch whose records this broker cannot read it is the first offset. None if no record has a timestamp.
        """
        return latest_timestamp(self._segments.all, self.start_offset, upto, self.config.rules, effort or Effort())

    # --- truncate ------------------------------------------------------------------------------------------------

    def truncate_to(self, offset: int) -> int:
        """TR-3: cut off everything from the batch that contains `offset`; the new log end offset.

        A batch without records that only fills offsets is cut within. Below the log start all is dropped, and the log
        restarts at `offset` (TR-4). Unless the rules make the cut durable, a power failure may bring back what was cut
        off (UR-16).
        """
        if offset < self.start_offset:
            self.truncate_fully(offset)
            return self.end_offset
        if offset >= self.end_offset:
            if self.config.rules.cuts_epochs_with_log():
                self.epochs.truncate_from_end(offset)
            return self.end_offset
        segment = self._segments.of(offset)
        batch = segment.locate(offset)
        header = segment.header_at(batch.position)
        end_offset = offset if header.is_filler else header.base_offset
        self._rewritten.extend(header.base_offset, self.end_offset)
        self._end_at(end_offset)
        self._segments.delete_after(segment)
        segment.truncate(batch.position)
        if header.base_offset < end_offset:
            data = filler(header.base_offset, end_offset - 1, header.leader_epoch)
            self._files.append(segment.name, data)
            segment.add(end_offset - 1, len(data), header.max_timestamp)
            self.flushed_offset = min(self.flushed_offset, header.base_offset)
        if self.config.rules.syncs_cuts():
            self._files.sync(segment.name)
        else:
            self._not_synced_since_cut((segment.name,))
        if self.config.rules.cuts_epochs_with_log():
            self.epochs.truncate_from_end(end_offset)
        if self.producers.states and self.config.rules.restores_producers():
            restore_producers(self._files, self.directory, self.producers, self._segments.all, end_offset)
        else:  # none now means none before, or that they were idle: the log need not be read for them
            self.producers.delete_snapshots_above(self._files, self.directory, end_offset)
        return end_offset

    def truncate_fully(self, start_offset: int, epoch: int = -1) -> None:
        """Drop everything and restart, empty, at `start_offset` (TR-4, TR-8), where `epoch` is known to hold.

        A log that begins at 0 has had no record of any epoch: it remembers none (UR-12). Durable: where it begins is
        in the checkpoints later.
        """
        self._rewritten.extend(0, self.flushed_offset)
        self.start_offset = start_offset
        self._end_at(start_offset)
        self.flushed_offset = start_offset
        self._cut_files = ()
        self._segments.restart_with(self._files, self.directory, start_offset, self.config.index_interval_bytes)
        self._files.sync(self._segments.last.name)
        self.epochs.replace([(epoch, start_offset)] if epoch >= 0 and start_offset > 0 else ())
        self.producers.clear()
        prune_snapshots(self._files, self.directory, ())

    def remember_epoch(self, epoch: int, at: int) -> None:
        """UR-12: an empty log that begins at `at`, above 0, remembers that `epoch` held there; durable.

        Any other log does not.
        """
        if self.start_offset == self.end_offset == at > 0 and epoch >= 0:
            self.epochs.assign(epoch, at)

    def advance_start(self, offset: int) -> None:
        """Raise the log start to `offset` and delete the segments below it (LO-3).

        Never beyond the log end, never backwards.
        """
        self.start_offset = start = max(self.start_offset, min(offset, self.end_offset))
        self.epochs.truncate_from_start(start)
        if self._segments.delete_below(start):
            prune_snapshots(self._files, self.directory, self.segment_offsets)

    def expire(self, before_ms: int, bound: int) -> None:
        """Delete the oldest segments as long as all records of one are older than `before_ms` (LO-3).

        Never one that extends beyond offset `bound`. Before the last segment is deleted, a new one is durable:
        after a power failure only its name says where the log continues.
        """
        end = end_of_older(self._segments.all, before_ms, bound)
        if end is None:
            return
        if end == self.end_offset:
            self._roll()
            self._files.sync(self._segments.last.name)
        self.advance_start(end)

    def _not_synced_since_cut(self, names: tuple[str, ...]) -> None:
        self._cut_files = (*self._cut_files, *(name for name in names if name not in self._cut_files))

    def _end_at(self, end_offset: int) -> None:
        self.end_offset = end_offset
        self.start_offset = min(self.start_offset, end_offset)
        self.flushed_offset = min(self.flushed_offset, end_offset)
        self.compacted_offset = min(self.compacted_offset, end_offset)
        self.truncations += 1

    # --- compact -------------------------------------------------------------------------------------------------

    def closed_segments(self, bound: int) -> list[Segment]:
        """The segments to which nothing is appended any more and that end at or before offset `bound`."""
        return self._segments.closed(bound)

    def has_segments(self, segments: Sequence[Segment]) -> bool:
        """Whether these segments are still the log's, next to one another."""
        return self._segments.has(segments)

    def replace_segments(self, old: Sequence[Segment], new: Segment) -> None:
        """Put a segment of the same offsets, whose `.cleaned` file is synced, in place of `old`."""
        swap(self._files, old)
        self._segments.replace(old, new)
        new.write_indexes()
        new.forget_tail()

    # --- flush and close -----------------------------------------------------------------------------------------

    @property
    def flush_due_to(self) -> int:
        """The offset below which all should be flushed now; nothing is due if it is not above `flushed_offset`.

        Everything by `flush_messages`, otherwise the segments that are complete: a rolled one is flushed at once.
        """
        if 0 < self.config.flush_messages <= self.end_offset - self.flushed_offset:
            return self.end_offset
        return self._segments.last.base_offset

    def unflushed_files(self, upto: int | None = None) -> tuple[str, ...]:
        """Files to sync so that all below `upto`, by default the log end offset, is on the disk, oldest first.

        Among them are files that were cut: what was cut off must not come back below records that are on the disk. A
        log's other files (epochs, indexes, snapshots) are durable as soon as they are written.
        """
        names = self._segments.unflushed_files(self.flushed_offset, self.end_offset if upto is None else upto)
        return (*(name for name in self._cut_files if name not in names), *names) if self._cut_files else names

    def mark_flushed(self, upto_offset: int, truncations: int | None = None) -> None:
        """Record the completion of a flush that was requested when the log ended at `upto_offset`.

        `truncations` is the attribute's value at the request: a flush overtaken by a truncation proves nothing
        about later writes, and is ignored.
        """
        if truncations is not None and truncations != self.truncations:
            return
        self._cut_files = ()
        upto_offset = min(upto_offset, self.end_offset)
        if upto_offset > self.flushed_offset:
            self.flushed_offset = upto_offset
            self._rewritten.forget(self.flushed_offset)

    def sync(self) -> None:
        """Flush everything before returning."""
        for name in self.unflushed_files():
            self._files.sync(name)
        self.mark_flushed(self.end_offset)

    def close_clean(self) -> None:
        """Flush everything, with indexes and snapshots for a fast reopening (BL-8). Nothing may be appended after."""
        self.sync()
        self._segments.last.write_indexes()
        self.producers.write_snapshot(self._files, self.directory, self.end_offset)
        prune_snapshots(self._files, self.directory, (*self.segment_offsets, self.end_offset))

    def delete(self) -> None:
        """RT-8: delete the directory, under another name: what a kill leaves of it is not taken for the log."""
        doomed = self.directory + DELETED_SUFFIX
        if self._files.list(doomed):
            self._files.delete(doomed)
        self._files.rename(self.directory, doomed)
        self._files.delete(doomed)
