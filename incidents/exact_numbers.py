"""Gives incidents the exact numbers and offsets of their anomalies, where the table of anomalies has only some."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from history.anomalies import Extent
from incidents.headlines import gravest
from incidents.model import Incident, Span
from incidents.rows import Row

Totals = Mapping[str, tuple[int, int]]
Extents = Mapping[str, Sequence[Extent]]


class Counted(NamedTuple):
    """An incident, and what its headline has to say of its gravest anomaly."""

    incident: Incident
    first: int
    """Its spans are those of so many; 0 if of all."""
    of_run: int
    """How many the run has."""


_Part = tuple[str, int, str | None, int | None]
"""Anomaly, side of the contract (1 within it), topic and partition."""


class ExactNumbers:
    """Gives incidents the exact numbers and offsets of anomalies of which the table has only some."""

    def __init__(self, rows: Sequence[Row], found: Sequence[Incident], totals: Totals, extents: Extents) -> None:
        self._totals = totals
        self._extents: dict[_Part, Extent] = {
            (name, int(extent.within_contract), extent.topic, extent.partition): extent
            for name, of_name in extents.items()
            for extent in of_name
        }
        self._parts = {incident.rows: _parts(rows, incident) for incident in found}
        self._all = sum(self._parts.values(), Counter[_Part]())

    def of(self, incident: Incident) -> Counted | None:
        """Return the incident with all that belongs to it; None if it has that already."""
        parts = self._parts[incident.rows]
        exact: dict[str, tuple[int, int]] = {}
        at_least = []
        for name, (violations, within) in incident.anomalies.items():
            sides = self._side(parts, name, 0, violations), self._side(parts, name, 1, within)
            exact[name] = (sides[0] or violations, sides[1] or within)
            if None in sides:
                at_least.append(name)
        if exact == dict(incident.anomalies) and not at_least:
            return None
        name = gravest(exact)
        spans = self._spans(parts, name, incident.spans)
        known = sum(incident.anomalies[name])
        changed = replace(incident, anomalies=exact, at_least=tuple(at_least), spans=spans or incident.spans)
        first = known if spans is None and known < sum(exact[name]) else 0
        return Counted(changed, first, sum(self._totals.get(name, (0, 0))))

    def _side(self, parts: Counter[_Part], name: str, side: int, known: int) -> int | None:
        """The number of anomalies of one name on one side; None if it is not known how many more there are."""
        mine = [part for part in parts if part[:2] == (name, side)]
        if not mine or self._are_listed(name, side):
            return known
        if all(self._all[part] == parts[part] for part in self._all if part[:2] == (name, side)):
            return max(known, self._totals[name][side])
        return sum(self._extents[part].number for part in mine) if self._are_known(parts, mine) else None

    def _spans(self, parts: Counter[_Part], name: str, spans: tuple[Span, ...]) -> tuple[Span, ...] | None:
        """The stretches of all anomalies of one name; None if only those of the table are known."""
        cut = [part for part in parts if part[0] == name and not self._are_listed(name, part[1])]
        if not self._are_known(parts, cut):
            return None
        extents = [self._extents[part] for part in cut]
        return tuple(
            _widened(span, [one for one in extents if (one.topic, one.partition) == (span.topic, span.partition)])
            for span in spans
        )

    def _are_listed(self, name: str, side: int) -> bool:
        """Whether the table has all anomalies of one name on one side."""
        tabled = sum(number for part, number in self._all.items() if part[:2] == (name, side))
        return self._totals.get(name, (0, 0))[side] <= tabled

    def _are_known(self, parts: Counter[_Part], some: Iterable[_Part]) -> bool:
        """Whether all anomalies of these parts belong to one incident, and are counted."""
        return all(self._all[part] == parts[part] and part in self._extents for part in some)


def _parts(rows: Sequence[Row], incident: Incident) -> Counter[_Part]:
    """Count the rows of an incident."""
    own = (rows[place] for first, last in incident.rows for place in range(first, last + 1))
    return Counter((row["anomaly"], int(row["within_contract"] is True), row["topic"], row["partition"]) for row in own)


def _widened(span: Span, extents: Iterable[Extent]) -> Span:
    """Return a span with all offsets of these extents; one that is about no offsets stays so."""
    if span.first_offset is None or span.last_offset is None:
        return span
    first, last = span.first_offset, span.last_offset
    for extent in extents:
        if extent.first_offset is not None and extent.last_offset is not None:
            first, last = min(first, extent.first_offset), max(last, extent.last_offset)
    return replace(span, first_offset=first, last_offset=last)
