"""Shows mutants to the tests of the broker's core: those that call the changed function, until one of them fails.

The tests run as `tests/broker/without_rules` runs them: collected once, then in a fork of the process for each mutant,
those of the rules that the function names first, the quickest first.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from benchmarks.simulation.mutants.making import Mutant
from benchmarks.simulation.mutants.planting import code_of, function_of
from docs.protocol import ROOT, named_in
from tests.broker.without_rules import mutants as without_rules
from tests.broker.without_rules.rows import rows
from tests.broker.without_rules.runs import TESTS, Outcome, Plugin, try_out
from tests.broker.without_rules.sources import definition

_MORE = ("tests/broker/settings/test_intake.py", "tests/broker/settings/test_described_settings.py")


class FailingTests(Exception):
    """The tests fail without a mutant."""


class ShownMutant(NamedTuple):
    """What the tests made of a mutant. `test` is the first that failed, "" if none did."""

    mutant: str
    test: str
    how: str
    """How, if not by a failure: it went on for ever, or its process died."""
    shown_to: int
    """The number of tests that call the changed function."""
    error: bool
    """Whether the mutant could not be put in."""


def show(
    mutants: Sequence[Mutant],
    jobs: int,
    tell: Callable[[ShownMutant], None],
    tests: Iterable[str] = (*TESTS, *_MORE),
) -> None:
    """Show all mutants to the tests; each result is told as it comes. Raises FailingTests."""

    def told(outcome: Outcome) -> None:
        tell(ShownMutant(outcome.mutant.what, outcome.noticed_by, outcome.how, outcome.shown_to, outcome.error))

    plugin = Plugin([_shown(mutant) for mutant in mutants], rows(), frozenset(), False, jobs, told)
    status = try_out(plugin, tuple(tests))
    if status or plugin.failed:
        failed = ", ".join(plugin.failed) or "that they cannot be collected"
        raise FailingTests(f"expected tests that pass without a mutant, found {failed}")


def _shown(mutant: Mutant) -> without_rules.Mutant:
    node = definition(ROOT / mutant.module, mutant.function)
    assert node is not None, mutant.id
    named = named_in(ast.get_docstring(node) or "")
    where = f"{mutant.module} {mutant.function}"
    return without_rules.Mutant(tuple(sorted(named)), where, mutant.id, (function_of(mutant),), (code_of(mutant),))
