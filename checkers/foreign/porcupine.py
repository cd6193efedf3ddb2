"""Reads Porcupine's key-value files: `{:process 0, :type :invoke, :f :get, :key "k", :value nil}`, one a line."""

from __future__ import annotations

from collections.abc import Iterable

from checkers.foreign.edn import Form, forms
from checkers.foreign.events import Event, Malformed, Rows, event_of

FUNCTIONS = frozenset({"get", "put", "append"})


def porcupine_rows(lines: Iterable[str]) -> Rows:
    """Read the events of a key-value file."""
    position = 0
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.lstrip().startswith(";"):
            continue
        read = next(forms(line), None)
        row = event_of(read.value, position, number) if isinstance(read, Form) else Malformed(number, "expected a map")
        position += 1
        if isinstance(row, Event) and row.f not in FUNCTIONS:
            row = Malformed(number, "expected an :f among get, put and append")
        yield row
