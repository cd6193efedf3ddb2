"""`harrow faults`, `flaws`, `suites`, `systems`, `schedules`: what there is to choose from."""

from __future__ import annotations

from collections.abc import Mapping

import click

from harness.shipped import SCHEDULES, SUITES, SYSTEMS
from naming import unknown
from naming.shelf import Shelf
from nemesis.faults import KINDS, USUAL
from nemesis.faults.families import FAMILIES, PARTITION


@click.command("faults")
def faults() -> None:
    """List what --faults may name, one line each: words for several faults first, then single faults by family.

    `all` and a family mean those of their faults that can be injected where the run takes place; a fault that is named
    must be one of them.
    """
    words = {
        "usual": f"the default: {', '.join(USUAL)}",
        "all": "every fault",
        "none": "no fault",
        **{family: f"family: {', '.join(kinds)}" for family, kinds in FAMILIES.items()},
        PARTITION: f"those of the family network that cut: {', '.join(FAMILIES[PARTITION])}",
    }
    by_family = sorted(KINDS.values(), key=lambda kind: list(FAMILIES).index(kind.family))
    kinds = {kind.name: f"{kind.family}: {kind.summary} (needs {', '.join(sorted(kind.needs))})" for kind in by_family}
    _print({**words, **kinds})


@click.command("flaws")
def flaws() -> None:
    """List the flaws that --flaw may put into Harrow's own broker, one line each.

    A flaw is one rule taken out of the protocol. It proves that Harrow can find what it is for.
    """
    from simulation.scenario.rules import flaws as known

    _print(known())


@click.command("suites")
@click.argument("name", required=False)
def suites(name: str | None) -> None:
    """List the suites that come with Harrow, or print the file of one: a start for your own."""
    _shelf(name, SUITES)


@click.command("systems")
@click.argument("name", required=False)
def systems(name: str | None) -> None:
    """List the definitions of other brokers that come with Harrow, or print the file of one: a start for your own."""
    _shelf(name, SYSTEMS)


@click.command("schedules")
@click.argument("name", required=False)
def schedules(name: str | None) -> None:
    """List the schedules that come with Harrow, or print the file of one.

    Schedules of faults are for `harrow run --schedule` and `harrow sim --faults`, those in steps for `harrow sim
    --schedule`.
    """
    from simulation.directed.files import STORIES

    if name is not None:
        _shelf(name, STORIES if name in STORIES.files() else SCHEDULES)
        return
    faults = {each: f"faults of a run: {about}" for each, about in SCHEDULES.abouts().items()}
    steps = {each: f"steps of a simulation: {about}" for each, about in STORIES.abouts().items()}
    _print({**faults, **steps})


def _shelf(name: str | None, shelf: Shelf) -> None:
    if name is None:
        _print(shelf.abouts())
    elif name in shelf.files():
        click.echo(shelf.files()[name].read_text(), nl=False)
    else:
        raise click.UsageError(unknown(name, shelf.files(), f"the name of {shelf.what}", f"`harrow {shelf.folder}`"))


def _print(lines: Mapping[str, str]) -> None:
    width = max(map(len, lines))
    for name, line in lines.items():
        click.echo(f"{name:<{width}}  {line}")
