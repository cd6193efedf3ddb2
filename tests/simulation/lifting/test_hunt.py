"""A search around a real run finds its incident where the broker has the flaw, and nothing where it has not."""

from __future__ import annotations

from pathlib import Path

from simulation.lifting.hunt import attempt, hunt, same_incident
from simulation.lifting.real_run import read
from simulation.lifting.variations import WAYS, case_of, way_of
from tests.simulation.lifting.planted import FLAW, lossy_run

FIRST = 1_920_100


def test_the_lowest_seed_with_the_incident_is_found_and_means_the_same_again(tmp_path: Path) -> None:
    run = read(lossy_run(tmp_path, FLAW))
    found = hunt(run, range(FIRST, FIRST + 40), 1)
    assert found.hit is not None
    assert found.hit.shown_by is not None
    assert found.seeds == found.hit.seed - FIRST + 1
    assert attempt(found.hit.seed, run) == found.hit
    assert same_incident(run, case_of(run, found.hit.seed))


def test_several_processes_find_the_same_seed(tmp_path: Path) -> None:
    run = read(lossy_run(tmp_path, FLAW))
    seeds = range(FIRST, FIRST + 40)
    assert hunt(run, seeds, 2).hit == hunt(run, seeds, 1).hit


def test_the_correct_broker_does_not_have_the_incident(tmp_path: Path) -> None:
    run = read(lossy_run(tmp_path))
    tried = [attempt(seed, run) for seed in range(FIRST, FIRST + 6)]
    assert [one.found for one in tried] == [""] * 6
    assert [one.shown_by for one in tried] == [None] * 6


def test_a_flaw_that_does_other_harm_is_not_taken_for_the_incident(tmp_path: Path) -> None:
    run = read(lossy_run(tmp_path, "quorum-ack-before-flush"))
    assert all(attempt(seed, run).shown_by is None for seed in range(FIRST, FIRST + 4))


def test_a_search_that_is_stopped_has_tried_nothing(tmp_path: Path) -> None:
    run = read(lossy_run(tmp_path, FLAW))
    found = hunt(run, range(FIRST, FIRST + 40), 1, stopped=lambda: True)
    assert (found.seeds, found.hit) == (0, None)


def test_a_seed_decides_how_the_faults_are_varied(tmp_path: Path) -> None:
    run = read(lossy_run(tmp_path, FLAW))
    seeds = range(FIRST, FIRST + 60)
    assert {way_of(seed) for seed in seeds} == set(WAYS)
    by_way = {way_of(seed): case_of(run, seed) for seed in seeds}
    (exact,) = by_way["as it was"].faults or ()
    assert (exact.kind, exact.target, exact.duration_ms) == ("isolate", 0, 6_500)
    assert exact.parameter == 0  # from the nodes only, not from the clients
    assert len(by_way["repeated"].faults or ()) > 1
    assert by_way["faults of the same kinds"].faults is None
    varied = {case_of(run, seed).faults for seed in seeds if way_of(seed).startswith("times varied")}
    assert len({fault.target for faults in varied for fault in faults or ()}) > 1
    assert len({fault.at_ms for faults in varied for fault in faults or ()}) > 1
    assert all(case_of(run, seed) == case_of(run, seed) for seed in seeds)
