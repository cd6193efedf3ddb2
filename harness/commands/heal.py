"""`harrow heal` and `harrow doctor`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from harness.exits import Exit
from harness.store import DEFAULT


@click.command("heal")
@click.argument("store", default=DEFAULT, type=click.Path(exists=True, file_okay=False, path_type=Path))
def heal(store: Path) -> None:
    """Undo what runs left behind whose harness was killed: processes, networks, mounts.

    STORE is the directory of all runs (default: store), or of one. Runs that still go on are left alone, and so is
    everything that no journal names. It is safe to heal twice.
    """
    from harness.heal import heal as undo

    lines = undo(store)
    for line in lines or ["nothing to heal"]:
        click.echo(line)


@click.command("doctor")
@click.option("--faults", is_flag=True, help="Which environment can inject which fault, and which it can here.")
@click.option(
    "--markdown", is_flag=True, help="With --faults: as a table for a document, whatever this machine can do."
)
def doctor(faults: bool, markdown: bool) -> None:
    """Try what this machine can do, and say which command would add what is missing."""
    if faults:
        from harness import matrix

        click.echo(matrix.markdown() if markdown else matrix.here())
        return
    from harness.doctor import examine, is_fit, render

    findings = examine()
    render(findings)
    sys.exit(Exit.VALID if is_fit(findings) else Exit.FAILED)
