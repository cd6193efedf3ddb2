"""Lets a process group run for a part of the time.

`python -m harness.environments.machine.helpers.duty_cycle GROUP PERCENT`.

SIGSTOP and SIGCONT in turns, a hundred milliseconds a turn. A processor quota would not hurt a process that is mostly
idle, and needs a control group that a plain user may not make. On SIGTERM the group is left running; this process ends
when the group is gone.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time

PERIOD_S = 0.1


def main() -> None:
    """Take turns until told to end."""
    group, percent = int(sys.argv[1]), int(sys.argv[2])

    def end(*_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGCONT)
        sys.exit(0)

    signal.signal(signal.SIGTERM, end)
    runs_s = PERIOD_S * percent / 100
    with contextlib.suppress(ProcessLookupError):
        while True:
            os.killpg(group, signal.SIGSTOP)
            time.sleep(PERIOD_S - runs_s)
            os.killpg(group, signal.SIGCONT)
            time.sleep(runs_s)


if __name__ == "__main__":
    main()
