"""Which of the nodes' data a run keeps, and that copies of sparse files stay sparse."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from common.names import SpecError
from harness.environments.storage.sparse import copy_tree
from harness.store.node_data import prune, read_keep

MIB = 1 << 20
HARROW_1 = {"topic": "harrow", "partition": 1}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    for node in (1, 2):
        for partition in ("harrow-0", "harrow-1", "my-topic-12", "__cluster_metadata-0"):
            directory = tmp_path / "nodes" / str(node) / "data" / partition
            directory.mkdir(parents=True)
            (directory / "0.log").write_text(partition)
        (tmp_path / "nodes" / str(node) / "data" / "meta.properties").write_text("id")
        (tmp_path / "nodes" / str(node) / "node.log").write_text("a line")
    return tmp_path


def left(run: Path, node: int = 1) -> set[str]:
    data = run / "nodes" / str(node) / "data"
    assert (run / "nodes" / str(node) / "node.log").exists(), "logs are always kept"
    return {path.name for path in data.iterdir()} if data.exists() else set()


EVERYTHING = {"harrow-0", "harrow-1", "my-topic-12", "__cluster_metadata-0", "meta.properties"}


@pytest.mark.parametrize(
    ("keep", "verdict", "violations", "expected"),
    [
        ("failing", "valid", [], set()),
        ("failing", "invalid", [HARROW_1], {"harrow-1", "__cluster_metadata-0", "meta.properties"}),
        ("failing", "invalid", [HARROW_1, {"topic": None, "partition": None}], EVERYTHING),
        ("failing", "invalid", [], EVERYTHING),
        ("failing", "unknown", [], EVERYTHING),
        ("failing", None, [], EVERYTHING),
        ("all", "valid", [], EVERYTHING),
        ("none", "invalid", [HARROW_1], set()),
        ("none", None, [], set()),
    ],
)
def test_what_is_kept(keep: str, verdict: str | None, violations: list, expected: set[str], run: Path) -> None:
    prune(run, read_keep(f"nodes={keep}"), verdict, violations)
    assert left(run) == left(run, 2) == expected


def test_data_that_are_elsewhere_are_not_removed(run: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "precious").write_text("x")
    (run / "nodes" / "3").mkdir()
    (run / "nodes" / "3" / "data").symlink_to(elsewhere)
    prune(run, "none", "valid", [])
    assert (elsewhere / "precious").exists()


@pytest.mark.parametrize("text", ["failing", "nodes", "nodes=", "nodes=some", "logs=all", ""])
def test_a_wrong_value_is_one_line(text: str) -> None:
    with pytest.raises(SpecError, match=r"^keep: expected .*found"):
        read_keep(text)


def test_a_copy_has_the_bytes_the_mode_and_the_holes(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "deep").mkdir(parents=True)
    index = source / "deep" / "0.index"
    with index.open("wb") as file:
        file.truncate(10 * MIB)
        file.write(b"begin")
        file.seek(7 * MIB)
        file.write(b"middle")
    index.chmod(0o640)
    (source / "full.log").write_bytes(os.urandom(3 * MIB + 5))
    (source / "empty").touch()
    (source / "hole").touch()
    os.truncate(source / "hole", MIB)
    (source / "link").symlink_to("full.log")
    target = tmp_path / "target"
    copy_tree(source, target)
    for path in (index, source / "full.log", source / "empty", source / "hole"):
        copied = target / path.relative_to(source)
        assert copied.read_bytes() == path.read_bytes()
        assert copied.stat().st_mode == path.stat().st_mode
    assert (target / "link").readlink() == Path("full.log")
    if index.stat().st_blocks * 512 < MIB:  # else the file system of this machine keeps no holes
        assert (target / "deep" / "0.index").stat().st_blocks * 512 < MIB
        assert (target / "hole").stat().st_blocks * 512 < MIB
