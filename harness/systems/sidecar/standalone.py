"""Runs a sidecar outside the broker's container: `python -m harness.systems.sidecar.standalone CONFIG.json PID`.

For a broker from an image in which nothing of ours can run. It is a process of the host machine, in the broker's
network; the readiness command runs in the container's file system.
"""

from __future__ import annotations

import contextlib
import shutil
import sys
from dataclasses import replace
from pathlib import Path

from harness.systems.sidecar.config import SidecarConfig
from harness.systems.sidecar.serve import serve


def main() -> None:
    """Serve until the process ends; return at once if it has ended already."""
    config, broker = SidecarConfig.load(Path(sys.argv[1])), int(sys.argv[2])
    if config.ready == "command":
        enter = (shutil.which("nsenter") or "nsenter", f"--target={broker}", "--mount", "--root", "--wd")
        config = replace(config, ready_command=(*enter, *config.ready_command))
    with contextlib.suppress(ProcessLookupError):
        serve(config, broker)


if __name__ == "__main__":
    main()
