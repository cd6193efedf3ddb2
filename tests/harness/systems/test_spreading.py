"""Which partitions move onto brokers that were added: the fewest that balance the cluster."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.zookeeper.requests.placement import place
from harness.systems.spreading import Move, Partition, moves

Assigned = dict[Partition, tuple[int, ...]]


def placed(brokers: int, partitions: int, factor: int) -> Assigned:
    return {("t", number): replicas for number, replicas in enumerate(place(range(1, brokers + 1), partitions, factor))}


def after(assigned: Assigned, planned: list[Move]) -> Assigned:
    return assigned | {move.partition: move.after for move in planned}


def held(assigned: Assigned, brokers: int) -> list[int]:
    """How many replicas each broker has."""
    count = Counter(member for replicas in assigned.values() for member in replicas)
    return [count[broker] for broker in range(1, brokers + 1)]


def led(assigned: Assigned, brokers: int) -> list[int]:
    """Of how many partitions each broker is the preferred leader."""
    count = Counter(replicas[0] for replicas in assigned.values())
    return [count[broker] for broker in range(1, brokers + 1)]


def taken(planned: list[Move]) -> int:
    """How many replicas are copied."""
    return sum(len(set(move.after) - set(move.before)) for move in planned)


@pytest.mark.parametrize(
    ("old", "new", "partitions", "factor"), [(3, 2, 100, 3), (3, 1, 12, 2), (3, 1, 4, 3), (1, 2, 10, 1), (2, 1, 3, 2)]
)
def test_load_is_balanced_with_as_few_copies_as_the_new_brokers_lack(
    old: int, new: int, partitions: int, factor: int
) -> None:
    assigned = placed(old, partitions, factor)
    brokers = list(range(1, old + new + 1))
    planned = moves(assigned, brokers, brokers[old:])
    balanced = after(assigned, planned)
    assert max(held(balanced, old + new)) - min(held(balanced, old + new)) <= 1
    assert max(led(balanced, old + new)) - min(led(balanced, old + new)) <= 1
    assert taken(planned) == sum(held(balanced, old + new)[old:])
    assert all(len(set(move.after)) == factor for move in planned)
    assert moves(balanced, brokers, brokers[old:]) == []


@given(
    st.lists(st.permutations([1, 2, 3, 4]).flatmap(lambda order: st.integers(1, 4).map(lambda n: tuple(order[:n])))),
    st.integers(1, 3),
)
def test_any_assignment_ends_with_nobody_two_above_a_new_broker(replicas: list[tuple[int, ...]], new: int) -> None:
    assigned: Assigned = {("t", number): members for number, members in enumerate(replicas)}
    brokers = list(range(1, 5 + new))
    planned = moves(assigned, brokers, brokers[4:])
    balanced = after(assigned, planned)
    counts = held(balanced, len(brokers))
    lowest = min(counts[4:])
    for giver in range(1, 5):
        taker = 5 + counts[4:].index(lowest)
        could_give = any(giver in members and taker not in members for members in balanced.values())
        assert counts[giver - 1] <= lowest + 1 or not could_give
    for move in planned:
        assert len(set(move.after)) == len(move.before)
        assert set(move.after) - set(move.before) <= set(brokers[4:])


def test_an_old_broker_gets_nothing() -> None:
    assigned: Assigned = {("t", number): (1,) for number in range(9)}
    planned = moves(assigned, [1, 2, 3], [3])
    assert held(after(assigned, planned), 3) == [5, 0, 4]
