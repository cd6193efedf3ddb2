"""The mutants of a source: what each operator changes, and what it leaves alone; ids and samples stay the same."""

from __future__ import annotations

import ast
import copy
import multiprocessing
from collections import Counter

import pytest

from benchmarks.simulation.mutants.making import (
    ROOT,
    Mutant,
    MutatedFunction,
    all_mutants,
    fingerprint,
    mutated_functions,
    of_module,
    sample,
)
from benchmarks.simulation.mutants.operators import OPERATORS
from benchmarks.simulation.mutants.planting import code_of, function_of, plant
from broker.core.metadata.records import BrokerUnregistered, change_in, encode_change
from tests.broker.without_rules.sources import definition_in

MODULE = "broker/core/small.py"


def mutated(source: str, *writers: str) -> list[MutatedFunction]:
    return list(of_module(MODULE, source, ast.parse(source), frozenset(writers)))


def diffs(body: str, operator: str, *writers: str) -> list[str]:
    source = "def decide(self, first, second, files):\n" + "".join(f"    {line}\n" for line in body.splitlines())
    made = [one.mutant for function in mutated(source, *writers) for one in function.made]
    for mutant in made:
        ast.parse(mutant.applied(source))
    return [_changed_lines(mutant) for mutant in made if mutant.operator == operator]


def _changed_lines(mutant: Mutant) -> str:
    return "; ".join(line[1:].strip() for line in mutant.diff.splitlines() if line.startswith("+"))


@pytest.mark.parametrize(
    ("operator", "body", "expected"),
    [
        ("comparison", "return first < second", ["return first <= second"]),
        ("comparison", "return (first) >= (second)", ["return (first) > (second)"]),
        ("comparison", "return 0 < first != second", ["return 0 <= first != second", "return 0 < first == second"]),
        ("comparison", "return first not in second", ["return first in second"]),
        ("comparison", "return first is None", ["return first is not None"]),
        ("bound", "return first + 1", ["return first"]),
        ("bound", "return self.at[first - 1]", ["return self.at[first]"]),
        ("bound", "return first > 3", ["return first > 4"]),
        ("bound", "return first == 3", []),
        ("bound", "return files[first:second]", ["return files[first + 1:second]", "return files[first:second - 1]"]),
        ("bound", "return range(first)", ["return range(first - 1)"]),
        ("condition", "if first:\n    return 1", ["if not first:"]),
        ("condition", "if first == second:\n    return 1", []),
        ("condition", "if first < second:\n    return 1", ["if not first < second:"]),
        ("condition", "return first and second", ["return second", "return first"]),
        (
            "condition",
            "return first or (second and files)",
            ["return (second and files)", "return first", "return first or (files)", "return first or (second)"],
        ),
        ("condition", "return not first", ["return first"]),
        ("condition", "return [x for x in files if x]", ["return [x for x in files if not x]"]),
        ("condition", "return 1 if first else 2", ["return 1 if not first else 2"]),
        ("min-max", "return min(first, second)", ["return max(first, second)"]),
        ("dropped-statement", "self.end = first\nreturn 1", [""]),
        ("dropped-statement", "if first:\n    self.end = first", ["pass"]),
        ("dropped-statement", "end = first\nreturn end", []),
        ("dropped-statement", "first += 1\nreturn first", [""]),
        ("forgotten-write", "self._files.sync(first)\nreturn 1", [""]),
        ("forgotten-write", "self.effects.append(Flush(first))\nreturn 1", [""]),
        ("forgotten-write", "keep(first)\nreturn 1", [""]),
        ("forgotten-write", "self.kept.append(first)\nreturn 1", []),
        ("dropped-exit", "if first:\n    return 1\nreturn 2", ["pass"]),
        ("dropped-exit", "if first:\n    self.end = 1\n    return 1\nreturn 2", [""]),
        ("dropped-exit", "if first:\n    raise ValueError", ["pass"]),
        ("dropped-exit", "if first:\n    return 1", []),
        ("stale-read", "self.end = first\nfirst = self.end", ["first = self.end; self.end = first"]),
        ("stale-read", "self.log.cut(first)\nend = self.log.end", ["end = self.log.end; self.log.cut(first)"]),
        ("stale-read", "move(first)\nend = first.end", ["end = first.end; move(first)"]),
        ("stale-read", "self.end = first\nself.start = second", []),
        ("reordered", "send(first)\nkeep(second)", ["keep(second); send(first)"]),
        ("reordered", "old = self.end\nself.end = first", ["self.end = first; old = self.end"]),
        ("reordered", "self.end = first\nself.start = second", []),
        ("reordered", "end = first\nsend(end)", []),
    ],
)
def test_what_an_operator_changes(operator: str, body: str, expected: list[str]) -> None:
    assert diffs(body, operator, "keep") == expected


def test_every_operator_has_a_case_and_the_core_has_mutants_of_each() -> None:
    assert {mutant.operator for mutant in all_mutants()} == set(OPERATORS)


@pytest.mark.parametrize(
    "body",
    [
        '"""Texts stay, even if 1 < 2."""',
        "assert first < second, first + 1",
        "self.runtime.mark(A if first else B)",
        'self.runtime.log("info", f"{first + 1}")',
        "raise ValueError(first or second)",
        "if first:\n    self.runtime.mark(A)",
    ],
)
def test_what_nobody_could_notice_stays(body: str) -> None:
    source = "def decide(self, first, second):\n" + "".join(f"    {line}\n" for line in body.splitlines())
    assert mutated(source) == []


def test_a_local_variable_that_has_no_value_yet_is_assigned_in_every_mutant() -> None:
    body = "if first:\n    end = 1\nelse:\n    end = 2\nend = end + second\nfor each in files:\n    each = end"
    assert diffs(body, "dropped-statement") == ["", "pass"]


def test_ids_are_unique_and_do_not_depend_on_the_lines_above() -> None:
    source = "def decide(first):\n    if first > 1:\n        return first\n    return first > 1\n"
    (before,) = mutated(source)
    (after,) = mutated("# a comment\n\n" + source)
    ids = [one.mutant.id for one in before.made]
    assert len(set(ids)) == len(ids)
    assert ids == [one.mutant.id for one in after.made]
    assert ids[0].startswith("small:decide:")
    core = Counter(mutant.id for mutant in all_mutants())
    assert core.most_common(1)[0][1] == 1
    assert len(core) > 5_000


def test_a_planted_mutant_acts_though_its_function_was_called_before_with_the_same() -> None:
    """In a fork, since it stays planted."""
    batch = encode_change([BrokerUnregistered(1)], 0, 0)
    assert change_in(batch) == ((0, BrokerUnregistered(1)),)
    (mutant, *_) = [one for one in all_mutants() if ":_decode:comparison:" in one.id]
    context = multiprocessing.get_context("fork")
    acts = context.Process(target=_acts, args=(mutant, batch))
    acts.start()
    acts.join()
    assert acts.exitcode == 0


def _acts(mutant: Mutant, batch: bytes) -> None:
    plant(mutant)
    with pytest.raises(ValueError, match="without a value"):
        change_in(batch)


def test_what_is_planted_is_what_is_compared() -> None:
    """The text of a mutant says the same as the syntax tree by which the probes compare it."""
    functions = list(mutated_functions())
    looked_at = 0
    for function in functions[::9]:
        source = (ROOT / function.module).read_text(encoding="utf-8")
        for mutant, change in function.made[::5]:
            if change.new is None:
                continue
            expected = copy.deepcopy(function.node, {id(change.node): change.new})
            found = definition_in(ast.parse(mutant.applied(source)), function.name)
            assert found is not None
            assert ast.unparse(found) == ast.unparse(expected), mutant.diff
            looked_at += 1
    assert looked_at > 50


def test_a_mutant_can_be_put_into_its_function() -> None:
    for mutant in all_mutants()[::40]:
        function = function_of(mutant)
        assert code_of(mutant).co_freevars == function.__code__.co_freevars, mutant.id


def test_a_sample_is_spread_and_a_smaller_one_is_its_beginning() -> None:
    mutants = all_mutants()
    chosen = sample(mutants, 90, 5)
    assert len({one.id for one in chosen}) == 90
    assert set(Counter(one.operator for one in chosen).values()) == {90 // len(OPERATORS)}
    assert Counter(one.module for one in chosen).most_common(1)[0][1] <= 3
    assert sample(mutants, 20, 5) == chosen[:20]
    assert sample(mutants, 20, 6) != chosen[:20]
    assert sample(mutants[:4], 9, 5) == sample(mutants[:4], 4, 5)


def test_other_mutants_are_other_sources() -> None:
    mutants = all_mutants()
    assert fingerprint(mutants) == fingerprint(mutants)
    assert fingerprint(mutants) != fingerprint(mutants[1:])
