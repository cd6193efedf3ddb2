"""How far a suite has come, and how long it will still take, judged by its cells that have ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from harness.suites.cells import Cell
from harness.suites.suite_state import CellResult


class ShareDone(NamedTuple):
    """How far a suite has come."""

    text: str
    share: float
    left_s: float | None
    """None if no cell of a kind that is waiting has ended yet."""


def share_done(cells: Sequence[Cell], results: Mapping[str, CellResult], began: Sequence[Cell]) -> ShareDone:
    """How far a suite has come: the results by the names of the cells, and the cells that have begun and not ended.

    Cells that run beside each other are counted as if they ran one after the other, so that it ends sooner then.
    """
    failed = sum(result.verdict in ("invalid", "crashed") for result in results.values())
    text = f"{len(results):,} of {len(cells):,} runs have ended, {failed:,} of them failed"
    if began:
        text += f"; now {', '.join(cell.name for cell in began)}"
    return ShareDone(text, len(results) / max(1, len(cells)), _left_s(cells, results))


def _left_s(cells: Sequence[Cell], results: Mapping[str, CellResult]) -> float | None:
    left_s = 0.0
    for simulated in (True, False):
        kind = [cell for cell in cells if cell.is_simulated is simulated]
        waiting = [cell for cell in kind if cell.name not in results]
        took_s = [
            results[cell.name].seconds
            for cell in kind
            if cell.name in results and results[cell.name].verdict != "skipped"
        ]
        if waiting and not took_s:
            return None
        if waiting:
            left_s += len(waiting) * sum(took_s) / len(took_s)
    return left_s
