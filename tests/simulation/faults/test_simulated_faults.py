"""Faults of the simulated cluster take effect, and end."""

from __future__ import annotations

import json

import pytest

from broker.core.messages import AnyResponse, CreateTopicsRequest, MetadataRequest, NewTopic
from broker.core.ports.events import Disconnected, RequestReceived, ResponseReceived
from simulation.engine.choices import ChoiceSequence
from simulation.engine.cluster import EventStep, SimulatedCluster
from simulation.engine.disk import Survival
from simulation.engine.event_queue import MS
from simulation.engine.node_views import brokers, leading
from simulation.invariants.observer import property_observers
from simulation.runs.failures import findings
from simulation.scenario import scenario
from simulation.scenario.configuration import Configuration, SimulatedFault
from simulation.scenario.phases import SimulationOutcome
from simulation.scenario.scenario import settings_of
from simulation.workload.clients import TOPIC
from tests.simulation.small import QUICK

CLIENT = 1_000


class Asker:
    """A client that keeps its answers."""

    def __init__(self) -> None:
        self.answers: list[AnyResponse | None] = []

    def answered(self, cluster: SimulatedCluster, request_id: int, response: AnyResponse | None) -> None:
        self.answers.append(response)

    def timer(self, cluster: SimulatedCluster, key: object) -> None:
        raise AssertionError("it sets none")


def running() -> tuple[SimulatedCluster, Asker]:
    """Three brokers and a controller that serve, and a client."""
    cluster = SimulatedCluster(ChoiceSequence(given={}), settings_of(Configuration(controllers=1)))
    asker = Asker()
    cluster.clients = {CLIENT: asker}
    for node_id in cluster.machines:
        cluster.start(node_id)
    assert cluster.run_until(
        20_000 * MS, lambda: all(one.node and one.node.is_ready() for one in cluster.machines.values())
    )
    return cluster, asker


def pass_ms(cluster: SimulatedCluster, duration_ms: int) -> None:
    cluster.run_until(cluster.now_us + duration_ms * MS)


def known(cluster: SimulatedCluster, broker_id: int) -> int:
    return dict(brokers(cluster))[broker_id].image.end_offset


def simulated(*faults: SimulatedFault, seed: int = 1, **overrides: object) -> SimulationOutcome:
    settings = {**QUICK, "sole_survivor": True, **overrides}
    return scenario.run(
        ChoiceSequence(seed), overrides=settings, faults=faults, observers=property_observers(), keep_log=True
    )


def test_a_stalled_link_delays_and_loses_nothing() -> None:
    cluster, asker = running()
    link = frozenset({(CLIENT, 1)})
    cluster.transport.stall(link)
    cluster.send_from_client(CLIENT, 1, 1, MetadataRequest(((TOPIC, ""),)), 5_000)
    pass_ms(cluster, 500)
    assert asker.answers == []
    cluster.transport.unstall(link)
    pass_ms(cluster, 10)
    assert asker.answers[0] is not None


def test_withheld_metadata_comes_later_and_all_at_once() -> None:
    cluster, _ = running()
    cluster.transport.withhold_metadata(2)
    before = known(cluster, 2)
    for number in range(3):
        topic = NewTopic(f"{TOPIC}-{number}", 1, 3)
        cluster.send_from_client(CLIENT, number + 1, 1, CreateTopicsRequest((topic,), 1_000), 2_000)
        pass_ms(cluster, 100)
    controller = leading(cluster)
    assert controller is not None
    assert known(cluster, 1) == controller.quorum.high_watermark > before
    assert known(cluster, 2) == before
    cluster.transport.inform(2)
    pass_ms(cluster, 100)
    assert known(cluster, 2) == known(cluster, 1)


def test_a_broker_that_gets_no_metadata_is_not_fenced() -> None:
    cluster, _ = running()
    cluster.transport.withhold_metadata(2)
    pass_ms(cluster, 10_000)
    controller = leading(cluster)
    assert controller is not None
    assert not controller.image.brokers[2].fenced


def test_the_end_of_an_incarnation_is_noticed_before_messages_of_the_next() -> None:
    cluster, _ = running()
    attached: list[object] = []

    def listen(_: SimulatedCluster, step: EventStep) -> None:
        if step.node_id == 100:
            attached.append(step.event)

    cluster.listen = listen
    cluster.kill(1)
    cluster.start(1)
    pass_ms(cluster, 20)
    of_1 = [event for event in attached if getattr(event, "connection", None) == 1]
    assert isinstance(of_1[0], Disconnected)
    assert any(isinstance(event, RequestReceived) for event in of_1[1:])
    assert not any(isinstance(event, Disconnected) for event in of_1[1:])
    assert not any(isinstance(event, ResponseReceived) for event in of_1)


@pytest.mark.parametrize(
    ("fault", "mark"),
    [
        (
            SimulatedFault(4_000, "moved-leader", 0, 1, 200),
            "election: the preferred replica took over from a leader that could stay",
        ),
        (SimulatedFault(4_000, "torn-append", 0, 2_000, 40), "opening: recovery cut a torn tail"),
        (SimulatedFault(4_000, "lossy-restart", 1, 2_000, 0), "registration: after an unclean stop"),
        (SimulatedFault(4_000, "interrupted-change", 0, 8_000, 21), "disk: the power failed in the middle"),
        (SimulatedFault(6_000, "interrupted-change", 0, 4_000, 5), "disk: the power failed while a node st"),
        (SimulatedFault(6_000, "deleted-records", 0, 1, 900), "log start: moved by DeleteRecords"),
        (SimulatedFault(4_000, "late-metadata", 1, 8_000, 0), "everything"),
        (SimulatedFault(4_000, "stalled-link", 1, 8_000, 3), "everything"),
    ],
)
def test_each_fault_takes_effect_and_a_correct_cluster_survives_it(fault: SimulatedFault, mark: str) -> None:
    outcome = simulated(fault, partitions=1)
    assert findings(outcome) == []
    kind = "page-cache-loss" if fault.kind == "lossy-restart" else fault.kind
    assert any(kind in text for _, _, text in outcome.log_entries)
    assert mark == "everything" or any(name.startswith(mark) for name in outcome.marks)


@pytest.mark.parametrize(
    ("kind", "parameter", "way"),
    [
        ("stalled-link", 0, "from 2 to 1"),
        ("stalled-link", 1, "from 1 to 2"),
        ("stalled-link", 3, ""),
        ("late-connection", 0, "control from 1 to 2"),
        ("late-connection", 101, "quorum from 2 to 100"),
    ],
)
def test_messages_that_are_delayed_in_one_direction_are_noted_with_it(kind: str, parameter: int, way: str) -> None:
    outcome = simulated(SimulatedFault(4_000, kind, 1, 8_000, parameter), partitions=1)
    assert [json.loads(fault.parameters).get("what", "") for fault in outcome.history.faults] == [way]


def test_a_fault_that_is_due_before_the_cluster_is_up_waits_for_it_and_time_never_goes_back() -> None:
    outcome = simulated(SimulatedFault(1, "pause", 0, 2_000, 0))
    moments = [at_us for at_us, _, _ in outcome.log_entries]
    assert moments == sorted(moments)
    assert [fault.started_ns for fault in outcome.history.faults] == [1_000 * outcome.phases["main"][0]]


@pytest.mark.parametrize("combined", [False, True])
def test_power_that_fails_in_a_shutdown_costs_no_second_broker_what_it_has(combined: bool) -> None:
    first = SimulatedFault(4_000, "page-cache-loss", 0, 6_000, 0)
    second = SimulatedFault(5_000, "lossy-restart", 1, 2_000, 0)
    outcome = simulated(first, second, controllers=3, combined=combined, lossy_budget=1)
    losses = [text for _, _, text in outcome.log_entries if text.startswith(("page-cache-loss", "lossy-restart"))]
    assert [text.partition(" ")[0] for text in losses] == ["page-cache-loss", "lossy-restart"], losses
    assert "(kept of unsynced data: everything; 0 bytes lost)" in losses[1]


def test_segments_are_rolled_where_the_configuration_says_so_and_their_indexes_are_rebuilt() -> None:
    lost = SimulatedFault(9_000, "page-cache-loss", 1, 1_000, 1)
    small = simulated(lost, segment_bytes=300, index_interval_bytes=0)
    large = simulated(lost, segment_bytes=0)
    for mark in (
        "storage: a segment that was rolled is flushed",
        "opening: the indexes of a segment that was rolled are rebuilt (ST-6)",
    ):
        assert mark in small.marks
        assert mark not in large.marks
    assert findings(small) == []


def test_a_process_that_dies_in_a_change_tells_nobody_of_it() -> None:
    cluster, _ = running()
    seen: list[EventStep] = []
    died: list[int] = []
    cluster.listen = lambda _, step: seen.append(step)

    def die() -> None:
        died.append(len(seen))
        cluster.kill(100)

    cluster.interrupt(100, 0, die)
    request = CreateTopicsRequest((NewTopic("other", 1, 3),), 2_000)
    cluster.send_from_client(CLIENT, 1, 1, request, 3_000)
    pass_ms(cluster, 2_000)
    assert len(died) == 1
    assert not any(step.node_id == 100 for step in seen[died[0] :])


@pytest.mark.parametrize("survival", [None, Survival.NOTHING])
def test_observers_learn_of_the_step_in_which_a_node_ended_and_of_its_end(survival: Survival | None) -> None:
    cluster, _ = running()
    steps: list[EventStep] = []

    class Watching:
        def after(self, cluster: SimulatedCluster, step: EventStep) -> None:
            if cluster.machines[step.node_id].node is None:
                steps.append(step)

        def crashed(self, cluster: SimulatedCluster, node_id: int, lost_bytes: int) -> None:
            assert [step.node_id for step in steps] == [node_id]
            crashed.append(node_id)

    crashed: list[int] = []
    cluster.observers.append(Watching())
    cluster.interrupt(100, 0, lambda: cluster.kill(100, survival) and None)
    request = CreateTopicsRequest((NewTopic("other", 1, 3),), 2_000)
    cluster.send_from_client(CLIENT, 1, 1, request, 3_000)
    pass_ms(cluster, 2_000)
    assert crashed == [100]


def test_leaders_move_as_often_as_the_fault_says() -> None:
    (took_over,) = [
        count
        for name, count in simulated(SimulatedFault(4_000, "moved-leader", 0, 1, 200), partitions=1).marks.items()
        if name.startswith("election: the preferred replica took over")
    ]
    assert took_over == 3


def test_readers_pass_over_what_was_deleted() -> None:
    outcome = simulated(
        *(SimulatedFault(at_ms, "deleted-records", 0, 1, 900) for at_ms in (3_000, 6_000, 9_000)), partitions=1
    )
    assert outcome.failure is None
    start = max(log.start for log in outcome.logs.values())
    final = [row for row in outcome.history.polls if row.assigned and row.position]
    assert start > 0
    assert final[-1].position == start


def test_a_producer_that_wants_no_answers_finds_the_new_leader_only_because_its_connection_is_closed() -> None:
    moved = SimulatedFault(4_000, "moved-leader", 0, 1, 0)
    settings: dict[str, object] = {"acks": 0, "idempotence": False, "partitions": 1, "producers": 1}
    assert simulated(moved, **settings).failure is None
    assert simulated(moved, **settings, flaws=("acks0-error-silent",)).failed_property == "V-5"


def test_a_pause_of_a_process_that_is_killed_meanwhile_ends_then() -> None:
    paused, killed = SimulatedFault(2_000, "pause", 1, 9_000, 0), SimulatedFault(4_000, "kill", 1, 1_000, 0)
    ends = {fault.kind: fault.ended_ns - fault.started_ns for fault in simulated(paused, killed).history.faults}
    assert ends == {"pause": 2_000 * 1_000_000, "kill": 1_000 * 1_000_000}
    (alone,) = simulated(paused).history.faults
    assert alone.ended_ns - alone.started_ns == 9_000 * 1_000_000
