"""Launching a node with its sidecar: a broker never runs without one."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from harness.systems.sidecar.config import SidecarConfig

ROOT = Path(__file__).parents[3]


def test_a_broker_whose_sidecar_cannot_be_imported_is_killed_with_the_reason(tmp_path: Path) -> None:
    config = SidecarConfig(
        node_id=1,
        role="broker",
        once=(),
        prepare=(),
        command=("sleep", "120"),
        environment={},
        directory=str(tmp_path),
        data=str(tmp_path / "data"),
        socket=str(tmp_path / "control"),
        address=("127.0.0.1", 1),
        nodes={},
        ready="kafka",
        ready_command=(),
    )
    (tmp_path / "attendant.json").write_text(config.dumps())
    done = subprocess.run(
        [sys.executable, "-S", "-m", "harness.systems.sidecar.launch", str(tmp_path / "attendant.json")],
        env={"PYTHONPATH": str(ROOT)},  # without the packages that Harrow needs
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == -signal.SIGKILL
    assert f"expected to import the sidecar with {sys.executable}, found: No module named 'kafka'" in done.stderr
