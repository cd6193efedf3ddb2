"""Why a mechanism could not be opened, as the trial met it. Remedies are chosen by this (`harness.doctor.remedies`)."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Refused:
    """The operating system refused a call."""

    number: int
    """`errno`; 0 if nothing is known of it."""
    what: str
    """The call, or the path that it was about."""

    @property
    def name(self) -> str:
        """The error's name, e.g. EACCES."""
        return errno.errorcode.get(self.number, str(self.number))


@dataclass(frozen=True)
class Missing:
    """Something is not there that a package would bring."""

    kind: Literal["program", "Python package", "header", "file", "package lists"]
    name: str


@dataclass(frozen=True)
class NotRoot:
    """It takes root, and this process is a plain user's."""


@dataclass(frozen=True)
class TooLittle:
    """There is too little of something."""

    resource: Literal["memory", "disk", "tasks"]
    wanted: int
    """Bytes, or tasks."""
    found: int
    where: str = ""
    """A directory, or what sets the limit."""


@dataclass(frozen=True)
class Unfit:
    """Something is there that cannot be used."""

    what: str


Cause = Refused | Missing | NotRoot | TooLittle | Unfit

_KINDS: Mapping[str, type[Any]] = {kind.__name__: kind for kind in (Refused, Missing, NotRoot, TooLittle, Unfit)}


class Caused(Exception):
    """An error that says, besides its line for people, what it met."""

    def __init__(self, line: object = "", cause: Cause | None = None) -> None:
        super().__init__(line)
        self.cause = cause


def cause_of(error: BaseException) -> Cause | None:
    """What an error met; None if it does not say."""
    if isinstance(error, Caused):
        return error.cause
    if isinstance(error, OSError) and error.errno is not None:
        return Refused(error.errno, str(error.filename or ""))
    return None


def to_json(cause: Cause | None) -> dict[str, Any] | None:
    """A cause as JSON values, for a pipe and for `harrow doctor --json`."""
    return None if cause is None else {"met": type(cause).__name__, **asdict(cause)}


def from_json(told: Mapping[str, Any] | None) -> Cause | None:
    """The cause that `to_json` made this of."""
    if told is None:
        return None
    made: Cause = _KINDS[told["met"]](**{name: value for name, value in told.items() if name != "met"})
    return made
