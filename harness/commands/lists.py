"""The commands `harrow faults`, `flaws`, `suites`, `systems` and `schedules`: lists of names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import click

from common.names import unknown
from common.shelf import Shelf
from harness.shipped import SCHEDULES, SUITES, SYSTEMS
from nemesis.faults import USUAL
from nemesis.faults.families import FAMILIES, PARTITION
from nemesis.kinds import LISTED_KINDS, ListedKind, Where
from nemesis.recipes import needs_of


@click.command("faults")
def faults() -> None:
    """List the names for --faults, one line each: names of several faults first, then single faults by family.

    `all` and a family stand for those of their faults that the run's environment can inject; a fault that is named
    must be possible there. `harrow sim` has those that are marked "simulation".
    """
    words = {
        "usual": f"the default: {', '.join(USUAL)}",
        "all": "every fault",
        "none": "no fault",
        **{family: _family(family, kinds) for family, kinds in FAMILIES.items()},
        PARTITION: f"the faults of the family network that cut connections: {', '.join(FAMILIES[PARTITION])}",
    }
    kinds = {name: f"{kind.family}: {kind.summary} ({_needs(name, kind)})" for name, kind in LISTED_KINDS.items()}
    _print({**words, **kinds})


def _family(family: str, kinds: Sequence[str]) -> str:
    if kinds:
        return f"family: {', '.join(kinds)}"
    return f"family, simulation only: {', '.join(name for name, kind in LISTED_KINDS.items() if kind.family == family)}"


def _needs(name: str, kind: ListedKind) -> str:
    if kind.where is Where.SIMULATED:
        return "simulation only"
    needs = f"needs {', '.join(sorted(needs_of(name)))}"
    return f"{needs}; or simulation" if kind.where is Where.BOTH else needs


@click.command("flaws")
def flaws() -> None:
    """List the known flaws that --flaw can enable in Harrow's own broker, one line each.

    A flaw removes one rule of the protocol. It shows that Harrow can find the violation of that rule.
    """
    from simulation.scenario.overrides import flaws as known

    _print(known())


@click.command("suites")
@click.argument("name", required=False)
def suites(name: str | None) -> None:
    """List the suites that come with Harrow, or print the file of one as a template for your own."""
    _list_or_print(name, SUITES)


@click.command("systems")
@click.argument("name", required=False)
def systems(name: str | None) -> None:
    """List the system definitions that come with Harrow, or print the file of one as a template for your own."""
    from harness.systems.inheritance import extended_by

    if name is not None:
        _list_or_print(name, SYSTEMS)
        return
    abouts, files = SYSTEMS.abouts(), SYSTEMS.files()
    bases = {each: extended_by(files[each]) for each in files}
    _print({each: abouts[each] + (f" (extends {base})" if base else "") for each, base in bases.items()})


@click.command("schedules")
@click.argument("name", required=False)
def schedules(name: str | None) -> None:
    """List the schedules that come with Harrow, or print the file of one.

    Schedules of faults are for `harrow run --schedule` and `harrow sim --faults`, schedules of steps for `harrow sim
    --schedule`.
    """
    from simulation.directed.files import DIRECTED_SCHEDULES

    if name is not None:
        _list_or_print(name, DIRECTED_SCHEDULES if name in DIRECTED_SCHEDULES.files() else SCHEDULES)
        return
    faults = {each: f"faults of a run: {about}" for each, about in SCHEDULES.abouts().items()}
    steps = {each: f"steps of a simulation: {about}" for each, about in DIRECTED_SCHEDULES.abouts().items()}
    _print({**faults, **steps})


def _list_or_print(name: str | None, shelf: Shelf) -> None:
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
