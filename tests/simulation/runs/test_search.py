"""Searches: what they draw behind the usual draws, and that what they find is a failure like any other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harness.commands import cli
from simulation.engine.choices import ChoiceSequence
from simulation.invariants.observer import property_observers
from simulation.runs import choice_files
from simulation.runs.failures import findings
from simulation.runs.stored import replay_run, store
from simulation.runs.sweep import simulate
from simulation.scenario.case import Case, run
from simulation.scenario.configuration import (
    DIRECTORY_FAULTS,
    EXAMINATIONS,
    LATER_RECIPES,
    RECIPES,
    Configuration,
    draw_configuration,
    draw_later,
)
from simulation.scenario.overrides import check_overrides, repeat_command
from simulation.scenario.scenario import settings_of
from simulation.scenario.search import FOCUSED_KINDS, SEARCHES, configuration_of
from simulation.shrinking.reduce import ShrinkTarget, reduce
from tests.simulation.small import QUICK, without_later_recipes

LYING = {**QUICK, "search": "focused", "flaws": ("ack-before-replication",)}


def drawn(seed: int, **overrides: object) -> Configuration:
    """As a seed is drawn without the recipes of the later stream."""
    plain = {"log_directories": 1, "fetch_bytes": 0, "examination": "", "keyed_topic": False, "racks": 0}
    return configuration_of(
        ChoiceSequence(seed),
        without_later_recipes(seed, **{**plain, **overrides}),
    )


def test_every_search_may_have_the_recipes_of_the_later_stream() -> None:
    for search in ("usual", "dense", "focused"):
        every = {seed: configuration_of(ChoiceSequence(seed), {"search": search}) for seed in range(1, 61)}
        twice = [one for one in every.values() if "added-twice" in one.faults]
        assert {kind for one in every.values() for kind in one.faults} >= set(LATER_RECIPES)
        assert 5 < len(twice) < 40
        assert {one.metadata_fetch_bytes for one in twice} == {1, 8 << 20}


def test_the_usual_search_takes_each_seed_as_it_is_drawn() -> None:
    for seed in range(1, 21):
        stream = ChoiceSequence(seed)["configuration"]
        assert drawn(seed) == drawn(seed, search="usual") == draw_later(stream, draw_configuration(stream))


@pytest.mark.parametrize("search", SEARCHES)
def test_every_search_lets_single_log_directories_fail_where_there_are_several(search: str) -> None:
    one, two = (drawn(7, search=search, log_directories=count) for count in (1, 2))
    assert two == replace(one, log_directories=2, faults=(*one.faults, *DIRECTORY_FAULTS))
    every = configuration_of(ChoiceSequence(7), {"search": search, "log_directories": 2})
    assert set(two.faults) | set(LATER_RECIPES) >= set(every.faults) >= set(two.faults)


def test_each_seed_draws_what_is_asked_at_its_end_and_is_as_it_was_otherwise() -> None:
    every = [configuration_of(ChoiceSequence(seed)) for seed in range(1, 101)]
    assert {one.examination for one in every} == set(EXAMINATIONS)
    without = [configuration_of(ChoiceSequence(seed), {"examination": ""}) for seed in range(1, 101)]
    assert without == [replace(one, examination="") for one in every]


def test_a_fifth_of_the_seeds_fetches_few_bytes_at_once_and_is_as_it_was_otherwise() -> None:
    with_limit = 0
    for seed in range(1, 501):
        one = configuration_of(ChoiceSequence(seed))
        with_limit += one.fetch_bytes > 0
        assert configuration_of(ChoiceSequence(seed), {"fetch_bytes": 0}) == replace(one, fetch_bytes=0)
    assert 75 < with_limit < 125
    for node in settings_of(Configuration(fetch_bytes=500)):
        assert (node.replica_fetch_max_bytes, node.replica_fetch_response_max_bytes) == (500, 500)


def test_a_sixth_of_the_seeds_has_a_compacted_topic_and_is_as_it_was_otherwise() -> None:
    compacted = 0
    for seed in range(1, 501):
        one = configuration_of(ChoiceSequence(seed))
        compacted += one.keyed_topic
        assert configuration_of(ChoiceSequence(seed), {"keyed_topic": False}) == replace(one, keyed_topic=False)
    assert 60 < compacted < 110


def test_the_brokers_of_a_quarter_of_the_seeds_are_in_racks_and_the_seed_is_as_it_was_otherwise() -> None:
    in_racks = 0
    for seed in range(1, 501):
        one = configuration_of(ChoiceSequence(seed))
        in_racks += one.racks == 2
        assert configuration_of(ChoiceSequence(seed), {"racks": 0}) == replace(one, racks=0)
    assert 95 < in_racks < 155
    placed = [
        (node.rack, node.replica_selector) for node in settings_of(Configuration(racks=2)) if "broker" in node.roles
    ]
    assert placed == [("rack 1", "rack-aware"), ("rack 0", "rack-aware"), ("rack 1", "rack-aware")]
    assert {node.replica_selector for node in settings_of(Configuration())} == {"leader"}


def test_a_dense_seed_has_more_faults_of_the_kinds_that_it_has_anyway() -> None:
    for seed in range(1, 21):
        dense, usual = drawn(seed, search="dense"), drawn(seed)
        assert dense == replace(usual, fault_interval_ms=1_000, sole_survivor=False, search="dense")


def test_a_seed_of_one_recipe_has_no_other_fault() -> None:
    wanted = {"search": "alone", "log_directories": 1}
    every = [configuration_of(ChoiceSequence(seed), wanted) for seed in range(1, 101)]
    assert {one.faults for one in every} == {(kind,) for kind in RECIPES}
    assert 30 < sum(one.metadata_fetch_bytes == 1 for one in every) < 80  # some have drawn that anyway


def test_mixed_seeds_are_dense_or_focused_or_of_one_recipe() -> None:
    mixed = [configuration_of(ChoiceSequence(seed), {"search": "mixed"}) for seed in range(1, 61)]
    searches = ("dense", "focused", "alone")
    of = [[configuration_of(ChoiceSequence(seed), {"search": name}) for name in searches] for seed in range(1, 61)]
    alike = {
        name: sum(one.faults == each[index].faults for one, each in zip(mixed, of, strict=True))
        for index, name in enumerate(searches)
    }
    assert alike["dense"] > 10
    assert sum(len(one.faults) <= 2 for one in mixed) > 10
    assert sum(one.fault_interval_ms in (500, 2_000) and len(one.faults) > 3 for one in mixed) > 5


def test_a_focused_seed_has_few_kinds_of_fault_close_together_in_the_cluster_that_the_seed_draws_anyway() -> None:
    sizes = set()
    for seed in range(1, 41):
        focused, usual = drawn(seed, search="focused"), drawn(seed)
        sizes.add(len(focused.faults))
        assert set(focused.faults) <= set(FOCUSED_KINDS)
        assert focused.fault_interval_ms <= 2_000
        kept = ("brokers", "controllers", "partitions", "lag_ms", "flush_messages", "operations", "group_members")
        assert [getattr(focused, name) for name in kept] == [getattr(usual, name) for name in kept]
    assert sizes == {4, 8, 12}


def test_every_kind_of_a_focused_search_is_drawn() -> None:
    assert {kind for seed in range(1, 61) for kind in drawn(seed, search="focused").faults} == set(FOCUSED_KINDS)


def test_settings_are_stronger_than_a_search() -> None:
    focused = drawn(3, search="focused", fault_interval_ms=7_777, faults=("bit-flip",), sole_survivor=True)
    assert (focused.fault_interval_ms, focused.faults, focused.sole_survivor) == (7_777, ("bit-flip",), True)


def test_a_failure_of_a_focused_seed_is_stored_replayed_and_shrunk(tmp_path: Path) -> None:
    case = Case(1, LYING)
    found = store(tmp_path, case)
    assert found[0].property_id == "P-12"
    result = replay_run(tmp_path)
    assert result.equal
    assert result.findings == tuple(found)
    outcome = run(choice_files.load(tmp_path / choice_files.FILE_NAME).case(), property_observers())
    assert outcome.digest == result.digest == simulate(1, LYING, observed=True).digest
    first = findings(outcome)[0]
    small = reduce(outcome, ShrinkTarget(first.layer, first.property_id), 1)
    assert len(small.choice_file.faults) <= 1
    assert small.choice_file.configuration.operations == 1


def test_the_command_that_repeats_a_seed_names_its_search() -> None:
    assert repeat_command(["sim", "--seed", "3"], {"search": "focused"}) == "harrow sim --seed 3 --search focused"


@pytest.mark.parametrize("words", [["--search", "widest"], ["--set", "search=widest"]])
def test_an_unknown_search_is_a_usage_error(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["sim", "--seed", "1", *words])
    assert ended.value.code == 2
    assert (
        "expected the name of a search, one of usual, dense, focused, alone, mixed, found 'widest'"
        in capsys.readouterr().err
    )


def test_an_exhaustive_search_takes_no_other_search(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["sim", "--exhaustive", "--search", "focused"])
    assert ended.value.code == 2
    assert "expected no --search" in capsys.readouterr().err


def test_all_searches_can_be_asked_for() -> None:
    for name in SEARCHES:
        check_overrides({"search": name})
