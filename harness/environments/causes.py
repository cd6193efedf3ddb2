"""Typed causes of a failed probe. `harness.doctor.remedies` selects remedies by them."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Refused:
    """The operating system refused a call."""

    number: int
    """`errno`; 0 if unknown."""
    what: str
    """The system call, or its path argument."""

    @property
    def name(self) -> str:
        """The error's name, e.g. EACCES."""
        return errno.errorcode.get(self.number, str(self.number))


@dataclass(frozen=True)
class Missing:
    """Something is missing that a package would install."""

    kind: Literal["program", "Python package", "header", "file", "package lists"]
    name: str


@dataclass(frozen=True)
class NotRoot:
    """It needs root, and this process runs as a plain user."""


@dataclass(frozen=True)
class TooLittle:
    """Too little of a resource."""

    resource: Literal["memory", "disk", "tasks"]
    wanted: int
    """Bytes, or tasks."""
    found: int
    where: str = ""
    """A directory, or the source of the limit."""


@dataclass(frozen=True)
class Unfit:
    """Something exists but cannot be used."""

    what: str


Cause = Refused | Missing | NotRoot | TooLittle | Unfit

_KINDS: Mapping[str, type[Any]] = {kind.__name__: kind for kind in (Refused, Missing, NotRoot, TooLittle, Unfit)}


class Caused(Exception):
    """An error with a line for the user and a typed cause."""

    def __init__(self, line: object = "", cause: Cause | None = None) -> None:
        super().__init__(line)
        self.cause = cause


def cause_of(error: BaseException) -> Cause | None:
    """The cause of an error; None if it has none."""
    if isinstance(error, Caused):
        return error.cause
    if isinstance(error, OSError) and error.errno is not None:
        return Refused(error.errno, str(error.filename or ""))
    return None


def to_json(cause: Cause | None) -> dict[str, Any] | None:
    """Convert a cause to JSON values, for a pipe and for `harrow doctor --json`."""
    return None if cause is None else {"met": type(cause).__name__, **asdict(cause)}


def from_json(data: Mapping[str, Any] | None) -> Cause | None:
    """Convert the JSON values of `to_json` back to a cause."""
    if data is None:
        return None
    made: Cause = _KINDS[data["met"]](**{name: value for name, value in data.items() if name != "met"})
    return made
