"""Exit statuses of the command `harrow`."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """What the exit status tells a script."""

    VALID = 0
    ANOMALIES = 1
    USAGE = 2  # the command is wrong, or asks for what is not here; nothing was started
    UNKNOWN = 3  # could not be decided, or was interrupted
    FAILED = 4  # the harness could not do its work


VERDICTS = {"valid": Exit.VALID, "invalid": Exit.ANOMALIES, "unknown": Exit.UNKNOWN}


def worst(verdicts: list[str]) -> Exit:
    """The status of several runs: an anomaly outweighs what could not be decided, which outweighs the valid."""
    severity = (Exit.ANOMALIES, Exit.UNKNOWN, Exit.VALID)
    return min((VERDICTS[verdict] for verdict in verdicts), key=severity.index, default=Exit.UNKNOWN)
