"""Harrow works from a folder that has packages of the same names as ours."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from harness.environments.machine.own_python import module_command, module_of
from harness.exits import Exit

OURS = ("broker", "checkers", "harness", "history", "naming", "nemesis", "reports", "workloads")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A user's folder whose packages must not be imported."""
    for name in OURS:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"raise ImportError('the user''s {name} was imported')\n")
    return tmp_path


def test_a_module_command_is_known_for_what_it_runs() -> None:
    assert module_of(module_command("broker.shell", "-P", "x")) == ("broker.shell", ["-P", "x"])
    assert module_of([sys.executable, "-m", "one"]) == ("one", [])
    assert module_of([sys.executable, "one.py", "-m"]) is None
    assert module_of([sys.executable]) is None


@pytest.mark.cluster
@pytest.mark.spark
def test_a_run_is_made_and_judged_in_a_folder_with_packages_of_our_names(folder: Path) -> None:
    command = module_command("harness", "run", "--duration", "4", "--faults", "pause", "--seed", "1")
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=280)
    assert done.returncode in (Exit.VALID, Exit.UNKNOWN), done.stderr
    assert "the user" not in done.stderr
    assert (folder / "store" / "latest" / "report.html").exists()
