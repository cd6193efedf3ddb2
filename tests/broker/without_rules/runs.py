"""Shows each mutant to the tests until one fails: a plugin that takes over pytest's loop once it has collected.

A mutant is shown only to tests that call what it changes: those of its rules' rows first, then those of the spec, then
others, the quickest first. Tests that start processes of their own are left out, for the mutant would not be in them.
"""

from __future__ import annotations

import select
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from tests.broker.without_rules.mutants import Mutant
from tests.broker.without_rules.processes import LIMIT_S, NOT_APPLIED, Baseline, Trial, baseline
from tests.broker.without_rules.rows import Row

TESTS = (
    "tests/broker/spec",
    "tests/broker/core",
    "tests/broker/storage",
    "tests/broker/log",
    "tests/broker/compaction/test_compaction.py",
    "tests/broker/compaction/test_compaction_crashes.py",
    "tests/broker/quorum",
    "tests/broker/groups",
    "tests/simulation/directed/test_directed_schedules.py",
)
_OPTIONS = (
    *("-qq", "-s", "--no-header", "--no-summary", "--disable-warnings"),
    *(
        "-m",
        "not slow and not cluster and not clients",
        "-p",
        "no:randomly",
        "-p",
        "no:xdist",
        "-p",
        "no:cacheprovider",
    ),
    *("-p", "no:logging", "-p", "no:unraisableexception", "-p", "no:threadexception"),
)


@dataclass(frozen=True)
class Outcome:
    """What the tests made of a mutant."""

    mutant: Mutant
    noticed_by: str = ""
    """The first test that failed; "" if none did."""
    how: str = ""
    """How, if not by a failure: it went on for ever, or its process died."""
    shown_to: int = 0
    """The number of tests that call what the mutant changes."""
    error: bool = False
    """Whether the mutant could not be put in."""


@dataclass
class Plugin:
    """Tries mutants in pytest's place."""

    mutants: Sequence[Mutant]
    rows: Sequence[Row]
    whole_rules: frozenset[str]
    """Rules of which all mutants are chosen: their rows are tried."""
    only_rows: bool
    """Whether nothing but the rows is tried."""
    jobs: int
    """Processes at a time."""
    tell: Callable[[Outcome], None]
    """Called for each outcome, as it comes."""
    outcomes: list[Outcome] = field(default_factory=list)
    idle_rows: list[str] = field(default_factory=list)
    """Rows, with a rule of theirs, whose tests notice none of that rule's mutants."""
    rows_tried: int = 0
    """The number of pairs of a row and one of its rules that were looked at."""
    failed: list[str] = field(default_factory=list)
    """Tests that fail without a mutant; then nothing is tried."""

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Pytest's hook: run the tests, which is to say, try all mutants."""
        items = {item.nodeid: item for item in session.items}
        functions = list(dict.fromkeys(function for mutant in self.mutants for function in mutant.functions))
        base = baseline(items, functions)
        self.failed = base.failed
        if not base.failed:
            trials = _Trials(items, base, {function: number for number, function in enumerate(functions)})
            for outcome in trials.run(() if self.only_rows else self.mutants, self._first, self.jobs):
                self.outcomes.append(outcome)
                self.tell(outcome)
            self.idle_rows = list(self._idle_rows(trials, list(items)))
        return True

    def _first(self, mutant: Mutant) -> tuple[str, ...]:
        """Where the ids of tests begin that see the mutant first."""
        return tuple(row.test for row in self.rows if set(row.rules) & set(mutant.rules))

    def _idle_rows(self, trials: _Trials, collected: Sequence[str]) -> Iterator[str]:
        for row in self.rows:
            for rule in sorted(self.whole_rules & {*row.rules}):
                mutants = [mutant for mutant in self.mutants if rule in mutant.rules]
                if not any(name.startswith(row.test) for name in collected):
                    continue  # its tests start processes of their own
                noticed = (one.noticed_by.startswith(row.test) for one in self.outcomes if rule in one.mutant.rules)
                if not any(noticed) and not self._notices(trials, row, mutants):
                    yield f"{row.title}: {rule}, {row.test}"
                self.rows_tried += 1

    def _notices(self, trials: _Trials, row: Row, mutants: Sequence[Mutant]) -> bool:
        """Whether the row's own tests notice one of the mutants."""
        for outcome in trials.run(mutants, lambda _: (row.test,), 1, only=True):
            if outcome.noticed_by:
                self.tell(outcome)
                return True
        return False


@dataclass
class _Trials:
    """Runs mutants against the collected tests."""

    items: Mapping[str, pytest.Item]
    base: Baseline
    numbers: Mapping[object, int]
    """Function -> its number in the baseline."""

    def run(
        self, mutants: Sequence[Mutant], first: Callable[[Mutant], tuple[str, ...]], jobs: int, *, only: bool = False
    ) -> Iterator[Outcome]:
        """Outcomes as they come. Tests whose ids begin with what `first` says run first, and `only` they if so."""
        running: dict[int, tuple[Mutant, Sequence[str], Trial]] = {}
        last: dict[str, str] = {}
        waiting = list(reversed(mutants))
        while waiting or running:
            while waiting and len(running) < jobs:
                mutant = waiting.pop()
                names = self._in_order(mutant, first(mutant), last.get(mutant.where))
                if only:
                    names = [name for name in names if name.startswith(first(mutant))]
                if names:
                    trial = Trial.start(mutant.apply, [self.items[name] for name in names])
                    running[trial.reading] = (mutant, names, trial)
                else:
                    yield Outcome(mutant)
            for reading in _finished(list(running)) if running else ():
                outcome = _outcome(*running.pop(reading))
                last[outcome.mutant.where] = outcome.noticed_by
                yield outcome

    def _in_order(self, mutant: Mutant, first: tuple[str, ...], last: str | None) -> list[str]:
        """The tests that call what the mutant changes; `last` noticed the function's mutant before."""
        changed = {self.numbers[function] for function in mutant.functions}

        def rank(name: str) -> tuple[bool, bool, bool, bool, float]:
            likely = bool(mutant.likely) and name.endswith(mutant.likely)
            spec = name.startswith(TESTS[0])
            return not name.startswith(first), name != last, not likely, not spec, self.base.seconds[name]

        return sorted((name for name in self.items if self.base.calls[name] & changed), key=rank)


def _finished(trials: Iterable[int]) -> list[int]:
    """Wait for processes to end: the pipes of those that have."""
    poll = select.poll()
    for reading in trials:
        poll.register(reading, select.POLLHUP)
    return [reading for reading, events in poll.poll() if events & select.POLLHUP]


def _outcome(mutant: Mutant, names: Sequence[str], trial: Trial) -> Outcome:
    status, number = trial.ended()
    if status == 0:
        return Outcome(mutant, shown_to=len(names))
    if status == NOT_APPLIED:
        return Outcome(mutant, error=True, shown_to=len(names))
    how = {1: "", -signal.SIGXCPU: f"not done after {LIMIT_S} s"}.get(status, f"its process ended with {status}")
    return Outcome(mutant, names[number], how, len(names))


def try_out(plugin: Plugin, tests: Sequence[str] = TESTS) -> int:
    """Collect the tests and try all mutants. Returns pytest's status: not 0 if the tests could not be collected."""
    return int(pytest.main([*_OPTIONS, *tests], plugins=[plugin]))
