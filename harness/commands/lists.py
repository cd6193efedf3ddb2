"""`harrow faults` and `harrow flaws`: what there is to choose from."""

from __future__ import annotations

from collections.abc import Mapping

import click

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
    from harness.systems.rules import flaws as known

    _print(known())


def _print(lines: Mapping[str, str]) -> None:
    width = max(map(len, lines))
    for name, line in lines.items():
        click.echo(f"{name:<{width}}  {line}")
