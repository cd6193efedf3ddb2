"""Formats the results of searches as a table, as traces and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from simulation.exhaustive.models import MODEL
from simulation.exhaustive.replay import follow
from simulation.exhaustive.search import SearchResult, SearchVerdict

_COLUMNS = ("model", "begins with", "states", "steps", "depth", "seconds", "states/s", "verdict")
_NUMBERS = range(2, 7)


def table(found: Sequence[SearchResult]) -> Iterator[str]:
    """One line per model. Seconds are wall-clock time; the rate is by processor time."""
    rows = [_COLUMNS, *(_row(one) for one in found)]
    widths = [max(len(row[index]) for row in rows) for index in range(len(_COLUMNS))]
    for row in rows:
        cells = [
            text.rjust(width) if index in _NUMBERS else text.ljust(width)
            for index, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()


def _row(one: SearchResult) -> tuple[str, ...]:
    return (
        one.spec.name,
        one.spec.title(),
        f"{one.states:,}",
        f"{one.transitions:,}",
        str(one.depth),
        f"{one.seconds:.1f}",
        f"{one.states_per_second:,.0f}",
        _verdict(one),
    )


def _verdict(one: SearchResult) -> str:
    if one.verdict is SearchVerdict.VIOLATED:
        model = next((MODEL[flaw] for flaw in one.spec.flaws if flaw in MODEL), None)
        compared = "" if model is None else f" (in the TLA+ model {model - 1})"
        return f"violated after {len(one.steps)} steps{compared}: {one.violation}"
    if one.verdict is SearchVerdict.STOPPED:
        return f"no violation in the first {one.depth} steps of any order; stopped at the limit"
    return "no violation in any order"


def counterexample(one: SearchResult) -> Iterator[str]:
    """A counterexample, step by step, with what each step changed."""
    replayed = follow(one.spec, one.steps)
    width = len(str(len(replayed.steps)))
    for number, step in enumerate(replayed.steps, 1):
        yield f"{number:>{width}}  {step.name}"
        yield from (f"{'':{width}}      {change}" for change in step.changes)
    yield f"{'':{width}}  violated: {replayed.violation or one.violation}"


def data(one: SearchResult) -> dict[str, object]:
    """A result for the output in JSON."""
    return {
        "world": one.spec.name,
        "begins_with": one.spec.title(),
        "generation": one.spec.generation,
        "flaws": list(one.spec.flaws),
        "verdict": one.verdict.name.lower(),
        "states": one.states,
        "transitions": one.transitions,
        "depth": one.depth,
        "states_waiting": one.waiting,
        "seconds": round(one.seconds, 3),
        "processor_seconds": round(one.processor_seconds, 3),
        "states_per_second": round(one.states_per_second),
        "violation": one.violation,
        "steps": list(one.steps),
    }
