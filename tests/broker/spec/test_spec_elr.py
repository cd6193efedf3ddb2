"""§13.3: the transitions of one replica, cases A to K, and a clean recovery from the ELR (KIP-966)."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import pytest

from broker.core.controller.partition_changes import changed
from broker.core.messages import CreateTopicsRequest, FetchRequest, NewTopic
from broker.core.metadata.records import PartitionState
from broker.core.rules.flaws import rules_for
from tests.support.cluster import TOPIC, Cluster

RULES = rules_for("K5", ())
MIN_ISR = 2
NOBODY = -1


class Sets(NamedTuple):
    """One case: the leader, the ISR, and the two eligibility sets."""

    leader: int
    isr: tuple[int, ...]
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()


def after(before: Sets, isr: tuple[int, ...], active: Collection[int], unclean: Collection[int] = ()) -> Sets:
    """The sets after one atomic change in which the ISR becomes `isr` while these brokers are active."""
    state = PartitionState(
        (1, 2, 3), before.isr, before.leader, 5, 7, elr=before.elr, last_known_elr=before.last_known_elr
    )
    new = changed(RULES, state, isr, lambda broker: broker in active, MIN_ISR, unclean=frozenset(unclean))
    found = state if new is None else new
    return Sets(found.leader, found.isr, found.elr, found.last_known_elr)


@pytest.mark.parametrize(
    ("before", "isr", "active", "expected"),
    [
        pytest.param(Sets(1, (1, 2)), (1,), {1, 3}, Sets(1, (1,), (2,)), id="A"),
        pytest.param(Sets(1, (1, 2, 3)), (2, 3), {2, 3}, Sets(2, (2, 3)), id="B-from-the-ISR"),
        pytest.param(Sets(NOBODY, (), (2, 3)), (), {2}, Sets(2, (2,), (3,)), id="B-from-the-ELR"),
        pytest.param(Sets(1, (1, 2)), (2,), {2, 3}, Sets(2, (2,), (1,)), id="C"),
        pytest.param(Sets(1, (1, 2, 3)), (2, 3), {2, 3}, Sets(2, (2, 3)), id="D"),
        pytest.param(Sets(1, (1, 2)), (1, 2, 3), {1, 2, 3}, Sets(1, (1, 2, 3)), id="E"),
        pytest.param(Sets(1, (1, 2, 3)), (1, 2), {1, 2, 3}, Sets(1, (1, 2)), id="F"),
        pytest.param(Sets(1, (1,), (2,)), (1, 3), {1, 3}, Sets(1, (1, 3)), id="G"),
        pytest.param(Sets(1, (1,), (3,)), (), set(), Sets(NOBODY, (), (1, 3)), id="H-the-last-one-leaves"),
        pytest.param(Sets(NOBODY, (), (1, 3)), (), {3}, Sets(3, (3,), (1,)), id="H-one-comes-back"),
        pytest.param(Sets(NOBODY, (), (2, 3)), (), set(), Sets(NOBODY, (), (2, 3)), id="J"),
        pytest.param(Sets(1, (1,), (2,)), (1, 2), {1, 2}, Sets(1, (1, 2)), id="K"),
    ],
)
def test_case(before: Sets, isr: tuple[int, ...], active: Collection[int], expected: Sets) -> None:
    assert after(before, isr, active) == expected


def test_case_i_an_unclean_registration_moves_a_member_of_the_elr_to_the_last_known_ones() -> None:
    assert after(Sets(NOBODY, (), (2, 3)), (), set(), unclean={2}) == Sets(NOBODY, (), (3,), (2,))


def test_elr_1_who_is_elected_where_one_is_enough_leaves_nobody_else_eligible() -> None:
    """min ISR was lowered while there was no leader: what this one acknowledges alone, the others need not have."""
    state = PartitionState((1, 2, 3), (), NOBODY, 5, 7, elr=(1, 2), last_known_elr=(3,))
    new = changed(RULES, state, (), lambda broker: broker == 1, 1)
    assert new is not None
    assert Sets(new.leader, new.isr, new.elr, new.last_known_elr) == Sets(1, (1,))


@pytest.mark.parametrize(("clean", "eligible", "last_known"), [(True, [2], []), (False, [], [2])], ids=["J", "I"])
def test_cases_i_and_j_a_member_of_the_elr_registers_again(
    clean: bool, eligible: list[int], last_known: list[int]
) -> None:
    """The whole registration: after a clean stop the member keeps its place, after an unclean one it does not."""
    cluster = Cluster(brokers=3)
    cluster.run_until(lambda: all(m.node is not None and m.node.is_ready() for m in cluster.machines.values()))
    cluster.call(1, CreateTopicsRequest((NewTopic(TOPIC, assignments=((0, (1, 2, 3)),)),)))
    cluster.run_until(cluster.is_whole)
    cluster.kill(3)
    cluster.run_until(lambda: cluster.view()["isr"] == [1, 2])
    if clean:
        cluster.stop(2)
        cluster.run_until(lambda: cluster.machines[2].node is None)
    else:
        cluster.kill(2)
    cluster.run_until(lambda: (cluster.view()["isr"], cluster.view()["elr"]) == ([1], [2]))
    before = cluster.broker_epoch(2)
    cluster.held = lambda source, _, message: (
        source == 2 and isinstance(message, FetchRequest) and message.partitions[0].topic == TOPIC
    )
    cluster.start(2)
    cluster.run_until(lambda: cluster.broker_epoch(2) > before)
    view = cluster.view()
    assert (view["isr"], view["elr"], view["last_known_elr"]) == ([1], eligible, last_known)


def test_clean_elr_recovery_5_2_2() -> None:
    start = Sets(1, (1, 2, 3))
    without_2 = after(start, (1, 3), {1, 2, 3})
    assert without_2 == Sets(1, (1, 3))
    alone = after(without_2, (1,), {1, 2, 3})
    assert alone == Sets(1, (1,), (3,))
    # The controller fences 1 after its unclean shutdown; when 1 registers again it has no guarantee to offer.
    fenced = after(alone, (), {2, 3})
    assert (fenced.leader, fenced.isr) == (3, (3,))
    registered = after(fenced, (3,), {2, 3}, unclean={1})
    assert (registered.leader, registered.isr, registered.elr) == (3, (3,), ())
    assert after(registered, (1, 3), {1, 2, 3}) == Sets(3, (1, 3))
