"""Reads JSON lines: one operation a line, with `process`, `type`, `f`, `value`, and `index`, `time`, `key` if known.

See docs/foreign-histories.md for the values of each `f`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from checkers.foreign.events import Malformed, Rows, event_of


def json_rows(lines: Iterable[str]) -> Rows:
    """Read the events of a file of JSON lines."""
    position = 0
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            form = json.loads(line)
        except (ValueError, RecursionError):
            yield Malformed(number, "expected an operation as one line of JSON")
            continue
        yield event_of(form, position, number)
        position += 1
