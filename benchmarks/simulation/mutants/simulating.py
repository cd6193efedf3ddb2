"""Simulates seeds: with probes in the correct broker, and with a mutant, in a process of its own."""

from __future__ import annotations

import functools
import json
import os
import resource
import signal
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from benchmarks.simulation.mutants.making import Mutant, mutated_functions
from benchmarks.simulation.mutants.planting import plant
from benchmarks.simulation.mutants.probes import Instrumented, instrumented
from simulation.invariants.properties import is_documented
from simulation.runs.sweep import SeedResult, simulate
from simulation.scenario.search import USUAL
from tests.broker.without_rules.processes import MEMORY_BYTES, NOT_APPLIED, forked

SEED_S_MAX = 15.0
"""Of processor time for one seed, which takes some tenths of a second: a mutant may go on for ever."""

Known = tuple[tuple[str, str], ...]
"""Layer and property of each finding of the correct broker in a seed."""


class ProbedSeed(NamedTuple):
    """What the correct broker did in a seed."""

    seed: int
    findings: Known
    reached: tuple[int, ...]
    """Numbers of the mutants whose changed part was carried out."""
    acted: tuple[int, ...]
    """Numbers of those that would have acted differently there."""
    digest: str = ""
    """The hash over all its events and draws."""


class ProbeTask(NamedTuple):
    """A seed, and the search that says what it means."""

    seed: int
    search: str = USUAL


class NotNeutral(Exception):
    """The probes have changed what a seed does."""


@functools.cache
def _instrumented() -> Instrumented:
    return instrumented(list(mutated_functions()))


def probe(task: ProbeTask) -> ProbedSeed:
    """Simulate a seed without probes and with them. Raises NotNeutral if the results are not the same."""
    seed, search = task
    plain = _simulated(seed, search)
    result, found = _instrumented().probing(lambda: _simulated(seed, search))
    if result != plain:
        raise NotNeutral(f"seed {seed}: expected hash {plain.digest}, found {result.digest} with probes")
    return ProbedSeed(seed, _known(plain), tuple(sorted(found.reached)), tuple(sorted(found.acted)), plain.digest)


def _simulated(seed: int, search: str) -> SeedResult:
    return simulate(seed, {"search": search}, observed=True)


def _known(result: SeedResult) -> Known:
    return tuple((finding.layer.value, finding.property_id) for finding in result.findings)


class HuntTask(NamedTuple):
    """A mutant, and the seeds in which it acts differently, with what the correct broker shows in them."""

    mutant: Mutant
    seeds: Mapping[int, Known]
    search: str = USUAL
    digests: Mapping[int, str] = MappingProxyType({})
    """The hash of each seed with the correct broker."""


FINDING, TIME_OUT, DIED, NOT_PLANTED = "finding", "time-out", "died", "not-planted"


class HuntResult(NamedTuple):
    """What the simulator showed of a mutant. `how` is "" if nothing; `seed` is the last one that was begun."""

    mutant: str
    how: str
    seed: int
    seeds: int
    """The number of seeds that were begun."""
    layer: str = ""
    property_id: str = ""
    what: str = ""
    other_courses: int = 0
    """Of the seeds that were ended, how many have another event, message or draw than with the correct broker."""
    spent_s: float = 0.0
    """Of processor time."""


def hunt(task: HuntTask) -> HuntResult:
    """Simulate seeds with the mutant until one shows a failure that the correct broker does not show in that seed."""
    return in_process(lambda tell: _hunted(task, tell), task)


def _hunted(task: HuntTask, tell: Callable[[list[object]], None]) -> int:
    parent, begun_s = os.getppid(), time.process_time()
    try:
        plant(task.mutant)
    except Exception:
        return NOT_APPLIED
    for seed, known in task.seeds.items():
        if os.getppid() != parent:
            return NOT_APPLIED  # the command was ended
        tell([seed])
        signal.setitimer(signal.ITIMER_PROF, SEED_S_MAX)
        result = _simulated(seed, task.search)
        signal.setitimer(signal.ITIMER_PROF, 0)
        tell([seed, int(result.digest != task.digests.get(seed)), time.process_time() - begun_s])
        for finding in result.findings:
            if not is_documented(finding.what) and (finding.layer.value, finding.property_id) not in known:
                tell([seed, finding.layer.value, finding.property_id, finding.what])
                return 0
    return 0


def in_process(work: Callable[[Callable[[list[object]], None]], int], task: HuntTask) -> HuntResult:
    """Do the work in a process of its own, which tells when each seed begins and ends, and then perhaps a finding."""
    reading, writing = os.pipe()

    def child() -> int:
        os.close(reading)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        return work(lambda row: _write(writing, row))

    pid = forked(child)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        rows = [json.loads(line) for line in pipe]
    _, status = os.waitpid(pid, 0)
    return _result(task, rows, os.waitstatus_to_exitcode(status))


def _write(writing: int, row: list[object]) -> None:
    os.write(writing, json.dumps(row).encode() + b"\n")


def _result(task: HuntTask, rows: list[list[object]], status: int) -> HuntResult:
    begun = [int(str(row[0])) for row in rows if len(row) == 1]
    seed = begun[-1] if begun else 0
    ended = [row for row in rows if len(row) == 3]
    others = sum(bool(row[1]) for row in ended)
    spent_s = round(float(str(ended[-1][2])), 1) if ended else 0.0
    result = HuntResult(task.mutant.id, "", seed, len(begun), other_courses=others, spent_s=spent_s)
    if status == NOT_APPLIED:
        return result._replace(how=NOT_PLANTED)
    if status == -signal.SIGPROF:
        return result._replace(how=TIME_OUT, what=f"not done after {SEED_S_MAX:g} s of processor time")
    if status:
        return result._replace(how=DIED, what=f"the process ended with {status}")
    if rows and len(rows[-1]) == 4:
        _, layer, property_id, what = map(str, rows[-1])
        return result._replace(how=FINDING, layer=layer, property_id=property_id, what=what)
    return result
