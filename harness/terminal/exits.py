"""Exit statuses of the command `harrow`."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """Exit status, for scripts."""

    VALID = 0
    ANOMALIES = 1
    USAGE = 2  # the command is wrong, or needs what is not installed; nothing was started
    UNKNOWN = 3  # could not be decided, or was interrupted
    FAILED = 4  # the harness failed


VERDICTS = {"valid": Exit.VALID, "invalid": Exit.ANOMALIES, "unknown": Exit.UNKNOWN}


def worst(verdicts: list[str]) -> Exit:
    """The exit status of several runs: an anomaly outweighs an undecided run, which outweighs a valid one."""
    severity = (Exit.ANOMALIES, Exit.UNKNOWN, Exit.VALID)
    return min((VERDICTS[verdict] for verdict in verdicts), key=severity.index, default=Exit.UNKNOWN)
