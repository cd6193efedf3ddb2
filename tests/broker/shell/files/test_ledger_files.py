from __future__ import annotations

import multiprocessing
import os
import random
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.core.log.log import Log, LogConfig
from broker.core.ports.files import Files, StorageError
from broker.core.records import encode_batch
from broker.shell.files.ledger_files import LedgerFiles, ledger_of, lose_unsynced
from tests.support.memory_files import MemoryFiles


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def files(root: Path) -> Iterator[LedgerFiles]:
    opened = LedgerFiles(root)
    yield opened
    opened.close()


def contents(root: Path) -> dict[str, bytes]:
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and path.suffix != ".aside"
    }


def test_only_what_was_synced_survives(files: LedgerFiles, root: Path) -> None:
    files.append("t/log", b"synced")
    files.sync("t/log")
    files.append("t/log", b" and not")
    files.append("t/never", b"gone")
    files.append("t/empty", b"")
    files.sync("t/empty")
    assert lose_unsynced(root) == {"t/log": (14, 6), "t/never": (4, 0)}
    assert contents(root) == {"t/log": b"synced", "t/empty": b""}


def test_a_kill_alone_loses_nothing(root: Path) -> None:
    files = LedgerFiles(root)
    files.append("f", b"synced")
    files.sync("f")
    files.append("f", b" or not")
    files.close()
    again = LedgerFiles(root)
    assert again.read("f", 0, 99) == b"synced or not"
    again.append("f", b", more")
    assert lose_unsynced(root) == {"f": (19, 6)}


def test_a_replaced_file_survives_whole(files: LedgerFiles, root: Path) -> None:
    files.append("f", b"not synced and rather long")
    files.replace("f", b"whole")
    files.replace("f", b"whole again")
    assert lose_unsynced(root) == {}
    assert contents(root) == {"f": b"whole again"}


def test_a_cut_lowers_what_is_durable(files: LedgerFiles, root: Path) -> None:
    files.append("f", b"0123456789")
    files.sync("f")
    files.truncate("f", 4)
    files.append("f", b"abcdef")
    assert lose_unsynced(root) == {"f": (10, 4)}
    assert contents(root) == {"f": b"0123"}


def test_a_file_keeps_its_durable_size_under_a_new_name(files: LedgerFiles, root: Path) -> None:
    files.append("d/f", b"synced")
    files.sync("d/f")
    files.append("d/f", b" and not")
    files.rename("d", "e")
    files.append("e/f", b" at all")
    assert lose_unsynced(root) == {"e/f": (21, 6)}


def test_a_new_file_owes_nothing_to_a_deleted_one(files: LedgerFiles, root: Path) -> None:
    for turn in range(20):
        files.append("f", b"durable %d" % turn)
        files.sync("f")
        files.delete("f")
    files.append("f", b"not durable")
    assert lose_unsynced(root) == {"f": (11, 0)}


def test_a_loss_may_be_partial_but_never_of_what_is_durable(files: LedgerFiles, root: Path) -> None:
    for name in ("a", "b", "c"):
        files.append(name, b"0123456789")
        files.sync(name)
        files.append(name, b"0123456789")
    kept = {"a": 0, "b": 15, "c": 99}
    assert lose_unsynced(root, keep=lambda name, durable, size: kept[name]) == {"a": (20, 10), "b": (20, 15)}


def test_after_a_loss_what_is_left_is_durable(root: Path) -> None:
    files = LedgerFiles(root)
    files.append("f", b"0123456789")
    files.close()
    lose_unsynced(root, keep=lambda name, durable, size: 5)
    assert lose_unsynced(root) == {}
    assert contents(root) == {"f": b"01234"}


def test_files_that_others_put_there_are_durable(root: Path) -> None:
    root.mkdir()
    (root / "before").write_bytes(b"1")
    files = LedgerFiles(root)
    files.append("before", b"2")
    (root / "meanwhile").write_bytes(b"3")
    files.close()
    assert lose_unsynced(root) == {"before": (2, 1)}
    assert contents(root) == {"before": b"1", "meanwhile": b"3"}


def test_without_a_ledger_there_is_nothing_to_lose_by(root: Path) -> None:
    root.mkdir()
    with pytest.raises(StorageError, match="expected the ledger of a node at"):
        lose_unsynced(root)


def test_the_ledger_may_lie_elsewhere_and_does_not_grow_with_appends_syncs_or_turnover(
    root: Path, tmp_path: Path
) -> None:
    ledger = tmp_path / "remote"
    files = LedgerFiles(root, ledger)
    for turn in range(100):
        files.append("f", b"x")
        files.sync("f")
        files.replace("checkpoint", b"%d" % turn)
        files.append(f"segment-{turn}", b"x")
        files.delete(f"segment-{turn - 1}")
    files.close()
    assert ledger.stat().st_size <= 16 * 6
    assert not ledger_of(root).exists()
    assert lose_unsynced(root, ledger) == {"segment-99": (1, 0)}


def test_a_sync_that_a_cut_overtakes_vouches_only_for_what_the_cut_left(
    files: LedgerFiles, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.append("f", b"0123456789")
    inside, go_on = threading.Event(), threading.Event()
    fsync = os.fsync

    def slow_fsync(descriptor: int) -> None:
        inside.set()
        assert go_on.wait(10)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", slow_fsync)
    syncing = threading.Thread(target=files.sync, args=("f",))
    syncing.start()
    assert inside.wait(10)
    files.truncate("f", 6)
    files.append("f", b"abcdef")
    go_on.set()
    syncing.join(10)
    assert not syncing.is_alive()
    assert lose_unsynced(root) == {"f": (12, 6)}


def test_a_failed_sync_proves_nothing(files: LedgerFiles, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files.append("f", b"0123456789")

    def failing_fsync(descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", failing_fsync)
    with pytest.raises(StorageError, match=r"cannot sync .*: EIO"):
        files.sync("f")
    monkeypatch.undo()
    assert lose_unsynced(root) == {"f": (10, 0)}


# --- against kill -9 -------------------------------------------------------------------------------------------------


def work(files: Files, seed: int) -> Iterator[None]:
    """An endless, reproducible sequence of operations on a few files."""
    choose = random.Random(seed)
    names = ["a", "b", "d/a", "d/b"]
    sizes = dict.fromkeys(names, 0)
    while True:
        name = choose.choice(names)
        kind = choose.choices(["append", "sync", "truncate", "replace", "delete", "rename"], [12, 6, 2, 2, 1, 1])[0]
        if kind == "append":
            data = choose.randbytes(choose.choice([1, 100, 5000]))
            files.append(name, data)
            sizes[name] += len(data)
        elif kind == "sync":
            files.sync(name)
        elif kind == "truncate" and sizes[name]:
            sizes[name] = choose.randrange(sizes[name])
            files.truncate(name, sizes[name])
        elif kind == "replace":
            data = choose.randbytes(choose.randrange(300))
            files.replace(name, data)
            sizes[name] = len(data)
        elif kind == "delete":
            files.delete(name)
            sizes[name] = 0
        elif kind == "rename" and sizes[name]:
            new_name = choose.choice(names)
            if new_name != name:
                files.rename(name, new_name)
                sizes[new_name], sizes[name] = sizes[name], 0
        yield


def live_until_killed(root: Path, seed: int, report: int) -> None:
    for _ in work(LedgerFiles(root), seed):
        os.write(report, b".")


def after_power_failure(seed: int, steps: int) -> dict[str, bytes]:
    files = MemoryFiles()
    for _, _ in zip(range(steps), work(files, seed), strict=False):
        pass
    survivors = files.crash()
    return {name: bytes(file.data) for name, file in survivors.files.items()}


def outcomes(seed: int, steps: int) -> list[dict[str, bytes]]:
    return [after_power_failure(seed, steps), after_power_failure(seed, steps + 1)]


def empty(left: dict[str, bytes], expected: dict[str, bytes]) -> dict[str, bytes]:
    """At most one file: an empty one that was not expected."""
    return dict([(name, data) for name, data in left.items() if not data and name not in expected][:1])


@pytest.mark.parametrize("seed", range(30))
def test_a_process_killed_at_any_point_leaves_exactly_what_it_had_synced(root: Path, seed: int) -> None:
    done, report = os.pipe()
    process = multiprocessing.get_context("fork").Process(target=live_until_killed, args=(root, seed, report))
    process.start()
    os.close(report)
    steps = 0
    while steps < random.Random(seed).randrange(1, 150):
        steps += len(os.read(done, 10))
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join(10)
    assert process.exitcode == -signal.SIGKILL
    while more := os.read(done, 1 << 16):
        steps += len(more)
    os.close(done)

    lose_unsynced(root)
    # The step that the kill interrupted was done or not, or had only created the name of a new file.
    left = contents(root)
    assert any(left in (expected, expected | empty(left, expected)) for expected in outcomes(seed, steps))


def test_a_log_loses_its_unsynced_end_and_recovers(root: Path) -> None:
    files = LedgerFiles(root)
    log = Log.open(files, "t-0", LogConfig(segment_bytes=500), clean=False)
    for index in range(20):
        log.append_as_leader(encode_batch([(None, b"%d" % index)], 0, 0, 0), 1 + index // 8)
        if index == 12:
            log.sync()
    files.close()
    assert lose_unsynced(root)
    recovered = Log.open(LedgerFiles(root), "t-0", LogConfig(segment_bytes=500), clean=False)
    assert recovered.end_offset == 13
    assert recovered.epochs.entries == ((1, 0), (2, 8))
