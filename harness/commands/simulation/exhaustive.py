"""`harrow sim --exhaustive`: searches every order of events of small models."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import click

from harness.terminal.exits import Exit
from simulation.exhaustive import models
from simulation.exhaustive.search import (
    SearchLimits,
    SearchResult,
    SearchVerdict,
    counterexample,
    result_data,
    result_table,
    search,
)
from simulation.exhaustive.spec import ModelSpec
from simulation.runs.pool import cores


def run_exhaustive(
    settings: Sequence[str],
    *,
    generation: str | None = None,
    flaws: Sequence[str] = (),
    jobs: int | None = None,
    time_limit: float | None = None,
    trace: bool = False,
    as_json: bool = False,
) -> Exit:
    """Search and print the results; the exit status. `time_limit` in seconds per model. Raises `click.UsageError`."""
    try:
        specs = models.specs_of(generation, flaws, settings)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    found = []
    for one in _searched(specs, SearchLimits(seconds=time_limit or 0.0), jobs or cores()):
        found.append(one)
        if not as_json:
            click.echo(f"{one.spec.name}: {one.states:,} states in {one.seconds:.1f} s", err=True)
    if as_json:
        click.echo(json.dumps([result_data(one) for one in found], indent=2))
    else:
        _print_found(found, trace=trace)
    if any(one.verdict is SearchVerdict.VIOLATED for one in found):
        return Exit.ANOMALIES
    return Exit.UNKNOWN if any(one.verdict is SearchVerdict.STOPPED for one in found) else Exit.VALID


def _searched(specs: Sequence[ModelSpec], limits: SearchLimits, jobs: int) -> Iterator[SearchResult]:
    """Search each model in a process of its own, so that the memory of its tables is freed at the end."""
    with ProcessPoolExecutor(min(jobs, len(specs)), get_context("spawn"), max_tasks_per_child=1) as pool:
        futures = [pool.submit(search, spec, limits) for spec in specs]
        try:
            for future in futures:
                yield future.result()
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _print_found(found: Sequence[SearchResult], *, trace: bool) -> None:
    for line in result_table(found):
        click.echo(line)
    states = sum(one.states for one in found)
    click.echo(f"\n{states:,} distinct states of {len(found)} {'model' if len(found) == 1 else 'models'}")
    for one in found:
        if one.verdict is SearchVerdict.VIOLATED and (trace or len(found) == 1):
            click.echo(f"\n{one.spec.name}: {one.spec.title()}")
            for line in counterexample(one):
                click.echo(line)
