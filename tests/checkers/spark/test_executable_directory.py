from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from checkers import spark
from common import directories
from common.directories import directory_for_programs, may_execute


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> set[Path]:
    """Directories that count as mounted `noexec`, with all that is below them."""
    closed_directories: set[Path] = set()
    monkeypatch.setattr(
        directories,
        "may_execute",
        lambda directory: not any(directory.is_relative_to(closed) for closed in closed_directories),
    )
    monkeypatch.setattr(spark, "may_execute", directories.may_execute)
    return closed_directories


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    return tmp_path / "cache" / "harrow"


def test_the_directory_is_usually_that_for_temporary_files(cache: Path, tmp_path: Path) -> None:
    assert directory_for_programs() == tmp_path / "temporary"
    assert not cache.exists()


def test_where_temporary_files_cannot_be_executed_it_is_the_cache(
    cache: Path, closed: set[Path], tmp_path: Path
) -> None:
    closed.add(tmp_path / "temporary")
    assert directory_for_programs() == cache
    libraries = spark._for_libraries(tmp_path / "temporary" / "scratch")
    assert libraries.parent == cache
    closed.add(tmp_path / "cache")
    assert directory_for_programs() is None
    assert spark._for_libraries(tmp_path / "temporary" / "scratch") == tmp_path / "temporary" / "scratch"


def test_a_directory_that_will_do_is_not_left(cache: Path, tmp_path: Path) -> None:
    scratch = tmp_path / "temporary" / "scratch"
    scratch.mkdir()
    assert spark._for_libraries(scratch) == scratch


@pytest.mark.root
def test_the_kernel_says_what_is_mounted_noexec(tmp_path: Path) -> None:
    """In a mount namespace of its own, whose mounts end with it."""
    code = (
        "import sys; from pathlib import Path; from common.directories import may_execute; "
        f"print(may_execute(Path('/')), may_execute(Path({str(tmp_path)!r})))"
    )
    script = f'mount -t tmpfs -o noexec tmpfs {tmp_path} && exec "$0" -c "$1"'
    command = ["unshare", "--mount", "sh", "-c", script, sys.executable, code]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=dict(os.environ))
    assert done.stdout.split() == ["True", "False"], done.stderr
    assert may_execute(tmp_path)
