"""The history of a run: schemas of its tables, and how they are written and read."""

from history.clock import RunClock
from history.writer import HistoryError, HistoryWriter

__all__ = ["HistoryError", "HistoryWriter", "RunClock"]
