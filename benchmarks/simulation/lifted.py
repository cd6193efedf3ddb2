"""Makes short real runs of brokers with known flaws, and lifts each one that is invalid into the simulator.

    python -m benchmarks.simulation.lifted --store /tmp/lifted                         the runs, their check, the table
    python -m benchmarks.simulation.lifted --store /tmp/lifted --time-limit 3m --page docs/reference/flaws.md

Each run is a local cluster for up to 45 seconds under faults that bring its flaw out. All are checked in one Spark job.
Runs that the store has already are neither made nor checked again, so that a search can be repeated alone. A run in
which the flaw did not show is a row, too. Each search has one process. About half an hour on two cores.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import click

from harness.commands.simulation.sim import TimeLimit
from harness.store.run_directories import runs
from simulation.lifting import hunt, real_run
from simulation.lifting.variations import way_of

RATE: Final = 120
FIRST_SEED: Final = 1_920_001
DEPOSED: Final = "".join(
    f'[[fault]]\nat = {at}\nkind = "isolate"\ntarget = "leader"\npartition = {partition}\nlasts = 6\n'
    'parameters = { from = "nodes" }\n\n'
    for partition, at in enumerate((2, 12, 22))
)
"""Leaders lose touch with the cluster, but not with their clients."""

LAGGING: Final = """\
[[fault]]
at = 2
kind = "pause"
target = "in-sync-follower"
lasts = 5.5

[[fault]]
at = 7
kind = "kill"
target = "in-sync-replicas"
lasts = 6
beside = true
"""
"""A follower leaves the ISR; as it comes back, all replicas that have all records are taken away."""

_SCHEDULES: Final[Mapping[str, str]] = {"deposed": DEPOSED, "lagging": LAGGING}
_DEPOSED, _LAGGING = "--schedule deposed --duration 30", "--schedule lagging --duration 16"
_LAST = "--schedule last-replica-standing --duration 32"
_OFTEN = "--faults kill,isolate --interval 3 --duration 45"

RUNS: Final[Mapping[str, str]] = {
    "ack-before-replication": _DEPOSED,
    "unclean-election": _LAGGING,
    "high-watermark-from-log-end": _DEPOSED,
    "read-above-high-watermark": _DEPOSED,
    "registration-changes-nothing": _LAST,
    "unclean-stays-eligible": _LAST,
    "eligible-never-emptied": "--faults kill,pause,isolate --interval 3 --duration 45",
    "keep-last-in-sync": _LAST,
    "min-isr-unchecked": f"--generation K3 {_LAST}",
    "producers-not-replicated": _OFTEN,
    "uncertain-end-offset": _OFTEN,
    "truncate-to-high-watermark": _OFTEN,
    "eager-shrink": "--faults isolate,one-way,kill --interval 3 --duration 45",
    "leader-ignores-isr-updates": "--faults kill,isolate,pause --interval 4 --duration 30",
    "believe-fetch-offset": _OFTEN,
    "logs-not-compared": "--faults kill,isolate,one-way --interval 3 --duration 45",
}
"""Flaw → the options of a run that can show it."""

_BEGIN, _END = "<!-- lifted -->", "<!-- end of lifted -->"


class Lifted(NamedTuple):
    """What became of one real run."""

    flaw: str
    incident: str
    """Its gravest anomaly and the kinds of its cause; empty if the run is not invalid."""
    found: str
    seconds: float
    """Processor time of the search."""
    simulations: int

    @property
    def row(self) -> str:
        """The row of the table."""
        if not self.incident:
            return f"| `{self.flaw}` | not invalid | | | |"
        return (
            f"| `{self.flaw}` | {self.incident} | {self.found or 'not found'} | {self.simulations:,}"
            f" | {self.seconds:.1f} s |"
        )


def runs_of(store: Path) -> dict[str, Path]:
    """The newest run of each flaw in a store."""
    found = {}
    for flaw in RUNS:
        for directory in runs(store, flaw):
            found[flaw] = directory
    return found


def make_runs(store: Path) -> None:
    """Make the runs that the store lacks, and check those that have no results."""
    known = runs_of(store)
    for number, (flaw, options) in enumerate(RUNS.items()):
        if flaw not in known:
            words = [_schedule_file(store, word) for word in options.split()]
            seed = str(FIRST_SEED + number)
            _harrow(
                store, "run", "--flaw", flaw, "--name", flaw, "--seed", seed, "--rate", str(RATE), "--no-check", *words
            )
    unchecked = [str(run) for run in runs_of(store).values() if not (run / "results.json").is_file()]
    if unchecked:
        _harrow(store, "check", *unchecked)


def _schedule_file(store: Path, word: str) -> str:
    if word not in _SCHEDULES:
        return word
    path = store / f"{word}.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_SCHEDULES[word], encoding="utf-8")
    return str(path)


def _harrow(store: Path, *words: str) -> None:
    subprocess.run([sys.executable, "-m", "harness", *words, "--store", str(store)], check=False)


def lifted(flaw: str, directory: Path, time_limit_s: float) -> Lifted:
    """Search the simulator for the incident of one run, on one process."""
    try:
        run = real_run.read(directory)
    except real_run.CannotLift:
        return Lifted(flaw, "", "", 0.0, 0)
    began_s, spent_s = time.monotonic(), time.process_time()
    found = hunt.hunt(run, range(1, 1_000_000), 1, stopped=lambda: time.monotonic() - began_s >= time_limit_s)
    hit = "" if found.hit is None else f"seed {found.hit.seed}, {found.hit.found} ({way_of(found.hit.seed)})"
    kinds = " or ".join(cause.kind for cause in run.incident.causes)
    incident = f"{next(iter(run.incident.anomalies))}: {kinds or 'cause not known'}"
    return Lifted(flaw, incident, hit, time.process_time() - spent_s, found.seeds)


def table(rows: Sequence[Lifted]) -> str:
    """The table in Markdown, with its sum."""
    invalid = [row for row in rows if row.incident]
    found = sum(bool(row.found) for row in invalid)
    lines = [
        "| flaw | incident of the real run | found in the simulator (first broken, variation) | simulations | time |",
        "|---|---|---|---|---|",
        *(row.row for row in rows),
        "",
        f"Of {len(rows)} real runs {len(invalid)} were invalid; {found} of these were lifted.",
    ]
    return "\n".join(lines)


@click.command()
@click.option("--store", type=click.Path(file_okay=False, path_type=Path), required=True, help="For the real runs.")
@click.option("--time-limit", type=TimeLimit(), default=300.0, metavar="TIME", help="Of each search (5m).")
@click.option("--page", type=click.Path(dir_okay=False, path_type=Path), help="Write the table into this page.")
def main(store: Path, time_limit: float, page: Path | None) -> None:
    """Make the runs, lift each, and print how many were found."""
    make_runs(store)
    rows = []
    for flaw, directory in runs_of(store).items():
        rows.append(lifted(flaw, directory, time_limit))
        click.echo(rows[-1].row)
    text = table(rows)
    click.echo(f"\n{text}")
    if page is not None:
        content = page.read_text(encoding="utf-8")
        made = re.sub(f"{_BEGIN}.*{_END}", lambda _: f"{_BEGIN}\n\n{text}\n\n{_END}", content, flags=re.DOTALL)
        page.write_text(made, encoding="utf-8")


if __name__ == "__main__":
    main()
