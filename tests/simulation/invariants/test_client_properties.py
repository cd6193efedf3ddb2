"""Each property about answers to clients is reported when it is broken (P-9, P-11 … P-15, P-24, P-26)."""

from __future__ import annotations

import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker.core.broker_node.state import BrokerState
from broker.core.messages import (
    AnyResponse,
    FetchedPartition,
    FetchResponse,
    ListOffsetsResponse,
    ProducedPartition,
    ProduceResponse,
)
from broker.core.messages.errors import ErrorCode
from broker.core.ports.events import Reply, RequestReceived
from broker.core.records import encode_batch, headers_of
from broker.core.replica.state import Role
from simulation.engine.cluster import EventStep, SimulatedCluster
from simulation.engine.node_views import brokers
from simulation.engine.transport import CLIENTS_FROM
from simulation.invariants import clients
from simulation.invariants.ghost import Batch, Ghost, ReplicaMirror, batches_in
from simulation.invariants.knowledge import BrokerMirror, Knowledge
from simulation.invariants.observer import PropertyObserver
from simulation.runs.sweep import simulate
from simulation.scenario.configuration import SimulatedFault
from simulation.scenario.phases import SimulationOutcome
from simulation.workload.clients import TOPIC
from tests.simulation.invariants.planting import Plant, broken_by, change_rules, observe, replica_of

KILL_FIRST = (SimulatedFault(6_000, "kill", 0, 2_000, 0),)
ISOLATED_FOLLOWERS = (SimulatedFault(5_000, "kill", 1, 12_000, 0), SimulatedFault(5_100, "kill", 2, 12_000, 0))


Change = Callable[[SimulatedCluster, AnyResponse], AnyResponse | None]


def falsify(
    kind: type[AnyResponse], change: Change, observer: PropertyObserver | None = None, **overrides: object
) -> SimulationOutcome:
    """Simulate, and replace one answer to a client, as the observer sees it, by the result of `change`."""
    watching = observer or PropertyObserver()

    def lie(cluster: SimulatedCluster, step: EventStep) -> bool:
        replica = replica_of(cluster, step, Role.LEADER)
        if replica is None or replica.high_watermark < 4:
            return False
        asked_now = step.event.request_id if isinstance(step.event, RequestReceived) else -1
        from_client = isinstance(step.event, RequestReceived) and step.event.connection >= CLIENTS_FROM
        broker = watching.known.brokers[step.node_id]
        for index, effect in enumerate(step.effects):
            if not isinstance(effect, Reply) or not isinstance(effect.response, kind):
                continue
            known = effect.request_id in broker.reads or effect.request_id in broker.writes
            if not known and not (from_client and asked_now == effect.request_id):
                continue
            changed = change(cluster, effect.response) if not the_only(effect.response).error_code else None
            if changed is not None:
                step.effects[index] = effect._replace(response=changed)  # type: ignore[index]
                return True
        return False

    faults = KILL_FIRST if kind is FetchResponse else ()
    return observe(Plant(lie), observer=watching, faults=faults, **overrides)


def the_only(response: AnyResponse) -> Any:
    return response.partitions[0]  # type: ignore[union-attr]


def with_part(response: AnyResponse, **fields: object) -> AnyResponse:
    part = response.partitions[0]._replace(**fields)  # type: ignore[union-attr]
    return response._replace(partitions=(part,))  # type: ignore[union-attr,call-arg]


@pytest.mark.parametrize("shown", ["P-9", "P-13"])
def test_an_end_of_the_log_that_goes_back_breaks_p_9_and_one_before_acknowledged_writes_p_13(shown: str) -> None:
    observer = PropertyObserver()

    def change(cluster: SimulatedCluster, response: AnyResponse) -> AnyResponse | None:
        (ghost,) = observer.known.partitions.values()
        if shown == "P-9":
            ghost.acknowledged_end = 0
        elif not ghost.acknowledged_end:
            return None
        return with_part(response, offset=1)

    assert falsify(ListOffsetsResponse, change, observer).failed_property == shown


def test_an_end_of_the_log_beyond_what_is_committed_breaks_p_11() -> None:
    outcome = falsify(ListOffsetsResponse, lambda _, response: with_part(response, offset=10_000))
    assert outcome.failed_property == "P-11"


def test_a_record_above_the_high_watermark_that_a_consumer_gets_breaks_p_11() -> None:
    def change(cluster: SimulatedCluster, response: AnyResponse) -> AnyResponse:
        records = encode_batch([(None, b"x")], the_only(response).high_watermark, 0, 0)
        return with_part(response, records=records)

    assert falsify(FetchResponse, change).failed_property == "P-11"


def test_a_committed_offset_with_another_record_that_a_consumer_gets_breaks_p_11() -> None:
    outcome = falsify(
        FetchResponse, lambda _, response: with_part(response, records=encode_batch([(None, b"x")], 0, 0, 0))
    )
    assert outcome.failed_property == "P-11"


@pytest.mark.parametrize(("start", "since_epoch", "last", "broken"), [
    (2, 7, "own", False),
    (2, 7, "other", True),
    (2, 0, "own", True),
    (0, 7, "own", True),
    (3, 7, "own", True),  # a batch of which nothing is left is given to nobody
])  # fmt: skip
def test_only_what_is_left_of_a_batch_after_an_unclean_election_is_compared_for_p_11(
    monkeypatch: pytest.MonkeyPatch, start: int, since_epoch: int, last: str, broken: bool
) -> None:
    """Offset 2 is committed as the leader has it; offsets 0 and 1, which it has deleted, as another replica had."""
    records = encode_batch([(None, value) for value in (b"a", b"b", b"c")], 0, 3, 0)
    (own,), other = batches_in(records), Batch(0, 2, 1, 0, -1, -1, -1, control=False)
    committed = [other, other, own if last == "own" else other]
    ghost, mirror = Ghost("log", 0, committed=committed, since_epoch=since_epoch), ReplicaMirror(1, start=start)
    failed = []
    monkeypatch.setattr(clients, "_protected", lambda *_: (ghost, mirror))
    known = cast("Knowledge", SimpleNamespace(fail=lambda _, property_id, what: failed.append(property_id)))
    broker = cast("BrokerMirror", SimpleNamespace(broker_id=1, mirrors={}))
    part = FetchedPartition("log", 0, ErrorCode.NONE, 3, 3, 0, records)
    clients._read(known, broker, part, 2, 3)
    assert failed == (["P-11"] if broken else [])


def test_an_empty_answer_to_who_must_see_an_acknowledged_write_breaks_p_13() -> None:
    observer = PropertyObserver()

    def change(cluster: SimulatedCluster, response: AnyResponse) -> AnyResponse | None:
        (ghost,) = observer.known.partitions.values()
        ghost.shown_end = 0
        return with_part(response, records=b"") if the_only(response).records and ghost.acknowledged_end else None

    assert falsify(FetchResponse, change, observer).failed_property == "P-13"


def test_epochs_that_decrease_within_what_is_read_break_p_24() -> None:
    observer = PropertyObserver()

    def change(cluster: SimulatedCluster, response: AnyResponse) -> AnyResponse | None:
        (ghost,) = observer.known.partitions.values()
        last = ghost.committed[-1]
        if last is None or not last.epoch or ghost.state is None or ghost.state.leader not in dict(brokers(cluster)):
            return None
        log = dict(brokers(cluster))[ghost.state.leader].replicas[TOPIC, 0].log
        first = log.batch_at(0)
        assert first is not None
        later = log.read(last.base, 1, log.end_offset)
        return with_part(response, records=later + log.read(0, first.size, log.end_offset))

    assert falsify(FetchResponse, change, observer).failed_property == "P-24"


def test_an_acknowledgement_of_what_is_not_committed_breaks_p_12() -> None:
    outcome = observe(flaws=("ack-before-replication",))
    assert outcome.failed_property == "P-12"


def test_an_acknowledgement_with_a_wrong_offset_breaks_p_12() -> None:
    outcome = falsify(ProduceResponse, lambda _, response: with_part(response, base_offset=0))
    assert outcome.failed_property == "P-12"


def test_an_acknowledged_write_with_a_lower_offset_than_an_earlier_one_breaks_p_13() -> None:
    observer = PropertyObserver()

    def change(cluster: SimulatedCluster, response: AnyResponse) -> AnyResponse | None:
        (ghost,) = observer.known.partitions.values()
        for records in ghost.first_seen:
            ghost.first_seen[records] = 10_000
        return response

    assert falsify(ProduceResponse, change, observer).failed_property == "P-13"


def test_a_write_that_was_sent_before_an_unclean_election_and_again_after_it_may_keep_its_place() -> None:
    assert not simulate(36204844, {"search": "mixed", "keyed_topic": False}, observed=True).findings


@pytest.mark.parametrize("sequence", [0, 1_000])
@pytest.mark.parametrize("compacted", [False, True])
def test_a_sequence_number_that_is_committed_twice_or_left_out_breaks_p_14(sequence: int, compacted: bool) -> None:
    """In a compacted topic too, where the leader's log has other batches of the producer."""

    def repeat(cluster: SimulatedCluster, step: EventStep) -> bool:
        replica = replica_of(cluster, step, Role.LEADER)
        if replica is None or replica.high_watermark < 4:
            return False
        data = replica.log.read(0, 1 << 20, replica.log.end_offset)
        header = next((one for one in headers_of(data) if one.producer_id >= 0), None)
        if header is None:
            return False
        batch = encode_batch([(b"k", b"x")], 0, 0, 0, header.producer_id, header.producer_epoch, sequence)
        replica.log.append_as_leader(batch, replica.leader_epoch)
        return True

    assert observe(Plant(repeat), compacted=compacted).failed_property == "P-14"


def test_a_coordinator_that_writes_with_fewer_in_sync_replicas_than_min_isr_breaks_p_15() -> None:
    unasked = change_rules("produce", refuse=lambda *_asked: ErrorCode.NONE)
    faults = [fault._replace(at_ms=9_000) for fault in ISOLATED_FOLLOWERS]
    outcome = observe(unasked, seed=9, faults=faults, group_members=2, producers=1, operations=12)
    assert outcome.failed_property == "P-15"
    assert re.match(r"P-15: __consumer_offsets-\d+: broker \d, leader of epoch \d+, appended ", str(outcome.failure))


def test_an_acknowledgement_by_fewer_replicas_than_min_isr_breaks_p_15() -> None:
    everything = (
        change_rules("high_watermark", may_advance=lambda current, candidate, *_rest: candidate > current),
        change_rules("produce", refuse=lambda *_asked: ErrorCode.NONE),
        change_rules(
            "produce",
            outcome=lambda required, high_watermark, *_rest: ErrorCode.NONE if high_watermark >= required else None,
        ),
    )
    outcome = observe(*everything, faults=ISOLATED_FOLLOWERS)
    assert outcome.failed_property == "P-15"
    assert "logs of [1] only" in str(outcome.failure)


@pytest.mark.parametrize(("leader_knows_to", "broken"), [(6, None), (7, "P-15"), (8, "P-15")])
def test_a_replica_that_was_removed_had_reported_the_record_as_long_as_its_leader_has_not_heard_of_it(
    knowledge: Knowledge, leader_knows_to: int, broken: str | None
) -> None:
    batch = Batch(0, 0, 1, 0, -1, -1, -1, control=False)
    ghost = Ghost("log", 0)
    ghost.mirrors = {1: ReplicaMirror(1, entries=[batch])}
    ghost.deleted = {2: (ReplicaMirror(2, entries=[batch]), 7)}
    replica = SimpleNamespace(replicas=(1, 2, 3), effective_min_isr=2)
    state = SimpleNamespace(replicas={("log", 0): replica}, image=SimpleNamespace(end_offset=leader_knows_to))
    found = broken_by(lambda: clients._check_min_isr(knowledge, ghost, state, batch, "broker 1"))  # type: ignore[arg-type]
    assert found == broken


def test_zombies_that_answer_what_they_know_are_no_violation() -> None:
    outcome = observe(
        faults=[
            SimulatedFault(5_000, "brokers-from-controllers", 0, 4_000, 0),
            SimulatedFault(6_000, "pause", 0, 5_000, 0),
        ]
    )
    assert outcome.failure is None


def test_a_lookup_by_time_that_is_answered_with_a_later_record_breaks_p_26() -> None:
    def change(cluster: SimulatedCluster, response: AnyResponse) -> AnyResponse | None:
        found = the_only(response)
        return with_part(response, offset=found.offset + 1) if found.timestamp >= 0 else None

    outcome = falsify(ListOffsetsResponse, change, compression="snappy")
    assert outcome.failed_property == "P-26"
    assert "was asked for the first record from" in str(outcome.failure)


def test_lookups_into_compressed_batches_are_answered_and_a_broker_that_is_blind_to_them_is_found() -> None:
    assert observe(compression="snappy").failure is None
    assert observe(compression="snappy", flaws=("lookup-blind-to-codecs",)).failed_property == "P-26"


def test_the_files_of_brokers_have_no_say_in_min_isr_and_a_broker_that_asks_them_is_found() -> None:
    faults = [SimulatedFault(5_000, "isolate", node, 9_000, 0) for node in (1, 2)]
    assert observe(faults=faults, min_isr_of_brokers=1).digest == observe(faults=faults).digest
    flawed = observe(faults=faults, min_isr_of_brokers=1, flaws=("min-isr-of-own-file",))
    assert flawed.failed_property == "P-2"


SENT = encode_batch([(None, b"record")], 0, 0, 0, producer_id=7, producer_epoch=1, base_sequence=3)


@pytest.mark.parametrize(
    ("change", "log_start", "is_it"),
    [
        ({}, 0, True),
        ({"crc": 1}, 0, False),  # something else is stored
        ({"crc": 1}, 1, True),  # it was deleted: whether it had the leader's time cannot be told
        ({"crc": 1, "first_sequence": 4}, 1, False),
        ({"crc": 1, "producer_epoch": 2}, 1, False),
        ({"crc": 1, "producer_id": 8}, 1, False),
        ({"crc": 1, "last": 1}, 2, False),
    ],
)
def test_a_repeated_batch_that_was_deleted_is_known_by_its_producer_and_sequence_number(
    change: dict[str, int], log_start: int, is_it: bool
) -> None:
    (sent,) = batches_in(SENT)
    replica = SimpleNamespace(log=SimpleNamespace(start_offset=log_start), intake=None)
    state = cast("BrokerState", SimpleNamespace(replicas={("log", 0): replica}))
    produced = ProducedPartition("log", 0, ErrorCode.NONE, 0)
    assert clients._is_stored_as(sent._replace(**change), sent, state, produced, SENT) == is_it
