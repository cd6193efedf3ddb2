"""Makes docs/notebooks/*.ipynb from their sources in Python, by executing them.

Run from the root of the repository: `python -m docs.notebook`. Lines `# %%` begin a cell of code, lines
`# %% [markdown]` a cell of text. A test (tests/harrow/test_notebook.py) executes the sources and compares.
"""

from __future__ import annotations

import ast
import io
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SOURCES = Path(__file__).parent / "notebooks"
MARK = "# %%"
TEXT_MARK = "# %% [markdown]"


@dataclass(frozen=True)
class Cell:
    """One cell of a source."""

    is_code: bool
    text: str
    line: int
    """Of the source, where the text begins."""


@dataclass(frozen=True)
class CellOutput:
    """What a cell of code printed, and its last expression."""

    printed: str
    plain: str | None
    """The value of the last expression as text; None if there is none."""
    html: str | None
    """The same as a table, if it has one."""


def cells_of(source: str) -> Sequence[Cell]:
    """The cells of a source. Raises `ValueError` if there is code before the first mark."""
    found: list[tuple[bool, int, list[str]]] = []
    for number, line in enumerate(source.splitlines(), 1):
        if line.rstrip() in (MARK, TEXT_MARK):
            found.append((line.rstrip() == MARK, number + 1, []))
        elif found:
            found[-1][2].append(line if found[-1][0] else re.sub("^# ?", "", line))
        elif line.strip():
            raise ValueError(f"expected the mark {MARK!r} before line {number}, found {line!r}")
    return [Cell(is_code, "\n".join(lines).strip("\n"), line) for is_code, line, lines in found]


def execute(cells: Sequence[Cell], name: str) -> Sequence[CellOutput]:
    """Execute the cells of code one after the other; an error of a cell is raised, with the line in the source."""
    names: dict[str, Any] = {"__name__": "__main__"}
    return [_output(cell, names, name) for cell in cells if cell.is_code]


def _output(cell: Cell, names: dict[str, Any], name: str) -> CellOutput:
    tree = ast.parse(cell.text, name)
    ast.increment_lineno(tree, cell.line - 1)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    value = None
    with redirect_stdout(io.StringIO()) as printed:
        exec(compile(tree, name, "exec"), names)  # noqa: S102 (a page of this repository)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), name, "eval"), names)  # noqa: S307 (likewise)
    make_html = getattr(value, "_repr_html_", None)
    html = make_html() if make_html is not None else None
    return CellOutput(printed.getvalue(), None if value is None else repr(value), html)


def notebook(cells: Sequence[Cell], outputs: Sequence[CellOutput]) -> Mapping[str, Any]:
    """The notebook in the format of Jupyter, version 4.5."""
    waiting = iter(enumerate(outputs, 1))
    made = []
    for number, cell in enumerate(cells, 1):
        entry: dict[str, Any] = {"id": f"cell-{number}", "metadata": {}, "source": _lines(cell.text)}
        if cell.is_code:
            count, output = next(waiting)
            entry |= {"cell_type": "code", "execution_count": count, "outputs": _outputs(count, output)}
        else:
            entry |= {"cell_type": "markdown"}
        made.append(entry)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return {"cells": made, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def _outputs(count: int, output: CellOutput) -> Sequence[Mapping[str, Any]]:
    made: list[Mapping[str, Any]] = []
    if output.printed:
        made.append({"output_type": "stream", "name": "stdout", "text": _lines(output.printed)})
    if output.plain is not None:
        data = {"text/plain": _lines(output.plain)}
        if output.html is not None:
            data["text/html"] = _lines(output.html)
        made.append({"output_type": "execute_result", "execution_count": count, "data": data, "metadata": {}})
    return made


def _lines(text: str) -> Sequence[str]:
    return text.splitlines(keepends=True)


def main() -> None:
    """Execute all sources, and write their notebooks."""
    for source in sorted(SOURCES.glob("*.py")):
        cells = cells_of(source.read_text(encoding="utf-8"))
        made = notebook(cells, execute(cells, source.name))
        source.with_suffix(".ipynb").write_text(
            json.dumps(made, indent=1, ensure_ascii=False, sort_keys=True) + "\n", encoding="utf-8"
        )


if __name__ == "__main__":
    main()
