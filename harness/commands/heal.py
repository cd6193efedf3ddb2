"""The commands `harrow heal` and `harrow doctor`: clean up after killed runs, check this machine."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from harness.commands.groups import OneOf
from harness.commands.shared import store_option
from harness.doctor.remedies.table import TITLES
from harness.store.run_directories import StoreError, find_run
from harness.terminal.exits import ExitStatus


@click.command("heal")
@click.argument("place", metavar="[DIR]", required=False)
@store_option
def heal(place: str | None, store: Path) -> None:
    """Clean up after runs whose harness was killed: processes, networks, mounts.

    DIR is a store, the directory of a run, or the name of a run in the store; by default all runs of the store are
    healed. Runs in progress are left alone, and so is everything that no journal names. It is safe to heal twice.
    """
    from harness.store.heal import heal as undo

    if place is None and not store.is_dir():
        raise StoreError(f"expected a store, found no directory {store}; name the one that has the runs with --store")
    lines = undo(store if place is None else find_run(store, place))
    for line in lines or ["nothing to heal"]:
        click.echo(line)


@click.command("doctor")
@click.argument("capabilities", nargs=-1, metavar="[CAPABILITY]...", type=OneOf(TITLES, "a capability"))
@click.option("--faults", is_flag=True, help="Show which environment can inject which fault on this machine.")
@click.option("--remedies", is_flag=True, help="List all known causes of missing capabilities, with their remedies.")
@click.option(
    "--markdown",
    is_flag=True,
    help="With --faults or --remedies: a Markdown table that does not depend on this machine.",
)
@click.option("--json", "for_programs", is_flag=True, help="Print the findings as JSON.")
@store_option
def doctor(
    capabilities: tuple[str, ...], faults: bool, remedies: bool, markdown: bool, for_programs: bool, store: Path
) -> None:
    """Probe what this machine can do, and print the commands that would add what is missing.

    The last line says whether `harrow run` works here, and by which mechanisms. With a CAPABILITY (`harrow doctor
    --remedies` lists them) only that one is probed.

    \b
    harrow doctor                  everything
    harrow doctor fuse shaping     only these two, e.g. after a remedy

    Exit status: 0 if `harrow run` works here, or all named capabilities do; else 4.
    """  # noqa: D301 (\b is for click)
    if faults:
        from harness.doctor import fault_matrix

        click.echo(fault_matrix.markdown() if markdown else fault_matrix.here())
        return
    if remedies:
        from harness.doctor.remedies import table

        click.echo(table.markdown() if markdown else table.plain())
        return
    from harness.doctor.examination import default_job, examine

    findings = examine(store, capabilities)
    job = None if capabilities else default_job(findings)
    if for_programs:
        from harness.doctor.diagnosis import as_json

        click.echo(json.dumps(as_json(findings, job), indent=2))
    else:
        from harness.doctor.diagnosis import render

        render(findings, job)
    works = all(finding.available for finding in findings) if job is None else job.works
    sys.exit(ExitStatus.VALID if works else ExitStatus.FAILED)
