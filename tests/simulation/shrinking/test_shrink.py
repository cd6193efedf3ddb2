"""How small the shrinker must get: predicates of which the minimum is known."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

import pytest

from simulation.shrinking.shrinker import Candidate, Lane, LaneKind, Lanes, Shrinker, one_by_one

Rows = Sequence[tuple[int, ...]]

SHAPE = {"settings": Lane(LaneKind.FIXED), "schedule": Lane(LaneKind.ROWS, 3), "noise": Lane(LaneKind.NOISE)}


def rows_of(values: Sequence[int]) -> Rows:
    return [tuple(values[at : at + 3]) for at in range(0, len(values), 3)]


def start(seed: int, rows: int = 40, noise: int = 500) -> Lanes:
    source = random.Random(seed)
    schedule = [(source.randrange(1, 60_000), source.randrange(12), source.randrange(1_000)) for _ in range(rows)]
    return {
        "settings": (4, 3, 2),
        "schedule": tuple(number for row in schedule for number in row),
        "noise": tuple(source.randrange(100) for _ in range(noise)),
    }


def shrunk(start: Lanes, fails: Callable[[Lanes], bool], shape: Mapping[str, Lane] = SHAPE) -> tuple[Lanes, int]:
    """The minimum that is found, and how many candidates it took."""
    tried = 0

    def attempt(candidate: Candidate) -> Lanes | None:
        nonlocal tried
        tried += 1
        lanes = dict(candidate.lanes)
        for name in shape:
            if name not in lanes:
                source = random.Random(candidate.refill)
                lanes[name] = tuple(source.randrange(100) for _ in range(500))
        return lanes if fails(lanes) else None

    assert fails(start)
    return Shrinker(shape, one_by_one(attempt)).run(start), tried


@pytest.mark.parametrize("seed", range(5))
def test_what_always_fails_becomes_nothing(seed: int) -> None:
    found, tried = shrunk(start(seed), lambda _: True)
    assert found == {"settings": (0, 0, 0), "schedule": (), "noise": ()}
    assert tried < 10


@pytest.mark.parametrize("seed", range(5))
def test_one_guilty_row_of_forty_is_left(seed: int) -> None:
    begin = start(seed)
    guilty = rows_of(begin["schedule"])[seed * 7]
    found, tried = shrunk(begin, lambda lanes: any(row[1:] == guilty[1:] for row in rows_of(lanes["schedule"])))
    assert found == {"settings": (0, 0, 0), "schedule": (0, *guilty[1:]), "noise": ()}
    assert tried < 150


@pytest.mark.parametrize("seed", range(5))
def test_two_rows_that_need_each_other_are_left_in_their_order(seed: int) -> None:
    begin = start(seed)
    rows = rows_of(begin["schedule"])
    first, second = rows[3][1:], rows[31][1:]

    def fails(lanes: Lanes) -> bool:
        kinds = [row[1:] for row in rows_of(lanes["schedule"])]
        return first in kinds and second in kinds[kinds.index(first) :]

    found, _ = shrunk(begin, fails)
    assert found["schedule"] == (0, *first, 0, *second)


@pytest.mark.parametrize("threshold", [1, 77, 5_000, 49_999])
def test_a_number_ends_close_above_its_threshold(threshold: int) -> None:
    begin = {**start(1), "schedule": (*start(1)["schedule"], 59_999, 3, 5)}
    found, _ = shrunk(begin, lambda lanes: any(row[0] >= threshold for row in rows_of(lanes["schedule"])))
    (row,) = rows_of(found["schedule"])
    assert row[1:] == (0, 0)
    assert threshold <= row[0] <= threshold * 1.06 + 1


def test_settings_go_as_low_as_each_may() -> None:
    found, _ = shrunk(start(1), lambda lanes: lanes["settings"][0] >= 2 and lanes["settings"][2] >= 1)
    assert found["settings"] == (2, 0, 1)


def test_noise_that_matters_is_cut_to_what_matters() -> None:
    begin = {**start(1), "noise": (*(7,) * 300, 99, *(7,) * 199)}
    found, tried = shrunk(begin, lambda lanes: 99 in lanes["noise"])
    assert found["noise"] == (99,)
    assert tried < 400


def test_noise_is_zeroed_around_an_index_that_matters() -> None:
    begin = {**start(1), "noise": (7,) * 64}
    found, _ = shrunk(begin, lambda lanes: lanes["noise"][50:51] == (7,))
    assert found["noise"] == (*(0,) * 50, 7)


def test_noise_is_drawn_again_when_that_makes_what_matters_simpler() -> None:
    """The rows fail without settings only under luck that the first noise does not have."""

    def fails(lanes: Lanes) -> bool:
        lucky = sum(lanes["noise"][:4]) > 150
        return lanes["settings"][0] >= (1 if lucky else 4)

    begin = {**start(1), "noise": (1,) * 20}
    found, _ = shrunk(begin, fails)
    assert found["settings"] == (1, 0, 0)


def test_what_has_been_tried_is_not_tried_again() -> None:
    tried: list[Lanes] = []

    def attempt(candidate: Candidate) -> Lanes | None:
        if candidate.refill is None:
            tried.append(candidate.lanes)
        return None

    Shrinker(SHAPE, one_by_one(attempt)).run(start(1, rows=8, noise=16))
    identities = [tuple(lanes[name] for name in SHAPE) for lanes in tried]
    assert len(identities) == len(set(identities))


def test_it_stops_on_request() -> None:
    tried = 0

    def attempt(candidate: Candidate) -> Lanes | None:
        nonlocal tried
        tried += 1
        return candidate.lanes if "noise" in candidate.lanes else None

    Shrinker(SHAPE, one_by_one(attempt), stopped=lambda: tried >= 3).run(start(1))
    assert tried == 3


def test_rows_that_need_the_time_between_them_happen_sooner_together() -> None:
    shape = {**SHAPE, "schedule": Lane(LaneKind.ROWS, 3, timed=True)}
    begin = {"settings": (0,), "schedule": (40_000, 1, 0, 40_500, 2, 0, 52_000, 3, 0), "noise": ()}

    def fails(lanes: Lanes) -> bool:
        at = {row[1]: row[0] for row in rows_of(lanes["schedule"])}
        return {1, 2, 3} <= at.keys() and at[2] - at[1] == 500 and at[3] >= at[2]

    found, _ = shrunk(begin, fails, shape)
    assert found["schedule"] == (0, 1, 0, 500, 2, 0, 500, 3, 0)


def test_noise_is_drawn_again_as_long_as_that_shortens_the_trace() -> None:
    """The story is as long as the first draw says, and no draw may be zero."""
    shape = {**SHAPE, "story": Lane(LaneKind.MEASURED)}
    lengths: list[int] = []

    def attempt(candidate: Candidate) -> Lanes | None:
        noise = candidate.lanes.get("noise", ())
        if not noise and candidate.refill is not None:
            source = random.Random(candidate.refill)
            noise = tuple(1 + source.randrange(99) for _ in range(50))
        if not all(noise) or len(noise) < 50:
            return None  # what is missing is zero
        if candidate.below is not None:
            lengths.append(noise[0])
        return (
            {**candidate.lanes, "noise": noise, "story": noise[:1]}
            if (noise[0],) < (candidate.below or (100,))
            else None
        )

    begin = {"settings": (0,), "schedule": (), "noise": (99,) * 50, "story": (99,)}
    found = Shrinker(shape, one_by_one(attempt)).run(begin)
    assert found["story"] == found["noise"][:1] == (min(lengths),)
    assert found["story"][0] < 20
