"""The simulated disk: what a power failure takes and brings back, and what a process leaves that dies in a change."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker.core.log.log import Log, LogConfig
from broker.core.records import encode_batch
from broker.core.rules.generations import GENERATIONS
from simulation.engine.choices import ChoiceSequence, Stream
from simulation.engine.disk import InterruptedChange, PowerFailed, SimulatedDisk, Survival


def test_no_bit_flips_in_what_a_torn_append_has_left() -> None:
    disk = SimulatedDisk()
    batch = encode_batch([(None, b"value")], base_offset=0, leader_epoch=0, timestamp_ms=0)
    disk.append("log-0/0.log", batch[:40])
    assert disk.flip_unsynced_bit(ChoiceSequence(1)["disk"]) == ""
    disk.truncate("log-0/0.log", 0)
    disk.append("log-0/0.log", batch)
    assert disk.flip_unsynced_bit(ChoiceSequence(1)["disk"]) == "log-0/0.log"
    assert disk.read("log-0/0.log", 0, 1_000) != batch
    disk.sync("log-0/0.log")
    disk.append("log-0/0.log", bytes(100))  # a page that was never written
    assert disk.flip_unsynced_bit(ChoiceSequence(1)["disk"]) == ""


def test_a_sync_covers_what_was_written_before_it_was_asked_for() -> None:
    disk = SimulatedDisk()
    disk.append("log-0/0.log", b"before")
    sync = disk.begin_sync("log-0/0.log")
    disk.append("log-0/0.log", b" and later")
    disk.end_sync("log-0/0.log", sync)
    assert after_power_loss(disk, Survival.NOTHING) == {"log-0/0.log": b"before"}


def test_a_sync_that_a_cut_has_overtaken_proves_nothing() -> None:
    disk = SimulatedDisk()
    disk.append("log-0/0.log", b"first")
    disk.sync("log-0/0.log")
    disk.append("log-0/0.log", b" second")
    sync = disk.begin_sync("log-0/0.log")
    disk.truncate("log-0/0.log", 5)
    disk.append("log-0/0.log", b" third")
    disk.end_sync("log-0/0.log", sync)
    assert after_power_loss(disk, Survival.NOTHING) == {"log-0/0.log": b"first"}


def names(*values: int) -> Stream:
    return ChoiceSequence(given={"names": values})["names"]


def after_power_loss(disk: SimulatedDisk, survival: Survival, *drawn: int) -> dict[str, bytes]:
    disk.lose_power(survival, ChoiceSequence(given={})["disk"], names(*drawn))
    return {name: bytes(file.data) for name, file in disk.files.items()}


@pytest.mark.parametrize(
    ("written", "survival", "drawn", "left"),
    [
        (b"", Survival.NOTHING, 0, {"log-0/0.log": b""}),
        (b"", Survival.NOTHING, 3, {}),
        (b"data", Survival.NOTHING, 0, {}),
        (b"data", Survival.NOTHING, 1, {"log-0/0.log": b""}),
        (b"data", Survival.SCATTERED, 0, {"log-0/0.log": b"data"}),
        (b"data", Survival.SCATTERED, 3, {}),
        (b"data", Survival.EVERYTHING, 3, {"log-0/0.log": b"data"}),
    ],
)
def test_a_name_that_was_never_synced_may_be_lost(
    written: bytes, survival: Survival, drawn: int, left: dict[str, bytes]
) -> None:
    disk = SimulatedDisk()
    disk.append("log-0/0.log", written)
    assert after_power_loss(disk, survival, drawn) == left


@pytest.mark.parametrize("survival", [Survival.NOTHING, Survival.SCATTERED])
def test_a_name_that_was_synced_is_kept_though_the_file_is_empty(survival: Survival) -> None:
    disk = SimulatedDisk()
    disk.append("log-0/0.log", b"")
    disk.sync("log-0/0.log")
    assert after_power_loss(disk, survival, 3) == {"log-0/0.log": b""}


@pytest.mark.parametrize(("synced", "drawn", "left"), [(False, 1, b"0123"), (False, 0, b"01"), (True, 1, b"01a")])
def test_a_cut_that_was_not_synced_may_be_undone(synced: bool, drawn: int, left: bytes) -> None:
    disk = SimulatedDisk()
    disk.append("log-0/0.log", b"0123")
    disk.sync("log-0/0.log")
    disk.append("log-0/0.log", b"45")
    disk.truncate("log-0/0.log", 2)
    disk.append("log-0/0.log", b"a")
    if synced:
        disk.sync("log-0/0.log")
    assert after_power_loss(disk, Survival.NOTHING, drawn) == {"log-0/0.log": left}


@pytest.mark.parametrize(
    ("synced", "drawn", "left"),
    [
        (False, (0,), b"newer"),
        (False, (1,), b"older"),
        (False, (2, 3), b"new"),
        (False, (3,), None),
        (True, (3,), b"newer"),
    ],
)
def test_the_index_of_a_segment_that_was_not_synced_survives_on_its_own(
    synced: bool, drawn: tuple[int, ...], left: bytes | None
) -> None:
    disk = SimulatedDisk()
    disk.append("log-0/0.log", b"record")
    disk.replace("log-0/0.index", b"older")
    disk.replace("log-0/0.index", b"newer")
    if synced:
        disk.sync("log-0/0.log")
    assert after_power_loss(disk, Survival.SCATTERED, *drawn).get("log-0/0.index") == left


OLD = {"a": b"old", "d/1": b"", "d/2": b""}


@pytest.mark.parametrize(
    ("change", "drawn", "left"),
    [
        (lambda disk: disk.rename("a", "b"), (0,), OLD),
        (lambda disk: disk.rename("a", "b"), (1,), {"b": b"old", "d/1": b"", "d/2": b""}),
        (lambda disk: disk.replace("a", b"new"), (0,), OLD),
        (lambda disk: disk.replace("a", b"new"), (1,), {**OLD, "a": b"new"}),
        (lambda disk: disk.delete("a"), (0,), OLD),
        (lambda disk: disk.delete("d"), (0, 1), {"a": b"old", "d/1": b""}),
        (lambda disk: disk.delete("d"), (1, 0), {"a": b"old", "d/2": b""}),
    ],
)
def test_a_change_that_is_interrupted_leaves_the_old_or_the_new(
    change: Callable[[SimulatedDisk], None], drawn: tuple[int, ...], left: dict[str, bytes]
) -> None:
    disk = SimulatedDisk()
    for name, data in OLD.items():
        disk.replace(name, data)
    disk.interrupted = InterruptedChange(1, names(*drawn))
    disk.append("d/1", b"")  # one change is completed before it
    with pytest.raises(PowerFailed):
        change(disk)
    assert {name: bytes(file.data) for name, file in disk.files.items()} == left
    disk.append("a", b"")  # the next process is not interrupted


def log_of(disk: SimulatedDisk, records: int) -> Log:
    """A log of one record in each segment."""
    log = Log.open(disk, "t-0", LogConfig(segment_bytes=1), clean=False)
    for value in range(records):
        log.append_as_leader(encode_batch([(None, b"%d" % value)], 0, 0, 0), 1)
    return log


@pytest.mark.parametrize("changes_before", range(1, 8))
def test_a_log_whose_cut_is_interrupted_says_where_it_was_to_end(changes_before: int) -> None:
    """So that the observers know which records the process gave up."""
    disk = SimulatedDisk()
    log = log_of(disk, 6)
    disk.interrupted = InterruptedChange(changes_before, names())
    with pytest.raises(PowerFailed):
        log.truncate_to(2)
    assert (log.end_offset, log.truncations) == (2, 1)
    reopened = Log.open(disk, "t-0", LogConfig(segment_bytes=1), clean=False)
    assert 2 <= reopened.end_offset <= 6


@pytest.mark.parametrize("clean", [True, False])
def test_records_that_are_on_the_disk_survive_the_return_of_what_was_cut_off_below_them(clean: bool) -> None:
    disk = SimulatedDisk()
    config = LogConfig(segment_bytes=300)
    log = Log.open(disk, "t-0", config, clean=False)
    for value in range(3):
        log.append_as_leader(encode_batch([(None, b"%d" % value)], 0, 0, 0), 1)
    log.sync()
    log.truncate_to(2)
    log.append_as_leader(encode_batch([(None, bytes(300))], 0, 0, 0), 2)
    assert log.segment_offsets == (0, 2)
    if clean:
        log.close_clean()
    else:
        log.sync()
    disk.lose_power(Survival.NOTHING, ChoiceSequence(given={})["disk"], names(*[1] * 20))
    reopened = Log.open(disk, "t-0", config, clean=clean, recovery_point=log.flushed_offset)
    assert (reopened.end_offset, reopened.epochs.entries) == (3, ((1, 0), (2, 2)))


@pytest.mark.parametrize("cut_to", [2, 4])
def test_a_clean_stop_after_a_cut_leaves_nothing_of_what_was_cut_off(cut_to: int) -> None:
    disk = SimulatedDisk()
    config = LogConfig(segment_bytes=300)
    log = Log.open(disk, "t-0", config, clean=False)
    for value in range(6):
        log.append_as_leader(encode_batch([(None, b"%d" % value)], 0, 0, 0), 1 + value // 4)
    log.sync()
    log.truncate_to(cut_to)
    log.close_clean()
    disk.lose_power(Survival.NOTHING, ChoiceSequence(given={})["disk"], names(*[1] * 20))
    reopened = Log.open(disk, "t-0", config, clean=True)
    assert (reopened.end_offset, reopened.epochs.entries) == (cut_to, ((1, 0),))


def test_what_a_recovery_cut_off_does_not_come_back_below_records_that_were_synced_later() -> None:
    """A torn batch is cut off; the process is killed before it syncs that, and the next one rolls, and syncs."""
    disk, config = SimulatedDisk(), LogConfig(segment_bytes=200)
    batch = encode_batch([(None, b"value")], base_offset=0, leader_epoch=0, timestamp_ms=0)
    log = Log.open(disk, "t-0", config, clean=True)
    log.append_as_leader(batch, 0)
    log.append_as_leader(batch, 0)
    (name,) = (f"t-0/{one}" for one in disk.list("t-0") if one.endswith(".log"))
    disk.append(name, batch[:50])
    disk.sync(name)
    assert Log.open(disk, "t-0", config, clean=False, recovery_point=2).recovery.truncated_bytes == 50
    log = Log.open(disk, "t-0", config, clean=False, recovery_point=2)
    for _ in range(2):
        log.append_as_leader(batch, 0)
    assert len(log.segment_offsets) == 2
    log.sync()
    disk.lose_power(Survival.NOTHING, ChoiceSequence(given={})["disk"], names(*[1] * 9))
    assert Log.open(disk, "t-0", config, clean=False).end_offset == 4


@pytest.mark.parametrize(("generation", "end"), [("K5", 2), ("K4", 4)])
def test_what_a_follower_cut_off_comes_back_where_no_recovery_ranks_logs(generation: str, end: int) -> None:
    """UR-16: it is of a later epoch than what the present leader has there, so that K5 would elect it."""
    disk, config = SimulatedDisk(), LogConfig(rules=GENERATIONS[generation]().storage)
    log = Log.open(disk, "t-0", config, clean=True)
    for _ in range(4):
        log.append_as_leader(encode_batch([(None, b"value")], base_offset=0, leader_epoch=0, timestamp_ms=0), 6)
    log.sync()
    assert log.truncate_to(2) == 2
    disk.lose_power(Survival.NOTHING, ChoiceSequence(given={})["disk"], names(*[1] * 9))
    assert Log.open(disk, "t-0", config, clean=False).end_offset == end
