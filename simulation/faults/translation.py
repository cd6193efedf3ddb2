"""Translates a schedule for real nodes into faults of a simulation.

Roles become those of the simulation: a leader and the active controller are resolved when the fault fires, any other
role is one node, chosen by the entry's pick. Times count from the earliest time of a simulated fault.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from common.names import unknown
from nemesis.schedule import Schedule, ScheduledFault, ScheduleError
from simulation.engine.disk import Survival
from simulation.faults.schedule import SimulatedFault
from simulation.scenario.case import Case
from simulation.scenario.configuration import draw_configuration

BEGIN_MS = 2_000
"""The time until which the simulation sets up the cluster."""

_LEADERS = 3  # selectors beyond the nodes: leaders of the first partitions, then the active controller
_PARAMETERS = 1_000
_OUTWARDS = 512


class _Simulated(NamedTuple):
    kind: str
    parameter: Callable[[ScheduledFault, int], int]  # of the entry and the number of nodes


def _pick(entry: ScheduledFault, _nodes: int) -> int:
    return entry.target.pick % _PARAMETERS


def _everybody(entry: ScheduledFault, nodes: int) -> int:
    """Nodes that lose power, as bits; all of them keep what they had written (as `kill` does)."""
    return (1 << nodes) - 1 if entry.target.role in ("everyone", "brokers", "majority") else 0


def _parties(entry: ScheduledFault, _nodes: int) -> int:
    return int(entry.parameters.get("from", "all") == "all")


def _direction(entry: ScheduledFault, _nodes: int) -> int:
    return _OUTWARDS if entry.parameters.get("direction") == "out" else 0


def _survival(survival: Survival) -> Callable[[ScheduledFault, int], int]:
    return lambda _entry, _nodes: survival - 1


def _delay(entry: ScheduledFault, _nodes: int) -> int:
    return min(_PARAMETERS - 1, int(entry.parameters.get("delay-ms", "50")))


SIMULATED: Mapping[str, _Simulated] = {
    "kill": _Simulated("kill", _pick),
    "pause": _Simulated("pause", _pick),
    "restart": _Simulated("restart", _pick),
    "power-cut": _Simulated("power-cut", _everybody),
    "isolate": _Simulated("isolate", _parties),
    "halves": _Simulated("halves", lambda _entry, _nodes: 0),
    "one-way": _Simulated("one-way", _direction),
    "brokers-from-controllers": _Simulated("controllers-from-brokers", _pick),
    "connection-resets": _Simulated("break-connections", _pick),
    "page-cache-loss": _Simulated("lossy-kill", _survival(Survival.NOTHING)),
    "torn-page-cache-loss": _Simulated("lossy-kill", _survival(Survival.TORN)),
    "bit-flip": _Simulated("bit-flip", _pick),
    "disk-loss": _Simulated("disk-loss", _pick),
    "disk-error": _Simulated("failing-disk", _pick),
    "slow-disk": _Simulated("slow-fsync", _delay),
    "clock-jump": _Simulated("clock-jump", _pick),
    "reassignment": _Simulated("reassign", _pick),
    "preferred-election": _Simulated("elect-preferred", _pick),
}
"""Kinds of fault for real nodes that the simulation has too, by name."""


def simulated(schedule: Schedule, case: Case) -> tuple[SimulatedFault, ...]:
    """The schedule's faults for a case. Raises `ScheduleError` for a kind that the simulation does not have."""
    configuration = draw_configuration(case.choices()["configuration"], case.overrides)
    brokers, controllers = configuration.brokers, configuration.controllers
    return tuple(_fault(entry, brokers, controllers) for entry in schedule.entries)


def _fault(entry: ScheduledFault, brokers: int, controllers: int) -> SimulatedFault:
    if entry.kind not in SIMULATED:
        raise ScheduleError(
            f"entry {entry.entry} of the schedule: {unknown(entry.kind, SIMULATED, 'a fault that the simulation has')}"
        )
    nodes = brokers + controllers
    wanted = SIMULATED[entry.kind]
    target = _selector(entry, brokers, controllers)
    parameter = wanted.parameter(entry, nodes)
    return SimulatedFault(BEGIN_MS + entry.at_ms, wanted.kind, target, entry.duration_ms, parameter, entry.when)


def _selector(entry: ScheduledFault, brokers: int, controllers: int) -> int:
    role, pick = entry.target.role, entry.target.pick
    if role == "leader":
        return brokers + controllers + min(entry.target.partition, _LEADERS - 1)
    if role == "active-controller":
        return brokers + controllers + _LEADERS
    if role == "controller":
        return brokers + pick % controllers
    return pick % brokers
