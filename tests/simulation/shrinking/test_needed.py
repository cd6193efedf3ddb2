"""Which faults a simulated failure needs: real simulations with one guilty fault, and the search with made-up ones."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from incidents import needed as stored_needed
from incidents.needed import Needed
from simulation.faults.recipes import STEPS
from simulation.invariants.observer import property_observers
from simulation.invariants.properties import CORRUPT
from simulation.runs.failures import Layer, SimulationFinding
from simulation.scenario import case as cases
from simulation.scenario.case import Case
from simulation.scenario.configuration import SimulatedFault
from simulation.scenario.phases import SimulationOutcome
from simulation.shrinking import needed as search
from simulation.shrinking.needed import needed_faults
from simulation.shrinking.reduce import failing
from simulation.workload.recording import FaultRow
from tests.simulation.small import LIES, quick

ELIGIBLE = quick(2, flaws=("unclean-stays-eligible",))
"""Among others a power cut strikes, which is what this flaw takes to show."""


LATER = FaultRow(21, "kill", (1,), "{}", 10**15, None, 1)
"""A part of the second fault, long after any violation."""


def asked(case: Case) -> Needed:
    outcome, finding = failing(case)
    assert finding is not None
    return needed_faults(case, outcome, finding)


def test_the_fault_without_which_it_does_not_occur_is_needed_and_those_before_it_are_not() -> None:
    outcome, finding = failing(ELIGIBLE)
    assert finding is not None
    assert finding.property_id == "P-7"
    found = needed_faults(ELIGIBLE, outcome, finding)
    kinds = {row.fault: row.kind for row in outcome.history.faults}
    assert [kinds[number] for number in found.needed] == ["power-cut"]
    assert {kinds[number] for number in found.not_needed} >= {"changed-min-isr", "moved-leader"}
    assert found.untested == ()
    assert found.without_flaws is False
    others = tuple(fault for fault in outcome.faults if fault.kind != "power-cut")
    without = cases.run(replace(ELIGIBLE, faults=others), property_observers())
    assert without.failed_property is None


def test_a_failure_that_occurs_anyway_needs_no_fault() -> None:
    case = Case(4, {**LIES, "operations": 60}, faults=(SimulatedFault(2_000, "pause", 1, 300, 0),))
    found = asked(case)
    assert found.needed == ()
    assert found.without_flaws is False


def test_without_a_planted_flaw_nobody_asks_about_flaws(monkeypatch: pytest.MonkeyPatch) -> None:
    assert made_up(monkeypatch, 3, {1}, flaws=()).without_flaws is None


def test_a_failure_that_does_not_need_the_flaw_is_said_to_occur_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert made_up(monkeypatch, 3, {1}, flaws=("unclean-election",)).without_flaws is True


def test_what_only_the_final_logs_show_without_the_flaw_is_a_failure_too(monkeypatch: pytest.MonkeyPatch) -> None:
    assert made_up(monkeypatch, 3, {1}, flaws=("unclean-election",), in_logs=True).without_flaws is True
    assert made_up(monkeypatch, 3, {7}, flaws=("unclean-election",), in_logs=True).without_flaws is False


@given(st.integers(1, 9).flatmap(lambda n: st.tuples(st.just(n), st.sets(st.integers(0, n - 1), max_size=4))))
def test_the_needed_ones_are_found_among_any(drawn: tuple[int, set[int]]) -> None:
    number, guilty = drawn
    with pytest.MonkeyPatch.context() as patch:
        found = made_up(patch, number, guilty)
    assert found.needed == tuple(10 + place for place in sorted(guilty))
    assert found.not_needed == tuple(10 + place for place in range(number) if place not in guilty)
    assert found.untested == ()


@given(st.sets(st.integers(0, 5), min_size=1, max_size=3), st.sets(st.integers(0, 5), min_size=1, max_size=3))
def test_where_one_of_two_sets_is_enough_the_faults_left_are_one_of_them(one: set[int], other: set[int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        found = made_up(patch, 6, one, other)
    left = {number - 10 for number in found.needed}
    assert left in (one, other)


def test_a_recipe_and_its_parts_are_one_fault_and_what_it_did_later_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = made_up(monkeypatch, 3, {1}, parts=[FaultRow(20, "kill", (1,), "{}", 1, None, 1), LATER])
    assert (found.needed, found.parts) == ((11, 20), ((11, 20),))


def test_a_recipe_that_found_nobody_is_not_needed_though_it_may_be_enough_without_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = made_up(monkeypatch, 3, {0}, {2}, idle={2})
    assert (found.needed, found.not_needed) == ((10,), (11, 12))


def test_a_recipe_that_found_nobody_is_tried_like_others_where_the_failure_needs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = made_up(monkeypatch, 3, {1, 2}, idle={2})
    assert (found.needed, found.not_needed) == ((11, 12), (10,))


def test_what_fails_only_with_other_random_choices_needs_no_fault_either(monkeypatch: pytest.MonkeyPatch) -> None:
    found = made_up(monkeypatch, 4, {2}, lucky=2)
    assert found.needed == ()
    assert found.not_needed == (10, 11, 12, 13)


def test_faults_for_which_there_was_no_time_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    found = made_up(monkeypatch, 4, {2}, stopped=True)
    assert (found.needed, found.not_needed) == ((), ())
    assert found.untested == (10, 11, 12, 13)


def test_whether_the_flaw_is_to_blame_is_known_before_the_faults_are(monkeypatch: pytest.MonkeyPatch) -> None:
    found = made_up(monkeypatch, 4, {2}, flaws=("unclean-election",), stopped_after=2)
    assert found.without_flaws is True
    assert found.untested == (10, 11, 12, 13)


@cache
def without_faults() -> SimulationOutcome:
    return cases.run(quick(1, faults=(), operations=1, polls=1, duration_ms=3_000))


def made_up(
    patch: pytest.MonkeyPatch,
    number: int,
    *guilty: Iterable[int],
    flaws: tuple[str, ...] = (),
    lucky: int | None = None,
    stopped: bool = False,
    stopped_after: int | None = None,
    in_logs: bool = False,
    parts: Sequence[FaultRow] = (),
    idle: Collection[int] = (),
) -> Needed:
    """Search where a failure occurs with all faults of one of these sets, or with one draw of the random choices.

    `idle` are places of recipes that found nobody to act on.

    No property is broken by it if it is `in_logs`: the log of a broker cannot be read to its end.
    """
    outcome = without_faults()
    faults = tuple(SimulatedFault(2_000 + 100 * place, "kill", place, 100, 0) for place in range(number))
    rows = [
        FaultRow(
            10 + place, "votes-held" if place in idle else "kill", () if place in idle else (1,), "{}", 0, None, place
        )
        for place in range(number)
    ]
    rows += parts
    outcome = replace(
        outcome,
        faults=faults,
        configuration=replace(outcome.configuration, flaws=flaws),
        history=replace(outcome.history, faults=rows),
    )

    if in_logs:
        finding = SimulationFinding(Layer.LOGS, CORRUPT, "it does")
        failed = replace(outcome, logs={place: log._replace(damage="it does") for place, log in outcome.logs.items()})
    else:
        finding = SimulationFinding(Layer.INVARIANT, "P-1", "it does")
        failed = replace(outcome, failed_property="P-1", failure="it does")

    simulated: list[Case] = []

    def run(case: Case, *_: object) -> SimulationOutcome:
        simulated.append(case)
        left = {fault.target for fault in case.faults or ()}
        fails = any(set(wanted) <= left for wanted in guilty) or (lucky is not None and case.refill == lucky)
        return failed if fails else outcome

    patch.setattr(search.cases, "run", run)
    late = math.inf if stopped_after is None else stopped_after
    return needed_faults(quick(1), outcome, finding, lambda: stopped or len(simulated) >= late)


def test_all_that_a_fault_does_is_known_by_its_place_in_the_schedule() -> None:
    """Recipes and faults that go on later open others, of other kinds; each is a part of the one that was planned."""
    parts = 0
    for seed in range(1, 12):
        outcome = cases.run(quick(seed))
        for row in outcome.history.faults:
            assert row.planned is not None
            planned = outcome.faults[row.planned]
            assert planned.at_ms * 1_000_000 <= row.started_ns or row.started_ns < outcome.phases["set-up"][1] * 1_001
            if planned.kind in STEPS:
                parts += row.kind != planned.kind
            elif row.kind != planned.kind:
                assert row.kind in ("page-cache-loss", "restart", "late-connection"), (planned, row)
    assert parts > 0


def test_it_is_read_as_it_was_written(tmp_path: Path) -> None:
    whole = Needed((3,), (1, 2), (), 3, 9, without_flaws=False)
    stored_needed.write(tmp_path, whole)
    assert stored_needed.read(tmp_path) == whole


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"needed": "3"}', "null", '{"needed": [true]}'])
def test_a_file_that_says_something_else_is_as_good_as_none(tmp_path: Path, text: str) -> None:
    (tmp_path / stored_needed.FILE_NAME).write_text(text)
    assert stored_needed.read(tmp_path) is None
