"""Draws simulations around a real run: its configuration, and its faults varied in time, target and number.

A seed decides all of it: what the run does not fix is drawn as for any seed, and how its faults are varied comes from
the stream of schedules, which a simulation with a given schedule does not use.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from nemesis.schedule import ScheduledFault
from nemesis.targets import FaultTarget
from simulation.engine.choices import ChoiceSequence, Stream
from simulation.faults.shared_kinds import BEGIN_MS, simulated_fault
from simulation.lifting.real_run import RealRun, StruckNode
from simulation.scenario.case import Case
from simulation.scenario.configuration import RECIPES, SimulatedFault

WAYS: Final = (
    "as it was",
    "times varied by 0.3 s",
    "times varied by 0.3 s",
    "times and durations varied by 3 s",
    "times and durations varied by 3 s",
    "repeated",
    "repeated",
    "faults of the same kinds",
)
"""How a seed varies the run, one drawn for each; what is there twice is drawn twice as often."""

REPEATED_FOR_MS: Final = 55_000
_CALM_MS: Final = 10_000
_PAUSE_MS: Final = 4_000
_FIRST_MS: Final = 3_000
_INTERVAL_MS: Final = 2_000


def way_of(seed: int) -> str:
    """Return how a seed varies a run."""
    return WAYS[ChoiceSequence(seed)["schedule"].draw("way", len(WAYS))]


def case_of(run: RealRun, seed: int) -> Case:
    """Return the simulation that a seed stands for, around a run."""
    stream = ChoiceSequence(seed)["schedule"]
    way = WAYS[stream.draw("way", len(WAYS))]
    if not run.struck or way == "faults of the same kinds":
        kinds = tuple(dict.fromkeys(struck.entry.kind for struck in run.struck))
        drawn = {"faults": (*kinds, *RECIPES), "fault_interval_ms": _INTERVAL_MS, "search": "usual"}
        return Case(seed, {**run.overrides, **drawn})
    struck = _chosen(stream, run.struck)
    span_ms = max(one.entry.at_ms + one.entry.duration_ms for one in struck)
    times = max(1, REPEATED_FOR_MS // (span_ms + _PAUSE_MS)) if way == "repeated" else 1
    faults: list[SimulatedFault] = []
    for time in range(times):
        for entry in _varied(stream, struck, way, run):
            at_ms = entry.at_ms + time * (span_ms + _PAUSE_MS)
            faults.append(_simulated(replace(entry, at_ms=at_ms), run))
    duration_ms = BEGIN_MS + times * (span_ms + _PAUSE_MS) + _CALM_MS
    kinds = tuple(dict.fromkeys(fault.kind for fault in faults))
    overrides = {**run.overrides, "faults": kinds, "duration_ms": duration_ms, "search": "usual"}
    return Case(seed, overrides, faults=tuple(sorted(faults, key=lambda fault: fault.at_ms)))


def _chosen(stream: Stream, struck: tuple[StruckNode, ...]) -> list[StruckNode]:
    """All faults, or those of the cause with what overlaps them, in half of the seeds each."""
    guilty = [one for one in struck if one.guilty]
    if not guilty or stream.draw("only those of the cause", 2) == 0:
        return list(struck)
    from_ms = min(one.entry.at_ms for one in guilty)
    to_ms = max(one.entry.at_ms + one.entry.duration_ms for one in guilty)
    near = [one for one in struck if one.entry.at_ms <= to_ms and one.entry.at_ms + one.entry.duration_ms >= from_ms]
    begun_ms = min(one.entry.at_ms for one in near)
    return [one._replace(entry=replace(one.entry, at_ms=one.entry.at_ms - begun_ms)) for one in near]


def _varied(stream: Stream, struck: list[StruckNode], way: str, run: RealRun) -> list[ScheduledFault]:
    """Vary the faults; all on one node stay on one node, unless they were for a role."""
    brokers = int(str(run.overrides["brokers"]))
    if way == "as it was":
        return [replace(one.entry, at_ms=one.entry.at_ms + _FIRST_MS) for one in struck]
    by_role = stream.draw("by their roles", 2) == 0
    turned = stream.draw("other brokers", brokers)
    width_ms = 300 if way == "times varied by 0.3 s" else 3_000
    entries = []
    for one in struck:
        entry = one.entry
        target = one.role if by_role else entry.target
        if target.role == "broker":
            target = FaultTarget("broker", pick=(target.pick + turned) % brokers)
        elif target.role == "leader":
            target = FaultTarget("leader", (target.partition + turned) % 3)
        moved_ms = stream.draw("moved", 2 * width_ms) - width_ms
        lasts_ms = entry.duration_ms
        if width_ms > lasts_ms // 10:
            lasts_ms = max(1, lasts_ms + stream.draw("longer", 2 * min(width_ms, lasts_ms)) - min(width_ms, lasts_ms))
        at_ms = max(0, entry.at_ms + _FIRST_MS + moved_ms)
        entries.append(replace(entry, at_ms=at_ms, target=target, duration_ms=lasts_ms))
    return entries


def _simulated(entry: ScheduledFault, run: RealRun) -> SimulatedFault:
    return simulated_fault(entry, int(str(run.overrides["brokers"])), int(str(run.overrides["controllers"])))
