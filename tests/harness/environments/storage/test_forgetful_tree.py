from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.environments.storage.forgetful import ForgetfulTree


@pytest.fixture
def tree(tmp_path: Path) -> ForgetfulTree:
    (tmp_path / "tree").mkdir()
    (tmp_path / "removed").mkdir()
    return ForgetfulTree(tmp_path / "tree", tmp_path / "removed")


@contextmanager
def _opened(tree: ForgetfulTree, path: str) -> Iterator[int]:
    descriptor = os.open(f"{tree.root}{path}", os.O_RDWR)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _durable(tree: ForgetfulTree, path: str, data: bytes) -> None:
    descriptor = tree.create(path, 0o644)
    tree.write(descriptor, data, 0)
    tree.sync(descriptor)
    os.close(descriptor)
    _sync_directory(tree, path.rpartition("/")[0])


def _sync_directory(tree: ForgetfulTree, path: str) -> None:
    descriptor = os.open(f"{tree.root}{path}", os.O_RDONLY)
    tree.sync_directory(descriptor)
    os.close(descriptor)


def _contents(tree: ForgetfulTree) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(tree.root)): path.read_bytes() if path.is_file() else None for path in tree.root.rglob("*")
    }


def test_what_was_appended_since_the_last_sync_is_taken_back(tree: ForgetfulTree) -> None:
    _durable(tree, "/a", b"kept")
    with _opened(tree, "/a") as a:
        tree.write(a, b"lost", 4)
    assert tree.crash() == (4, {"a": (8, 4)})
    assert _contents(tree) == {"a": b"kept"}


def test_bytes_that_were_overwritten_come_back(tree: ForgetfulTree) -> None:
    _durable(tree, "/a", b"0123456789")
    with _opened(tree, "/a") as a:
        tree.write(a, b"xxx", 2)
        tree.write(a, b"yyyyyyyyyy", 4)
    tree.crash()
    assert _contents(tree) == {"a": b"0123456789"}


def test_a_truncation_that_was_not_synced_is_undone(tree: ForgetfulTree) -> None:
    _durable(tree, "/a", b"0123456789")
    with _opened(tree, "/a") as a:
        tree.truncate(a, 3)
        tree.write(a, b"new", 3)
        tree.truncate(a, 0)
    tree.crash()
    assert _contents(tree) == {"a": b"0123456789"}


def test_a_new_file_whose_directory_was_not_synced_is_gone_although_its_bytes_were(tree: ForgetfulTree) -> None:
    descriptor = tree.create("/a", 0o644)
    tree.write(descriptor, b"bytes", 0)
    tree.sync(descriptor)
    os.close(descriptor)
    tree.crash()
    assert _contents(tree) == {}


def test_a_new_file_whose_name_alone_was_synced_is_empty(tree: ForgetfulTree) -> None:
    descriptor = tree.create("/a", 0o644)
    tree.write(descriptor, b"bytes", 0)
    os.close(descriptor)
    _sync_directory(tree, "")
    assert tree.crash() == (5, {"a": (5, 0)})
    assert _contents(tree) == {"a": b""}


def test_a_removed_file_comes_back_unless_its_directory_was_synced(tree: ForgetfulTree) -> None:
    _durable(tree, "/a", b"a")
    _durable(tree, "/b", b"b")
    tree.remove("/a")
    _sync_directory(tree, "")
    tree.remove("/b")
    assert _contents(tree) == {}
    tree.crash()
    assert _contents(tree) == {"b": b"b"}


def test_replacing_a_file_is_undone_whole_or_not_at_all(tree: ForgetfulTree) -> None:
    _durable(tree, "/checkpoint", b"old")
    descriptor = tree.create("/checkpoint.new", 0o644)
    tree.write(descriptor, b"new one", 0)
    tree.sync(descriptor)
    os.close(descriptor)
    tree.rename("/checkpoint.new", "/checkpoint")
    tree.crash()
    assert _contents(tree) == {"checkpoint": b"old"}
    _durable(tree, "/checkpoint.new", b"new one")
    tree.rename("/checkpoint.new", "/checkpoint")
    _sync_directory(tree, "")
    tree.crash()
    assert _contents(tree) == {"checkpoint": b"new one"}


def test_a_directory_that_was_not_synced_into_its_parent_is_lost_with_all_in_it(tree: ForgetfulTree) -> None:
    tree.make_directory("/topic-0", 0o755)
    _durable(tree, "/topic-0/log", b"records")
    tree.crash()
    assert _contents(tree) == {}


def test_changes_below_a_renamed_directory_are_undone_where_it_is_now(tree: ForgetfulTree) -> None:
    tree.make_directory("/topic-0", 0o755)
    _durable(tree, "/topic-0/log", b"records")
    _sync_directory(tree, "")
    descriptor = tree.create("/topic-0/late", 0o644)
    os.close(descriptor)
    tree.rename("/topic-0", "/topic-0.deleted")
    _sync_directory(tree, "")
    tree.crash()
    assert _contents(tree) == {"topic-0.deleted": None, "topic-0.deleted/log": b"records"}


def test_after_a_crash_everything_left_is_durable(tree: ForgetfulTree) -> None:
    _durable(tree, "/a", b"kept")
    with _opened(tree, "/a") as a:
        tree.write(a, b"lost", 4)
    tree.crash()
    assert tree.crash() == (0, {})


@pytest.mark.parametrize("seed", range(20))
def test_any_sequence_of_writes_truncations_and_syncs_leaves_the_bytes_of_the_last_sync(
    tree: ForgetfulTree, seed: int
) -> None:
    draw = random.Random(seed)
    _durable(tree, "/a", b"")
    synced = b""
    with _opened(tree, "/a") as a:
        for _ in range(100):
            match draw.choice(("write", "write", "truncate", "sync", "crash")):
                case "write":
                    tree.write(a, draw.randbytes(draw.randrange(1, 50)), draw.randrange(200))
                case "truncate":
                    tree.truncate(a, draw.randrange(200))
                case "sync":
                    tree.sync(a)
                    synced = Path(tree.root, "a").read_bytes()
                case "crash":
                    tree.crash()
                    assert Path(tree.root, "a").read_bytes() == synced


def test_no_descriptors_are_kept_when_all_is_synced_or_lost(tree: ForgetfulTree) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    for number in range(10):
        _durable(tree, f"/{number}", b"x")
        with _opened(tree, f"/{number}") as descriptor:
            tree.write(descriptor, b"y", 1)
        tree.rename(f"/{number}", f"/renamed-{number}")
    tree.crash()
    assert len(list(Path("/proc/self/fd").iterdir())) == before
