"""The history of a run: schemas of its tables, writers, readers, and the catalogue of anomalies."""

from history.clock import RunClock
from history.writer import HistoryError, HistoryWriter

__all__ = ["HistoryError", "HistoryWriter", "RunClock"]
