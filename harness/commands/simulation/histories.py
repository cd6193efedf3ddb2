"""Checks the clients' histories of a whole sweep, as one data set, with the checkers on Spark in one job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import click
from rich.console import Console

from simulation.runs.checked_histories import CheckedRun, Named, check_histories, write_dataset
from simulation.scenario.case import Case
from simulation.scenario.overrides import repeat_command

INVALID_SHOWN = 10


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
