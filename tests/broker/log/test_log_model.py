"""The log against a naive model, a list of batches. Every step is a rule; the invariants are at the end."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from broker.core.log.log import Log, LogConfig
from broker.core.log.producer_state import ProducerStates
from broker.core.records import decode_records, encode_batch, iterate_headers
from tests.support.memory_files import MemoryFiles

CONFIG = LogConfig(segment_bytes=700, index_interval_bytes=150)


@dataclass(frozen=True)
class Batch:
    base_offset: int
    records: int
    epoch: int
    producer: int
    sequence: int
    value: bytes

    @property
    def end(self) -> int:
        return self.base_offset + self.records

    def encoded(self) -> bytes:
        return encode_batch(
            [(None, self.value)] * self.records, self.base_offset, self.epoch, 0, self.producer, 0, self.sequence
        )


class LogAgainstModel(RuleBasedStateMachine):
    @initialize(start=st.sampled_from([0, 1000]))
    def create(self, start: int) -> None:
        self.files = MemoryFiles()
        self.log = Log.open(self.files, "t-0", CONFIG, clean=False, start_offset=start)
        self.batches: list[Batch] = []
        self.start = start
        self.end = start
        self.epoch = 1
        self.recovery_point = 0
        self.sequences: dict[int, int] = {}
        self.never_advanced = True
        self.counter = 0

    def _next_batch(self, records: int, producer: int, padding: int) -> Batch:
        self.counter += 1
        sequence = self.sequences.get(producer, 0) if producer >= 0 else -1
        self.sequences[producer] = sequence + records
        value = b"%d" % self.counter + b"." * padding
        return Batch(self.end, records, self.epoch, producer, sequence, value)

    def _accept(self, batch: Batch) -> None:
        self.batches.append(batch)
        self.end = batch.end

    @rule(
        records=st.integers(1, 5),
        new_epoch=st.integers(0, 5).map(lambda n: n // 5),
        producer=st.integers(-1, 2),
        padding=st.sampled_from([0, 0, 60, 900]),
    )
    def append_as_leader(self, records: int, new_epoch: int, producer: int, padding: int) -> None:
        self.epoch += new_epoch
        batch = self._next_batch(records, producer, padding)
        appended = self.log.append_as_leader(batch.encoded(), self.epoch)
        assert (appended.base_offset, appended.last_offset) == (self.end, self.end + records - 1)
        self._accept(batch)

    @rule(sizes=st.lists(st.integers(1, 4), min_size=1, max_size=6), new_epoch=st.booleans(), cut=st.integers(0, 20))
    def append_as_follower(self, sizes: list[int], new_epoch: bool, cut: int) -> None:
        data = b""
        for records in sizes:
            batch = self._next_batch(records, 3, 10)
            data += batch.encoded()
            self._accept(batch)
            self.epoch += new_epoch
        torn = self._next_batch(1, -1, 0).encoded()[:cut]
        assert self.log.append_as_follower(data + torn, self.epoch) == self.end

    @rule(flushed=st.booleans())
    def flush(self, flushed: bool) -> None:
        upto = self.log.end_offset
        for name in self.log.unflushed_files():
            self.files.sync(name)
        if flushed:
            self.log.mark_flushed(upto, self.log.truncations)
            assert self.log.flushed_offset == self.end

    @rule()
    def checkpoint_recovery_point(self) -> None:
        self.recovery_point = self.log.flushed_offset

    @rule(back=st.integers(0, 20))
    def truncate(self, back: int) -> None:
        target = max(self.start, self.end - back)
        expected_end = max((b.base_offset for b in self.batches if b.base_offset <= target < b.end), default=target)
        assert self.log.truncate_to(target) == expected_end
        self._forget_from(expected_end)
        self.start = min(self.start, self.end)

    def _forget_from(self, end: int) -> None:
        self.batches = [b for b in self.batches if b.end <= end]
        self.end = end
        for producer in self.sequences:
            self.sequences[producer] = max(
                (b.sequence + b.records for b in self.batches if b.producer == producer), default=0
            )

    def _forget_deleted_segments(self) -> None:
        self.batches = [b for b in self.batches if b.end > self.log.segment_offsets[0]]

    @rule(ahead=st.integers(0, 20))
    def advance_start(self, ahead: int) -> None:
        self.start = min(self.end, self.start + ahead)
        self.log.advance_start(self.start)
        self._forget_deleted_segments()
        self.never_advanced = False

    @rule(ahead=st.integers(0, 3))
    def truncate_fully(self, ahead: int) -> None:
        self.start = self.end + ahead
        self.log.truncate_fully(self.start)
        self._forget_from(-1)
        self.end = self.start

    @rule()
    def stop_and_start(self) -> None:
        self.log.close_clean()
        self.log = Log.open(self.files, "t-0", CONFIG, clean=True, start_offset=self.start)
        self._forget_deleted_segments()
        assert self.log.recovery.scanned_bytes == 0
        assert self.log.flushed_offset == self.end

    @rule(
        suffix=st.sampled_from([".index", ".timeindex", ".snapshot", "leader-epoch-checkpoint", "rewritten-range"]),
        position=st.integers(0, 100),
        flip=st.integers(1, 255),
        clean=st.booleans(),
    )
    def damage_a_file_and_start(self, suffix: str, position: int, flip: int, clean: bool) -> None:
        if clean:
            self.log.close_clean()
        for name in self.files.list("t-0"):
            if name.endswith(suffix):
                data = self.files.files[f"t-0/{name}"].data
                if suffix == "leader-epoch-checkpoint" or len(data) <= position:
                    data.clear()
                else:
                    data[position] ^= flip
        self._reopen(clean)

    @rule()
    def kill_and_start(self) -> None:
        self._reopen(clean=False)

    def _reopen(self, clean: bool) -> None:
        end = self.end
        self.log = Log.open(
            self.files, "t-0", CONFIG, clean=clean, recovery_point=self.recovery_point, start_offset=self.start
        )
        self._forget_deleted_segments()
        assert self.log.recovery.truncated_bytes == 0
        assert self.log.end_offset == end

    @rule(kept=st.lists(st.floats(0, 1), min_size=1, max_size=4), garbage=st.booleans(), know_start=st.booleans())
    def lose_power_and_start(self, kept: list[float], garbage: bool, know_start: bool) -> None:
        durable = self.log.flushed_offset
        shares = itertools.cycle(kept)
        self.files = self.files.crash(lambda _, synced, size: synced + int(next(shares) * (size - synced)))
        if garbage:
            for name in self.files.list("t-0"):
                if name.endswith(".log") and self.files.size(f"t-0/{name}") == 0:
                    self.files.append(f"t-0/{name}", b"\0" * 100)
        start = self.start if know_start else min(self.start, self.log.segment_offsets[0])
        self.log = Log.open(
            self.files, "t-0", CONFIG, clean=False, recovery_point=self.recovery_point, start_offset=start
        )
        self.start = self.log.start_offset
        assert durable <= self.log.end_offset <= max(self.end, self.start)
        self._forget_from(self.log.end_offset)
        self._forget_deleted_segments()

    @precondition(lambda self: self.end > self.start)
    @rule(data=st.data())
    def read(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.start, self.end - 1))
        upto = data.draw(st.integers(offset, self.end))
        max_bytes = data.draw(st.sampled_from([1, 100, 250, 600, 5000]))
        minimum_one = data.draw(st.booleans())
        found = self.log.read(offset, max_bytes, upto, minimum_one)
        candidates = [b.encoded() for b in self.batches if b.end > offset and b.end <= upto]
        if candidates and self.log.batch_at(offset).last_offset >= upto:
            candidates = []
        assert b"".join(candidates).startswith(found)
        if candidates and (minimum_one or len(candidates[0]) <= max_bytes):
            assert found
        if len(found) > max_bytes:
            assert minimum_one
            assert found == candidates[0]

    @invariant()
    def offsets_agree(self) -> None:
        assert (self.log.start_offset, self.log.end_offset) == (self.start, self.end)
        assert self.log.flushed_offset <= self.end
        assert self.log.last_epoch == (self.batches[-1].epoch if self.end > self.start else -1)

    @invariant()
    def every_batch_is_read_back(self) -> None:
        found = []
        offset = self.start
        while data := self.log.read(offset, 300, self.end):
            for position, header in iterate_headers(data):
                values = {record.value for record in decode_records(data, position)}
                found.append((header.base_offset, header.leader_epoch, values))
                offset = header.last_offset + 1
        assert offset == self.end
        assert found == [(b.base_offset, b.epoch, {b.value}) for b in self.batches if b.end > self.start]

    @invariant()
    def epoch_cache_is_the_one_rebuilt_from_the_log(self) -> None:
        rebuilt: list[tuple[int, int]] = []
        for batch in self.batches:
            if batch.end > self.start and (not rebuilt or rebuilt[-1][0] != batch.epoch):
                rebuilt.append((batch.epoch, max(batch.base_offset, self.start)))
        kept = [entry for entry in self.log.epochs.entries if entry[1] < self.end]
        if self.never_advanced:
            assert kept == rebuilt
        else:
            assert [epoch for epoch, _ in kept] == [epoch for epoch, _ in rebuilt]

    @invariant()
    def producers_are_those_rebuilt_from_the_log(self) -> None:
        rebuilt = ProducerStates()
        for b in self.batches:
            rebuilt.update(b.producer, 0, b.sequence, b.base_offset, b.end - 1, False)
        for producer, state in rebuilt.states.items():
            known = self.log.producers.states[producer]
            assert known.batches[-len(state.batches) :] == state.batches
            assert known.run_records >= state.run_records
        if self.never_advanced:
            assert self.log.producers.states == rebuilt.states


LogAgainstModel.TestCase.settings = settings(max_examples=30, stateful_step_count=30, deadline=None)
TestLogAgainstModel = LogAgainstModel.TestCase
