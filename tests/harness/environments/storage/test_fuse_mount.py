from __future__ import annotations

import errno
import fcntl
import mmap
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.environments.base import EnvironmentFailed
from harness.environments.machine.kernel.linux import is_mounted
from harness.environments.storage.fuse import FuseMount, put_back
from tests.harness.environments.conftest import need

pytestmark = pytest.mark.fuse


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[tuple[FuseMount, Path]]:
    need("fuse")
    mount = FuseMount(tmp_path / "backing", tmp_path / "disk", {})
    yield mount, tmp_path / "disk"
    mount.close()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def test_a_crash_takes_what_was_not_synced_and_names_it(disk: tuple[FuseMount, Path]) -> None:
    mount, root = disk
    (root / "kept").write_bytes(b"x" * 100)
    _sync(root / "kept")
    _sync(root)
    with (root / "kept").open("ab") as file:
        file.write(b"y" * 50)
    (root / "new").write_bytes(b"z" * 7)
    loss = mount.crash()
    assert (loss.mechanism, loss.lost_bytes) == ("fuse", 57)
    assert dict(loss.files) == {"kept": (150, 100), "new": (7, 0)}
    assert [path.name for path in root.iterdir()] == ["kept"]
    assert (root / "kept").read_bytes() == b"x" * 100


def test_a_file_can_be_cut_by_name_and_by_descriptor(disk: tuple[FuseMount, Path]) -> None:
    _, root = disk
    (root / "a").write_bytes(b"0123456789")
    os.truncate(root / "a", 8)
    with (root / "a").open("r+b") as file:
        os.ftruncate(file.fileno(), 5)
    assert (root / "a").read_bytes() == b"01234"


def test_a_file_that_was_removed_while_open_is_still_read_and_written(disk: tuple[FuseMount, Path]) -> None:
    _, root = disk
    directory = root / "topic-0"
    directory.mkdir()
    with (directory / "log").open("w+b", buffering=0) as file:
        file.write(b"before ")
        (directory / "log").unlink()
        directory.rmdir()
        file.write(b"after")
        os.ftruncate(file.fileno(), 9)
        os.fsync(file.fileno())
        file.seek(0)
        assert file.read() == b"before af"
    assert list(root.iterdir()) == []


def test_a_directory_with_something_in_it_cannot_be_removed(disk: tuple[FuseMount, Path]) -> None:
    _, root = disk
    (root / "d").mkdir()
    (root / "d" / "f").touch()
    with pytest.raises(OSError, match="not empty") as caught:
        (root / "d").rmdir()
    assert caught.value.errno == errno.ENOTEMPTY


def test_opening_again_truncates_or_refuses_as_requested(disk: tuple[FuseMount, Path]) -> None:
    _, root = disk
    (root / "a").write_bytes(b"old")
    with pytest.raises(FileExistsError):
        os.open(root / "a", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    (root / "a").write_bytes(b"")
    assert (root / "a").stat().st_size == 0


def test_appends_go_to_the_end_also_after_a_crash(disk: tuple[FuseMount, Path]) -> None:
    mount, root = disk
    (root / "a").write_bytes(b"12345")
    _sync(root / "a")
    _sync(root)
    with (root / "a").open("ab") as file:
        file.write(b"lost")
    mount.crash()
    with (root / "a").open("ab") as file:
        file.write(b"6")
    assert (root / "a").read_bytes() == b"123456"


def test_locks_and_maps_work_as_brokers_want_them(disk: tuple[FuseMount, Path]) -> None:
    _, root = disk
    (root / "index").write_bytes(bytes(mmap.PAGESIZE))
    with (root / "index").open("r+b") as file:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with mmap.mmap(file.fileno(), mmap.PAGESIZE) as pages:
            pages[:5] = b"entry"
            pages.flush()
    assert (root / "index").read_bytes()[:5] == b"entry"


def test_the_files_are_where_they_were_seen_once_it_is_closed(tmp_path: Path) -> None:
    need("fuse")
    mount = FuseMount(tmp_path / "backing", tmp_path / "disk", {})
    (tmp_path / "disk" / "a").write_bytes(b"data")
    mount.close()
    assert (tmp_path / "disk" / "a").read_bytes() == b"data"
    assert not (tmp_path / "backing").exists()
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()


@pytest.mark.slow
def test_without_its_program_only_root_can_unmount(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need("fuse")
    backing, root = tmp_path / "backing", tmp_path / "disk"
    with monkeypatch.context() as without:
        without.setenv("PATH", str(tmp_path))
        mount = FuseMount(backing, root, {})
        (root / "file").write_bytes(b"there")
        if os.geteuid() == 0:
            mount.close()
        else:
            with pytest.raises(EnvironmentFailed, match="mounted: apt-get install fuse3, and fusermount3 -uz /"):
                mount.close()
    put_back(backing, root)
    assert not is_mounted(root)
    assert (root / "file").read_bytes() == b"there"
