"""Arranges the cells of a suite: a table for each environment, configurations down, faults across."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from reports.suite.loaded import LoadedSuite, SuiteCell


class MatrixRow(NamedTuple):
    """One configuration; for each column its runs, by seed."""

    configuration: str
    cells: Sequence[Sequence[SuiteCell]]


class Matrix(NamedTuple):
    """One environment."""

    environment: str
    columns: Sequence[str]  # faults
    rows: Sequence[MatrixRow]


def tables(suite: LoadedSuite) -> Sequence[Matrix]:
    """Return the tables in the order in which the suite names its environments."""
    return [_table(environment, suite.cells) for environment in dict.fromkeys(cell.environment for cell in suite.cells)]


def _table(environment: str, cells: Sequence[SuiteCell]) -> Matrix:
    own = [cell for cell in cells if cell.environment == environment]
    columns = list(dict.fromkeys(cell.faults for cell in own))
    rows = []
    for configuration in dict.fromkeys(cell.configuration for cell in own):
        mine = [cell for cell in own if cell.configuration == configuration]
        rows.append(MatrixRow(configuration, [[cell for cell in mine if cell.faults == faults] for faults in columns]))
    return Matrix(environment, columns, rows)
