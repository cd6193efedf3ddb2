"""Parses lists of faults for a simulation: its own kinds, those of real clusters, families, `usual`, `none`, `all`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from common.names import unknown
from nemesis.faults import KINDS, USUAL
from nemesis.faults.base import Family
from nemesis.faults.families import ALL, FAMILIES, PARTITION
from nemesis.schedule import parts
from simulation.faults.translation import SIMULATED
from simulation.scenario.configuration import FAULTS

_OWN: Final[Mapping[str, Family]] = {
    "stall": "network",
    "late-metadata": "network",
    "lossy-restart": "page-cache",
    "torn-append": "disk",
    "min-isr": "administration",
    "change-min-isr": "administration",
    "move-leader": "administration",
    "elect-unclean": "administration",
    "shrink-replicas": "administration",
    "cancel-reassignment": "administration",
    "add-partition": "administration",
    "delete-records": "administration",
}
"""The families of kinds that only the simulation has; the others have the family of the real kind that they replace."""

_GROUPS: Final = ("usual", "none", *FAMILIES, ALL)


class NotSimulated(ValueError):
    """A kind of fault that the simulation does not have. One line."""


def family_members(family: str) -> tuple[str, ...]:
    """The simulation's kinds of a family, in their own order."""
    if family == PARTITION:
        cutting = {SIMULATED[name].kind for name in FAMILIES[PARTITION] if name in SIMULATED}
        return tuple(kind for kind in FAULTS if kind in cutting)
    return tuple(kind for kind in FAULTS if family in _families(kind))


def _families(kind: str) -> set[str]:
    meant = {str(KINDS[name].family) for name, simulated in SIMULATED.items() if simulated.kind == kind}
    return meant or {_OWN[kind]}


def chosen(text: str, *, leave_out: bool = False) -> tuple[str, ...] | None:
    """The simulation's kinds for the text of `--faults`; None for `all`: each seed decides.

    Raises `ValueError` for an unknown name, and `NotSimulated` for a kind that only real clusters have, unless
    `leave_out` drops such kinds.
    """
    given = [word.strip() for word in text.split(",") if word.strip()]
    if ALL in given:
        return None
    if "none" in given and len(given) > 1:
        raise ValueError(f"faults: expected none alone, found {','.join(given)}")
    return tuple(dict.fromkeys(kind for word in given for kind in _kinds(word, leave_out=leave_out)))


def _kinds(word: str, *, leave_out: bool) -> Sequence[str]:
    if word == "none":
        return ()
    if word == "usual":
        return [SIMULATED[name].kind for name in USUAL if name in SIMULATED]
    if word in FAMILIES:
        return family_members(word)
    return [kind for part in parts(word) for kind in _kind(part, leave_out=leave_out)]


def _kind(name: str, *, leave_out: bool) -> Sequence[str]:
    if name in SIMULATED:
        return [SIMULATED[name].kind]
    if name in FAULTS:
        return [name]
    if name in KINDS and leave_out:
        return []
    if name in KINDS:
        raise NotSimulated(f"faults: expected a fault that the simulation has too, found {name}")
    known = [*FAULTS, *SIMULATED, *_GROUPS]
    raise ValueError(f"faults: {unknown(name, known, 'a fault of the simulation', '`harrow faults`')}")
