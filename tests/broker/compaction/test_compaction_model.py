"""Compaction against a plain list of what was written: a leader's log, a follower's, cuts, crashes, power failures."""

from __future__ import annotations

import random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from broker.core.log.compaction.cleaning import Cleaning, Progress
from broker.core.log.log import Log
from broker.core.records import encode_batch
from tests.broker.compaction.compacted_logs import CONFIG, DELETE_RETENTION_MS, Written, check, records_of
from tests.support.memory_files import MemoryFiles

KEYS = [b"a", b"b", b"c", b"d" * 40, b"e" * 40]


class CompactedLogs(RuleBasedStateMachine):
    """A leader and a follower, each of which compacts its own log, in steps between which anything may happen."""

    @initialize()
    def create(self) -> None:
        self.files = [MemoryFiles(), MemoryFiles()]
        self.logs = [Log.open(files, "t-0", CONFIG, clean=False) for files in self.files]
        self.cleanings: list[Cleaning | None] = [None, None]
        self.syncs = [False, False]
        self.recovery_points = [0, 0]
        self.written: dict[int, Written] = {}
        self.committed = 0
        self.compacted_to = [0, 0]
        self.epoch = 1
        self.now_ms = 10_000
        self.sequence = 0
        self.was_cut = False

    @rule(
        records=st.lists(st.tuples(st.sampled_from(KEYS), st.booleans()), min_size=1, max_size=4),
        padding=st.sampled_from([0, 50, 200]),
        idempotent=st.booleans(),
        new_epoch=st.integers(0, 5).map(lambda n: n // 5),
    )
    def append(self, records: list[tuple[bytes, bool]], padding: int, idempotent: bool, new_epoch: int) -> None:
        self.epoch += new_epoch
        leader = self.logs[0]
        first = leader.end_offset
        made = [
            Written(key, None if is_tombstone else b"%d" % (first + at) + b"." * padding)
            for at, (key, is_tombstone) in enumerate(records)
        ]
        producer = (7, 0, self.sequence) if idempotent else (-1, -1, -1)
        leader.append_as_leader(encode_batch(made, 0, 0, self.now_ms, *producer), self.epoch)
        self.sequence += len(made) if idempotent else 0
        self.written.update(enumerate(made, first))

    @rule(max_bytes=st.sampled_from([1, 300, 2000]), times=st.integers(1, 5))
    def replicate(self, max_bytes: int, times: int) -> None:
        leader, follower = self.logs
        if follower.end_offset < leader.start_offset:
            follower.truncate_fully(leader.start_offset)
        for _ in range(times):
            data = leader.read(follower.end_offset, max_bytes, leader.end_offset)
            before = follower.end_offset
            assert follower.append_as_follower(data, self.epoch) > before or not data
        self.committed = max(self.committed, follower.end_offset)

    @rule(which=st.integers(0, 1))
    def flush(self, which: int) -> None:
        self.logs[which].sync()
        self.recovery_points[which] = self.logs[which].flushed_offset

    @rule(ms=st.sampled_from([1, DELETE_RETENTION_MS, 3 * DELETE_RETENTION_MS]))
    def wait(self, ms: int) -> None:
        self.now_ms += ms

    @rule(which=st.integers(0, 1), keys_max=st.sampled_from([1, 2, 100]), steps=st.sampled_from([0, 1, 3, 99]))
    def compact(self, which: int, keys_max: int, steps: int) -> None:
        log = self.logs[which]
        if self.cleanings[which] is None:
            segments = log.closed_segments(min(self.committed, log.flushed_offset))
            if not segments:
                return
            self.cleanings[which] = Cleaning(self.files[which], log, segments, self.now_ms, keys_max)
            self.compacted_to[which] = max(self.compacted_to[which], segments[-1].end_offset)
        cleaning = self.cleanings[which]
        for _ in range(steps):
            if self.syncs[which]:
                self.files[which].sync(cleaning.unsynced)
            progress = cleaning.synced() if self.syncs[which] else cleaning.step()
            self.syncs[which] = progress is Progress.SYNC
            if progress in (Progress.DONE, Progress.ABANDONED):
                self.cleanings[which] = None
                return
            assert progress in (Progress.MORE, Progress.SYNC)

    @rule(which=st.integers(0, 1), back=st.integers(0, 8))
    def truncate(self, which: int, back: int) -> None:
        """What is not committed may be cut off; then the other log has to follow."""
        self.was_cut = True
        log = self.logs[which]
        target = max(self.committed, log.end_offset - back)
        end = log.truncate_to(target)
        if which == 0:
            for offset in [offset for offset in self.written if offset >= end]:
                del self.written[offset]
            if self.logs[1].end_offset > end:
                self.logs[1].truncate_to(end)
            self.epoch += 1

    @rule(which=st.integers(0, 1), ahead=st.integers(0, 10))
    def advance_start(self, which: int, ahead: int) -> None:
        log = self.logs[which]
        log.advance_start(min(self.committed, log.start_offset + ahead))

    @rule(which=st.integers(0, 1))
    def stop_and_start(self, which: int) -> None:
        self.logs[which].close_clean()
        self._open(which, clean=True)
        assert self.logs[which].recovery.scanned_bytes == 0

    @rule(which=st.integers(0, 1))
    def kill_and_start(self, which: int) -> None:
        self._open(which, clean=False)
        assert self.logs[which].recovery.truncated_bytes == 0

    @rule(which=st.integers(0, 1), share=st.sampled_from([0.0, 0.5]))
    def lose_power_and_start(self, which: int, share: float) -> None:
        if self.logs[1 - which].end_offset < self.committed:
            return  # the other one has lost as much: what is committed would be lost with both
        self.was_cut = True
        durable = self.logs[which].flushed_offset
        self.files[which] = self.files[which].crash(lambda _, synced, size: synced + int(share * (size - synced)))
        self._open(which, clean=False)
        log = self.logs[which]
        assert log.end_offset >= durable
        if which == 0:
            if log.end_offset < self.logs[1].start_offset:
                log.truncate_fully(self.logs[1].start_offset)
            while log.end_offset < self.logs[1].end_offset:  # the other one led meanwhile
                before = log.end_offset
                data = self.logs[1].read(before, 300, self.logs[1].end_offset)
                assert log.append_as_follower(data, self.epoch) > before
            for offset in [offset for offset in self.written if offset >= log.end_offset]:
                del self.written[offset]
            self.epoch += 1

    def _open(self, which: int, *, clean: bool) -> None:
        self.cleanings[which], self.syncs[which] = None, False
        self.logs[which] = Log.open(
            self.files[which],
            "t-0",
            CONFIG,
            clean=clean,
            recovery_point=self.recovery_points[which],
            start_offset=self.logs[which].start_offset,
        )
        self.recovery_points[which] = min(self.recovery_points[which], self.logs[which].end_offset)
        names = self.files[which].list("t-0")
        assert not [name for name in names if name.endswith((".cleaned", ".swap"))]

    @invariant()
    def what_must_stay_is_there(self) -> None:
        for log in self.logs:
            check(log, self.written, max(self.compacted_to))  # a follower may fetch what its leader has compacted

    @invariant()
    def producers_are_recognized(self) -> None:
        """A log that is opened without any snapshot knows as many batches as before; unless one that was cut off had
        taken the place of an older one.
        """
        for which, log in enumerate(self.logs):
            if self.was_cut or not log.producers.states:
                continue
            files = self.files[which].copy()
            for name in files.list("t-0"):
                if name.endswith(".snapshot"):
                    files.delete(f"t-0/{name}")
            opened = Log.open(files, "t-0", CONFIG, clean=False, start_offset=log.start_offset)
            known, again = log.producers.states[7], opened.producers.states.get(7)
            in_log = [one for one in known.batches if one.base_offset >= log.segment_offsets[0]]
            assert not in_log or again is not None
            if again is not None:
                assert list(again.batches[-len(in_log) :]) == in_log or not in_log

    @invariant()
    def leader_epochs_begin_where_they_began(self) -> None:
        leader, follower = (dict(log.epochs.entries) for log in self.logs)
        for epoch in leader.keys() & follower.keys():
            starts = [log.start_offset for log in self.logs]
            assert max(leader[epoch], *starts) == max(follower[epoch], *starts)

    @precondition(lambda self: self.logs[0].end_offset)
    @rule(data=st.data())
    def read_anywhere(self, data: st.DataObject) -> None:
        log = self.logs[0]
        if log.start_offset < log.end_offset:
            offset = data.draw(st.integers(log.start_offset, log.end_offset - 1))
            found = log.read(offset, 200, log.end_offset)
            assert found
            header = log.batch_at(offset)
            assert header is not None
            assert header.base_offset <= offset <= header.last_offset
            wanted = [one for one in records_of(log).values() if one.offset >= offset]
            by_time = log.offset_for_timestamp(0, log.end_offset)
            first = min(records_of(log), default=None)
            assert (by_time[1] if by_time else None) == first
            assert wanted == sorted(wanted)


CompactedLogs.TestCase.settings = settings(max_examples=25, stateful_step_count=30, deadline=None)
TestCompactedLogs = CompactedLogs.TestCase


def test_logs_of_long_histories_hold_what_they_must() -> None:
    """The same rules in the proportions in which logs become long enough to compact."""
    shrunk = 0
    for seed in range(40):
        draw = random.Random(seed)
        logs = CompactedLogs()
        logs.create()
        for _ in range(150):
            which = draw.randint(0, 1)
            before = logs.logs[which].size_bytes
            match draw.choices(RULES, WEIGHTS)[0]:
                case "append":
                    records = [(draw.choice(KEYS), draw.random() < 0.3) for _ in range(draw.randint(1, 4))]
                    logs.append(records, draw.choice([0, 50, 200]), draw.random() < 0.5, draw.random() < 0.15)
                case "replicate":
                    logs.replicate(draw.choice([1, 300, 2000]), draw.randint(1, 5))
                case "flush":
                    logs.flush(which)
                case "compact":
                    logs.compact(which, draw.choice([1, 2, 100]), draw.choice([0, 1, 3, 99]))
                    shrunk += logs.logs[which].size_bytes < before
                case "wait":
                    logs.wait(draw.choice([1, 1000, 3000]))
                case "truncate":
                    logs.truncate(which, draw.randint(0, 8))
                case "advance":
                    logs.advance_start(which, draw.randint(0, 10))
                case "stop":
                    logs.stop_and_start(which)
                case "kill":
                    logs.kill_and_start(which)
                case "power":
                    logs.lose_power_and_start(which, draw.choice([0.0, 0.5]))
            logs.what_must_stay_is_there()
            logs.producers_are_recognized()
            logs.leader_epochs_begin_where_they_began()
    assert shrunk > 100, "expected compactions that find something"


RULES = ["append", "replicate", "flush", "compact", "wait", "truncate", "advance", "stop", "kill", "power"]
WEIGHTS = [6, 4, 3, 6, 1, 1, 1, 1, 1, 1]
