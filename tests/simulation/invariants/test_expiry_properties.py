"""Producers that brokers forget: in time and no others (P-D2), and what P-14 and P-28 excuse for that, and what not."""

from __future__ import annotations

from typing import Any

import pytest

from broker.core.broker_node.requests import deletion
from broker.core.log.producer_state import ACCEPT, ProducerStates
from broker.core.replica.state import Replica, Role
from simulation.engine.cluster import EventStep, SimulatedCluster
from simulation.invariants.expiry import was_forgotten
from simulation.invariants.ghost import Batch, Ghost, ReplicaMirror
from simulation.runs.failures import findings
from simulation.scenario.configuration import SimulatedFault
from tests.simulation.invariants.planting import Plant, observe, replica_of

BRIEF: dict[str, object] = {"producer_expiration_ms": 300}
LONG: dict[str, object] = {"producer_expiration_ms": 600_000}
RESTART = SimulatedFault(9_000, "restart", 0, 2_000, 0)


@pytest.mark.parametrize("in_flight", [1, 5])
def test_producers_that_are_idle_are_forgotten_and_their_next_batch_is_taken(in_flight: int) -> None:
    outcome = observe(faults=(RESTART,), in_flight=in_flight, **BRIEF)
    assert outcome.marks[deletion.FORGOTTEN.name] > 3
    assert findings(outcome) == []


def forgetting(role: Role) -> Plant:
    """A broker that forgets the producers of a log, though they are not idle."""

    def lie(cluster: SimulatedCluster, step: EventStep) -> bool:
        replica = replica_of(cluster, step, role)
        if replica is None or not replica.log.producers.states:
            return False
        replica.log.producers.states = {}
        return True

    return Plant(lie)


def test_a_producer_that_is_forgotten_too_soon_breaks_p_d2() -> None:
    assert observe(forgetting(Role.FOLLOWER), **LONG).failed_property == "P-D2"


def test_a_producer_that_is_forgotten_where_none_expire_breaks_p_28() -> None:
    deposed = SimulatedFault(8_000, "restart", 0, 2_000, 0)
    assert observe(forgetting(Role.FOLLOWER), faults=(deposed,), producers=3).failed_property == "P-28"


def test_a_producer_that_is_never_forgotten_breaks_p_d2(monkeypatch: pytest.MonkeyPatch) -> None:
    def blind(broker: Any, replica: Replica) -> None:
        """It looks, and finds nobody."""

    monkeypatch.setattr(deletion, "_expire_idle", blind)
    assert observe(**BRIEF, operations=6).failed_property == "P-D2"


def test_a_second_copy_is_no_less_seen_where_producers_expire_but_this_one_was_not_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ProducerStates, "verdict", lambda states, header: ACCEPT)
    broken = {observe(seed=seed, answer_lost_of_1000=300, **LONG).failed_property for seed in range(1, 4)}
    assert broken == {"P-14"}


def test_only_the_leader_that_had_forgotten_the_producer_by_its_last_batch_is_excused() -> None:
    ghost = Ghost(
        "log", 0, mirrors={1: ReplicaMirror(1, forgotten={(7, 4)}), 2: ReplicaMirror(2)}, authors={0: 1, 1: 2}
    )
    batch = Batch(5, 5, 0, 0, 7, 0, 9, control=False)
    assert was_forgotten(ghost, batch, 4)
    assert not was_forgotten(ghost, batch, 3)
    assert not was_forgotten(ghost, batch._replace(producer_id=8), 4)
    assert not was_forgotten(ghost, batch._replace(epoch=1), 4)
    assert not was_forgotten(ghost, batch._replace(epoch=2), 4)
