"""Rows for programs and modules that a package would install."""

from __future__ import annotations

from harness.doctor.remedies.commands import install, install_python
from harness.doctor.remedies.rows import RemedyRow, always, missing
from harness.environments.causes import Missing


def python_package(distribution: str) -> RemedyRow:
    """A row for a Python package that is not installed."""
    return RemedyRow(
        f"no-{distribution}",
        f"the Python package {distribution} is not installed",
        missing(distribution),
        always(lambda here: install_python(here, distribution)),
        Missing("Python package", distribution),
    )


def program(name: str, package: str, *, lean: bool = False, **machine: object) -> RemedyRow:
    """A row for a program that a package of the distribution would install."""
    return RemedyRow(
        f"no-{package}",
        f"the program `{name}` is not installed",
        missing(name),
        always(lambda here: install(here, package, lean=lean)),
        Missing("program", name),
        machine,
    )
