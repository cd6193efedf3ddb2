"""Simulates seeds around a real run until one has the run's incident.

A simulation is judged twice. The simulator's own checks see every step, and name the cause by it. And its history and
samples are judged as those of a real run are, by what clients lost: a mistake that the simulator sees early may look
otherwise from outside. The incident is the same if either judgement finds it.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from history.schema import ANOMALIES
from incidents import Incident, diagnose
from incidents.likeness import harms, harms_of, is_like
from simulation.invariants.observer import property_observers
from simulation.lifting.real_run import RealRun
from simulation.lifting.variations import case_of
from simulation.runs import stored
from simulation.runs.failures import SimulationFinding, findings, lost_records
from simulation.runs.pool import Pool
from simulation.scenario import case as cases
from simulation.scenario.case import Case
from simulation.scenario.phases import SimulationOutcome
from simulation.workload import tables
from simulation.workload.clients import TOPIC
from simulation.workload.sampling import ReplicaSampler

TASK_S_MAX = 600.0
"""The time limit of one seed, in seconds: on a busy machine a search is to find what it finds on another."""


class Attempt(NamedTuple):
    """The result of one seed."""

    seed: int
    found: str
    """The property or anomaly that was found first; empty if nothing was."""
    shown_by: SimulationFinding | None
    """The finding that shows the incident; None if the simulation does not have it."""


@dataclass
class Hunt:
    """What was tried, and the seed that was found."""

    seeds: int = 0
    hit: Attempt | None = None
    troubled: int = 0
    """Seeds whose process died or took too long."""
    others: Counter[str] = field(default_factory=Counter)
    """Seeds in which something else failed, by what failed first."""


def hunt(
    run: RealRun,
    seeds: Iterable[int],
    jobs: int,
    *,
    stopped: Callable[[], bool] = lambda: False,
    on_progress: Callable[[Hunt], None] = lambda _: None,
) -> Hunt:
    """Simulate seeds in their order until one has the incident, or until stopped; the lowest that has it counts.

    One job is this process.
    """
    result = Hunt()
    wanted = takewhile(lambda _: result.hit is None and not stopped(), seeds)
    for tried in _attempts(run, wanted, jobs):
        result.seeds += 1
        if tried is None:
            result.troubled += 1
        elif tried.shown_by is not None:
            result.hit = tried if result.hit is None or tried.seed < result.hit.seed else result.hit
        elif tried.found:
            result.others[tried.found] += 1
        on_progress(result)
    return result


def _attempts(run: RealRun, seeds: Iterable[int], jobs: int) -> Iterator[Attempt | None]:
    """Try seeds, in any order if there are several jobs; None for one whose process died or took too long."""
    work = partial(attempt, run=run)
    if jobs == 1:
        yield from map(work, seeds)
        return
    with Pool[int, Attempt](work, jobs, TASK_S_MAX) as pool:
        for done in pool.run(seeds):
            yield done.result


def attempt(seed: int, run: RealRun) -> Attempt:
    """Simulate one seed around a run, and look whether it has the run's incident."""
    sampler = ReplicaSampler()
    case = case_of(run, seed)
    outcome = cases.run(case, property_observers(), (sampler,), to_the_end=True)
    found = findings(outcome)
    first = found[0].property_id if found else ""
    shown_by = _showing(run.incident, found)
    if shown_by is None:
        return Attempt(seed, first, None)
    with tempfile.TemporaryDirectory(prefix="harrow-lift-") as scratch:
        is_it = any(is_like(run.incident, one) for one in _as_clients_see_it(Path(scratch), outcome, sampler))
        is_it = is_it or any(is_like(run.incident, one) for one in _as_simulated(Path(scratch), case))
    return Attempt(seed, first, shown_by if is_it else None)


def same_incident(run: RealRun, case: Case) -> bool:
    """Whether a simulation has the incident of a run, by either judgement."""
    sampler = ReplicaSampler()
    outcome = cases.run(case, property_observers(), (sampler,), to_the_end=True)
    with tempfile.TemporaryDirectory(prefix="harrow-lift-") as scratch:
        judged = [*_as_clients_see_it(Path(scratch), outcome, sampler), *_as_simulated(Path(scratch), case)]
    return any(is_like(run.incident, one) for one in judged)


def _showing(incident: Incident, found: Sequence[SimulationFinding]) -> SimulationFinding | None:
    """The first finding that does the incident's harm."""
    wanted = harms_of(incident)
    return next((finding for finding in found if harms([finding.property_id]) & wanted), None)


def _as_simulated(scratch: Path, case: Case) -> list[Incident]:
    """The incidents by the simulator's own checks."""
    directory = scratch / "simulated"
    directory.mkdir()
    stored.store(directory, case)
    return diagnose(directory)


def _as_clients_see_it(scratch: Path, outcome: SimulationOutcome, sampler: ReplicaSampler) -> list[Incident]:
    """The incidents by what clients lost, and by what samples show of the nodes."""
    lost = lost_records(outcome)
    if not lost:
        return []
    directory = scratch / "seen"
    (directory / "anomalies").mkdir(parents=True)
    tables.write(directory, "0", [tables.Recorded("seen", stored.NAME, outcome, sampler.samples)])
    rows = [{"run_id": "seen", "topic": TOPIC, "within_contract": False, **one._asdict()} for one in lost]
    pq.write_table(pa.Table.from_pylist(rows, schema=ANOMALIES), directory / "anomalies" / "part-0.parquet")
    return diagnose(directory)
