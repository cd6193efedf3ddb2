"""An attendant by itself: `python -m harness.systems.sidecar.standalone ORDERS.json PID`.

For a broker in a container of somebody's image, where nothing of ours can run. It is a process of the machine outside,
in the broker's network; what asks whether the broker is ready is run among the broker's files.
"""

from __future__ import annotations

import contextlib
import shutil
import sys
from dataclasses import replace
from pathlib import Path

from harness.systems.sidecar.config import SidecarConfig
from harness.systems.sidecar.serve import attend


def main() -> None:
    """Attend the process until it ends; one that has ended already needs nobody."""
    orders, broker = SidecarConfig.load(Path(sys.argv[1])), int(sys.argv[2])
    if orders.ready == "command":
        enter = (shutil.which("nsenter") or "nsenter", f"--target={broker}", "--mount", "--root", "--wd")
        orders = replace(orders, ready_command=(*enter, *orders.ready_command))
    with contextlib.suppress(ProcessLookupError):
        attend(orders, broker)


if __name__ == "__main__":
    main()
