"""Several directories as one tree: a name's prefix selects the directory."""

from __future__ import annotations

import pytest

from broker.core.ports.files import StorageError
from broker.shell.files.joined_files import JoinedFiles
from broker.shell.files.posix_files import PosixFiles


@pytest.fixture
def files(tmp_path):
    return JoinedFiles([PosixFiles(tmp_path / "a"), PosixFiles(tmp_path / "b")])


def test_plain_names_lie_in_the_first_directory_and_numbered_ones_in_theirs(files, tmp_path):
    files.append("orders-0/x", b"first")
    files.append("1/orders-1/x", b"second")
    files.replace("1/small", b"third")
    assert (tmp_path / "a/orders-0/x").read_bytes() == b"first"
    assert (tmp_path / "b/orders-1/x").read_bytes() == b"second"
    assert (tmp_path / "b/small").read_bytes() == b"third"
    assert (files.list(""), files.list("1"), files.list("1/orders-1")) == (["orders-0"], ["orders-1", "small"], ["x"])
    assert files.read("1/orders-1/x", 1, 3) == b"eco"
    assert (files.size("1/orders-1/x"), files.size("orders-1/x")) == (6, 0)


def test_files_are_cut_renamed_synced_and_deleted_where_they_are(files, tmp_path):
    files.append("1/d/x", b"123456")
    files.sync("1/d/x")
    files.truncate("1/d/x", 2)
    files.rename("1/d/x", "1/d/y")
    assert (tmp_path / "b/d/y").read_bytes() == b"12"
    files.delete("1/d")
    assert files.list("1") == []


def test_nothing_is_renamed_from_one_directory_to_another(files):
    files.append("x", b"1")
    with pytest.raises(StorageError, match="expected 1/x to be in the log directory of x"):
        files.rename("x", "1/x")


def test_an_error_bears_the_whole_name(files, tmp_path):
    (tmp_path / "b/d").write_text("in the way")
    with pytest.raises(StorageError, match=r"cannot append to .*/b/d/x: ENOTDIR") as caught:
        files.append("1/d/x", b"1")
    assert caught.value.name == "1/d/x"


def test_a_directory_that_could_not_be_opened_refuses_everything(tmp_path):
    files = JoinedFiles([PosixFiles(tmp_path / "a"), StorageError("no such disk")])
    files.append("x", b"1")
    for refused in (lambda: files.list("1"), lambda: files.size("1/x"), lambda: files.append("1/x", b"")):
        with pytest.raises(StorageError, match="no such disk") as caught:
            refused()
        assert caught.value.name.startswith("1")
