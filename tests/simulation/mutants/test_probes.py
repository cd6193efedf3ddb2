"""Probes tell which mutants would have acted differently, and change nothing."""

from __future__ import annotations

import ast
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.simulation.mutants.making import all_mutants, mutated_functions, of_module
from benchmarks.simulation.mutants.probes import Probe, instrumented, with_probes
from benchmarks.simulation.mutants.simulating import ProbeTask, probe
from simulation.scenario import case as cases
from tests.simulation.small import quick


def probed(body: str) -> tuple[Callable[..., Any], Probe, dict[str, list[int]]]:
    """(The function with probes, what they record, numbers of the mutants by "operator: the changed line")."""
    source = "def decide(self, first, second):\n" + "".join(f"    {line}\n" for line in body.splitlines())
    (function,) = of_module("broker/core/small.py", source, ast.parse(source), frozenset())
    node = with_probes(function.node, [(number, made.change) for number, made in enumerate(function.made)])
    record = Probe()
    scope: dict[str, Any] = {"_mutant_probe": record}
    exec(compile(ast.Module([node], []), "probed", "exec"), scope)
    numbers: dict[str, list[int]] = {}
    for number, made in enumerate(function.made):
        numbers.setdefault(f"{made.mutant.operator}: {made.mutant.diff.splitlines()[-1][1:].strip()}", []).append(
            number
        )
    return scope["decide"], record, numbers


def acted(body: str, name: str, *arguments: object) -> bool:
    decide, record, numbers = probed(body)
    decide(*arguments)
    (number,) = numbers[name]
    assert number in record.reached
    return number in record.acted


@pytest.mark.parametrize(
    ("body", "name", "different", "the_same"),
    [
        ("return first < second", "comparison: return first <= second", (3, 3), (3, 4)),
        ("return max(second, first + 1)", "bound: return max(second, first)", (5, 3), (2, 3)),
        ("return first and second", "condition: return second", (0, 1), (1, 1)),
        ("if first and second:\n    return 1", "condition: if second:", ([], 1), ([1], 2)),
        ("return bool(first) and second > 0", "condition: return bool(first)", (1, 0), (1, 1)),
        (
            "return [x for x in first if x > second]",
            "comparison: return [x for x in first if x >= second]",
            ([2], 2),
            ([], 2),
        ),
        ("return first[second:]", "bound: return first[second + 1:]", ("abc", 1), ("abc", 3)),
        (
            "return any(x < second for x in first)",
            "comparison: return any(x <= second for x in first)",
            ([2], 2),
            ([1, 2], 2),
        ),
        (
            "return first is not None and first.end > 1",
            "condition: return first.end > 1",
            (None, 1),
            (SimpleNamespace(end=1), 1),
        ),
    ],
)
def test_an_expression_acts_differently_if_it_has_another_value(
    body: str, name: str, different: tuple[object, ...], the_same: tuple[object, ...]
) -> None:
    assert acted(body, name, None, *different)
    assert not acted(body, name, None, *the_same)


def test_an_assignment_that_is_left_out_acts_differently_if_the_value_was_another() -> None:
    body = "self.end = first\nreturn self"
    name = "dropped-statement: self.end = first"
    assert acted(body, name, SimpleNamespace(end=1), 2, None)
    assert acted(body, name, SimpleNamespace(), 2, None)
    assert not acted(body, name, SimpleNamespace(end=2), 2, None)
    equal_but_another: list[int] = []
    assert acted(body, name, SimpleNamespace(end=[]), equal_but_another, None)


def test_what_calls_something_is_only_told_to_be_reached() -> None:
    calls: list[int] = []
    decide, record, numbers = probed("return second(first) > 1")
    assert decide(None, 5, lambda value: calls.append(value) or value) is True
    assert calls == [5]
    assert set(numbers["comparison: return second(first) >= 1"]) <= record.acted


def test_a_statement_that_is_not_reached_does_not_act() -> None:
    decide, record, numbers = probed("if first:\n    return 1\nself.send(second)\nreturn 2")
    assert decide(None, 1, 2) == 1
    (number,) = numbers["dropped-statement: self.send(second)"]
    assert number not in record.reached
    assert set(numbers["dropped-exit: pass"]) <= record.acted


def test_an_original_that_raises_is_raised_and_its_mutants_act() -> None:
    decide, record, numbers = probed("return first.end > second")
    with pytest.raises(AttributeError):
        decide(None, None, 1)
    assert set(numbers["comparison: return first.end >= second"]) <= record.acted


def test_probes_for_all_mutants_of_the_core_change_nothing_and_are_taken_out_again() -> None:
    functions = list(mutated_functions())
    every = instrumented(functions)
    before = {function: function.__code__ for function in every.codes}
    plain = cases.run(quick(3))
    outcome, record = every.probing(lambda: cases.run(quick(3)))
    assert (outcome.digest, outcome.events, outcome.marks) == (plain.digest, plain.events, plain.marks)
    assert {function: function.__code__ for function in before} == before
    assert 1_000 < len(record.acted) < len(record.reached) < sum(len(function.made) for function in functions)
    _, again = every.probing(lambda: cases.run(quick(3)))
    assert (again.acted, again.reached) == (record.acted, record.reached)
    caching = [number for number, mutant in enumerate(all_mutants()) if ":_decode:" in mutant.id]
    assert record.reached & set(caching), "a function that remembers its results is called all the same"


def test_a_probed_seed_has_the_correct_broker_s_findings() -> None:
    found = probe(ProbeTask(1))
    assert found.findings == ()
    assert set(found.acted) < set(found.reached)
