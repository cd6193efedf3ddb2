"""Runs the checkers on Spark over the histories of many simulations: one data set, one job."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple, TypeVar

from simulation.directed import play_schedule
from simulation.scenario import case as cases
from simulation.scenario.case import Case
from simulation.workload import tables
from simulation.workload.sampling import ReplicaSampler

RUNS_PER_PART = 20
"""Simulations whose rows share part files, and are in memory at a time."""

_Item = TypeVar("_Item")


class Named(NamedTuple):
    """A case, and the id of its run in the data set."""

    run_id: str
    case: Case


class Scheduled(NamedTuple):
    """A directed schedule with or without its flaw, and the id of its run in the data set."""

    run_id: str
    path: Path
    flawed: bool


class CheckedRun(NamedTuple):
    """The checkers' verdict on one run. `anomalies` are violations."""

    verdict: str
    anomalies: Mapping[str, int]


def write_part(directory: Path, part: str, named: Sequence[Named | Scheduled]) -> None:
    """Simulate cases without observers, or play schedules, and add their histories to a data set as one part."""
    tables.write(directory, part, [_recorded(one) for one in named])


def _recorded(named: Named | Scheduled) -> tables.Recorded:
    sampler = ReplicaSampler()
    if isinstance(named, Scheduled):
        outcome = play_schedule(named.path, flawed=named.flawed, recorders=(sampler,)).outcome
    else:
        outcome = cases.run(named.case, (), (sampler,))
    return tables.Recorded(named.run_id, named.run_id, outcome, sampler.samples)


def write_dataset(directory: Path, named: Iterable[Named | Scheduled]) -> None:
    """Add the histories of any number of cases and schedules to a data set."""
    for number, some in enumerate(_batches(named, RUNS_PER_PART)):
        write_part(directory, f"{number:06d}", some)


def check_histories(directory: Path) -> dict[str, CheckedRun]:
    """Have Spark check every run of a data set in one job; results by run id."""
    from checkers.check import check_dataset

    return {
        result.run_id: CheckedRun(
            result.verdict,
            {name: count.violations for name, count in result.anomalies.items() if count.violations},
        )
        for result in check_dataset(directory, acknowledged_min=1)
    }


def _batches(items: Iterable[_Item], size: int) -> Iterator[list[_Item]]:
    source = iter(items)
    while batch := list(islice(source, size)):
        yield batch
