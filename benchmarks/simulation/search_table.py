"""The trials of a comparison of searches, their file, and the table of what each search found."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from broker.core.rules.flaws import FLAWS


class Trial(NamedTuple):
    """One strategy on one broken build, from one starting seed. Times are processor time, in seconds."""

    build: str
    """The name of a flaw, or the id of a mutant."""
    strategy: str
    repetition: int
    seconds: float
    """The limit."""
    hit: bool
    spent_s: float
    runs: int
    seed: int | None = None
    property_id: str = ""
    defects: tuple[int, ...] = ()
    """Seeds that fail in the same way on the correct build."""
    differs: bool = False
    """The replay of the hit's choice file has another hash."""
    trouble: str = ""

    @property
    def key(self) -> tuple[str, str, int, float]:
        """What makes two trials the same."""
        return self.build, self.strategy, self.repetition, self.seconds

    def __str__(self) -> str:
        result = f"{self.property_id} at seed {self.seed}" if self.hit else self.trouble or "not found"
        if self.defects:
            result += f", DEFECTS at seeds {self.defects}"
        return f"{self.build} by {self.strategy} #{self.repetition}: {result}, {self.spent_s:.1f} s, {self.runs} runs"


def load(path: Path) -> list[Trial]:
    """The trials in a file; none if there is no file."""
    if not path.exists():
        return []
    rows = (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())
    return [Trial(**{**row, "defects": tuple(row["defects"])}) for row in rows]


def page(trials: Sequence[Trial]) -> str:
    """The table: a row for each build, a column for each strategy; then what each found in all."""
    builds = list(dict.fromkeys(one.build for one in trials))
    strategies = list(dict.fromkeys(one.strategy for one in trials))
    lines = [
        f"| build | {' | '.join(f'`{strategy}`' for strategy in strategies)} |",
        "|---|" + "---|" * len(strategies),
    ]
    for build in builds:
        flaw = FLAWS.get(build)
        name = f"{flaw.number} `{build}`" if flaw is not None else f"`{build}`"
        cells = (_cell(_of(trials, build, strategy)) for strategy in strategies)
        lines.append(f"| {name} | {' | '.join(cells)} |")
    lines.append("")
    lines += [f"- {_summary(strategy, trials)}" for strategy in strategies]
    defects = sorted({(one.build, one.strategy, seed) for one in trials for seed in one.defects})
    lines += [f"- fails on the correct build too: {build}, {how}, seed {seed}" for build, how, seed in defects]
    return "\n".join(lines)


def _of(trials: Sequence[Trial], build: str, strategy: str) -> list[Trial]:
    return [one for one in trials if (one.build, one.strategy) == (build, strategy)]


def _cell(trials: Sequence[Trial]) -> str:
    """Median time to find, where most trials have found it, and how many have."""
    if not trials:
        return ""
    hits = sum(one.hit for one in trials)
    times = sorted(one.spent_s if one.hit else float("inf") for one in trials)
    middle = median(times)
    limit = max(one.seconds for one in trials)
    time = f"{middle:.1f} s" if middle < float("inf") else f"> {limit:g} s"
    return f"{time} ({hits} of {len(trials)})"


def _summary(strategy: str, trials: Sequence[Trial]) -> str:
    mine = [one for one in trials if one.strategy == strategy]
    hits = [one for one in mine if one.hit]
    spent_s, runs = sum(one.spent_s for one in mine), sum(one.runs for one in mine)
    builds = {one.build for one in mine}
    return (
        f"`{strategy}`: {len(hits)} of {len(mine)} trials, {len({one.build for one in hits})} of {len(builds)} builds; "
        f"{spent_s:,.0f} s of processor time, {runs:,} simulations, "
        + (f"{spent_s / len(hits):.1f} s a hit" if hits else "no hit")
    )
