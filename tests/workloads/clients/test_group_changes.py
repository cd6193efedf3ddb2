"""What a member of a group owns, by what its library tells, and where it reads on."""

from __future__ import annotations

from itertools import count

import pytest

from workloads.clients.base import Partition, PolledRecord
from workloads.clients.group_changes import GroupChanges, polled_by_member
from workloads.clients.optional_interfaces import Assigned, Revoked

A, B, C = (Partition("log", number) for number in range(3))


@pytest.fixture
def clock():
    return count(1).__next__


@pytest.mark.parametrize(("assignor", "held"), [("eager", {B, C}), ("cooperative", {A, B, C})])
def test_an_assignment_is_the_whole_for_an_eager_member_and_an_addition_for_a_cooperative_one(clock, assignor, held):
    changes = GroupChanges(clock, assignor)
    changes.assigned("m", 1, frozenset({A, B}))
    changes.assigned("m", 2, frozenset({B, C}))
    assert changes.take() == [Assigned(1, "m", 1, frozenset({A, B})), Assigned(2, "m", 2, frozenset(held))]


def test_what_was_given_up_is_not_held_by_the_next_assignment(clock):
    changes = GroupChanges(clock, "cooperative")
    changes.assigned("m", 1, frozenset({A, B}))
    changes.revoked(frozenset({A}))
    changes.assigned("m", 2, frozenset({C}))
    assert changes.take()[1:] == [Revoked(2, frozenset({A})), Assigned(3, "m", 2, frozenset({B, C}))]


def test_each_change_is_taken_once(clock):
    changes = GroupChanges(clock, "eager")
    changes.revoked(frozenset())
    assert len(changes) == 1
    assert [len(changes.take()), len(changes), len(changes.take())] == [1, 0, 0]


@pytest.mark.parametrize(
    ("known", "position"),
    [
        ({}, 7),  # nothing was polled since the assignment: the member started here
        ({A: 5}, 5),  # the log has nothing at 5 and 6
        ({A: 9}, 7),  # the member went back
    ],
)
def test_a_poll_starts_where_the_last_one_ended_or_at_an_earlier_record(known, position):
    positions = dict(known)
    polled = polled_by_member(positions, A, [PolledRecord(7, None, b""), PolledRecord(8, None, b"")])
    assert (polled.position, polled.next_position) == (position, 9)
    assert positions == {A: 9}
