"""Known failures of a suite: which violations are expected of which runs, who answers for them, and until when.

An entry excuses violations only, never a crash or a run that could not be decided, and only until its day has passed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from typing import Any


@dataclass(frozen=True)
class KnownFailure:
    """One entry of a suite's file; an empty list stands for all environments, configurations or faults."""

    anomalies: tuple[str, ...]
    owner: str
    expires: date
    """The last day on which it excuses anything (UTC)."""
    reason: str = ""
    environments: tuple[str, ...] = ()
    configurations: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    seeds: tuple[tuple[int, int], ...] = ()
    """Ranges, both ends included; none: all seeds."""

    def to_json(self) -> dict[str, Any]:
        """Plain data for `suite.json`."""
        return {**asdict(self), "expires": self.expires.isoformat()}

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> KnownFailure:
        """The inverse of `to_json`."""
        lists = {name: tuple(plain[name]) for name in ("anomalies", "environments", "configurations", "faults")}
        seeds = tuple((first, last) for first, last in plain["seeds"])
        return cls(
            **lists,
            seeds=seeds,
            owner=plain["owner"],
            expires=date.fromisoformat(plain["expires"]),
            reason=plain["reason"],
        )

    def concerns(self, environment: str, configuration: str, faults: str) -> bool:
        """Whether it is about runs of this kind."""
        return all(
            not wanted or found in wanted
            for wanted, found in (
                (self.environments, environment),
                (self.configurations, configuration),
                (self.faults, faults),
            )
        )

    def has_seeds(self, seeds: Iterable[tuple[int, int]]) -> bool:
        """Whether all seeds of these ranges are among its own."""
        return not self.seeds or all(
            any(low <= first and last <= high for low, high in self.seeds) for first, last in seeds
        )

    def __str__(self) -> str:
        because = f": {self.reason}" if self.reason else ""
        return f"{', '.join(self.anomalies)}, {self.owner}, until {self.expires.isoformat()}{because}"


def excuses(entries: Sequence[KnownFailure], anomalies: Iterable[str]) -> tuple[KnownFailure, ...]:
    """The entries that account for these violations together; none if one of the violations is in no entry."""
    shown = set(anomalies)
    named = {name for entry in entries for name in entry.anomalies}
    if not shown or not shown <= named:
        return ()
    return tuple(entry for entry in entries if shown & set(entry.anomalies))
