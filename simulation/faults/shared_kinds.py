"""Takes faults as real clusters have them: the names of `--faults`, and whole schedules.

The kinds have the same names in both; `nemesis.kinds` says which of them the simulation lacks, and which it has alone.
Roles of a schedule become those of the simulation: a leader and the active controller are resolved when the fault
fires, any other role is one node, chosen by the entry's pick. Times count from the earliest time of a simulated fault.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from common.names import unknown
from nemesis.faults import KINDS, USUAL
from nemesis.faults.families import ALL, FAMILIES, PARTITION
from nemesis.kinds import LISTED_KINDS
from nemesis.recipes import parts
from nemesis.schedule import Schedule, ScheduledFault, ScheduleError
from nemesis.targets import SAME
from simulation.engine.disk import Survival
from simulation.scenario.case import Case
from simulation.scenario.configuration import FAULTS, SimulatedFault
from simulation.scenario.search import configuration_of

BEGIN_MS = 2_000
"""The time until which the simulation sets up the cluster."""

SHARED: Final = tuple(kind for kind in KINDS if kind in FAULTS)
"""The kinds that real clusters have too."""

_GROUPS: Final = ("usual", "none", *FAMILIES, ALL)
_LEADERS = 3  # selectors beyond the nodes: leaders of the first partitions, then the active controller
_PARAMETERS = 1_000
_OUTWARDS = 512


class NotSimulated(ValueError):
    """A kind of fault that the simulation does not have. One line."""


def family_members(family: str) -> tuple[str, ...]:
    """The simulation's kinds of a family, in their own order."""
    if family == PARTITION:
        return tuple(kind for kind in FAULTS if kind in FAMILIES[PARTITION])
    return tuple(kind for kind in FAULTS if LISTED_KINDS[kind].family == family)


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
        return [kind for kind in USUAL if kind in SHARED]
    if word in FAMILIES:
        return family_members(word)
    if word in FAULTS:
        return [word]
    return [kind for part in parts(word) for kind in _kind(part, leave_out=leave_out)]


def _kind(name: str, *, leave_out: bool) -> Sequence[str]:
    if name in FAULTS:
        return [name]
    if name in KINDS and leave_out:
        return []
    if name in KINDS:
        raise NotSimulated(f"faults: expected a fault that the simulation has too, found {name}")
    raise ValueError(f"faults: {unknown(name, [*FAULTS, *_GROUPS], 'a fault of the simulation', '`harrow faults`')}")


# --- schedules -------------------------------------------------------------------------------------------------------


def _pick(entry: ScheduledFault, _nodes: int) -> int:
    return entry.target.pick % _PARAMETERS


def _everybody(entry: ScheduledFault, nodes: int) -> int:
    """Nodes that lose power, as bits; all of them keep what they had written (as `kill` does)."""
    return (1 << nodes) - 1 if entry.target.role in ("everyone", "brokers", "majority") else 0


def _parties(entry: ScheduledFault, _nodes: int) -> int:
    return int(entry.parameters.get("from", "all") == "all")


def _direction(entry: ScheduledFault, _nodes: int) -> int:
    return _OUTWARDS if entry.parameters.get("direction") == "out" else 0


def _delay(entry: ScheduledFault, _nodes: int) -> int:
    return min(_PARAMETERS - 1, int(entry.parameters.get("delay-ms", "50")))


_PARAMETER_OF: Mapping[str, Callable[[ScheduledFault, int], int]] = {
    "power-cut": _everybody,
    "isolate": _parties,
    "halves": lambda _entry, _nodes: 0,
    "one-way": _direction,
    "page-cache-loss": lambda _entry, _nodes: Survival.NOTHING - 1,
    "slow-disk": _delay,
}
"""Kind -> the parameter of a simulated fault, from the entry and the number of nodes; else it is the entry's pick."""


def simulated(schedule: Schedule, case: Case) -> tuple[SimulatedFault, ...]:
    """The schedule's faults for a case. Raises `ScheduleError` for a kind or role that the simulation lacks."""
    configuration = configuration_of(case.choices(), case.overrides)
    return tuple(simulated_fault(entry, configuration.brokers, configuration.controllers) for entry in schedule.entries)


def simulated_fault(entry: ScheduledFault, brokers: int, controllers: int) -> SimulatedFault:
    """An entry of a schedule for a cluster of this size. Raises `ScheduleError` for what the simulation lacks."""
    if entry.kind not in SHARED:
        raise ScheduleError(
            f"entry {entry.entry} of the schedule: {unknown(entry.kind, SHARED, 'a fault that the simulation has')}"
        )
    if entry.target.role == SAME:
        raise ScheduleError(
            f"entry {entry.entry} of the schedule: expected a role that the simulation has, found {SAME}"
        )
    target = _selector(entry, brokers, controllers)
    parameter = _PARAMETER_OF.get(entry.kind, _pick)(entry, brokers + controllers)
    return SimulatedFault(BEGIN_MS + entry.at_ms, entry.kind, target, entry.duration_ms, parameter, entry.when)


def _selector(entry: ScheduledFault, brokers: int, controllers: int) -> int:
    role, pick = entry.target.role, entry.target.pick
    if role == "leader":
        return brokers + controllers + min(entry.target.partition, _LEADERS - 1)
    if role == "active-controller":
        return brokers + controllers + _LEADERS
    if role == "controller":
        return brokers + pick % controllers
    return pick % brokers
