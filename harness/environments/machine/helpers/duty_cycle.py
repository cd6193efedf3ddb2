"""Throttles a process group: lets it run for some percent of the time.

`python -m harness.environments.machine.helpers.duty_cycle GROUP PERCENT`.

It alternates SIGSTOP and SIGCONT with a period of a hundred milliseconds. A processor quota would not affect a process
that is mostly idle, and needs a control group, which a plain user may not create. On SIGTERM it leaves the group
running; it exits when the group has ended.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time

PERIOD_S = 0.1


def main() -> None:
    """Stop and continue the group until SIGTERM."""
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
