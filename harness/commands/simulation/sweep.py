"""Runs a sweep of seeds: shows progress, stores failures, has histories checked, prints a summary."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import click
from rich.console import Console
from rich.live import Live
from rich.text import Text

from harness.run.judging import need_java
from harness.run.stopping import Stop, on_signals
from harness.store.progress import ProgressFile
from harness.store.run_directories import StoreError, make_run_directory
from harness.store.run_names import of_simulation
from harness.terminal.exits import ExitStatus, describe
from simulation.runs import stored
from simulation.runs.checked_histories import CheckedRun, Named, check_histories, write_dataset
from simulation.runs.compiled_copy import Compiled, CopyChoice
from simulation.runs.marks import mark_lines
from simulation.runs.pool import cores
from simulation.runs.sweep import SeedResult, Tally, sweep, until
from simulation.scenario.case import Case
from simulation.scenario.overrides import repeat_command
from simulation.shrinking.needed import needed_within

INVALID_SHOWN = 10

SHOWN_EVERY_S = 0.5
PLAIN_EVERY_S = 10.0
FINDINGS_SHOWN = 3
NEEDED_S = 10.0
"""For each failure that is stored: no simulation begins later that tries which faults it needs."""


@dataclass(frozen=True)
class _SweepEnd:
    tally: Tally
    seconds: float
    interrupted: bool
    note: str | None
    """Why the sweep was not compiled, where that would have made it faster."""

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
    compiled: Compiled = Compiled.AUTO,
) -> ExitStatus:
    """Sweep, store failures, check histories, print the summary; the exit status.

    Raises `CannotCompile` if the sweep is to be `compiled` always and cannot.
    """
    if histories is not None:
        need_java()
        check_empty(histories)
    console = Console(stderr=True, highlight=False)
    stop = Stop()
    deadline_s = None if time_limit is None else time.monotonic() + time_limit
    mode = compiled if master is None else Compiled.NEVER
    title = f"{of_simulation(overrides)}, seeds {seeds[0]:,} to {seeds[-1]:,}"
    with ProgressFile(store, "sweep", title) as file, CopyChoice(mode, len(seeds), deadline_s) as copy:
        with on_signals(stop):
            if copy.must_build:
                file.tell("compile", "the simulator, about three minutes")
                console.print("compiling the simulator, which takes about three minutes", style="bold")
                copy.build(lambda: stop.requested)
            progress = _SweepProgress(console, len(seeds), deadline_s, file)
            ended = _swept(seeds, overrides, jobs or cores(), master, copy, stop, progress)
            copy.stop_building()
        file.tell("store", "failing seeds, with their reports")
        kept = _store(ended.tally.failures[:keep], overrides, store, check, copy, console)
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
        return ExitStatus.ANOMALIES
    return ExitStatus.UNKNOWN if ended.interrupted else ExitStatus.VALID


def _swept(
    seeds: Sequence[int],
    overrides: Mapping[str, object],
    jobs: int,
    master: str | None,
    copy: CopyChoice,
    stop: Stop,
    progress: _SweepProgress,
) -> _SweepEnd:
    began_s = time.monotonic()
    wanted = until(seeds, progress.deadline_s, lambda: stop.requested)
    tally = Tally()
    with progress:
        if master is None:
            results = sweep(wanted, overrides, jobs, copy=copy)
        else:
            from simulation.runs.spark_sweep import sweep_on_spark

            need_java()
            results = sweep_on_spark(wanted, overrides, master)
        for result in results:
            tally.add(result)
            progress.seen(result, tally, copy.note)
    return _SweepEnd(tally, time.monotonic() - began_s, stop.requested, copy.note)


class _SweepProgress:
    """Shows one live line on a terminal, else a line every ten seconds; failures as they come."""

    def __init__(self, console: Console, wanted: int, deadline_s: float | None, file: ProgressFile) -> None:
        self.deadline_s = deadline_s
        self._console = console
        self._wanted = wanted
        self._file = file
        self._began_s = self._shown_s = time.monotonic()
        self._findings_shown = 0
        self._note_shown: str | None = None
        self._live = Live(console=console, auto_refresh=False, transient=True) if console.is_terminal else None

    def __enter__(self) -> _SweepProgress:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def seen(self, result: SeedResult, tally: Tally, note: str | None) -> None:
        if note is not None and note != self._note_shown:  # at once: most of a long sweep is still to come
            self._note_shown = note
            self._console.print(Text(note, style="yellow"), soft_wrap=True)
        if result.findings and self._findings_shown < FINDINGS_SHOWN:
            self._findings_shown += 1
            self._console.print(Text(f"seed {result.seed}: {result.findings[0]}", style="red"), soft_wrap=True)
        now_s = time.monotonic()
        rate_s = tally.seeds / max(now_s - self._began_s, 1e-9)
        detail = f"{tally.seeds:,} of {self._wanted:,} seeds, {tally.failed:,} failed"
        self._file.tell("sweep", detail, *self._come(tally.seeds, rate_s, now_s))
        if now_s - self._shown_s < (PLAIN_EVERY_S if self._live is None else SHOWN_EVERY_S):
            return
        self._shown_s = now_s
        line = Text(
            f"{tally.seeds:,} of {self._wanted:,} seeds, {rate_s * 60:,.0f} a minute · "
            f"{tally.seeds - tally.failed:,} passed, {tally.failed:,} failed",
            style="cyan",
        )
        if self._live is not None:
            self._live.update(line, refresh=True)
        else:
            self._console.print(line, soft_wrap=True)

    def _come(self, seeds: int, rate_s: float, now_s: float) -> tuple[float, float]:
        """The share that is done, and the seconds to go, of the seeds or of the time, whichever ends first."""
        by_seeds = seeds / self._wanted, (self._wanted - seeds) / rate_s
        if self.deadline_s is None:
            return by_seeds
        limit_s, left_s = self.deadline_s - self._began_s, max(0.0, self.deadline_s - now_s)
        by_time = (1 - left_s / limit_s if limit_s > 0 else 1.0), left_s
        return min(by_seeds, by_time, key=lambda come: come[1])


def _store(
    failures: Sequence[SeedResult],
    overrides: Mapping[str, object],
    store: Path,
    check: bool,
    copy: CopyChoice,
    console: Console,
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
        case = Case(failure.seed, overrides)
        stored.store(directory, case, needs=partial(needed_within, NEEDED_S, case))
        kept[failure.seed] = directory
        if failure.compiled and stored.digest_in(directory) != failure.digest:
            why = f"seed {failure.seed}: hash {failure.digest} compiled, {stored.digest_in(directory)} plain"
            copy.reject(why)
            console.print(
                f"the compiled copy is wrong, and is not used again: {why}; repeat the sweep with --compiled never",
                style="red",
                soft_wrap=True,
            )
    if kept:
        _judge(list(kept.values()), check, console)
    return kept


def _judge(directories: Sequence[Path], check: bool, console: Console) -> None:
    from harness.run.judging import judge, write_report

    if check:
        console.print(f"Spark checks {len(directories)} histories", style="bold")
        try:
            judge(directories)
        except Exception as error:  # the sweep's own findings stand without Spark's
            console.print(f"not checked: {describe(error)}", style="yellow")
    for directory in directories:
        stored.write_results(directory, directory.name, stored.found_in(directory))
        write_report(directory, partial(console.print, style="yellow"))


def _print_summary(ended: _SweepEnd, overrides: Mapping[str, object], kept: Mapping[int, Path]) -> None:
    tally = ended.tally
    interrupted = ", interrupted" if ended.interrupted else ""
    click.echo(
        f"{tally.seeds:,} seeds in {ended.seconds:,.1f} s ({ended.seeds_a_minute:,.0f} a minute){interrupted}: "
        f"{tally.seeds - tally.failed:,} passed, {tally.failed:,} failed"
    )
    if tally.compiled:
        click.echo(f"  {tally.compiled:,} of the seeds were simulated by the compiled copy")
    if ended.note is not None:
        click.echo(f"  {ended.note}")
    if tally.documented:
        click.echo(f"  {tally.documented:,} of the failures are documented flaws of the protocol version")
    for (layer, property_id), count in tally.by_property.most_common():
        click.echo(f"  {count:>6,}  {property_id}  ({layer})")
    for failure in tally.failures:
        click.echo(f"seed {failure.seed}: {failure.findings[0]}")
        where = f"; stored in {kept[failure.seed]}" if failure.seed in kept else ""
        click.echo(f"  hash {failure.digest}; {repeat_command(['sim', '--seed', str(failure.seed)], overrides)}{where}")
    for line in mark_lines(tally.marks, tally.seeds, overrides.get("generation")):
        click.echo(line)


def _data(ended: _SweepEnd, kept: Mapping[int, Path]) -> dict[str, object]:
    tally = ended.tally
    return {
        "seeds": tally.seeds,
        "compiled": tally.compiled,
        "not_compiled": ended.note,
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


class JudgedSweep(NamedTuple):
    """The checkers' verdicts, by seed."""

    directory: Path
    by_seed: Mapping[int, CheckedRun]

    @property
    def invalid(self) -> Mapping[int, CheckedRun]:
        """The seeds whose histories have anomalies."""
        return {seed: one for seed, one in self.by_seed.items() if one.anomalies}


def check_empty(directory: Path) -> None:
    """Raises `click.UsageError` if the directory is not empty: the parts of two sweeps would be mixed."""
    if directory.exists() and any(directory.iterdir()):
        raise click.UsageError(f"--histories: expected an empty directory, found {directory} with something in it")


def judge_histories(
    seeds: Sequence[int], overrides: Mapping[str, object], directory: Path, console: Console
) -> JudgedSweep:
    """Simulate seeds without observers, write the clients' histories, and have Spark check them.

    Raises `harness.run.stopping.Failed` without Java.
    """
    console.print(f"Spark checks the histories of {len(seeds)} seeds", style="bold")
    names = {f"seed-{seed}": seed for seed in seeds}
    write_dataset(directory, (Named(name, Case(seed, overrides)) for name, seed in names.items()))
    judgements = check_histories(directory)
    return JudgedSweep(directory, {seed: judgements[name] for name, seed in names.items()})


def print_judged(judged: JudgedSweep, overrides: Mapping[str, object]) -> None:
    """Print verdicts, anomalies by the number of seeds that show them, and the first seeds."""
    verdicts = Counter(one.verdict for one in judged.by_seed.values())
    counted = ", ".join(f"{count:,} {verdict}" for verdict, count in sorted(verdicts.items()))
    click.echo(f"histories in {judged.directory}: {counted}")
    for name, count in Counter(name for one in judged.invalid.values() for name in one.anomalies).most_common():
        click.echo(f"  {count:>6,}  {name}  (checkers)")
    for seed, one in list(judged.invalid.items())[:INVALID_SHOWN]:
        click.echo(
            f"seed {seed}: {', '.join(one.anomalies)}; {repeat_command(['sim', '--seed', str(seed)], overrides)}"
        )


def judged_data(judged: JudgedSweep) -> dict[str, object]:
    """The verdicts for the output in JSON."""
    return {
        "directory": str(judged.directory),
        "verdicts": dict(sorted(Counter(one.verdict for one in judged.by_seed.values()).items())),
        "anomalies": {str(seed): dict(one.anomalies) for seed, one in judged.invalid.items()},
    }
