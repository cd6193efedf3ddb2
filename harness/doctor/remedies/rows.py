"""A row of the table: what a trial met, on what machine, and what to do about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from harness.doctor.remedies.commands import Remedy
from harness.doctor.remedies.here import Here
from harness.environments.causes import Cause, Missing, NotRoot, Refused, TooLittle, Unfit

Predicate = Callable[[Cause, Here], bool]
Choice = Callable[[Cause, Here], Remedy]


@dataclass(frozen=True)
class Row:
    """One cause of one capability's absence."""

    name: str
    """Of the cause, e.g. device-closed."""
    words: str
    """What the cause is, for people."""
    holds: Predicate
    remedy: Remedy | Choice
    example: Cause
    """What a trial meets where this is the cause."""
    machine: Mapping[str, Any] = field(default_factory=dict)
    """How such a machine differs from `Here()`, for the document and the tests."""

    def choose(self, cause: Cause, here: Here) -> Remedy:
        """What to do on this machine."""
        return self.remedy if isinstance(self.remedy, Remedy) else self.remedy(cause, here)

    @property
    def here(self) -> Here:
        """A machine that has this cause."""
        return replace(Here(), **self.machine)


def first(rows: Sequence[Row], cause: Cause | None, here: Here) -> Row | None:
    """The first row that holds; None if none does, or nothing is known of the cause."""
    return next((row for row in rows if cause is not None and row.holds(cause, here)), None)


def anywhere(here: Here) -> bool:  # noqa: ARG001
    """Hold on every machine."""
    return True


def refused(what: str, *numbers: int, when: Callable[[Here], bool] = anywhere) -> Predicate:
    """Hold if a call whose description begins so was refused with one of these errors, on such a machine."""

    def holds(cause: Cause, here: Here) -> bool:
        return isinstance(cause, Refused) and cause.what.startswith(what) and cause.number in numbers and when(here)

    return holds


def missing(name: str) -> Predicate:
    """Hold if this was missing."""
    return lambda cause, here: isinstance(cause, Missing) and cause.name == name  # noqa: ARG005


def too_little(where: str = "") -> Predicate:
    """Hold if there was too little of something; `where`, if that is what matters."""
    return lambda cause, here: isinstance(cause, TooLittle) and where in ("", cause.where)  # noqa: ARG005


def unfit(what: str) -> Predicate:
    """Hold if this was there and could not be used."""
    return lambda cause, here: cause == Unfit(what)  # noqa: ARG005


def not_root(cause: Cause, here: Here) -> bool:  # noqa: ARG001
    """Hold if it takes root."""
    return isinstance(cause, NotRoot)


def any_of(*predicates: Predicate) -> Predicate:
    """Hold if one of these does."""
    return lambda cause, here: any(holds(cause, here) for holds in predicates)


def always(choose: Callable[[Here], Remedy]) -> Choice:
    """Choose by the machine alone."""
    return lambda cause, here: choose(here)  # noqa: ARG005
