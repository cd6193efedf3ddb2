"""Counts what became of the mutants, and writes docs/reference/mutants.md."""

from __future__ import annotations

import textwrap
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from benchmarks.simulation.mutants.hunting import acting_in, reached
from benchmarks.simulation.mutants.making import CORE, Mutant
from benchmarks.simulation.mutants.operators import OPERATORS
from benchmarks.simulation.mutants.results import Results
from benchmarks.simulation.mutants.simulating import DIED, NOT_PLANTED, TIME_OUT

_WIDTH = 120
_REASONS = Path(__file__).with_name("reasons.toml")


class Fate(Enum):
    """What became of a mutant."""

    UNREACHED = "never carried out"
    IDLE = "never acted differently"
    WAITING = "not hunted"
    SIMULATOR = "found by the simulator"
    TESTS = "found by tests only"
    SURVIVOR = "survivor"
    UNDECIDED = "undecided"


_MISSED = (Fate.SURVIVOR, Fate.UNDECIDED, Fate.TESTS)
_HUNTED = (Fate.SIMULATOR, Fate.TESTS, Fate.SURVIVOR, Fate.UNDECIDED)
COLUMNS = ("made", Fate.UNREACHED, Fate.IDLE, "hunted", Fate.SIMULATOR, Fate.TESTS, Fate.SURVIVOR, Fate.UNDECIDED)

_PAGE = """\
# Mutants

Mistakes that nobody planted by hand: `python -m benchmarks.simulation.mutants` makes small changes of `broker/core` by
itself and hunts them, in the simulator and by the tests of the broker's core. It wrote this page, with `--page`.
The [known flaws](flaws.md) are the mistakes that other people made; these are those that anybody could make.
[Another page](mutants-earlier.md) has a sample that was hunted before, with whose misses in view later properties were
written; its mutants are left out here (`--apart-from`).

{summary}

- *never carried out*: no seed of the budget comes to the changed part. Most of it is not in the simulation's workload:
  consumer groups, administration, compaction. These mutants are not hunted, and are neither found nor survivors.
- *never acted differently*: the changed expression, evaluated beside the original in every seed of the budget, never
  had another value that mattered. Either no value can differ, or the workload never brings one that does. A changed
  statement, and an expression that calls something, counts as acting differently wherever it is carried out.
- *hunted*: a sample of the others, spread over operators and modules, each in the seeds in which it acts differently.
- *found by the simulator*: a seed fails by a property that the correct broker keeps in that seed{special}.
- *found by tests only*: the simulator misses it, and a test of the broker's core fails. Those that the simulator finds
  are not shown to the tests.
- *survivor*: neither finds it. What the changed statement does may not matter, or nobody looks.
- *undecided*: the simulator misses it, and the tests were not asked, or not done within their limit.
- *another course*: some event, message, record or random choice of the simulation is not that of the correct broker.

How soon the simulator finds what it finds, in seeds that were tried: {sooner}.

## By operator

{operators}

## By module

{modules}

## What found them

By the property that broke first, or the layer's anomaly:

{properties}

## What the simulator missed

Each is carried out in the seeds, perhaps with another outcome, and the observer and the clients see nothing wrong.
Survivors come first, then undecided ones, then those that tests find. The text below each says why
the simulator does not see it (`benchmarks/simulation/mutants/reasons.toml`).

{missed}
"""


@dataclass(frozen=True)
class Figures:
    """What became of all mutants."""

    fates: Mapping[str, Fate]
    hows: Counter[str] = field(default_factory=Counter)

    def count(self, *fates: Fate) -> int:
        return sum(fate in fates for fate in self.fates.values())

    @property
    def survivors(self) -> int:
        return self.count(Fate.SURVIVOR)

    def lines(self) -> list[str]:
        """A summary for the terminal."""
        hunted = self.count(*_HUNTED)
        found = [f"{how} {times}" for how, times in sorted(self.hows.items()) if how in (TIME_OUT, DIED, NOT_PLANTED)]
        first = (
            f"{len(self.fates):,} mutants: {self.count(Fate.UNREACHED):,} never carried out, "
            f"{self.count(Fate.IDLE):,} never acted differently, {self.count(Fate.WAITING):,} not hunted"
        )
        second = (
            f"{hunted} hunted: {self.count(Fate.SIMULATOR)} found by the simulator, {self.count(Fate.TESTS)} by tests "
            f"only, {self.survivors} survivors, {self.count(Fate.UNDECIDED)} undecided"
        )
        return [first, second + (f" ({', '.join(found)})" if found else "")]


def summary(mutants: Sequence[Mutant], results: Results) -> Figures:
    """What became of each mutant, by its id."""
    acting, carried_out = acting_in(results, mutants), reached(results, mutants)
    fates = {}
    for mutant in mutants:
        hunted = results.hunted.get(mutant.id)
        if hunted is not None:
            fates[mutant.id] = _fate(mutant.id, results)
        elif mutant.id in acting:
            fates[mutant.id] = Fate.WAITING
        else:
            fates[mutant.id] = Fate.IDLE if mutant.id in carried_out else Fate.UNREACHED
    return Figures(fates, Counter(results.hunted[id_].how for id_ in fates if id_ in results.hunted))


def _fate(id_: str, results: Results) -> Fate:
    how = results.hunted[id_].how
    if how and how != NOT_PLANTED:
        return Fate.SIMULATOR
    tested = results.tested.get(id_)
    if how == NOT_PLANTED or tested is None or tested.error or tested.how.startswith("not done"):
        return Fate.UNDECIDED
    return Fate.TESTS if tested.test else Fate.SURVIVOR


class Reasons(NamedTuple):
    """Why the simulator misses mutants, by id, as people have written it."""

    harmless: Mapping[str, str]
    """What is different changes nothing that could matter."""
    unseen: Mapping[str, str]
    """Somebody could notice."""


def reasons(path: Path = _REASONS) -> Reasons:
    """The reasons in the file."""
    return Reasons(**tomllib.loads(path.read_text(encoding="utf-8")))


def page(mutants: Sequence[Mutant], results: Results, explained: Reasons, again: Results | None = None) -> str:
    """The page. `again`: a later hunt of the same sample."""
    figures = summary(mutants, results)
    since = _found_since(mutants, results, again)
    modules = list(dict.fromkeys(mutant.module for mutant in mutants))
    hunted = [results.hunted[one.id] for one in mutants if figures.fates[one.id] is Fate.SIMULATOR]
    missed = [one for fate in _MISSED for one in mutants if figures.fates[one.id] is fate]
    stale = sorted({*explained.harmless, *explained.unseen} - {one.id for one in missed})
    acting = acting_in(results, mutants)
    parts = [_missed(one, len(acting[one.id]), results, figures, explained) + since.get(one.id, "") for one in missed]
    if stale:
        parts.append(f"`reasons.toml` explains {len(stale)} more, which this hunt has not drawn, or has found.")
    first = Counter(one.property_id or one.how for one in hunted)
    return _PAGE.format(
        summary=_wrapped(_sentences(mutants, results, figures, explained)) + _hunted_again(results, again, explained),
        special=_special(figures),
        sooner=_sooner(sorted(one.seeds for one in hunted)),
        operators=_table("operator", OPERATORS, lambda one: one.operator, mutants, figures),
        modules=_table("module", modules, lambda one: one.module, mutants, figures, _module_name),
        properties=", ".join(f"{name} {times}" for name, times in sorted(first.items(), key=_most_first)) or "nothing",
        missed="\n\n".join(parts) or "Nothing.",
    )


def _most_first(item: tuple[str, int]) -> tuple[int, str]:
    return -item[1], item[0]


def _sentences(mutants: Sequence[Mutant], results: Results, figures: Figures, explained: Reasons) -> str:
    acting = len(mutants) - figures.count(Fate.UNREACHED, Fate.IDLE)
    hunted = figures.count(*_HUNTED)
    found = figures.count(Fate.SIMULATOR)
    missed = [one.id for one in mutants if figures.fates[one.id] in _MISSED]
    harmless = sum(id_ in explained.harmless for id_ in missed)
    undecided = figures.count(Fate.UNDECIDED)
    acting_seeds = acting_in(results, mutants)
    cut_short = [results.hunted[id_].seeds for id_ in missed if results.hunted[id_].seeds < len(acting_seeds[id_])]
    first = (
        f"{len(mutants):,} mutants were made. In {len(results.seeds)} seeds, {results.seeds.start} to "
        f"{results.seeds.stop - 1} of the search `{results.search}`, {figures.count(Fate.UNREACHED):,} of them were "
        f"never carried out and {figures.count(Fate.IDLE):,} never acted differently; {acting:,} did."
    )
    second = (
        f"Of these a sample of {hunted} was hunted. The simulator found {found} and missed {len(missed)}, of which "
        f"{harmless} change nothing that could matter, as people found who read them: so it found {found} of "
        f"{hunted - harmless} real mistakes, {_percent(found, hunted - harmless)}."
    )
    tests = sum(figures.fates[id_] is Fate.TESTS and id_ not in explained.harmless for id_ in missed)
    third = (
        f"Tests found {tests} of the others, and so both together {_percent(found + tests, hunted - harmless)}; "
        f"{figures.survivors} survived"
    )
    third += f"; the tests have not decided about {undecided}." if undecided else "."
    fourth = (
        f" {len(cut_short)} of the misses were tried in the first of their seeds only, {min(cut_short)} to "
        f"{max(cut_short)} of them."
        if cut_short
        else ""
    )
    return f"{first} {second} {third}{fourth}"


def _hunted_again(results: Results, again: Results | None, explained: Reasons) -> str:
    """The figures of a later hunt of the same mutants."""
    if again is None:
        return ""
    fates = {id_: _fate(id_, again if id_ in again.hunted else results) for id_ in results.hunted}
    real = [fate for id_, fate in fates.items() if id_ not in explained.harmless or fate is Fate.SIMULATOR]
    found, tests = real.count(Fate.SIMULATOR), real.count(Fate.TESTS)
    return "\n\n" + _wrapped(
        "All figures of this page are of that first hunt, before anybody had read what it missed. Then properties and "
        "tests were written with the misses in view, and those hunted again: the simulator now finds "
        f"{found} of {len(real)}, {_percent(found, len(real))}, and the tests {tests} more, together "
        f"{_percent(found + tests, len(real))}. How many of *other* mistakes it finds, only another sample can tell."
    )


def _found_since(mutants: Sequence[Mutant], results: Results, again: Results | None) -> dict[str, str]:
    """Of each mutant that was missed: what finds it in a later hunt, if anything does."""
    if again is None:
        return {}
    found = {}
    for id_ in (one.id for one in mutants if one.id in results.hunted and one.id in again.hunted):
        before, now, hunted = _fate(id_, results), _fate(id_, again), again.hunted[id_]
        if now is Fate.SIMULATOR and before is not Fate.SIMULATOR:
            found[id_] = f"\n\nHunted again, it is found by the simulator: {hunted.property_id or hunted.how}."
        elif now is Fate.TESTS and before is not Fate.TESTS and before is not Fate.SIMULATOR:
            found[id_] = f"\n\nHunted again, it is found by `{again.tested[id_].test.split('[')[0]}`."
    return found


def _wrapped(text: str) -> str:
    return "\n".join(textwrap.wrap(text, _WIDTH))


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "none"


def _special(figures: Figures) -> str:
    parts = [
        f"{figures.hows[how]} {text}"
        for how, text in ((TIME_OUT, "because it never ended"), (DIED, "because its process died"))
        if figures.hows[how]
    ]
    return f" ({', '.join(parts)})" if parts else ""


def _sooner(tried: Sequence[int]) -> str:
    if not tried:
        return "nothing was found"
    first = sum(one == 1 for one in tried)
    ten = sum(one <= 10 for one in tried)
    return f"{first} in the first, {ten} within 10, the last after {tried[-1]}; the median is {tried[len(tried) // 2]}"


def _module_name(path: str) -> str:
    return path.removeprefix(f"{CORE}/")


def _table(
    title: str,
    keys: Sequence[str],
    key_of: Callable[[Mutant], str],
    mutants: Sequence[Mutant],
    figures: Figures,
    shown: Callable[[str], str] = str,
) -> str:
    counts = {key: Counter(figures.fates[one.id] for one in mutants if key_of(one) == key) for key in keys}
    lines = [
        f"| {title} | {' | '.join(one if isinstance(one, str) else one.value for one in COLUMNS)} |",
        f"|---|{'---:|' * len(COLUMNS)}",
    ]
    lines += [f"| {shown(key)} | {' | '.join(_cells(count))} |" for key, count in counts.items() if count]
    return "\n".join(lines)


def _cells(count: Mapping[Fate, int]) -> Iterator[str]:
    for column in COLUMNS:
        if column == "made":
            number = sum(count.values())
        elif column == "hunted":
            number = sum(count.get(fate, 0) for fate in _HUNTED)
        else:
            assert isinstance(column, Fate)
            number = count.get(column, 0)
        yield f"{number:,}" if number else ""


def _missed(mutant: Mutant, acting: int, results: Results, figures: Figures, explained: Reasons) -> str:
    fate, tested = figures.fates[mutant.id], results.tested.get(mutant.id)
    hunted = results.hunted[mutant.id]
    tried = f", and was tried in the first {hunted.seeds}" if hunted.seeds < acting else ""
    told = (
        f"acts differently in {acting} {'seed' if acting == 1 else 'seeds'}{tried}, of which "
        f"{hunted.other_courses or 'none'} {'takes' if hunted.other_courses < 2 else 'take'} another course"
    )
    if fate is Fate.TESTS and tested is not None:
        told += f"; found by `{tested.test.split('[')[0]}`"
    elif fate is Fate.SURVIVOR and tested is not None:
        told += f"; **survivor**, {tested.shown_to} tests call the function"
    else:
        told += f"; {fate.value}"
    why = explained.unseen.get(mutant.id, "Not explained yet.")
    if mutant.id in explained.harmless:
        why = f"Harmless: {explained.harmless[mutant.id]}"
    where = f"[{_module_name(mutant.module)}](../../{mutant.module})"
    return f"### {mutant.id}\n\n{where}, {told}.\n\n```diff\n{mutant.diff}\n```\n\n{why}"
