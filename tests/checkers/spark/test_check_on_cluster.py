"""Checking on a Spark master that is named: the same results as in this process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import harness
from tests.checkers.histories import History
from tests.support.spark_cluster import standalone

ROOT = Path(harness.__file__).parent.parent


def histories(directory: Path) -> list[Path]:
    """A run in which a record is lost, one in which none is, and a foreign history."""
    lost, whole = History("lost"), History("whole")
    for history in (lost, whole):
        history.written([100, 101])
    lost.final([100])
    whole.final([100, 101])
    foreign = directory / "history.jsonl"
    lines = [
        {"process": 0, "type": "ok", "f": "send", "value": [["send", "x", 0, "a"], ["send", "x", 1, "b"]]},
        {"process": 1, "type": "ok", "f": "poll", "value": [["poll", [["x", [[0, "a"], [1, "ghost"]]]]]]},
    ]
    foreign.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return [lost.write(directory), whole.write(directory), foreign]


def checked(files: list[Path], *options: str) -> list[dict[str, Any]]:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from harness.commands.cli import main; main()",
            "check",
            "--json",
            *options,
            *map(str, files),
        ],
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 1, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.spark
@pytest.mark.slow
def test_a_check_on_a_cluster_finds_the_same(tmp_path: Path) -> None:
    files = histories(tmp_path)
    with standalone(tmp_path) as master:
        found = checked(files, "--master", master)
    assert [entry["kinds"] for entry in found] == [
        ["lost-acked-write"],
        [],
        ["inconsistent-offset", "lost-acked-write", "phantom-read"],
    ]
    assert found[0]["verdict"] == found[2]["verdict"] == "invalid"
    assert found[0]["counts"]["lost-acked-write"] == 1
