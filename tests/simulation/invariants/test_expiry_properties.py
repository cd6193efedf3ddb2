"""Producers that brokers forget: in time and no others (P-D2), and what P-14, P-28 and P-31 excuse, and what not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker.core.broker_node.requests import deletion
from broker.core.log.producer_state import ACCEPT, CachedBatch, ProducerState, ProducerStates
from broker.core.replica.state import Replica, Role
from simulation.engine.cluster import EventStep, SimulatedCluster
from simulation.invariants import replicas
from simulation.invariants.expiry import TAKEN_TWICE, Idle, SeenProducers, is_excused
from simulation.invariants.ghost import Batch, Ghost, ReplicaMirror
from simulation.invariants.knowledge import Knowledge
from simulation.runs.failures import findings
from simulation.runs.sweep import simulate
from simulation.scenario.configuration import SimulatedFault
from tests.simulation.invariants.planting import Plant, observe, replica_of

BRIEF: dict[str, object] = {"producer_expiration_ms": 300}
LONG: dict[str, object] = {"producer_expiration_ms": 600_000}
UNRELIABLE: dict[str, object] = {"answer_lost_of_1000": 300}
RESTART = SimulatedFault(9_000, "restart", 0, 2_000, 0)


@pytest.mark.parametrize("in_flight", [1, 5])
def test_producers_that_are_idle_are_forgotten_and_their_next_batch_is_taken(in_flight: int) -> None:
    outcome = observe(faults=(RESTART,), in_flight=in_flight, **BRIEF)
    assert outcome.marks[deletion.FORGOTTEN.name] > 3
    assert findings(outcome) == []


def test_a_batch_that_is_repeated_after_its_producer_was_forgotten_is_excused() -> None:
    outcomes = [observe(seed=seed, **UNRELIABLE, **BRIEF) for seed in range(1, 4)]
    assert any(outcome.marks.get(TAKEN_TWICE.name) for outcome in outcomes)
    assert [findings(outcome) for outcome in outcomes] == [[], [], []]


def forgetting(role: Role) -> Plant:
    """A broker that forgets the producers of a log, though they are not idle."""

    def lie(cluster: SimulatedCluster, step: EventStep) -> bool:
        replica = replica_of(cluster, step, role)
        if replica is None or not replica.log.producers.states:
            return False
        replica.log.producers.states = {}
        return True

    return Plant(lie)


def test_a_producer_that_is_forgotten_between_the_checks_breaks_p_d2() -> None:
    assert observe(forgetting(Role.FOLLOWER), **LONG).failed_property == "P-D2"


def test_a_producer_that_is_forgotten_where_none_expire_breaks_p_28() -> None:
    deposed = SimulatedFault(8_000, "restart", 0, 2_000, 0)
    assert observe(forgetting(Role.FOLLOWER), faults=(deposed,), producers=3).failed_property == "P-28"


def expiring(monkeypatch: pytest.MonkeyPatch, instead: Any) -> None:
    """Replace what a broker does with each replica when it looks for idle producers."""
    monkeypatch.setattr(deletion, "_expire_idle", instead)


def test_a_producer_that_is_forgotten_at_a_check_before_its_time_breaks_p_d2(monkeypatch: pytest.MonkeyPatch) -> None:
    def hasty(broker: Any, replica: Replica) -> None:
        replica.log.producers.states.clear()

    expiring(monkeypatch, hasty)
    assert observe(**LONG).failed_property == "P-D2"


def test_a_producer_that_is_never_forgotten_breaks_p_d2(monkeypatch: pytest.MonkeyPatch) -> None:
    def blind(broker: Any, replica: Replica) -> None:
        """It looks, and finds nobody."""

    expiring(monkeypatch, blind)
    assert observe(**BRIEF, operations=6).failed_property == "P-D2"


def test_a_leader_that_leaves_it_to_its_followers_to_forget_breaks_p_d2(monkeypatch: pytest.MonkeyPatch) -> None:
    expire = deletion._expire_idle

    def partial(broker: Any, replica: Replica) -> None:
        if replica.role is not Role.LEADER:
            expire(broker, replica)

    expiring(monkeypatch, partial)
    assert observe(**BRIEF, operations=6).failed_property == "P-D2"


def test_a_follower_that_does_not_take_over_what_a_leader_took_anew_breaks_p_28(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The leader had forgotten the producer, so its batch need not follow; a follower must know it nevertheless."""
    update = ProducerStates.update

    def strict(
        states: ProducerStates, producer: int, epoch: int, first: int, base: int, last: int, control: bool
    ) -> None:
        known = states.states.get(producer)
        if known is None or known.epoch != epoch or first == known.batches[-1].last_sequence + 1:
            update(states, producer, epoch, first, base, last, control)

    expire = deletion._expire_idle

    def only_as_leader(broker: Any, replica: Replica) -> None:
        """Followers keep their producers."""
        if replica.role is Role.LEADER:
            expire(broker, replica)

    monkeypatch.setattr(ProducerStates, "update", strict)
    monkeypatch.setattr(SeenProducers, "looked_for", _only_forgotten)
    expiring(monkeypatch, only_as_leader)
    faults = [SimulatedFault(at_ms, "restart", 0, 500, 0) for at_ms in (6_000, 9_000, 12_000)]
    broken = {observe(seed=seed, faults=faults, **UNRELIABLE, **BRIEF).failed_property for seed in range(1, 4)}
    assert "P-28" in broken


_looked_for = SeenProducers.looked_for


def _only_forgotten(seen: SeenProducers, log: Any, now_ms: int, lifetime_ms: int) -> Any:
    return (wrong for wrong in _looked_for(seen, log, now_ms, lifetime_ms) if not wrong.endswith("is not forgotten"))


@pytest.mark.parametrize("lifetime", [BRIEF, LONG])
def test_a_second_copy_is_no_less_seen_where_producers_expire_but_this_one_was_not_forgotten(
    lifetime: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ProducerStates, "verdict", lambda states, header: ACCEPT)
    broken = {
        observe(seed=seed, repeated_of_1000=300, **UNRELIABLE, **lifetime).failed_property for seed in range(1, 4)
    }
    assert broken == {"P-14"}


def test_only_a_batch_that_its_leader_took_anew_after_the_last_one_is_excused() -> None:
    taken_anew = {(1, 5): 4}
    assert is_excused(taken_anew, (1, 5), 4)
    assert is_excused(taken_anew, (1, 5), 3)
    assert not is_excused(taken_anew, (1, 5), 5)
    assert not is_excused(taken_anew, (2, 5), 4)
    assert not is_excused(taken_anew, (1, 6), 4)


def test_what_was_cut_off_does_not_count_as_forgotten_and_who_is_known_again_is_not_excused() -> None:
    seen = SeenProducers({8: Idle(CachedBatch(0, 0, 6, 6), 0)}, {7: 9, 8: 2})
    assert (seen.taken_anew(7), seen.taken_anew(8), seen.taken_anew(9)) == (9, None, None)
    seen.cut(6)
    assert seen.forgotten == {7: 5, 8: 2}
    assert (seen.must_know(7, 5), seen.must_know(7, 6)) == (False, True)
    assert seen.known == {}


def test_a_cut_lets_the_broker_count_anew_but_does_not_let_it_forget_sooner() -> None:
    class LogOf:
        truncations = 0
        producers = ProducerStates()

    log: Any = LogOf()
    log.producers.states = {7: ProducerState(0, (CachedBatch(0, 0, 0, 0),), 1)}
    seen = SeenProducers()
    assert seen.note(log, 100) == []
    assert list(seen.looked_for(log, 150, 1_000)) == []
    log.truncations = 1
    assert seen.note(log, 1_100) == []
    assert list(seen.looked_for(log, 1_200, 1_000)) == []
    assert len(list(seen.looked_for(log, 2_200, 1_000))) == 1
    log.producers.states = {}
    assert len(list(seen.looked_for(log, 1_099, 1_000))) == 1
    assert seen.forgotten == {7: 0}


def test_a_broker_that_has_stopped_forgets_nobody_while_its_node_is_a_voter_still() -> None:
    """Its logs are closed. It is the broker of a node of both roles, whose controller waits for another to lead."""
    assert simulate(1_700_295, {"keyed_topic": False}, observed=True).findings == ()


def test_what_a_replica_had_forgotten_is_remembered_when_its_files_are_found_again() -> None:
    """In this seed a replica is unassigned while its directory fails, and its files are opened by the next process."""
    assert not simulate(21009174, {"search": "mixed"}, observed=True).findings


@pytest.mark.parametrize(("authors", "noted"), [({}, True), ({4: 3}, True), ({4: 2}, False)])
def test_a_process_that_died_in_its_first_append_as_the_leader_had_forgotten_the_producer(
    monkeypatch: pytest.MonkeyPatch, authors: dict[int, int], noted: bool
) -> None:
    """The batch is found when the next process starts; one that another broker wrote was fetched, and not taken."""
    found = Batch(6, 8, 4, 0, 7, 0, 0, control=False)
    for name in ("_shown_again", "skip_deleted", "check_epochs"):
        monkeypatch.setattr(replicas, name, lambda *_: None)
    monkeypatch.setattr(replicas, "read_on", lambda *_: ([found], ""))
    monkeypatch.setattr(replicas, "first_difference", lambda *_: 0)
    ghost, mirror = Ghost("keyed", 0, authors=authors), ReplicaMirror(3)
    mirror.producers.forgotten = {7: 5}
    log = SimpleNamespace(truncations=0, compacted_offset=0, end_offset=9, start_offset=0)
    replica = SimpleNamespace(log=log, high_watermark=0)
    known = SimpleNamespace(producers_expire=True)
    replicas.opened(cast("Knowledge", known), ghost, mirror, cast("Replica", replica))
    assert ghost.taken_anew == ({(4, 6): 5} if noted else {})
    assert ghost.authors == {4: authors.get(4, 3)}
