"""Runs a sweep of seeds: shows progress, stores failures, prints a summary."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import click
from rich.console import Console
from rich.live import Live
from rich.text import Text

from harness.commands.simulation.histories import check_empty, judge_histories, judged_data, print_judged
from harness.run.judging import need_java
from harness.run.stopping import Stop, on_signals
from harness.store.run_names import of_simulation
from harness.store.store import StoreError, make_run_directory
from harness.terminal.exits import Exit, describe
from simulation.runs import stored
from simulation.runs.pool import cores
from simulation.runs.sweep import SeedResult, Tally, mark_lines, sweep, until
from simulation.scenario.case import Case
from simulation.scenario.overrides import repeat_command

SHOWN_EVERY_S = 0.5
PLAIN_EVERY_S = 10.0
FINDINGS_SHOWN = 3


@dataclass(frozen=True)
class _Ended:
    tally: Tally
    seconds: float
    interrupted: bool

    @property
    def seeds_a_minute(self) -> float:
        return self.tally.seeds / self.seconds * 60 if self.seconds > 0 else 0.0


def run_sweep(
    seeds: Sequence[int],
    overrides: Mapping[str, object],
    *,
    jobs: int | None,
    master: str | None,
    time_limit: float | None,
    keep: int,
    check: bool,
    store: Path,
    histories: Path | None,
    as_json: bool,
) -> Exit:
    """Sweep, store failures, check histories, print the summary; the exit status."""
    if histories is not None:
        need_java()
        check_empty(histories)
    console = Console(stderr=True, highlight=False)
    stop = Stop()
    with on_signals(stop):
        ended = _swept(seeds, overrides, jobs or cores(), master, time_limit, stop, console)
    kept = _store(ended.tally.failures[:keep], overrides, store, check, console)
    judged = None
    if histories is not None:
        judged = judge_histories(seeds[: ended.tally.seeds], overrides, histories, console)
    if as_json:
        data = _data(ended, kept) | ({"histories": judged_data(judged)} if judged is not None else {})
        click.echo(json.dumps(data, indent=2))
    else:
        _print_summary(ended, overrides, kept)
        if judged is not None:
            print_judged(judged, overrides)
    if ended.tally.failed or (judged is not None and judged.invalid):
        return Exit.ANOMALIES
    return Exit.UNKNOWN if ended.interrupted else Exit.VALID


def _swept(
    seeds: Sequence[int],
    overrides: Mapping[str, object],
    jobs: int,
    master: str | None,
    time_limit: float | None,
    stop: Stop,
    console: Console,
) -> _Ended:
    began_s = time.monotonic()
    deadline_s = None if time_limit is None else began_s + time_limit
    wanted = until(seeds, deadline_s, lambda: stop.requested)
    tally = Tally()
    with _Progress(console, len(seeds)) as progress:
        if master is None:
            results = sweep(wanted, overrides, jobs)
        else:
            from simulation.runs.spark_sweep import sweep_on_spark

            need_java()
            results = sweep_on_spark(wanted, overrides, master)
        for result in results:
            tally.add(result)
            progress.seen(result, tally)
    return _Ended(tally, time.monotonic() - began_s, stop.requested)


class _Progress:
    """Shows one live line on a terminal, else a line every ten seconds; failures as they come."""

    def __init__(self, console: Console, wanted: int) -> None:
        self._console = console
        self._wanted = wanted
        self._began_s = self._shown_s = time.monotonic()
        self._findings_shown = 0
        self._live = Live(console=console, auto_refresh=False, transient=True) if console.is_terminal else None

    def __enter__(self) -> _Progress:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def seen(self, result: SeedResult, tally: Tally) -> None:
        if result.findings and self._findings_shown < FINDINGS_SHOWN:
            self._findings_shown += 1
            self._console.print(Text(f"seed {result.seed}: {result.findings[0]}", style="red"), soft_wrap=True)
        now_s = time.monotonic()
        if now_s - self._shown_s < (PLAIN_EVERY_S if self._live is None else SHOWN_EVERY_S):
            return
        self._shown_s = now_s
        rate = tally.seeds / (now_s - self._began_s) * 60
        line = Text(
            f"{tally.seeds:,} of {self._wanted:,} seeds, {rate:,.0f} a minute · "
            f"{tally.seeds - tally.failed:,} passed, {tally.failed:,} failed",
            style="cyan",
        )
        if self._live is not None:
            self._live.update(line, refresh=True)
        else:
            self._console.print(line, soft_wrap=True)


def _store(
    failures: Sequence[SeedResult], overrides: Mapping[str, object], store: Path, check: bool, console: Console
) -> dict[int, Path]:
    """Store failing seeds as runs, with the checkers' verdicts and a report; returns their directories."""
    kept: dict[int, Path] = {}
    for failure in failures:
        if not failure.digest:
            continue  # it killed its worker process, and would kill this one
        try:
            directory = make_run_directory(store, of_simulation(overrides), failure.seed)
        except StoreError as error:
            console.print(f"not stored: {error}", style="yellow", soft_wrap=True)
            break
        stored.store(directory, Case(failure.seed, overrides))
        kept[failure.seed] = directory
    if kept:
        _judge(list(kept.values()), check, console)
    return kept


def _judge(directories: Sequence[Path], check: bool, console: Console) -> None:
    from harness.run.judging import judge
    from harness.run.reporting import write_report

    if check:
        console.print(f"Spark checks {len(directories)} histories", style="bold")
        try:
            judge(directories)
        except Exception as error:  # the sweep's own findings stand without Spark's
            console.print(f"not checked: {describe(error)}", style="yellow")
    for directory in directories:
        stored.write_results(directory, directory.name, stored.found_in(directory))
        write_report(directory, partial(console.print, style="yellow"))


def _print_summary(ended: _Ended, overrides: Mapping[str, object], kept: Mapping[int, Path]) -> None:
    tally = ended.tally
    interrupted = ", interrupted" if ended.interrupted else ""
    click.echo(
        f"{tally.seeds:,} seeds in {ended.seconds:,.1f} s ({ended.seeds_a_minute:,.0f} a minute){interrupted}: "
        f"{tally.seeds - tally.failed:,} passed, {tally.failed:,} failed"
    )
    if tally.documented:
        click.echo(f"  {tally.documented:,} of the failures are documented flaws of the protocol version")
    for (layer, property_id), count in tally.by_property.most_common():
        click.echo(f"  {count:>6,}  {property_id}  ({layer})")
    for failure in tally.failures:
        click.echo(f"seed {failure.seed}: {failure.findings[0]}")
        where = f"; stored in {kept[failure.seed]}" if failure.seed in kept else ""
        click.echo(f"  hash {failure.digest}; {repeat_command(['sim', '--seed', str(failure.seed)], overrides)}{where}")
    for line in mark_lines(tally.marks, tally.seeds):
        click.echo(line)


def _data(ended: _Ended, kept: Mapping[int, Path]) -> dict[str, object]:
    tally = ended.tally
    return {
        "seeds": tally.seeds,
        "failed": tally.failed,
        "documented": tally.documented,
        "seconds": round(ended.seconds, 3),
        "seeds_a_minute": round(ended.seeds_a_minute, 1),
        "interrupted": ended.interrupted,
        "failed_by_property": {name: count for (_, name), count in tally.by_property.most_common()},
        "failures": [
            {
                "seed": failure.seed,
                "hash": failure.digest,
                "findings": [finding._asdict() for finding in failure.findings],
                "stored": str(kept[failure.seed]) if failure.seed in kept else None,
            }
            for failure in tally.failures
        ],
        "marks": dict(sorted(tally.marks.items())),
    }
