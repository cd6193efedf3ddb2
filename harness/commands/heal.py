"""`harrow heal` and `harrow doctor`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from harness.commands.parts.names import OneOf
from harness.commands.parts.stores import store_option
from harness.doctor.titles import TITLES
from harness.store.store import StoreError, find_run
from harness.terminal.exits import Exit


@click.command("heal")
@click.argument("place", metavar="[DIR]", required=False)
@store_option
def heal(place: str | None, store: Path) -> None:
    """Undo what runs left behind whose harness was killed: processes, networks, mounts.

    DIR is the directory of all runs, or of one, or the name of one in the store; without it all runs of the store are
    healed. Runs that still go on are left alone, and so is everything that no journal names. It is safe to heal twice.
    """
    from harness.store.heal import heal as undo

    if place is None and not store.is_dir():
        raise StoreError(f"expected a store, found no directory {store}; name the one that has the runs with --store")
    lines = undo(store if place is None else find_run(store, place))
    for line in lines or ["nothing to heal"]:
        click.echo(line)


@click.command("doctor")
@click.argument("capabilities", nargs=-1, metavar="[CAPABILITY]...", type=OneOf(TITLES, "a capability"))
@click.option("--faults", is_flag=True, help="Which environment can inject which fault, and which it can here.")
@click.option("--remedies", is_flag=True, help="Every cause that it knows for something to be missing, and its remedy.")
@click.option(
    "--markdown", is_flag=True, help="With --faults or --remedies: as a table for a document, whatever this machine is."
)
@click.option("--json", "for_programs", is_flag=True, help="Print what was found as JSON, for programs.")
@store_option
def doctor(
    capabilities: tuple[str, ...], faults: bool, remedies: bool, markdown: bool, for_programs: bool, store: Path
) -> None:
    """Try what this machine can do, and say which command would add what is missing.

    The last line says whether `harrow run` works here, and by which mechanisms. If a CAPABILITY is named, as `harrow
    doctor --remedies` names them, only it is tried.

    \b
    harrow doctor                  everything
    harrow doctor fuse shaping     these two again, after a remedy

    Exit status: 0 if the default job works, or all that were named do; else 4.
    """  # noqa: D301 (\b is for click)
    if faults:
        from harness.doctor import fault_matrix

        click.echo(fault_matrix.markdown() if markdown else fault_matrix.here())
        return
    if remedies:
        from harness.doctor import document

        click.echo(document.markdown() if markdown else document.plain())
        return
    from harness.doctor.examination import default_job, examine

    findings = examine(store, capabilities)
    job = None if capabilities else default_job(findings)
    if for_programs:
        from harness.doctor.findings import as_json

        click.echo(json.dumps(as_json(findings, job), indent=2))
    else:
        from harness.doctor.output import render

        render(findings, job)
    works = all(finding.available for finding in findings) if job is None else job.works
    sys.exit(Exit.VALID if works else Exit.FAILED)
