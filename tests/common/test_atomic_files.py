"""Replacing a file: several threads may do it at once, and a block that fails leaves it as it was."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from common.atomic_files import replacing


def test_threads_that_replace_a_file_at_once_do_not_get_in_each_others_way(tmp_path: Path) -> None:
    path, together = tmp_path / "file", threading.Barrier(4)

    def replace(content: str) -> None:
        with replacing(path) as temporary:
            temporary.write_text(content)
            together.wait(20)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(replace, ("a", "b", "c", "d")))
    assert path.read_text() in "abcd"
    assert list(tmp_path.iterdir()) == [path]


def test_a_block_that_fails_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(UnicodeEncodeError), replacing(path) as temporary:
        temporary.write_text("new \udcff")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
