"""Formats partitions, times and counts for the explanations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Details = Mapping[str, Any]
Row = Mapping[str, Any]


def partition(row: Row) -> str:
    """Name the partition of a finding."""
    return f"{row['topic']}-{row['partition']}"


def seconds(ns: int | None) -> str:
    """Format a time of the run."""
    return "an unknown time" if ns is None else f"{ns / 1e9:.3f} s"


def by(broker: int | None) -> str:
    """Name the broker that did it, if known."""
    return "" if broker is None else f" by broker {broker}"


def invoked(details: Details) -> str:
    """Say when the operation of a finding began."""
    return seconds(details.get("operation", {}).get("invoked_ns"))


def times(number: int) -> str:
    """Format how often something happened."""
    return {0: "never", 1: "once", 2: "twice"}.get(number, f"{number} times")
