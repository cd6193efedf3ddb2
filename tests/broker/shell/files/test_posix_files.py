from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.log.log import Log, LogConfig
from broker.core.ports.files import StorageError
from broker.core.records import encode_batch
from broker.shell.files.fsyncs import Fsyncs
from broker.shell.files.posix_files import PosixFiles
from tests.support.memory_files import MemoryFiles


@pytest.fixture
def files(tmp_path: Path) -> PosixFiles:
    return PosixFiles(tmp_path / "data")


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_appending_creates_a_file_with_its_directories(files: PosixFiles, tmp_path: Path) -> None:
    files.append("a/b/c", b"one")
    files.append("a/b/c", b"two")
    assert (tmp_path / "data/a/b/c").read_bytes() == b"onetwo"
    assert files.size("a/b/c") == 6
    assert files.list("a") == ["b"]


def test_reading_returns_what_there_is(files: PosixFiles) -> None:
    files.append("f", b"0123456789")
    assert files.read("f", 2, 3) == b"234"
    assert files.read("f", 8, 10) == b"89"
    assert files.read("f", 10, 10) == b""
    assert files.read("missing", 0, 10) == b""
    assert files.size("missing") == 0
    assert files.list("missing") == []


def test_truncating_and_appending_continues_at_the_cut(files: PosixFiles) -> None:
    files.append("f", b"0123456789")
    files.truncate("f", 4)
    files.append("f", b"x")
    assert files.read("f", 0, 99) == b"0123x"


def test_replacing_puts_a_whole_file_in_place(files: PosixFiles, tmp_path: Path) -> None:
    files.append("d/f", b"old, and longer")
    files.replace("d/f", b"new")
    assert files.read("d/f", 0, 99) == b"new"
    files.append("d/f", b"er")
    assert files.read("d/f", 0, 99) == b"newer"
    assert [path.name for path in (tmp_path / "data/d").iterdir()] == ["f"]


def test_what_an_interrupted_replace_left_is_not_listed_and_does_not_hinder(files: PosixFiles, tmp_path: Path) -> None:
    (tmp_path / "data/f.aside").write_bytes(b"half")
    assert files.list("") == []
    files.replace("f", b"whole")
    assert files.list("") == ["f"]
    assert files.read("f", 0, 99) == b"whole"


def test_renaming_a_directory_takes_its_open_files_along(files: PosixFiles) -> None:
    files.append("a-0/f", b"1")
    files.append("a-01/f", b"not me")
    files.rename("a-0", "b-0")
    files.append("b-0/f", b"2")
    files.append("a-0/f", b"new")
    assert files.read("b-0/f", 0, 9) == b"12"
    assert files.read("a-0/f", 0, 9) == b"new"
    assert files.read("a-01/f", 0, 9) == b"not me"


def test_deleting_takes_files_and_directories_and_does_not_mind_if_there_are_none(files: PosixFiles) -> None:
    files.append("a/f", b"1")
    files.append("a/g/h", b"1")
    files.delete("a/f")
    assert files.read("a/f", 0, 9) == b""
    files.delete("a")
    files.delete("a")
    assert files.list("") == []
    files.append("a/f", b"2")
    assert files.read("a/f", 0, 9) == b"2"


def test_syncing_what_is_not_there_is_no_error(files: PosixFiles) -> None:
    files.sync("missing/f")
    files.append("f", b"1")
    files.sync("f")
    files.close()
    files.sync("f")
    assert files.read("f", 0, 9) == b"1"


def test_the_number_of_open_files_is_bounded(tmp_path: Path) -> None:
    files = PosixFiles(tmp_path, open_files_max=8)
    before = open_descriptors()
    for turn in range(3):
        for index in range(30):
            files.append(f"f{index}", b"%d" % turn)
            files.sync(f"f{index % 7}")
    assert open_descriptors() <= before + 8
    assert all(files.read(f"f{index}", 0, 9) == b"012" for index in range(30))
    files.close()
    assert open_descriptors() == before


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_reported_in_one_line(files: PosixFiles, tmp_path: Path) -> None:
    (tmp_path / "data/f").symlink_to("/dev/full")
    with pytest.raises(StorageError, match=r"^cannot append to .*/data/f: ENOSPC \(.*\); check the disk$"):
        files.append("f", b"x")


def test_what_a_refused_append_had_written_is_taken_back(files: PosixFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    files.append("f", b"before")
    write = os.write
    room = [4]

    def write_while_there_is_room(descriptor: int, data: bytes) -> int:
        if not room[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = write(descriptor, data[: room[0]])
        room[0] -= written
        return written

    monkeypatch.setattr(os, "write", write_while_there_is_room)
    with pytest.raises(StorageError, match="ENOSPC"):
        files.append("f", b"too long")
    monkeypatch.undo()
    assert files.read("f", 0, 99) == b"before"
    files.append("f", b" and after")
    assert files.read("f", 0, 99) == b"before and after"


def test_a_short_write_is_continued(files: PosixFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:3]))
    files.append("f", b"0123456789")
    assert files.read("f", 0, 99) == b"0123456789"


@pytest.mark.parametrize("operation", ["truncate", "rename"])
def test_working_on_a_missing_file_is_a_storage_error(files: PosixFiles, operation: str) -> None:
    with pytest.raises(StorageError, match="ENOENT"):
        getattr(files, operation)("missing", 0 if operation == "truncate" else "new")


def test_a_root_that_is_a_file_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b"")
    with pytest.raises(StorageError, match="EEXIST"):
        PosixFiles(tmp_path / "data")


NAMES = st.sampled_from(["a", "b", "d/a", "d/b"])
STEPS = st.one_of(
    st.tuples(st.just("append"), NAMES, st.binary(max_size=20)),
    st.tuples(st.just("replace"), NAMES, st.binary(max_size=20)),
    st.tuples(st.just("truncate"), NAMES, st.integers(0, 20)),
    st.tuples(st.just("delete"), st.sampled_from(["a", "d/a", "d"])),
    st.tuples(st.just("sync"), NAMES),
    st.tuples(st.just("read"), NAMES, st.integers(0, 30), st.integers(0, 30)),
    st.tuples(st.just("size"), NAMES),
    st.tuples(st.just("list"), st.just("d")),
)


@given(steps=st.lists(STEPS, max_size=30))
def test_the_disk_behaves_like_the_one_in_memory(tmp_path_factory: pytest.TempPathFactory, steps: list) -> None:
    real, memory = PosixFiles(tmp_path_factory.mktemp("data"), open_files_max=2), MemoryFiles()
    for operation, name, *arguments in steps:
        if operation == "truncate" and (name not in memory.files or memory.size(name) < arguments[0]):
            continue
        assert getattr(real, operation)(name, *arguments) == getattr(memory, operation)(name, *arguments)
    real.close()


def test_a_log_lives_on_it(tmp_path: Path) -> None:
    files = PosixFiles(tmp_path)
    config = LogConfig(segment_bytes=500)
    log = Log.open(files, "t-0", config, clean=False)
    for index in range(20):
        log.append_as_leader(encode_batch([(None, b"%d" % index)], 0, 0, 0), 1)
    log.close_clean()
    files.close()
    again = Log.open(PosixFiles(tmp_path), "t-0", config, clean=True)
    assert (again.end_offset, again.recovery.scanned_bytes) == (20, 0)
    assert again.segment_offsets == log.segment_offsets


class PathsSynced(Fsyncs):
    """Remembers which files and directories were synced."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self._root = root
        self.paths: list[str] = []

    def sync(self, descriptor: int) -> None:
        super().sync(descriptor)
        self.paths.append(os.path.relpath(Path(f"/proc/self/fd/{descriptor}").readlink(), self._root))

    def take(self) -> list[str]:
        paths, self.paths = self.paths, []
        return paths


def test_the_names_of_many_new_directories_cost_one_sync_of_their_parent(tmp_path: Path) -> None:
    synced = PathsSynced(tmp_path)
    files = PosixFiles(tmp_path, fsyncs=synced)
    for name in ("t-0", "t-1", "t-2"):
        files.append(f"{name}/log", b"x")
        files.append(f"{name}/id", b"x")
    assert synced.take() == []
    files.sync("t-0/log")
    assert synced.take() == ["t-0/log", "t-0", "."]
    files.sync("t-1/log")
    assert synced.take() == ["t-1/log", "t-1"]
    files.sync("t-1/id")  # its name is durable since the sync of its directory, its contents were not
    assert synced.take() == ["t-1/id"]
    files.append("t-3/log", b"x")
    files.sync("t-3/log")
    assert synced.take() == ["t-3/log", "t-3", "."]


def test_the_names_that_a_killed_process_left_are_synced_with_the_first_of_their_files(tmp_path: Path) -> None:
    PosixFiles(tmp_path).append("t-0/log", b"x")
    PosixFiles(tmp_path).append("t-0/id", b"x")
    synced = PathsSynced(tmp_path)
    files = PosixFiles(tmp_path, fsyncs=synced)
    files.append("t-0/log", b"y")
    files.sync("t-0/log")
    assert synced.take() == ["t-0/log", "t-0", "."]
    files.sync("t-0/id")
    assert synced.take() == ["t-0/id"]


@pytest.mark.parametrize("again", ["deleted", "renamed"])
def test_a_directory_that_comes_into_being_again_is_synced_again(tmp_path: Path, again: str) -> None:
    synced = PathsSynced(tmp_path)
    files = PosixFiles(tmp_path, fsyncs=synced)
    files.append("t-0/log", b"x")
    files.sync("t-0/log")
    if again == "deleted":
        files.delete("t-0")
    else:
        files.rename("t-0", "t-1")
    synced.take()
    files.append("t-0/log", b"y")
    files.sync("t-0/log")
    assert synced.take() == ["t-0/log", "t-0", "."]


def test_a_file_that_is_created_again_while_its_directory_is_synced_is_synced_again(tmp_path: Path) -> None:
    class CreatesAgain(PathsSynced):
        created_again = False

        def sync(self, descriptor: int) -> None:
            super().sync(descriptor)
            if self.paths[-1] == "t-0" and not self.created_again:
                self.created_again = True
                files.delete("t-0/log")
                files.append("t-0/log", b"y")

    synced = CreatesAgain(tmp_path)
    files = PosixFiles(tmp_path, fsyncs=synced)
    files.append("t-0/log", b"x")
    files.sync("t-0/log")
    assert synced.created_again
    synced.take()
    files.sync("t-0/log")
    assert synced.take() == ["t-0/log", "t-0"]
