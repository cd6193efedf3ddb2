"""The tool that compiles the simulator. (It compares the compiled copy with the source itself, seed by seed.)"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_a_folder_that_holds_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("keep me")
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "compile_simulation.py", tmp_path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "name another folder" in done.stderr
    assert (tmp_path / "letter.txt").read_text() == "keep me"
