"""Puts the outcomes into a report: what no test holds comes first, totals come last."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tests.broker.without_rules.runs import Outcome


@dataclass(frozen=True)
class Result:
    """All outcomes of a run of the command."""

    outcomes: Sequence[Outcome]
    idle_rows: Sequence[str]
    """Rows of the page whose own tests do not notice that their rule is missing."""
    explained: Mapping[str, str]
    """Mutants that no test can notice, by name: why."""
    known: frozenset[str]
    """Names of all mutants that there are."""
    not_taken_out: Mapping[str, str]
    """Rules without a mutant: why."""
    elapsed_s: float
    processor_s: float = 0.0
    """Of all processes."""

    @property
    def unheld(self) -> list[Outcome]:
        """Mutants that no test notices, and that nothing explains."""
        return [
            one
            for one in self.outcomes
            if not one.noticed_by and not one.error and one.mutant.name not in self.explained
        ]

    @property
    def unheld_rules(self) -> list[str]:
        """Rules of which no test notices any mutant."""
        held = {rule for one in self.outcomes if one.noticed_by for rule in one.mutant.rules}
        missing = dict.fromkeys(rule for one in self.outcomes for rule in one.mutant.rules)
        return [rule for rule in missing if rule not in held]

    @property
    def failed_to_apply(self) -> list[Outcome]:
        return [one for one in self.outcomes if one.error]

    @property
    def stale(self) -> list[str]:
        """Explanations whose mutant a test notices, or that name none."""
        noticed = {one.mutant.name for one in self.outcomes if one.noticed_by}
        return [name for name in self.explained if name in noticed or name not in self.known]

    @property
    def status(self) -> int:
        """The exit status: 1 if something is not held."""
        return int(
            any((self.unheld, self.unheld_rules, self.failed_to_apply, self.stale, self.idle_rows, not self.outcomes))
        )


def lines(result: Result) -> Iterator[str]:
    """The report, line by line."""
    yield from _part("rules that no test holds", result.unheld_rules)
    yield from _part("mutants that no test notices", [_unnoticed(one) for one in result.unheld])
    yield from _part("mutants that could not be put in", [one.mutant.name for one in result.failed_to_apply])
    yield from _part("explanations that are not needed any more (tables.py)", result.stale)
    yield from _part("rows whose own test does not notice that the rule is missing", result.idle_rows)
    yield from _part("rules that are not taken out", [f"{rule}: {why}" for rule, why in result.not_taken_out.items()])
    rules = {rule for one in result.outcomes for rule in one.mutant.rules}
    noticed = sum(1 for one in result.outcomes if one.noticed_by)
    explained = sum(1 for one in result.outcomes if not one.noticed_by and one.mutant.name in result.explained)
    yield f"{len(rules)} rules, {len(rules) - len(result.unheld_rules)} of them held"
    yield (
        f"{len(result.outcomes)} mutants: {noticed} noticed, {len(result.unheld)} not noticed, "
        f"{explained} that no test can notice"
    )
    yield f"{result.elapsed_s:.0f} s, {result.processor_s:.0f} s of processor time"


def _unnoticed(outcome: Outcome) -> str:
    return f"{outcome.mutant.name}  ({', '.join(outcome.mutant.rules)}; {outcome.shown_to} tests call it)"


def _part(title: str, rows: Sequence[str]) -> Iterator[str]:
    if rows:
        yield f"{title}: {len(rows)}"
        yield from (f"  {row}" for row in rows)
        yield ""
