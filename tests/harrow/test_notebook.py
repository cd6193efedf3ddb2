"""docs/notebooks: the sources run, and each notebook has the cells of its source and what they give."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from docs import notebook
from docs.notebook import CellOutput, cells_of, execute

SOURCES = sorted(notebook.SOURCES.glob("*.py"))
ADVICE = "run `python -m docs.notebook`"


def written(source: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(source.with_suffix(".ipynb").read_text(encoding="utf-8"))
    return found


def cells_in(made: Any) -> list[tuple[bool, str]]:
    return [(cell["cell_type"] == "code", "".join(cell["source"])) for cell in made["cells"]]


def texts_in(made: Any) -> list[str]:
    """What each cell of code gives, as text; tables in HTML are the same once more."""
    return [
        "\n".join("".join(output.get("text") or output["data"]["text/plain"]) for output in cell["outputs"])
        for cell in made["cells"]
        if cell["cell_type"] == "code"
    ]


def test_there_is_a_notebook() -> None:
    assert [source.stem for source in SOURCES] == ["one_failure"]


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_a_notebook_has_the_cells_of_its_source(source: Path) -> None:
    cells = cells_of(source.read_text(encoding="utf-8"))
    assert cells_in(written(source)) == [(cell.is_code, cell.text) for cell in cells], ADVICE
    outputs = [cell["outputs"] for cell in written(source)["cells"] if cell["cell_type"] == "code"]
    assert sum(map(bool, outputs)) > len(outputs) / 2, "most cells show something"


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_a_source_runs_and_gives_what_its_notebook_shows(
    source: Path, spark: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    from harrow import checking

    monkeypatch.setattr(checking, "check", partial(checking.check, spark=spark))
    cells = cells_of(source.read_text(encoding="utf-8"))
    made = notebook.notebook(cells, execute(cells, source.name))
    assert texts_in(made) == texts_in(written(source)), ADVICE


def test_a_source_is_cut_into_cells() -> None:
    cells = cells_of("\n# %% [markdown]\n# # Title\n#\n# text\n\n# %%\n# a comment\nx = 1\n\n# %%\nx\n")
    assert [(cell.is_code, cell.text, cell.line) for cell in cells] == [
        (False, "# Title\n\ntext", 3),
        (True, "# a comment\nx = 1", 8),
        (True, "x", 12),
    ]
    with pytest.raises(ValueError, match="before line 1, found 'x = 1'"):
        cells_of("x = 1\n# %%\n")


def test_a_cell_gives_what_it_prints_and_its_last_expression() -> None:
    source = "# %%\nx = 2\nprint('a')\nx * 21\n# %%\nNone\n# %%\ny = x\n"
    assert execute(cells_of(source), "source") == [
        CellOutput("a\n", "42", None),
        CellOutput("", None, None),
        CellOutput("", None, None),
    ]


def test_a_table_is_shown_as_one() -> None:
    source = "# %%\nimport pandas\npandas.DataFrame({'a': [1]})"
    (output,) = execute(cells_of(source), "source")
    assert output.html is not None
    assert "<th>a</th>" in output.html
    made = notebook.notebook(cells_of(source), [output])
    assert set(made["cells"][0]["outputs"][0]["data"]) == {"text/plain", "text/html"}
    assert texts_in(made) == ["   a\n0  1"]


def test_an_error_names_the_line_of_the_source() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        execute(cells_of("# %%\nx = 0\n\n# %%\ny = 1\n1 / x\n"), "the source")
    frame = caught.traceback[-1]
    assert (str(frame.path), frame.lineno + 1) == ("the source", 6)
