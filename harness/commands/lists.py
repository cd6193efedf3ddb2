"""`harrow faults` and `harrow flaws`: what there is to choose from."""

from __future__ import annotations

from collections.abc import Mapping

import click

from nemesis.faults import KINDS


@click.command("faults")
def faults() -> None:
    """List the faults that --faults may name, one line each."""
    _print({kind.name: f"{kind.summary} (needs {', '.join(sorted(kind.needs))})" for kind in KINDS.values()})


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
