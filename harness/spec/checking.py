"""Checks of single values of a specification; an error is one line: what was expected, what was found, what to do."""

from __future__ import annotations

import math

from common.names import SpecError, unknown


def expect(holds: bool, field: str, expected: str, found: str, advice: str = "") -> None:
    """Raise `SpecError` unless it holds."""
    if not holds:
        raise SpecError(f"{field}: expected {expected}, found {found}" + (f"; {advice}" if advice else ""))


def whole(field: str, value: int, low: int, high: int, bound: str = "") -> None:
    """Expect a whole number in a range, bounds included; `bound` says what the upper one is."""
    expected = f"a whole number from {low} to {high}" + (f" ({bound})" if bound else "")
    expect(low <= value <= high, field, expected, str(value))


def number(field: str, value: float, low: float, high: float) -> None:
    """Expect a finite number in a range, bounds included."""
    holds = math.isfinite(value) and low <= value <= high
    expect(holds, field, f"a number from {low:g} to {high:g}", f"{value:g}")


def one_of(field: str, value: str, known: tuple[str, ...], what: str = "", see: str = "") -> None:
    """Expect one of some names."""
    if value not in known:
        raise SpecError(f"{field}: {unknown(value, known, what, see)}")
