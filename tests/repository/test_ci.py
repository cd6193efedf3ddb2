"""CI ends with an error for whatever fails, also where the shell goes on by itself: inside of a list of commands."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

CI = Path(__file__).parents[2] / ".ci" / "run"


@pytest.mark.parametrize(
    ("failing", "again", "passes"),
    [
        pytest.param((), 0, True, id="nothing fails"),
        pytest.param(("demo",), 0, False, id="the demo"),
        pytest.param(("test-all", "lint"), 0, False, id="lint"),
        pytest.param(("test-all",), 1, False, id="a test, twice"),
        pytest.param(("test-all",), 0, True, id="a test, once"),
    ],
)
def test_what_fails_fails_for_a_plain_user(tmp_path: Path, failing: tuple[str, ...], again: int, passes: bool) -> None:
    script = tmp_path / ".ci" / "run"
    script.parent.mkdir()
    shutil.copy(CI, script)
    bin_path = tmp_path / "bin"
    programs = {
        bin_path / "id": "echo 1000",
        bin_path / "make": f'case " {" ".join(failing)} " in *" $1 "*) exit 1;; esac',
        tmp_path / ".venv" / "bin" / "python": f"exit {again}",
    }
    for path, body in programs.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
    path = os.pathsep.join([str(bin_path), os.environ["PATH"]])
    ran = subprocess.run(
        ["bash", str(script)], env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False
    )
    assert (ran.returncode == 0, "all passed" in ran.stdout) == (passes, passes), ran.stdout + ran.stderr
