"""`harrow sim`: simulates whole clusters, for one seed or many, or searches every order of events of small models."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

import click

from harness.commands.shared import store_option
from harness.commands.simulation.one import run_case, run_file
from harness.commands.simulation.sweep import run_sweep
from harness.shipped import SCHEDULES
from harness.terminal.exits import ExitStatus
from nemesis.schedule_file import loads_file
from simulation.directed.files import DIRECTED_SCHEDULES
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
from simulation.faults.shared_kinds import simulated
from simulation.runs.compiled_copy import Compiled
from simulation.runs.pool import cores
from simulation.scenario.case import Case
from simulation.scenario.overrides import check_overrides, faults_of, parse_overrides

_Command = TypeVar("_Command", bound=Callable[..., Any])
_SEEDS = re.compile(r"(\d+):(\d+)")
_TIME = re.compile(r"(\d+(?:\.\d+)?)([smh]?)")


class TimeLimit(click.ParamType[float]):
    """A duration: 90, 90s, 10m, 2h; converted to seconds."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:  # noqa: ANN401
        """See `click.ParamType.convert`."""
        found = _TIME.fullmatch(str(value))
        if found is None:
            self.fail(f"expected a length of time like 90, 90s, 10m or 2h, found {value!r}", param, ctx)
        return float(found[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[found[2]]


class SeedRange(click.ParamType[range]):
    """A range of seeds A:B, both included."""

    name = "seeds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> range:  # noqa: ANN401
        """See `click.ParamType.convert`."""
        found = _SEEDS.fullmatch(str(value))
        if found is None or int(found[1]) > int(found[2]):
            self.fail(f"expected the first and the last seed, like 1:1000, found {value!r}", param, ctx)
        return range(int(found[1]), int(found[2]) + 1)


def configuration_flags(command: _Command) -> _Command:
    """Add the flags that set parts of the configuration."""
    for option in (
        click.option(
            "--set",
            "settings_given",
            multiple=True,
            metavar="KEY=VALUE",
            help="Set one part of the configuration instead of drawing it; see docs/guide/simulation.md. Repeatable.",
        ),
        click.option(
            "--faults",
            metavar="LIST",
            help="Faults or families of them, with commas; or usual, none, or all: each seed decides (the default).",
        ),
        click.option("--flaw", "flaws", multiple=True, metavar="NAME", help="A flaw; see `harrow flaws`. Repeatable."),
        click.option(
            "--generation",
            metavar="NAME",
            help="Protocol version of the brokers: K1 to K5 (K5, the latest); on ZooKeeper zk-v1, zk-v2, C1 to C3.",
        ),
        click.option(
            "--client", metavar="NAME", help="What sends and reads: model (the default), or aiokafka, the real library."
        ),
        click.option(
            "--search",
            metavar="NAME",
            help="What the seeds are: usual (the default), dense, focused, alone, mixed; see docs/reference/search.md.",
        ),
    ):
        command = option(command)
    return command


def overrides_of(
    generation: str | None,
    flaws: tuple[str, ...],
    given: tuple[str, ...],
    faults: str | None,
    client: str | None,
    search: str | None,
) -> dict[str, object]:
    """The parts of the configuration that flags set. Raises `click.UsageError`."""
    try:
        overrides = parse_overrides(given)
        if faults is not None:
            overrides |= faults_of(faults)
        if generation is not None:
            overrides["generation"] = generation
        if flaws:
            overrides["flaws"] = flaws
        if client is not None:
            overrides["client"] = client
        if search is not None:
            overrides["search"] = search
        check_overrides(overrides)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    return overrides


def _script(faults: str) -> Path | None:
    """The schedule of faults that `--faults` names; None if it names faults. Raises `SpecError`."""
    if faults.endswith((".toml", ".json")) or SCHEDULES.name_of(faults) is not None:
        return SCHEDULES.find(faults)
    return None


def _played(named: str) -> Path:
    """The file of a schedule in steps, or a choice file. Raises `SpecError`."""
    if DIRECTED_SCHEDULES.name_of(named) is None and SCHEDULES.name_of(named) is not None:
        return SCHEDULES.find(named)  # loading it then fails with the right command
    return DIRECTED_SCHEDULES.find(named)


@click.command("sim", short_help="Simulate clusters; a seed decides everything.")
@click.option("--seeds", type=SeedRange(), metavar="A:B", help="Sweep: all seeds from A to B.")
@click.option("--seed", type=click.IntRange(min=0), metavar="N", help="One seed, in detail.")
@click.option(
    "--schedule", "named", metavar="NAME|FILE", help="A schedule in steps, see `harrow schedules`, or a choice file."
)
@click.option(
    "--exhaustive", is_flag=True, help="Every order of events of small models; see docs/reference/exhaustive.md."
)
@click.option("--trace", is_flag=True, help="With one seed or schedule: one line per transition.")
@configuration_flags
@click.option("--jobs", type=click.IntRange(min=1), metavar="N", help="Processes of a sweep (one per core).")
@click.option("--master", metavar="URL", help="Spread a sweep over a Spark cluster: local[2], spark://host:7077.")
@click.option("--time-limit", type=TimeLimit(), metavar="TIME", help="Begin no seed after this time: 90, 10m, 2h.")
@click.option("--keep", type=click.IntRange(min=0), default=10, show_default=True, help="Failing seeds to store.")
@click.option("--check/--no-check", default=True, help="Have Spark check the stored histories too (on).")
@store_option
@click.option(
    "--histories",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="With a sweep: write the clients' histories of all seeds here, and have Spark check them in one job.",
)
@click.option(
    "--compiled",
    type=click.Choice([mode.value for mode in Compiled]),
    default=Compiled.AUTO.value,
    show_default=True,
    help="Whether a sweep runs a copy compiled by mypyc, which a long one makes; see docs/guide/simulation.md.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON on standard output.")
def sim(
    seeds: range | None,
    seed: int | None,
    named: str | None,
    faults: str | None,
    exhaustive: bool,
    trace: bool,
    generation: str | None,
    flaws: tuple[str, ...],
    settings_given: tuple[str, ...],
    client: str | None,
    search: str | None,
    compiled: str,
    **how: Any,  # noqa: ANN401
) -> None:
    """Simulate controllers, brokers, clients and faults in one process, and check every step of it.

    The same seed is the same simulation, on every machine. --set replaces what the seed would draw.

    \b
    harrow sim --seeds 1:1000                         a sweep on all cores; failing seeds go into the store
    harrow sim --seeds 1:100000 --time-limit 10m      as many as it gets done in ten minutes
    harrow sim --seed 17                              one seed: its configuration, its faults, its hash
    harrow sim --seed 17 --trace                      … and every transition, one line each
    harrow sim --seeds 1:200 --generation K3          the protocol before KIP-966: some acknowledged writes get lost
    harrow sim --seeds 1:100 --generation zk-v1       the first design on ZooKeeper: two ways to lose such writes
    harrow sim --seeds 1:100 --generation zk-v2       the second one, with queues of requests and epochs
    harrow sim --seeds 1:100 --generation C1          the controller on ZooKeeper; C2 and C3 add leader epochs
    harrow sim --seeds 1:200 --flaw ack-before-replication
    harrow sim --seeds 1:200 --histories all          all clients' histories, checked on Spark
    harrow sim --seeds 1:200 --set brokers=5 --faults process,isolate
    harrow sim --seeds 1:1000 --search mixed          … with more faults, closer together: finds more a second
    harrow sim --seeds 1:50 --client aiokafka         the real library sends and reads, on simulated time and network
    harrow shrink 17 --generation K3                  the smallest simulation that still fails, as a choice file
    harrow sim --schedule shrunk-17.json --trace      … and that file, run
    harrow sim --seed 17 --faults script.toml         … under the faults of a schedule for `harrow run`
    harrow sim --schedule unclean-election            how one flaw does its harm, step by step
    harrow replay store/latest                        does a stored run happen again, event by event?
    harrow sim --exhaustive                           every order of events of the predefined models
    harrow sim --exhaustive --flaw eager-shrink       the shortest counterexample of a flaw

    Exit status: 0 nothing failed, 1 something did, 2 usage, 3 interrupted before the end, 4 --compiled always failed.
    """  # noqa: D301 (\b is for click)
    if sum(given is not None for given in (seeds, seed, named, exhaustive or None)) != 1:
        raise click.UsageError("expected one of --seeds, --seed, --schedule and --exhaustive")
    if compiled == Compiled.ALWAYS and (seeds is None or how["master"] is not None):
        raise click.UsageError("--compiled always is for sweeps on this machine: expected --seeds, and no --master")
    if exhaustive:
        if faults is not None:
            raise click.UsageError("--exhaustive has its own events: expected --set, found --faults")
        if client is not None:
            raise click.UsageError("--exhaustive has no clients of this kind: expected no --client")
        if search is not None:
            raise click.UsageError("--exhaustive tries every order of events: expected no --search")
        wanted = {name: how[name] for name in ("jobs", "time_limit", "as_json")}
        sys.exit(run_exhaustive(settings_given, generation=generation, flaws=flaws, trace=trace, **wanted))
    script = None if faults is None else _script(faults)
    if script is not None and seed is None:
        raise click.UsageError("--faults FILE is for one seed: expected --seed")
    overrides = overrides_of(generation, flaws, settings_given, None if script is not None else faults, client, search)
    if seeds is not None:
        if trace:
            raise click.UsageError("--trace shows one seed: expected --seed, found --seeds")
        sys.exit(run_sweep(seeds, overrides, compiled=Compiled(compiled), **how))
    if seed is not None:
        case = Case(seed, overrides)
        if script is not None:
            case = replace(case, faults=simulated(loads_file(script), case))
        sys.exit(run_case(case, trace=trace, as_json=how["as_json"]))
    assert named is not None
    if overrides:
        raise click.UsageError("a schedule file has all settings: expected no other settings")
    sys.exit(run_file(_played(named), trace=trace, as_json=how["as_json"], store=how["store"]))


def run_exhaustive(
    settings: Sequence[str],
    *,
    generation: str | None = None,
    flaws: Sequence[str] = (),
    jobs: int | None = None,
    time_limit: float | None = None,
    trace: bool = False,
    as_json: bool = False,
) -> ExitStatus:
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
        return ExitStatus.ANOMALIES
    return ExitStatus.UNKNOWN if any(one.verdict is SearchVerdict.STOPPED for one in found) else ExitStatus.VALID


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
