"""Describes an exception in one line that a user can act on."""

from __future__ import annotations

_OURS = ("harness", "simulation", "nemesis", "workloads", "checkers", "reports", "history", "naming", "broker")


def describe(error: BaseException) -> str:
    """Return the message of an error of Harrow's own types; name the type of any other error, too."""
    if is_own_error(error):
        return str(error)
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def is_own_error(error: BaseException) -> bool:
    """Whether the exception's type is one of this project's."""
    return type(error).__module__.split(".")[0] in _OURS
