"""`harrow heal` and `harrow doctor`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from harness.commands.stores import store_option
from harness.exits import Exit
from harness.store import StoreError, find_run


@click.command("heal")
@click.argument("place", metavar="[DIR]", required=False)
@store_option
def heal(place: str | None, store: Path) -> None:
    """Undo what runs left behind whose harness was killed: processes, networks, mounts.

    DIR is the directory of all runs, or of one, or the name of one in the store; without it all runs of the store are
    healed. Runs that still go on are left alone, and so is everything that no journal names. It is safe to heal twice.
    """
    from harness.heal import heal as undo

    if place is None and not store.is_dir():
        raise StoreError(f"expected a store, found no directory {store}; name the one that has the runs with --store")
    lines = undo(store if place is None else find_run(store, place))
    for line in lines or ["nothing to heal"]:
        click.echo(line)


@click.command("doctor")
@click.option("--faults", is_flag=True, help="Which environment can inject which fault, and which it can here.")
@click.option(
    "--markdown", is_flag=True, help="With --faults: as a table for a document, whatever this machine can do."
)
@store_option
def doctor(faults: bool, markdown: bool, store: Path) -> None:
    """Try what this machine can do, and say which command would add what is missing."""
    if faults:
        from harness import matrix

        click.echo(matrix.markdown() if markdown else matrix.here())
        return
    from harness.doctor import examine, is_fit, render

    findings = examine(store)
    render(findings)
    sys.exit(Exit.VALID if is_fit(findings) else Exit.FAILED)
