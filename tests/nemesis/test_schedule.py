from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nemesis.drawing import draw, swarm
from nemesis.faults import KINDS, USUAL
from nemesis.recipes import RECIPES
from nemesis.schedule import Schedule, ScheduleError, dumps, kinds_of, loads
from nemesis.targets import OF_CONTROLLERS, SAME, Trigger

seeds = st.integers(0, (1 << 63) - 1)


def drawn(seed: int, kinds: tuple[str, ...] = USUAL, **sizes: int) -> Schedule:
    wanted = {"duration_ms": 60_000, "interval_ms": 6_000, "partitions": 4, **sizes}
    return draw(seed, kinds, **wanted)


def test_a_seed_draws_the_same_in_every_version_of_python() -> None:
    first = drawn(42).entries[0]
    assert (first.at_ms, first.kind, first.target.role, first.duration_ms) == (4364, "pause", "broker", 4994)


@given(seeds)
def test_the_same_seed_draws_the_same_schedule(seed: int) -> None:
    assert drawn(seed) == drawn(seed)


def test_different_seeds_draw_different_schedules() -> None:
    assert len({dumps(drawn(seed)) for seed in range(50)}) == 50


@given(seeds)
def test_a_stored_schedule_is_replayed_exactly(seed: int) -> None:
    schedule = drawn(seed)
    assert loads(dumps(schedule)) == schedule


@given(seeds)
def test_a_minute_holds_at_least_six_faults_of_at_least_three_kinds(seed: int) -> None:
    schedule = drawn(seed)
    assert len(schedule.entries) >= 6
    assert len({entry.kind for entry in schedule.entries}) >= 3


@given(seeds, st.sets(st.sampled_from(sorted(KINDS)), min_size=1))
def test_only_wanted_kinds_are_drawn(seed: int, kinds: set[str]) -> None:
    schedule = drawn(seed, tuple(sorted(kinds)))
    assert {entry.kind for entry in schedule.entries} <= kinds
    assert {kind.name for kind in kinds_of(schedule)} == {entry.kind for entry in schedule.entries}


@given(seeds)
def test_faults_follow_one_another_unless_they_say_otherwise(seed: int) -> None:
    entries = drawn(seed).entries
    for before, entry in pairwise(entries):
        if not entry.beside:
            assert entry.at_ms > before.at_ms + before.duration_ms
    assert not entries[0].beside


@given(seeds)
def test_entries_are_numbered_in_the_order_of_their_times(seed: int) -> None:
    entries = drawn(seed).entries
    assert [entry.entry for entry in entries] == list(range(1, len(entries) + 1))
    assert [entry.at_ms for entry in entries] == sorted(entry.at_ms for entry in entries)
    assert all(0 < entry.at_ms < 60_000 for entry in entries)


def test_every_kind_comes_up_before_any_comes_up_three_times() -> None:
    singles = [entry.kind for entry in drawn(5, ("kill", "restart", "halves"), duration_ms=600_000).entries]
    assert set(singles[:8]) == {"kill", "restart", "halves"}


def test_without_a_lossy_budget_nothing_forgets() -> None:
    schedule = draw(1, tuple(KINDS), 3_600_000, 6_000, 4, lossy_budget=0)
    assert {entry.kind for entry in schedule.entries} == {kind.name for kind in KINDS.values() if not kind.lossy}


@given(seeds)
def test_one_controller_draws_what_was_always_drawn(seed: int) -> None:
    assert drawn(seed, controllers=1) == drawn(seed)
    assert all(entry.target.role != "controller" for entry in drawn(seed).entries)


def test_several_controllers_are_hit_by_every_fault_that_a_node_can_suffer() -> None:
    entries = [entry for seed in range(40) for entry in drawn(seed, controllers=3).entries]
    of_controllers = {entry.kind for entry in entries if entry.target.role in OF_CONTROLLERS}
    assert of_controllers >= set(USUAL) - {"halves"}
    assert {entry.parameters["controller"] for entry in entries if entry.kind == "halves"} >= {"active"}
    cut_off = {entry.target.role for entry in entries if entry.parameters.get("from") == "controllers"}
    assert cut_off >= {"leader", "broker", "controller"}


def test_in_an_interregnum_a_leader_goes_while_the_controllers_elect() -> None:
    entries = [entry for seed in range(40) for entry in drawn(seed, controllers=3).entries]
    pairs = [(one, two) for one, two in pairwise(entries) if one.target.role == "active-controller" and two.beside]
    assert pairs
    assert {two.target.role for _, two in pairs} == {"leader"}
    assert all(two.at_ms < one.at_ms + one.duration_ms for one, two in pairs)


def test_no_kinds_make_an_empty_schedule() -> None:
    assert drawn(1, ()) == Schedule(())
    assert loads(dumps(Schedule(()))) == Schedule(())


@settings(max_examples=30)
@given(seeds)
def test_a_long_schedule_keeps_to_its_interval(seed: int) -> None:
    entries = [entry for entry in drawn(seed, duration_ms=3_600_000, interval_ms=20_000).entries if not entry.beside]
    assert 150 <= len(entries) <= 200


GOOD = json.loads(dumps(drawn(42)))["entries"][0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nonsense", "expected a schedule as JSON"),
        ("[]", "expected a schedule"),
        ('{"entries": 3}', "expected a schedule"),
        ({"kind": "flood"}, "entry 1 of the schedule: expected the name of a fault"),
        ({"at_ms": -1}, "whole numbers from 0"),
        ({"at_ms": "soon"}, "whole numbers from 0"),
        ({"target": {"role": "bystander"}}, "expected a role"),
        ({"target": "leader"}, "expected the fields of an entry"),
        ({"beside": "yes"}, "beside to be true or false"),
        ({"parameters": {"from": 1}}, "an object of strings"),
        ({"colour": "red"}, "expected the fields of an entry"),
    ],
)
def test_a_bad_schedule_is_refused_in_one_line(text: str | dict[str, object], message: str) -> None:
    stored = text if isinstance(text, str) else json.dumps({"entries": [{**GOOD, **text}]})
    with pytest.raises(ScheduleError, match=message) as caught:
        loads(stored)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("item", [3, None, "kill", [1], {}])
def test_an_entry_that_is_no_object_is_refused(item: object) -> None:
    with pytest.raises(ScheduleError, match="entry 1"):
        loads(json.dumps({"entries": [item]}))


@given(seeds)
def test_a_composition_by_name_fires_its_parts_at_once(seed: int) -> None:
    entries = drawn(seed, ("kill+slow-network",)).entries
    for first, second in zip(entries[::2], entries[1::2], strict=False):
        assert (first.kind, second.kind) == ("kill", "slow-network")
        assert 0 <= second.at_ms - first.at_ms < 1_000
        assert (first.beside, second.beside) == (False, True)


def test_a_composition_that_loses_data_counts_as_one_that_does() -> None:
    assert draw(1, ("kill+bit-flip",), 60_000, 6_000, 4, lossy_budget=0) == Schedule(())


@given(seeds, st.integers(2, 4))
def test_more_intensity_means_more_faults_at_a_time(seed: int, intensity: int) -> None:
    entries = drawn(seed, intensity=intensity).entries
    assert len(entries) > 1.5 * len(drawn(seed).entries)
    assert all(entry.beside for entry in entries)
    assert [entry.at_ms for entry in entries] == sorted(entry.at_ms for entry in entries)


@given(seeds)
def test_a_swarm_leaves_kinds_out_and_keeps_two(seed: int) -> None:
    chosen = swarm(seed, USUAL)
    assert 2 <= len(chosen) <= len(USUAL)
    assert chosen == tuple(name for name in USUAL if name in chosen)
    assert chosen == swarm(seed, USUAL)


def test_every_kind_is_left_out_by_some_swarm() -> None:
    assert set(USUAL) == set().union(*(set(USUAL) - set(swarm(seed, USUAL)) for seed in range(50)))
    assert swarm(1, ("kill",)) == ("kill",)


def test_a_trigger_is_stored_with_its_entry() -> None:
    raw = {**GOOD, "when": {"condition": "isr-at-most", "partition": 1, "value": 1}}
    schedule = loads(json.dumps({"entries": [raw]}))
    assert schedule.entries[0].when == Trigger("isr-at-most", 1, 1)
    assert loads(dumps(schedule)) == schedule


@pytest.mark.parametrize("when", [{"condition": "full-moon"}, {"condition": "isr-at-most", "value": -1}, {"hour": 3}])
def test_a_trigger_that_makes_no_sense_is_refused(when: dict[str, object]) -> None:
    with pytest.raises(ScheduleError, match="entry 1 of the schedule: expected"):
        loads(json.dumps({"entries": [{**GOOD, "when": when}]}))


@given(seeds)
def test_a_broker_on_its_own_has_no_followers_and_no_majority_to_hit(seed: int) -> None:
    roles = {entry.target.role for entry in drawn(seed, tuple(KINDS), brokers=1, controllers=0).entries}
    assert roles <= {"leader", "broker", "brokers", "everyone"}


@given(seeds)
def test_more_brokers_than_one_change_nothing_in_the_draw(seed: int) -> None:
    assert drawn(seed, brokers=5) == drawn(seed)


@pytest.mark.parametrize("recipe", RECIPES)
@given(seed=seeds)
def test_a_recipe_fires_all_that_it_consists_of_on_one_partition(recipe: str, seed: int) -> None:
    entries = drawn(seed, (recipe,), duration_ms=600_000).entries
    assert {entry.kind for entry in entries} == set(RECIPES[recipe].parts)
    assert [entry.entry for entry in entries] == list(range(1, len(entries) + 1))
    assert [entry.at_ms for entry in entries] == sorted(entry.at_ms for entry in entries)
    assert all(not entry.beside for entry in entries if entry.target.role == SAME)


def hit_again(schedule: Schedule) -> list[tuple[str, str]]:
    """The kinds of each entry that hits what another hit, and of that other."""
    kinds = {entry.entry: entry.kind for entry in schedule.entries}
    return [(kinds[entry.target.entry], entry.kind) for entry in schedule.entries if entry.target.role == SAME]


@pytest.mark.parametrize("intensity", [1, 3])
@given(seed=seeds)
def test_who_is_hit_again_is_who_the_same_recipe_hit_before(intensity: int, seed: int) -> None:
    schedule = drawn(seed, (*RECIPES, "kill", "pause"), duration_ms=600_000, intensity=intensity)
    found = hit_again(schedule)
    assert found
    assert set(found) == {("restart", "page-cache-loss")}
    assert loads(dumps(schedule)) == schedule


def test_what_a_recipe_cannot_have_leaves_it_out() -> None:
    assert drawn(1, ("restarted-then-lost",), lossy_budget=0).entries == ()
    assert drawn(1, ("leaders-one-after-the-other",), brokers=1).entries == ()
    assert {entry.kind for entry in drawn(1, ("leaders-one-after-the-other", "pause"), brokers=1).entries} == {"pause"}


@pytest.mark.parametrize("entry", [0, 1, 2])
def test_only_an_earlier_entry_can_be_hit_again(entry: int) -> None:
    raw = {
        "entry": 1, "at_ms": 0, "kind": "kill", "duration_ms": 1, "parameters": {},
        "target": {"role": SAME, "entry": entry},
    }  # fmt: skip
    with pytest.raises(ScheduleError, match="expected the number of an earlier entry"):
        loads(json.dumps({"entries": [raw]}))
