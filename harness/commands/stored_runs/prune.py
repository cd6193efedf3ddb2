"""`harrow prune`: removes stored runs by age, number and size."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import click

from common.wording import plural
from harness.commands.shared import store_option
from harness.store.pruning import Limits, PrunableRun, Removal, stored_runs, to_remove, why_kept
from harness.store.run_directories import LATEST, StoreError
from harness.terminal.exits import ExitStatus

_AGE: Final = re.compile(r"(\d{1,4})([hdw])")
_HOURS: Final = {"h": 1, "d": 24, "w": 168}
_SIZE: Final = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)([KMGT])")
_UNITS: Final = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


class Age(click.ParamType[timedelta]):
    """An age: 12h, 30d, 8w."""

    name = "age"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:  # noqa: ANN401
        """See `click.ParamType.convert`."""
        found = _AGE.fullmatch(str(value))
        if found is None:
            self.fail(f"expected an age like 12h, 30d or 8w, found {value!r}", param, ctx)
        return timedelta(hours=int(found[1]) * _HOURS[found[2]])


class Size(click.ParamType[int]):
    """A size: 500M, 2G; K, M, G and T are powers of 1,024. Converted to bytes."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:  # noqa: ANN401
        """See `click.ParamType.convert`."""
        found = _SIZE.fullmatch(str(value))
        if found is None:
            self.fail(f"expected a size like 500M or 2G, found {value!r}", param, ctx)
        return int(float(found[1]) * _UNITS[found[2]])


@click.command("prune", short_help="Remove stored runs by age, number and size.")
@click.option(
    "--older-than", type=Age(), metavar="AGE", help="Remove runs that do not fail and are older: 12h, 30d, 8w."
)
@click.option("--failing-older-than", type=Age(), metavar="AGE", help="Remove failing runs that are older.")
@click.option("--keep-last", type=click.IntRange(min=1), metavar="N", help="Keep this many runs.")
@click.option("--max-size", type=Size(), metavar="SIZE", help="Keep so much of the runs at most: 500M, 2G.")
@click.option("--yes", is_flag=True, help="Remove them; without this they are only listed.")
@store_option
def prune(
    older_than: timedelta | None,
    failing_older_than: timedelta | None,
    keep_last: int | None,
    max_size: int | None,
    yes: bool,
    store: Path,
) -> None:
    """List the stored runs that exceed a limit, and remove them with --yes.

    For number and size, runs that do not fail go first, the oldest of them before the newer; failing ones go when no
    others are left. By age failing runs go only after --failing-older-than. A run in progress, one that `harrow heal`
    must clean up, the one that `latest` names, and what is no run always stay.

    \b
    harrow prune --older-than 30d                     what is older than 30 days and does not fail
    harrow prune --older-than 30d --failing-older-than 26w --yes
    harrow prune --keep-last 50 --yes
    harrow prune --max-size 2G --yes

    Exit status: 0 done or listed, 2 usage, 4 something could not be removed.
    """  # noqa: D301 (\b is for click)
    limits = Limits(older_than, failing_older_than, keep_last, max_size)
    if limits == Limits():
        raise click.UsageError("expected a limit: --older-than, --failing-older-than, --keep-last or --max-size")
    if not store.is_dir():
        raise StoreError(f"expected a store, found no directory {store}; name the one that has the runs with --store")
    now = datetime.now(UTC)
    runs = stored_runs(store, now)
    removals = to_remove(runs, limits, now)
    all_removed = _removed(removals, store) if yes else _listed(removals)
    _print_sum(runs, removals, yes)
    sys.exit(ExitStatus.VALID if all_removed else ExitStatus.FAILED)


def _listed(removals: Sequence[Removal]) -> bool:
    for removal in removals:
        click.echo(f"would remove  {_line(removal)}")
    return True


def _removed(removals: Sequence[Removal], store: Path) -> bool:
    """Remove runs, unless one has become the newest or has been taken up since; False if one could not be removed."""
    whole = True
    for removal in removals:
        directory = removal.run.directory
        since = why_kept(directory, (store / LATEST).resolve(), datetime.now(UTC))
        try:
            if since:
                click.echo(f"kept          {directory.name}: {since}")
                continue
            shutil.rmtree(directory)
        except OSError as error:
            whole = False
            click.echo(f"harrow: {directory}: could not be removed: {error.filename}: {error.strerror}", err=True)
        else:
            click.echo(f"removed       {_line(removal)}")
    return whole


def _line(removal: Removal) -> str:
    run = removal.run
    return f"{run.directory.name}  {_mebibytes(run.size_bytes)}{', failing' if run.failing else ''} ({removal.why})"


def _print_sum(runs: Sequence[PrunableRun], removals: Sequence[Removal], yes: bool) -> None:
    hit = sum(removal.run.size_bytes for removal in removals)
    click.echo(
        f"{plural(len(removals), 'run')} of {len(runs)}, {_mebibytes(hit)} of "
        f"{_mebibytes(sum(run.size_bytes for run in runs))}"
        + ("" if yes or not removals else "; nothing was removed: --yes removes them")
    )


def _mebibytes(size_bytes: int) -> str:
    return f"{size_bytes / _UNITS['M']:,.1f} MiB"
