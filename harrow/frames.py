"""Turns tables and results into data frames of pandas; whole numbers stay whole, and what is missing is NA."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


class Result(Protocol):
    """A `Simulation` or a `CheckResult`."""

    def row(self) -> dict[str, object]:
        """The result as one row of a frame."""


def to_frame(results: Iterable[Result]) -> pd.DataFrame:
    """A frame with one row for each result: `verdict`, the first reason, and what else its `row` has."""
    import pandas as pd

    return pd.DataFrame([result.row() for result in results])


def frame_of(table: pa.Table) -> pd.DataFrame:
    """A table of a history as a frame with Arrow's types: offsets and times in nanoseconds are exact."""
    import pandas as pd

    frame: Any = table.to_pandas(types_mapper=pd.ArrowDtype)
    return frame
