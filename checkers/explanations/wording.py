"""Words for people that the explanations of all anomalies share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Details = Mapping[str, Any]
Row = Mapping[str, Any]


def place(row: Row) -> str:
    """Name the partition of a finding."""
    return f"{row['topic']}-{row['partition']}"


def seconds(ns: int | None) -> str:
    """Write a time of the run for people."""
    return "an unknown time" if ns is None else f"{ns / 1e9:.3f} s"


def by(broker: int | None) -> str:
    """Name who did it, if that is known."""
    return "" if broker is None else f" by broker {broker}"


def invoked(details: Details) -> str:
    """Say when the operation of a finding began."""
    return seconds(details.get("operation", {}).get("invoked_ns"))


def times(number: int) -> str:
    """Write how often something happened."""
    return {0: "never", 1: "once", 2: "twice"}.get(number, f"{number} times")
