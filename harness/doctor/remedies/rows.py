"""Defines a row of the table of remedies: the cause that a probe found, on which machines, and what to do about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from harness.doctor.remedies.commands import Remedy
from harness.doctor.remedies.here import MachineState
from harness.environments.causes import Cause, Missing, NotRoot, Refused, TooLittle, Unfit

Predicate = Callable[[Cause, MachineState], bool]
RemedyFactory = Callable[[Cause, MachineState], Remedy]


@dataclass(frozen=True)
class RemedyRow:
    """One cause for the absence of one capability."""

    name: str
    """Name of the cause, e.g. fuse-closed."""
    words: str
    """Description of the cause, for users."""
    holds: Predicate
    remedy: Remedy | RemedyFactory
    example: Cause
    """What a probe reports where this is the cause."""
    machine: Mapping[str, Any] = field(default_factory=dict)
    """How such a machine differs from the default `MachineState()`, for the documentation and the tests."""

    def choose(self, cause: Cause, here: MachineState) -> Remedy:
        """The remedy for this machine."""
        return self.remedy if isinstance(self.remedy, Remedy) else self.remedy(cause, here)

    @property
    def here(self) -> MachineState:
        """A machine that has this cause."""
        return replace(MachineState(), **self.machine)


def first(rows: Sequence[RemedyRow], cause: Cause | None, here: MachineState) -> RemedyRow | None:
    """The first row that applies; None if none does, or the cause is unknown."""
    return next((row for row in rows if cause is not None and row.holds(cause, here)), None)


def anywhere(here: MachineState) -> bool:  # noqa: ARG001
    """Return True on every machine."""
    return True


def refused(what: str, *numbers: int, when: Callable[[MachineState], bool] = anywhere) -> Predicate:
    """A predicate: a call whose description starts with `what` failed with one of these errors, on such a machine."""

    def holds(cause: Cause, here: MachineState) -> bool:
        return isinstance(cause, Refused) and cause.what.startswith(what) and cause.number in numbers and when(here)

    return holds


def missing(name: str) -> Predicate:
    """A predicate: this was missing."""
    return lambda cause, here: isinstance(cause, Missing) and cause.name == name  # noqa: ARG005


def too_little(where: str = "") -> Predicate:
    """A predicate: there was too little of a resource, at `where` if that is given."""
    return lambda cause, here: isinstance(cause, TooLittle) and where in ("", cause.where)  # noqa: ARG005


def unfit(what: str) -> Predicate:
    """A predicate: this was present but unusable."""
    return lambda cause, here: cause == Unfit(what)  # noqa: ARG005


def not_root(cause: Cause, here: MachineState) -> bool:  # noqa: ARG001
    """A predicate: root is required."""
    return isinstance(cause, NotRoot)


def any_of(*predicates: Predicate) -> Predicate:
    """A predicate: one of these holds."""
    return lambda cause, here: any(holds(cause, here) for holds in predicates)


def always(choose: Callable[[MachineState], Remedy]) -> RemedyFactory:
    """A remedy that depends on the machine alone."""
    return lambda cause, here: choose(here)  # noqa: ARG005
