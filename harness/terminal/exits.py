"""Exit statuses of the command `harrow`."""

from __future__ import annotations

from enum import IntEnum


class ExitStatus(IntEnum):
    """Exit status, for scripts."""

    VALID = 0
    ANOMALIES = 1
    USAGE = 2  # the command is wrong, or needs what is not installed; nothing was started
    UNKNOWN = 3  # could not be decided, or was interrupted
    FAILED = 4  # the harness failed


VERDICTS = {"valid": ExitStatus.VALID, "invalid": ExitStatus.ANOMALIES, "unknown": ExitStatus.UNKNOWN}


def worst(verdicts: list[str]) -> ExitStatus:
    """The exit status of several runs: an anomaly outweighs an undecided run, which outweighs a valid one."""
    severity = (ExitStatus.ANOMALIES, ExitStatus.UNKNOWN, ExitStatus.VALID)
    return min((VERDICTS[verdict] for verdict in verdicts), key=severity.index, default=ExitStatus.UNKNOWN)


_OURS = (
    "harrow",
    "harness",
    "simulation",
    "nemesis",
    "workloads",
    "checkers",
    "reports",
    "incidents",
    "history",
    "common",
    "broker",
)


def describe(error: BaseException) -> str:
    """Return the message of an error of Harrow's own types; name the type of any other error, too."""
    if is_own_error(error):
        return str(error)
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def is_own_error(error: BaseException) -> bool:
    """Whether the exception's type is one of this project's."""
    return type(error).__module__.split(".")[0] in _OURS
