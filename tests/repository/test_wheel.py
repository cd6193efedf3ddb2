"""The wheel has every module and every file of data of the packages, and nothing else."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from harness.shipped import SCHEDULES, SUITES, SYSTEMS
from simulation.directed.files import DIRECTED_SCHEDULES

ROOT = Path(__file__).parents[2]
PACKAGES = sorted(path.parent.name for path in ROOT.glob("*/py.typed"))


def sources() -> set[str]:
    """Files of the packages, but for what Python and compilers leave there."""
    left = {".pyc", ".so"}
    return {
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and path.suffix not in left
    }


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """What is in a wheel that was built from a copy."""
    copy, built = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    for package in (*PACKAGES, "tests"):
        shutil.copytree(ROOT / package, copy / package, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    done = subprocess.run([*build, "--wheel-dir", str(built), str(copy)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = built.glob("harrow-*.whl")
    return set(zipfile.ZipFile(wheel).namelist())


def test_every_file_of_the_packages_is_in_the_wheel(names: set[str]) -> None:
    assert sources() - names == set()


def test_nothing_else_is_in_the_wheel(names: set[str]) -> None:
    assert {name for name in names - sources() if ".dist-info/" not in name} == set()


def test_what_has_a_name_is_in_the_wheel(names: set[str]) -> None:
    shipped = [path for shelf in (SUITES, SYSTEMS, SCHEDULES, DIRECTED_SCHEDULES) for path in shelf.files().values()]
    assert {str(path.relative_to(ROOT)) for path in shipped} <= names
    assert len(shipped) > 70


def test_the_command_is_in_the_wheel(names: set[str]) -> None:
    assert any(name.endswith(".dist-info/entry_points.txt") for name in names)
