"""Registration, heartbeats and controlled shutdown (§5): the controller's answers, and what a broker makes of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from broker.core.broker_node import lifecycle
from broker.core.broker_node.lifecycle import HEARTBEAT, REGISTER, SHUTDOWN_DEADLINE
from broker.core.broker_node.node import BrokerNode
from broker.core.broker_node.state import BrokerState, Lifecycle
from broker.core.configuration.settings import Settings
from broker.core.messages import (
    AlterPartitionPartition,
    AlterPartitionRequest,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Listener,
)
from broker.core.messages.errors import ErrorCode
from broker.core.ports.events import CancelTimer, Exit, Send, SetTimer
from tests.support.cluster import CONTROLLER, TOPIC, Cluster
from tests.support.memory_files import MemoryFiles

NONE = ErrorCode.NONE


# --- The controller ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Three brokers, which are up, and three controllers."""
    cluster = Cluster(brokers=3, controllers=3)
    cluster.create_topic()
    cluster.run_until(cluster.is_whole)
    return cluster


def active(cluster: Cluster) -> int:
    return cluster.active_controllers()[0]


def standby(cluster: Cluster) -> int:
    return next(one for one in cluster.machines if one >= CONTROLLER and one != active(cluster))


def register(
    cluster: Cluster, broker: int, incarnation: str, *, previous: int = -1, at: int = 0, of: str | None = None
) -> tuple[int, int]:
    """(Error, broker epoch) of a registration."""
    cluster_id = cluster.machines[CONTROLLER].settings.cluster_id if of is None else of
    listeners = (Listener("BROKER", f"b{broker}", 2),)
    request = BrokerRegistrationRequest(broker, cluster_id, incarnation, listeners, None, previous)
    response = cluster.call(at or active(cluster), request)
    assert isinstance(response, BrokerRegistrationResponse)
    return response.error_code, response.broker_epoch


def beat(
    cluster: Cluster, broker: int, epoch: int, offset: int, *, fence: bool = False, stop: bool = False
) -> BrokerHeartbeatResponse:
    response = cluster.call(active(cluster), BrokerHeartbeatRequest(broker, epoch, offset, fence, stop))
    assert isinstance(response, BrokerHeartbeatResponse)
    return response


def standing(cluster: Cluster, broker: int) -> dict[str, object]:
    state = cluster.machines[active(cluster)].node.describe()["brokers"]
    return next(one for one in state if one["id"] == broker)


def test_rg_1_only_the_active_controller_registers_and_only_its_own_cluster(cluster: Cluster) -> None:
    assert register(cluster, 7, "first", at=standby(cluster))[0] == ErrorCode.NOT_CONTROLLER
    assert register(cluster, 7, "first", of="another")[0] == ErrorCode.INCONSISTENT_CLUSTER_ID


def test_rg_2_a_second_incarnation_is_refused_while_the_first_is_in_session(cluster: Cluster) -> None:
    assert register(cluster, 1, "second")[0] == ErrorCode.DUPLICATE_BROKER_REGISTRATION


def test_rg_3_the_same_incarnation_keeps_its_epoch(cluster: Cluster) -> None:
    assert register(cluster, 1, "1-1") == (NONE, cluster.broker_epoch(1))
    assert not standing(cluster, 1)["fenced"]


def test_rg_4_a_registration_begins_fenced_with_a_later_epoch_each_time(cluster: Cluster) -> None:
    error, first = register(cluster, 8, "first")
    assert error == NONE
    assert first > max(cluster.broker_epoch(number) for number in (1, 2, 3))
    assert standing(cluster, 8) == {"id": 8, "epoch": first, "fenced": True, "in_controlled_shutdown": False}
    error, second = register(cluster, 8, "second")
    assert (error, second > first) == (NONE, True)


def test_hb_1_to_hb_5_a_life_by_heartbeats(cluster: Cluster) -> None:
    _, epoch = register(cluster, 9, "first")
    assert beat(cluster, 99, epoch, epoch).error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
    assert beat(cluster, 9, epoch - 1, epoch).error_code == ErrorCode.STALE_BROKER_EPOCH
    assert beat(cluster, 9, epoch, epoch - 1) == BrokerHeartbeatResponse(NONE, False, True, False)
    assert beat(cluster, 9, epoch, epoch, fence=True) == BrokerHeartbeatResponse(NONE, True, True, False)
    assert beat(cluster, 9, epoch, epoch) == BrokerHeartbeatResponse(NONE, True, False, False)
    assert not standing(cluster, 9)["fenced"]
    assert beat(cluster, 9, epoch, epoch) == BrokerHeartbeatResponse(NONE, True, False, False)
    assert beat(cluster, 9, epoch, epoch, fence=True) == BrokerHeartbeatResponse(NONE, True, True, False)
    assert standing(cluster, 9)["fenced"]
    assert beat(cluster, 9, epoch, epoch, stop=True) == BrokerHeartbeatResponse(NONE, True, True, True)


def test_hb_3_a_broker_that_leads_nothing_may_stop_at_once(cluster: Cluster) -> None:
    _, epoch = register(cluster, 10, "first")
    assert not beat(cluster, 10, epoch, epoch).is_fenced
    assert beat(cluster, 10, epoch, epoch, stop=True).should_shut_down
    assert standing(cluster, 10)["fenced"]


def test_ap_1_to_ap_3_who_may_alter_which_partition(cluster: Cluster) -> None:
    view = cluster.view()
    leader, epoch = cluster.leader(), cluster.broker_epoch(cluster.leader())
    isr = tuple((one, cluster.broker_epoch(one)) for one in view["isr"])

    def errors(at: int, broker_epoch: int, topic: str = TOPIC, topic_id: str = "") -> tuple[int, int]:
        part = AlterPartitionPartition(topic, 0, view["leader_epoch"], view["partition_epoch"], isr, 0, topic_id)
        response = cluster.call(at, AlterPartitionRequest(leader, broker_epoch, (part,)))
        return response.error_code, response.partitions[0].error_code if response.partitions else NONE

    assert errors(standby(cluster), epoch) == (ErrorCode.NOT_CONTROLLER, NONE)
    assert errors(active(cluster), epoch - 1) == (ErrorCode.STALE_BROKER_EPOCH, NONE)
    assert errors(active(cluster), epoch, topic="nowhere") == (NONE, ErrorCode.UNKNOWN_TOPIC_ID)
    assert errors(active(cluster), epoch, topic_id="another") == (NONE, ErrorCode.UNKNOWN_TOPIC_ID)
    assert errors(active(cluster), epoch) == (NONE, NONE)
    assert cluster.view()["partition_epoch"] == view["partition_epoch"]


# --- The broker -------------------------------------------------------------------------------------------------------


def broker(**known: object) -> BrokerState:
    voters = dict.fromkeys((100, 101, 102), ("c", 1))
    settings = Settings(
        node_id=1,
        roles=("broker",),
        voters=voters,
        listeners=(Listener("BROKER", "b1", 2),),
        log_dirs=("/",),
        cluster_id="cluster",
        broker_heartbeat_interval_ms=200,
        metadata_retry_backoff_ms=70,
        controlled_shutdown_timeout_ms=5_000,
    )
    state = BrokerNode(settings, MemoryFiles(), "one").state
    state.runtime.take_effects()
    for name, value in known.items():
        setattr(state, name, value)
    return state


def sent(state: BrokerState, kind: type) -> list[tuple[int, object]]:
    return [
        (one.to, one.request)
        for one in state.runtime.effects
        if isinstance(one, Send) and isinstance(one.request, kind)
    ]


def timers(state: BrokerState) -> dict[object, int]:
    found: dict[object, int] = {}
    for effect in state.runtime.effects:
        if isinstance(effect, SetTimer):
            found[effect.key] = effect.at_ms
        elif isinstance(effect, CancelTimer):
            found.pop(effect.key, None)
    return found


def exits(state: BrokerState) -> list[int]:
    return [effect.status for effect in state.runtime.effects if isinstance(effect, Exit)]


def test_bl_1_a_registration_states_the_incarnation_and_the_epoch_of_the_last_clean_stop() -> None:
    state = broker(previous_broker_epoch=4)
    lifecycle.register(state)
    request = BrokerRegistrationRequest(1, "cluster", "one", (Listener("BROKER", "b1", 2),), None, 4)
    assert sent(state, BrokerRegistrationRequest) == [(100, request)]


@pytest.mark.parametrize(
    ("answer", "done", "then_asks", "again", "ends"),
    [
        pytest.param(BrokerRegistrationResponse(NONE, 9), True, 100, False, [], id="accepted"),
        pytest.param(None, False, 101, True, [], id="no answer"),
        pytest.param(
            BrokerRegistrationResponse(ErrorCode.NOT_CONTROLLER), False, 101, True, [], id="another is active"
        ),
        pytest.param(
            BrokerRegistrationResponse(ErrorCode.DUPLICATE_BROKER_REGISTRATION), False, 100, True, [], id="duplicate"
        ),
        pytest.param(
            BrokerRegistrationResponse(ErrorCode.INCONSISTENT_CLUSTER_ID), False, 100, False, [2], id="another cluster"
        ),
    ],
)
def test_bl_1_bl_2_a_broker_asks_until_it_is_registered(
    answer: BrokerRegistrationResponse | None, done: bool, then_asks: int, again: bool, ends: list[int]
) -> None:
    state = broker()
    assert lifecycle.registered(state, 100, answer) is done
    assert state.broker_epoch == (9 if done else -1)
    assert state.controller_id == then_asks
    assert ((REGISTER,) in timers(state)) is again
    assert exits(state) == ends


@pytest.mark.parametrize(
    ("caught_up", "published", "stop_wanted", "fence"),
    [(False, False, False, True), (True, False, False, True), (False, True, False, True), (True, True, True, False)],
)
def test_bl_2_bl_4_a_heartbeat_asks_to_stay_fenced_until_there_is_metadata(
    caught_up: bool, published: bool, stop_wanted: bool, fence: bool
) -> None:
    state = broker(broker_epoch=9, caught_up=caught_up, published=published, stop_wanted=stop_wanted)
    state.image.end_offset = 21
    lifecycle.heartbeat(state)
    assert sent(state, BrokerHeartbeatRequest) == [(100, BrokerHeartbeatRequest(1, 9, 20, fence, stop_wanted))]
    assert timers(state) == {(HEARTBEAT,): 200}


def told(**fields: bool) -> BrokerHeartbeatResponse:
    return BrokerHeartbeatResponse(NONE, **{"is_caught_up": True, "is_fenced": False, **fields})


def test_bl_3_bl_4_bl_6_from_starting_to_running_to_fenced_and_back() -> None:
    state = broker(broker_epoch=9)
    lifecycle.heartbeat_answered(state, 100, 9, told(is_caught_up=False, is_fenced=True))
    assert (state.lifecycle, state.caught_up) == (Lifecycle.STARTING, False)
    assert timers(state) == {}
    lifecycle.heartbeat_answered(state, 100, 9, told(is_fenced=True))
    assert (state.lifecycle, state.caught_up, state.fenced) == (Lifecycle.RECOVERY, True, True)
    assert timers(state) == {(HEARTBEAT,): 0}
    lifecycle.heartbeat_answered(state, 100, 9, told())
    assert (state.lifecycle, state.fenced) == (Lifecycle.RUNNING, False)
    lifecycle.heartbeat_answered(state, 100, 9, told(is_fenced=True))
    assert (state.lifecycle, state.fenced, state.broker_epoch) == (Lifecycle.RUNNING, True, 9)
    lifecycle.heartbeat_answered(state, 100, 9, told())
    assert (state.lifecycle, state.fenced) == (Lifecycle.RUNNING, False)


@pytest.mark.parametrize(
    ("epoch", "answer"),
    [
        pytest.param(8, told(), id="to an earlier epoch"),
        pytest.param(8, BrokerHeartbeatResponse(ErrorCode.STALE_BROKER_EPOCH), id="an error to an earlier epoch"),
        pytest.param(9, told()._replace(error_code=ErrorCode.NOT_CONTROLLER), id="an error"),
    ],
)
def test_bl_3_other_answers_to_heartbeats_change_nothing(epoch: int, answer: BrokerHeartbeatResponse) -> None:
    state = broker(broker_epoch=9)
    lifecycle.heartbeat_answered(state, 100, epoch, answer)
    assert (state.lifecycle, state.caught_up, state.fenced) == (Lifecycle.STARTING, False, True)
    assert (state.broker_epoch, state.runtime.effects) == (9, [])


def test_qu_18_a_broker_whose_heartbeat_came_to_no_controller_turns_to_another() -> None:
    state = broker(broker_epoch=9)
    lifecycle.heartbeat_answered(state, 100, 9, BrokerHeartbeatResponse(ErrorCode.NOT_CONTROLLER))
    assert state.controller_id == 101


@pytest.mark.parametrize("error", [ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED])
@pytest.mark.parametrize(("stops", "then"), [(False, Lifecycle.STARTING), (True, Lifecycle.STOPPING)])
def test_rg_7_a_broker_that_the_controller_does_not_know_registers_again(
    error: ErrorCode, stops: bool, then: Lifecycle
) -> None:
    state = broker(broker_epoch=9, previous_broker_epoch=3, caught_up=True, published=True, fenced=False)
    state.lifecycle, state.stop_wanted = Lifecycle.RUNNING, stops
    lifecycle.heartbeat(state)
    lifecycle.heartbeat_answered(state, 100, 9, BrokerHeartbeatResponse(error))
    assert (state.broker_epoch, state.previous_broker_epoch, state.lifecycle) == (-1, -1, then)
    assert (state.caught_up, state.published, state.fenced) == (False, False, True)
    assert len(sent(state, BrokerRegistrationRequest)) == 1
    assert timers(state) == {}


def test_bl_7_a_broker_stops_when_it_may_or_its_time_is_over() -> None:
    state = broker(broker_epoch=9, lifecycle=Lifecycle.RUNNING)
    lifecycle.request_stop(state)
    lifecycle.request_stop(state)
    assert state.lifecycle is Lifecycle.STOPPING
    assert timers(state) == {(SHUTDOWN_DEADLINE,): 5_000, (HEARTBEAT,): 200}
    assert len(sent(state, BrokerHeartbeatRequest)) == 1
    lifecycle.heartbeat_answered(state, 100, 9, told())
    assert exits(state) == []
    lifecycle.heartbeat_answered(state, 100, 9, told(should_shut_down=True))
    assert exits(state) == [0]
    late = broker(broker_epoch=9)
    lifecycle.deadline_passed(late)
    assert exits(late) == [0]


def test_bl_7_a_broker_that_never_registered_stops_at_once_and_none_stops_unasked() -> None:
    state = broker()
    lifecycle.request_stop(state)
    assert exits(state) == [0]
    other = broker(broker_epoch=9)
    lifecycle.heartbeat_answered(other, 100, 9, told(should_shut_down=True))
    assert exits(other) == []


@pytest.mark.parametrize(
    ("present", "asked", "named", "then"),
    [
        (100, 100, None, 101),
        (102, 102, None, 100),
        (100, 100, (102, 5), 102),
        (101, 101, (7, 5), 102),
        pytest.param(100, 102, None, 100, id="another one has been chosen since"),
        pytest.param(100, 102, (101, 2), 100, id="another one has been chosen since, whatever this one has named"),
    ],
)
def test_qu_18_the_leader_that_was_named_is_asked_next_or_the_next_voter(
    present: int, asked: int, named: tuple[int, int] | None, then: int
) -> None:
    state = broker(controller_id=present)
    lifecycle.try_another_controller(state, asked, named)
    assert state.controller_id == then
