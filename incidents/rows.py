"""Reads rows of the table of anomalies."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

Row = Mapping[str, Any]


def details_of(row: Row) -> Mapping[str, Any]:
    """Return the evidence of an anomaly; empty if it cannot be read."""
    try:
        found = json.loads(row["evidence"] or "{}")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
